"""Campaigns stay where they are: folders that are moved, replaced, shared by links, or can be none."""

import os
import shutil
import sqlite3

import numpy as np
import pytest

import fisherscore as fs
from fisherscore.simulation.execution.ledger_checks import explained_errors

BOX = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))


def near(theta, rng):
    return theta + rng.normal(size=2)


def far(theta, rng):
    return theta + 100 + rng.normal(size=2)


def goes_elsewhere(theta, rng):
    os.chdir("/")
    return theta + rng.normal(size=2)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Two folders, the first of which is the current one."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    return tmp_path


def test_a_relative_folder_stays_the_same_when_the_current_one_changes(folders):
    expected = fs.simulate(fs.from_python(near), BOX, 30).x
    sims = fs.simulate(fs.from_python(near), BOX, 30, out="runs")
    opened = fs.open_campaign("runs")
    os.chdir(folders / "other")
    fs.simulate(fs.from_python(far), BOX, 30, out="runs")
    assert np.array_equal(sims.x, expected) and np.array_equal(opened.x, expected)
    assert "in runs" in repr(sims)


def test_a_simulator_may_change_the_current_folder(folders):
    sims = fs.simulate(fs.from_python(goes_elsewhere), BOX, 30, out="runs")
    assert len(sims) == 30 and sims.x.shape == (30, 2)
    assert (folders / "one" / "runs" / "campaign.sqlite").exists()


@pytest.mark.parametrize("what", [far, near])
def test_another_campaign_in_the_place_of_one_is_not_read_as_if_it_were_the_same(tmp_path, what):
    sims = fs.simulate(fs.from_python(near), BOX, 30, seed=1, out=tmp_path / "c")
    shutil.rmtree(tmp_path / "c")
    fs.simulate(fs.from_python(what), BOX, 30, seed=1 if what is far else 2, out=tmp_path / "c")
    for read in (lambda: sims.x, lambda: sims.theta, sims.failures, lambda: next(sims.batches(10))):
        with pytest.raises(fs.CampaignError, match="replaced"):
            read()


def test_a_campaign_that_grows_is_the_same(tmp_path):
    sims = fs.simulate(fs.from_python(near), BOX, 30, out=tmp_path / "c")
    more = fs.simulate(fs.from_python(near), BOX, 60, out=tmp_path / "c")
    assert np.array_equal(sims.x, more.x[:30])


def test_a_copy_by_hard_links_is_not_written_to(tmp_path):
    fs.simulate(fs.from_python(near), BOX, 30, out=tmp_path / "c")
    shutil.copytree(tmp_path / "c", tmp_path / "backup", copy_function=os.link)
    with pytest.raises(fs.CampaignError, match="hard links"):
        fs.simulate(fs.from_python(near), BOX, 60, out=tmp_path / "c")
    assert len(fs.open_campaign(tmp_path / "backup")) == 30
    shutil.rmtree(tmp_path / "backup")
    assert len(fs.simulate(fs.from_python(near), BOX, 60, out=tmp_path / "c")) == 60


@pytest.mark.parametrize("out", [5, b"runs", "a\0b", "x" * 300, "/proc/nothing", "d/" * 3000])
def test_what_can_be_no_folder_is_refused_in_words(folders, out):
    calls = (
        lambda: fs.simulate(fs.from_python(near), BOX, 12, out=out),
        lambda: fs.open_campaign(out),
        lambda: fs.campaign_status(out),
        lambda: fs.merge_campaigns(out, [out]),
    )
    for call in calls:
        with pytest.raises((fs.ArgumentError, fs.CampaignError), match=r"out|path|parts"):
            call()


@pytest.mark.parametrize("parts", [5, "runs", [], None])
def test_what_is_no_list_of_folders_is_refused(tmp_path, parts):
    with pytest.raises(fs.ArgumentError, match="parts: expected a list"):
        fs.merge_campaigns(tmp_path / "all", parts)


@pytest.mark.parametrize("retry", [5, [None]])
def test_what_is_no_kind_of_failures_is_refused(tmp_path, retry):
    with pytest.raises(fs.ArgumentError, match="retry: expected kinds"):
        fs.simulate(fs.from_python(near), BOX, 12, out=tmp_path, retry=retry)
    assert len(fs.simulate(fs.from_python(near), BOX, 12, out=tmp_path, retry=None)) == 12


def test_what_may_not_be_read_is_refused_in_words(tmp_path, monkeypatch):
    def refused(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "c").mkdir()
    monkeypatch.setattr(type(tmp_path), "lstat", refused)
    with pytest.raises(fs.CampaignError, match=r"campaign.sqlite cannot be read \(Permission denied\)"):
        fs.simulate(fs.from_python(near), BOX, 12, out=tmp_path / "c")


def test_a_ledger_that_needs_its_owner_says_so(tmp_path):
    with pytest.raises(fs.CampaignError, match="let the owner call fisherscore status"), explained_errors(tmp_path):
        raise sqlite3.OperationalError("attempt to write a readonly database")
