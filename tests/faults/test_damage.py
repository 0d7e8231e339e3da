"""Folders with random damage load with the right values, or are refused by an error of this package.

``benchmarks/damage.py`` does the same thousands of times, with more kinds of damage.
"""

import contextlib
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fisherscore as fs
from fisherscore._support import documents
from fisherscore.simulation.execution import ledger

OLD = Path(__file__).parents[1] / "fixtures" / "v0_1"
X = np.linspace(-1.0, 1.0, 8)[None]
QUICK = settings(
    max_examples=30,
    deadline=5_000,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# Where in a file, as a fraction; how long; and what is written there.
DAMAGES = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 60), st.sampled_from(["flip", "zero", "cut", "insert", "end"])),
    min_size=1,
    max_size=3,
)


def damaged(content, damages):
    content = bytearray(content)
    for place, length, kind in damages:
        begin = int(place * max(len(content) - 1, 0))
        if kind == "flip" and content:
            content[begin] ^= 1 << length % 8
        elif kind == "zero":
            content[begin : begin + length] = bytes(len(content[begin : begin + length]))
        elif kind == "cut":
            del content[begin : begin + length]
        elif kind == "insert":
            content[begin:begin] = content[:length]
        else:
            del content[begin:]
    return bytes(content)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage") / "model"
    fs.load(OLD / "model_gaussian").save(folder)
    return folder


@given(which=st.integers(0, 1), damages=DAMAGES)
@QUICK
def test_models(model_folder, which, damages):
    original = fs.load(model_folder)
    path = sorted(model_folder.iterdir())[which]
    clean = path.read_bytes()
    path.write_bytes(damaged(clean, damages))
    try:
        loaded = fs.load(model_folder)
        middle = (original.low + original.high) / 2
        np.testing.assert_array_equal(loaded.score(middle, X), original.score(middle, X))
        assert (loaded.names, loaded.units, dict(loaded.provenance)) == (
            original.names,
            original.units,
            dict(original.provenance),
        )
    except fs.ModelFolderError:
        pass
    finally:
        path.write_bytes(clean)


@given(damages=DAMAGES)
@QUICK
def test_exports_and_campaigns_of_version_0_1(tmp_path, damages):
    """Ledgers have always had checksums; exports had those of the archive alone."""
    original = fs.import_simulations(OLD / "exported.npz")
    path = tmp_path / "s.npz"
    path.write_bytes(damaged((OLD / "exported.npz").read_bytes(), damages))
    try:
        loaded = fs.import_simulations(path)
        np.testing.assert_array_equal(loaded.theta, original.theta)
        np.testing.assert_array_equal(loaded.x, original.x)
    except fs.ArgumentError:
        pass
    original = fs.open_campaign(OLD / "campaign_additive")
    (tmp_path / ledger.FILE).write_bytes(damaged((OLD / "campaign_additive" / ledger.FILE).read_bytes(), damages))
    try:
        fs.campaign_status(tmp_path)
        loaded = fs.open_campaign(tmp_path)
        rows = loaded.store.records.indices
        np.testing.assert_array_equal(loaded.theta, original.theta[rows])
        np.testing.assert_array_equal(loaded.x, original.x[rows])
    except fs.CampaignError:
        pass


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(document=st.dictionaries(TEXT, JSON, max_size=4), name=TEXT, value=JSON)
@QUICK
def test_documents_that_are_written_are_read_and_changed_ones_are_told(document, name, value):
    signed = documents.signed(document)
    again = documents.parse(documents.written(signed))
    assert again == signed and documents.agrees(again)
    changed = {**again, name: value}
    same = documents.checksum(changed) == documents.checksum(again) and changed["checksum"] == again["checksum"]
    assert documents.agrees(changed) == same


@given(text=st.text(max_size=60) | st.binary(max_size=60).map(lambda b: b.decode("latin-1")))
@QUICK
def test_any_text_is_json_or_a_value_error(text):
    with contextlib.suppress(ValueError):
        documents.parse(text)


# ---------------------------------------------------------------------- ledgers made by somebody else


@pytest.fixture
def campaign(tmp_path):
    shutil.copytree(OLD / "campaign_additive", tmp_path / "c")
    return tmp_path / "c"


def everything_in(campaign):
    return fs.campaign_status(campaign), fs.open_campaign(campaign).x


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE records RENAME TO r", "CREATE VIEW records AS SELECT * FROM r"),
        ("CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",),
        ("CREATE TABLE more (a)",),
        ("UPDATE sittings SET started = NULL",),
        ("UPDATE records SET status = x'00'",),
        ("UPDATE records SET status = 99",),
        ("UPDATE records SET theta = zeroblob(8) WHERE id = 3",),
        ("UPDATE records SET x = NULL WHERE id = 3",),
        ("UPDATE records SET id = 1000 WHERE id = 3",),
        ("DELETE FROM facts",),
    ],
)
def test_ledgers_that_were_changed_are_refused(campaign, statements):
    with sqlite3.connect(campaign / ledger.FILE) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    with pytest.raises(fs.CampaignError):
        everything_in(campaign)


@pytest.mark.parametrize(
    "change",
    [
        {"x_shape": [10**15]},
        {"x_shape": [0]},
        {"x_shape": "3"},
        {"x_shape": [4]},
        {"num_parameters": 0},
        {"num_parameters": 3},
        {"num_latents": 10**9},
        {"num_simulations": None},
        {"plan": {}},
        {"plan": None},
    ],
)
def test_forged_facts_of_a_campaign_are_refused(campaign, change):
    """With the right checksum, which is no secret: sizes are compared with what is there before arrays are made."""
    with sqlite3.connect(campaign / ledger.FILE) as connection:
        (text,) = connection.execute("SELECT value FROM facts WHERE name = 'facts'").fetchone()
        ledger._write_metadata(connection, documents.parse(text) | change)
    connection.close()
    with pytest.raises(fs.CampaignError):
        everything_in(campaign)


def test_parameters_of_failures_are_checked_before_they_weigh_anything(campaign):
    sims = fs.open_campaign(campaign)
    failed = int(np.flatnonzero(sims.status != "ok")[0])
    with sqlite3.connect(campaign / ledger.FILE) as connection:
        other = np.array([0.123]).tobytes()
        connection.execute("UPDATE records SET latent = ? WHERE id = ?", (other, failed))
    connection.close()
    with pytest.raises(fs.CampaignError, match="checksum"):
        fs.open_campaign(campaign).store.simulator_inputs()


def test_records_of_another_campaign_are_told_from_its_own(tmp_path):
    """As where pages of two files are mixed up: each record is whole, and agrees with a checksum of its own."""
    simulator, box = fs.from_python(lambda theta, rng: theta + rng.normal(size=2)), fs.uniform(a=(0.0, 1.0))
    for seed in (1, 2):
        fs.simulate(simulator, box, 20, seed=seed, out=tmp_path / str(seed))
    with sqlite3.connect(tmp_path / "1" / ledger.FILE) as connection:
        connection.execute("ATTACH ? AS other", (str(tmp_path / "2" / ledger.FILE),))
        connection.execute("INSERT OR REPLACE INTO records SELECT * FROM other.records WHERE id = 7")
    connection.close()
    with pytest.raises(fs.CampaignError, match="record 7 does not agree with its checksum"):
        everything_in(tmp_path / "1")


def test_records_that_were_deleted_are_missed(tmp_path):
    simulator, box = fs.from_python(lambda theta, rng: theta + rng.normal(size=2)), fs.uniform(a=(0.0, 1.0))
    for num in (20, 30):
        assert len(fs.simulate(simulator, box, num, out=tmp_path)) == num
    with sqlite3.connect(tmp_path / ledger.FILE) as connection:
        connection.execute("DELETE FROM records WHERE id IN (3, 7)")
    connection.close()
    with pytest.raises(fs.CampaignError, match="2 records that were written are gone"):
        everything_in(tmp_path)


def test_a_ledger_keeps_its_version_and_its_key(tmp_path):
    """Whatever else is noted down in it, as when parts made by other versions are merged into it."""
    simulator, box = fs.from_python(lambda theta, rng: theta + rng.normal(size=2)), fs.uniform(a=(0.0, 1.0))
    sims = fs.simulate(simulator, box, 20, out=tmp_path)
    with ledger.Ledger.create(tmp_path, {}) as written:
        known = written.metadata()
        written.set_metadata(version=1, key="", num_planned=30)
        assert written.metadata() == known | {"num_planned": 30}
    np.testing.assert_array_equal(fs.open_campaign(tmp_path).x, sims.x)
