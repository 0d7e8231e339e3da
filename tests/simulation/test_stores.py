"""Rows in memory and in a folder are used in the same way, and campaigns of version 0.1.0 still open."""

import json
from dataclasses import replace

import numpy as np
import pytest

import fisherscore as fs
from fisherscore.simulation.execution.ledger import Ledger
from fisherscore.simulation.stores import MemoryStore

BOX = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))
LATENTS = {"none": None, "additive": "additive", "own": fs.GaussianLatent([0.1, 0.1])}


def sometimes(theta, rng):
    if rng.uniform() < 0.2 * theta[0]:
        raise ValueError("odd")
    return theta + rng.normal(size=2)


SIMULATOR = fs.from_python(sometimes)


@pytest.fixture(params=list(LATENTS))
def latent(request):
    return LATENTS[request.param]


def assert_same(one, other):
    for name in ("theta", "x", "status"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.latent is None) == (other.latent is None)
    if one.latent is not None:
        np.testing.assert_array_equal(one.latent, other.latent)


def test_memory_and_folder_say_the_same(tmp_path, latent):
    memory = fs.simulate(SIMULATOR, BOX, 60, latent=latent, seed=2)
    stored = fs.simulate(SIMULATOR, BOX, 60, latent=latent, seed=2, out=tmp_path)
    assert_same(memory, stored)
    assert memory.failures() == stored.failures() and memory.messages == stored.messages
    assert (len(memory), memory.x_shape, memory.failure_rate) == (len(stored), stored.x_shape, stored.failure_rate)
    np.testing.assert_array_equal(memory.ok().weights, stored.ok().weights)
    for ours, theirs in zip(memory.batches(25, seed=1), stored.batches(25, seed=1), strict=True):
        assert_same(ours, theirs)
    pairs = zip(memory.windows(10, seed=1), stored.windows(10, seed=1), range(12), strict=False)
    for ours, theirs, _ in pairs:
        assert_same(ours, theirs)
        np.testing.assert_array_equal(ours.weights, theirs.weights)
        assert set(ours.status) == {"ok"}


def test_weights_of_windows_are_those_of_the_whole(tmp_path):
    sims = fs.simulate(SIMULATOR, BOX, 60, seed=2, out=tmp_path)
    good = sims.ok()
    by_theta = dict(zip(good.theta[:, 0], good.weights, strict=True))
    for part, _ in zip(sims.windows(10), range(5), strict=False):
        np.testing.assert_array_equal(part.weights, [by_theta[value] for value in part.theta[:, 0]])


def test_a_campaign_that_was_stopped_and_extended_equals_one_in_one_go(tmp_path, latent):
    whole = fs.simulate(SIMULATOR, BOX, 80, latent=latent, seed=2)
    calls = []

    def stops(theta, rng):
        calls.append(1)
        if len(calls) == 30:
            raise KeyboardInterrupt
        return sometimes(theta, rng)

    stopped = fs.from_python(stops, name="sometimes")
    stopped._identity = SIMULATOR.identity
    with pytest.raises(KeyboardInterrupt):
        fs.simulate(stopped, BOX, 50, latent=latent, seed=2, out=tmp_path)
    assert len(fs.open_campaign(tmp_path)) == 29
    assert_same(fs.simulate(SIMULATOR, BOX, 50, latent=latent, seed=2, out=tmp_path), whole.take(slice(50)))
    assert_same(fs.simulate(SIMULATOR, BOX, 80, latent=latent, seed=2, out=tmp_path), whole)
    assert_same(fs.open_campaign(tmp_path, first=50), whole.take(slice(50)))


def test_a_campaign_without_latent_writes_none(tmp_path):
    fs.simulate(SIMULATOR, BOX, 20, out=tmp_path)
    with Ledger.open(tmp_path) as ledger:
        assert ledger.metadata()["num_latents"] == 0
        blobs = ledger._connection.execute("SELECT latent FROM records").fetchall()
    assert {blob for (blob,) in blobs} == {b""}
    with pytest.raises(fs.ArgumentError, match="has no latent"):
        fs.open_campaign(tmp_path, latent=fs.GaussianLatent([1.0, 1.0]))


def test_a_campaign_with_added_noise_is_gone_on_with_only_where_it_is_asked_for(tmp_path):
    """What version 0.1.0 did by default, and wrote down under these names."""
    fs.simulate(SIMULATOR, BOX, 20, latent="additive", seed=2, out=tmp_path)
    with Ledger.open(tmp_path) as ledger:
        plan = ledger.metadata()["plan"]
    assert plan["additive_noise"] is True and plan["latent"]["name"] == "GaussianLatent"
    assert isinstance(fs.open_campaign(tmp_path).latent_model, fs.AdditiveLatent)
    with pytest.raises(fs.CampaignError, match='pass latent="additive"'):
        fs.simulate(SIMULATOR, BOX, 40, seed=2, out=tmp_path)
    assert len(fs.simulate(SIMULATOR, BOX, 40, latent="additive", seed=2, out=tmp_path)) == 40


@pytest.mark.parametrize("table", [False, True])
def test_exports_of_version_0_1_are_read(tmp_path, table):
    sims = fs.simulate(SIMULATOR, BOX, 20, latent="additive", seed=2)
    fs.export_simulations(sims, tmp_path / "new.npz")
    arrays = dict(np.load(tmp_path / "new.npz"))
    about = json.loads(str(arrays["about"]))
    origin = about.pop("origin")
    about["provenance"] = {"simulator": "table", "num_simulations": 20, "table": True}
    if not table:
        about["provenance"] = {**origin, "additive_noise": True}
    del about["additive_noise"]
    np.savez(tmp_path / "old.npz", **{**arrays, "about": np.array(json.dumps(about))})
    old = fs.import_simulations(tmp_path / "old.npz")
    np.testing.assert_array_equal(old.x, sims.x)
    if table:
        assert old.latent is None and old.origin.seed is None and old.origin.simulator == "table"
    else:
        assert isinstance(old.latent_model, fs.AdditiveLatent) and old.origin == sims.origin
        assert_same(old, sims)


def test_rows_taken_keep_their_messages_and_weights():
    good = fs.simulate(SIMULATOR, BOX, 60, seed=2)
    failed = np.flatnonzero(good.status != "ok")
    part = good.take(failed[:2])
    assert list(part.messages) == failed[:2].tolist() and part.failure_rate == 1.0
    weighted = good.ok()
    np.testing.assert_array_equal(weighted.take(np.arange(5)).weights, weighted.weights[:5])
    assert replace(weighted, weights=None).weights is None


def test_rows_must_agree_in_number():
    records = fs.simulate(SIMULATOR, BOX, 10).store.records
    with pytest.raises(fs.ArgumentError, match="the same number of rows"):
        MemoryStore(replace(records, x=records.x[:5]))


def test_simulations_are_shown_in_a_line(tmp_path):
    sims = fs.simulate(SIMULATOR, BOX, 60, seed=2, out=tmp_path)
    assert repr(sims) == f"Simulations(60 of a, b; data of shape (2,); in {tmp_path})"
    assert "<th>latent</th><td>none</td>" in sims._repr_html_() and str(tmp_path) in sims._repr_html_()


def test_proposals_checks_and_states_are_shown_in_a_line(tmp_path):
    fs.simulate(SIMULATOR, BOX, 20, out=tmp_path)
    check = fs.check_simulator(SIMULATOR, BOX)
    shown = {
        "Proposal(a from 0 to 1, b from 2 to 3)": BOX,
        f"CampaignStatus({tmp_path}; finished, 20 of 20 done)": fs.campaign_status(tmp_path),
    }
    for text, thing in shown.items():
        assert repr(thing) == text
    assert repr(check).startswith("SimulatorCheck(sometimes; 7 runs, ")
    assert all(thing._repr_html_().startswith("<table>") for thing in (check, *shown.values()))
