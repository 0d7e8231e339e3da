"""Rows in memory and in a folder are used in the same way, and campaigns of version 0.1.0 still open."""

import json
from dataclasses import replace

import jax
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
        fs.simulate(stopped, BOX, 50, latent=latent, seed=2, out=tmp_path, num_checked=0)
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
    with pytest.raises(fs.ArgumentError, match="have no latent"):
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
    for new in ("version", "checksum", "sha256"):
        del about[new]
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


def test_a_proposal_other_than_the_one_drawn_from_is_refused(tmp_path):
    sims = fs.simulate(fs.from_python(sometimes), BOX, 20, out=tmp_path / "c")
    fs.export_simulations(sims, tmp_path / "s.npz")
    narrow, unit = (
        fs.uniform(a=(0.4, 0.6), b=(2.0, 3.0)),
        fs.uniform({"a": (0.0, 1.0), "b": (2.0, 3.0)}, units={"a": "m"}),
    )
    for read in (
        lambda p: fs.open_campaign(tmp_path / "c", proposal=p),
        lambda p: fs.import_simulations(tmp_path / "s.npz", proposal=p),
    ):
        assert read(unit).proposal.units == ("m", "")
        for other in (narrow, fs.uniform(a=(0.0, 1.0))):
            with pytest.raises(fs.ArgumentError, match="proposal: expected the one the simulations were drawn from"):
                read(other)
    with pytest.raises(fs.ArgumentError, match="latent: expected None"):
        fs.import_simulations(tmp_path / "s.npz", latent="additive")


def test_weights_and_messages_survive_batches_and_files(tmp_path):
    sims = fs.simulate(fs.from_python(sometimes), BOX, 60)
    good = sims.ok()
    assert good.weights is not None and good.origin.failure_rate == sims.failure_rate > 0
    together = [part.weights for part in good.batches(25)]
    np.testing.assert_allclose(np.sort(np.concatenate(together)), np.sort(good.weights))
    fs.export_simulations(good, tmp_path / "good.npz")
    back = fs.import_simulations(tmp_path / "good.npz")
    np.testing.assert_array_equal(back.weights, good.weights)
    assert back.origin == good.origin
    failed = sims.take(np.flatnonzero(sims.status != "ok"))
    fs.export_simulations(failed, tmp_path / "failed.npz")
    again = fs.import_simulations(tmp_path / "failed.npz")
    assert list(again.messages.values()) == list(failed.messages.values()) and list(again.messages) == list(
        range(len(failed))
    )


def test_leaving_out_failures_before_a_fit_does_not_hide_them():
    sims = fs.simulate(fs.from_python(sometimes), BOX, 60)
    with pytest.raises(fs.ArgumentError, match="left out before"):
        fs.fit(sims.ok())
    with pytest.warns(fs.FisherScoreWarning, match="left out before"):
        model = fs.fit(sims.ok(), recipe=fs.ClosedFormRecipe(), allow_failures=True)
    assert model.provenance["failure_rate"] == sims.failure_rate


def test_failures_of_a_part_of_a_campaign_are_those_of_the_part(tmp_path):
    whole = fs.simulate(fs.from_python(sometimes), BOX, 60, out=tmp_path)
    part = fs.open_campaign(tmp_path, first=30)
    assert part.failures() == part.take(slice(None)).failures()
    assert sum(part.failures()[0].values()) < sum(whole.failures()[0].values())


def test_shards_of_two_campaigns_are_not_merged_and_nothing_is_left_behind(tmp_path):
    fs.simulate(fs.from_python(sometimes), BOX, 20, out=tmp_path / "1", shard="1/2", latent="additive")
    fs.simulate(fs.from_python(sometimes), BOX, 20, out=tmp_path / "2", shard="2/2")
    with pytest.raises(fs.CampaignError, match=r"parts: .*2 belongs to another campaign than .*1: additive_noise"):
        fs.merge_campaigns(tmp_path / "all", [tmp_path / "1", tmp_path / "2"])
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize("rows", [3, [999], [0.5], "a", np.ones(4, bool)], ids=str)
def test_rows_that_are_not_there_are_refused(rows):
    sims = fs.simulate(fs.from_python(sometimes), BOX, 30)
    with pytest.raises(fs.ArgumentError, match="rows: expected positions below 30"):
        sims.take(rows)


def test_files_and_folders_that_cannot_be_written_are_named(tmp_path):
    sims = fs.simulate(fs.from_python(sometimes), BOX, 30)
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "file").touch()
    for path, words in ((tmp_path / "no" / "x.npz", "there is no folder"), (tmp_path / "folder.npz", "is a folder")):
        with pytest.raises(fs.ArgumentError, match=words):
            fs.export_simulations(sims, path)
    with pytest.raises(fs.CampaignError, match="is a file, or lies in one"):
        fs.simulate(fs.from_python(sometimes), BOX, 30, out=tmp_path / "file")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder.npz"]
    np.save(tmp_path / "array", sims.x)
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    with pytest.raises(fs.ArgumentError, match=r"cannot be read as \.npz"):
        fs.import_simulations(tmp_path / "array.npz")


def _large_map(key: jax.Array, theta: jax.Array) -> jax.Array:
    return theta[0] + jax.random.normal(key, (40, 40))


def test_large_data_of_single_precision_are_kept_in_it(tmp_path):
    # Half the memory and half the room on the disk, and the same numbers; small data and those of double precision
    # stay as they were.
    region = fs.uniform(a=(0.0, 1.0))
    for precision, kind in (("single", np.float32), ("double", np.float64)):
        simulator = fs.from_jax(_large_map, batch_size=4, precision=precision)
        inside = fs.simulate(simulator, region, 20, seed=3, progress=False)
        kept = fs.simulate(simulator, region, 20, seed=3, out=tmp_path / precision, progress=False)
        assert inside.x.dtype == kept.x.dtype == kind
        assert np.array_equal(inside.x, kept.x)
        assert inside.fingerprint() == kept.fingerprint()
        assert inside.num_bytes // kept.num_bytes == 1
    small = fs.simulate(fs.from_jax(lambda key, theta: theta * jax.random.normal(key, (9,))), region, 5, progress=False)
    assert small.x.dtype == np.float64
    fs.export_simulations(inside, tmp_path / "double.npz")
    assert fs.import_simulations(tmp_path / "double.npz").x.dtype == np.float64


def test_large_data_of_both_precisions_in_one_campaign_lose_nothing(tmp_path):
    def changing(theta, rng):
        x = rng.normal(theta[0], size=1_200)
        return x if theta[0] > 0.5 else x.astype(np.float32)

    region = fs.uniform(a=(0.0, 1.0))
    inside = fs.simulate(fs.from_python(changing), region, 30, seed=1, progress=False)
    kept = fs.simulate(fs.from_python(changing), region, 30, seed=1, out=tmp_path / "both", progress=False)
    assert inside.x.dtype == kept.x.dtype == np.float64
    assert np.array_equal(inside.x, kept.x)
    first = kept.store.read(np.flatnonzero(kept.theta[:, 0] < 0.5))  # a part alone is read in the kind of the whole
    assert np.array_equal(first.x, first.x.astype(np.float32))
