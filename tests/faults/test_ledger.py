"""What a disk can do to a campaign: every change is caught before anything is trained on it."""

import sqlite3

import jax
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.simulation.execution import ledger
from fisherscore.simulation.records import Record
from fisherscore.simulation.simulations import Origin

BOX = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))


def noise(key, theta):
    return theta + jax.random.normal(key, (2,))


@pytest.fixture
def folder(tmp_path):
    fs.simulate(fs.from_jax(noise), BOX, 300, seed=1, out=tmp_path / "c")
    return tmp_path / "c"


def test_a_campaign_is_the_same_in_memory_and_in_a_folder(folder):
    memory = fs.simulate(fs.from_jax(noise), BOX, 300, seed=1)
    for stored in (fs.open_campaign(folder), fs.simulate(fs.from_jax(noise), BOX, 300, seed=1, out=folder)):
        for name in ("theta", "x", "status"):
            np.testing.assert_array_equal(getattr(stored, name), getattr(memory, name))
        assert stored.latent is None and memory.latent is None
        assert stored.origin == memory.origin == Origin("noise", 1, 300)
        assert stored.fingerprint() == memory.fingerprint()
        assert (stored.folder, memory.folder) == (folder, None)


def test_latents_are_kept_in_a_folder(tmp_path):
    latent = fs.GaussianLatent([0.5, 0.5])
    memory = fs.simulate(fs.from_jax(noise), BOX, 30, latent=latent)
    fs.simulate(fs.from_jax(noise), BOX, 30, latent=latent, out=tmp_path)
    stored = fs.open_campaign(tmp_path)
    np.testing.assert_array_equal(stored.latent, memory.latent)
    np.testing.assert_allclose(stored.latent_score(), memory.latent_score())


def test_a_campaign_grows_and_its_first_records_stay(folder):
    few = fs.open_campaign(folder).x
    many = fs.simulate(fs.from_jax(noise), BOX, 700, seed=1, out=folder)
    np.testing.assert_array_equal(many.x[:300], few)
    np.testing.assert_array_equal(many.x, fs.simulate(fs.from_jax(noise), BOX, 700, seed=1).x)
    assert len(fs.simulate(fs.from_jax(noise), BOX, 300, seed=1, out=folder)) == 300
    assert fs.campaign_status(folder).num_planned == 700


def test_every_flipped_bit_is_caught(folder):
    """Flip one bit of a record's own bytes, 200 times over: parameters, data, status, number and checksum."""
    path = folder / ledger.FILE
    clean = path.read_bytes()
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT theta, latent, x, checksum FROM records").fetchall()
    rng = np.random.default_rng(0)
    caught = 0
    for trial in range(200):
        # A record's columns lie one after the other, behind a header with its number and their sizes.
        blobs = rows[rng.integers(len(rows))]
        begin = clean.index(blobs[0] + blobs[1] + blobs[2])
        end = begin + sum(map(len, blobs))
        begin -= 6 if trial % 2 else 0
        damaged = bytearray(clean)
        damaged[rng.integers(begin, end)] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        try:
            fs.open_campaign(folder).ok()
        except fs.CampaignError:
            caught += 1
    assert caught == 200
    path.write_bytes(clean)
    assert len(fs.open_campaign(folder).ok()) == 300


@pytest.mark.parametrize("keep", [0, 10, 100, 4096, 20_000])
def test_a_truncated_ledger_is_refused(folder, keep):
    path = folder / ledger.FILE
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(fs.CampaignError, match=r"damaged|holds|settings"):
        fs.open_campaign(folder).ok()
    with pytest.raises(fs.CampaignError):
        fs.simulate(fs.from_jax(noise), BOX, 600, seed=1, out=folder)


def test_a_full_disk_is_named_and_loses_nothing(folder, monkeypatch):
    connect = ledger._connect

    def small(path, *, read_only):
        connection = connect(path, read_only=read_only)
        connection.execute("PRAGMA max_page_count = 1")  # no more than there is
        return connection

    monkeypatch.setattr(ledger, "_connect", small)
    with pytest.raises(fs.CampaignError, match="disk is full"):
        fs.simulate(fs.from_jax(noise), BOX, 5_000, seed=1, out=folder)
    monkeypatch.undo()
    assert len(fs.open_campaign(folder)) == 300
    assert len(fs.simulate(fs.from_jax(noise), BOX, 5_000, seed=1, out=folder)) == 5_000


def test_only_one_process_may_write(folder):
    with ledger.Ledger.create(folder, {}):
        assert fs.campaign_status(folder).running
        with pytest.raises(fs.CampaignError, match="another process is simulating"):
            fs.simulate(fs.from_jax(noise), BOX, 400, seed=1, out=folder)
    assert not fs.campaign_status(folder).running


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 2}, "seed was 1, is 2"),
        ({"proposal": fs.uniform(a=(0.0, 1.0), b=(2.0, 4.0))}, "proposal.high"),
        ({"latent": fs.GaussianLatent([1.0, 1.0])}, "latent was None, is .*covariance"),
        ({"simulator": fs.from_jax(lambda key, theta: theta, name="noise")}, "simulator.source"),
    ],
)
def test_another_configuration_is_refused_and_the_difference_shown(folder, change, words):
    arguments = {"simulator": fs.from_jax(noise), "proposal": BOX, "seed": 1} | change
    with pytest.raises(fs.CampaignError, match=words):
        fs.simulate(arguments.pop("simulator"), arguments.pop("proposal"), 400, out=folder, **arguments)


def test_a_folder_without_a_campaign_is_refused(tmp_path):
    with pytest.raises(fs.CampaignError, match=r"expected a campaign's folder with the file campaign\.sqlite"):
        fs.open_campaign(tmp_path)
    (tmp_path / ledger.FILE).write_text("not a database, but long enough to be mistaken for one " * 20)
    with pytest.raises(fs.CampaignError, match="damaged"):
        fs.open_campaign(tmp_path)
    (tmp_path / ledger.FILE).unlink()
    with sqlite3.connect(tmp_path / ledger.FILE) as connection:
        connection.execute("CREATE TABLE facts (name, value)")
    with pytest.raises(fs.CampaignError, match="settings are damaged"):
        fs.open_campaign(tmp_path)


def test_what_a_folder_cannot_hold_must_be_given_again(tmp_path):
    import numpyro.distributions as dist

    proposal = fs.Proposal.of({"a": dist.Gumbel(0.0, 1.0)})
    latent = fs.CustomLatent(lambda key, t: t, score=lambda t, z: z - t)
    fs.simulate(fs.from_jax(lambda key, z: z), proposal, 20, latent=latent, out=tmp_path)
    with pytest.raises(fs.ArgumentError, match=r"Gumbel.*as proposal=\.\.\."):
        fs.open_campaign(tmp_path)
    with pytest.raises(fs.ArgumentError, match=r"as latent=\.\.\."):
        fs.open_campaign(tmp_path, proposal=proposal).latent_score()
    assert fs.open_campaign(tmp_path, proposal=proposal, latent=latent).latent_score().shape == (20, 1)


def test_batches_give_every_record_once_in_random_order(folder):
    sims = fs.open_campaign(folder)
    parts = [part.x for part in sims.batches(64, seed=3)]
    assert [len(p) for p in parts] == [64, 64, 64, 64, 44]
    mixed = np.concatenate(parts)
    assert not np.array_equal(mixed, sims.x)
    np.testing.assert_array_equal(np.sort(mixed, axis=0), np.sort(sims.x, axis=0))


def test_a_record_does_not_depend_on_its_neighbours():
    """Also where drawing the latent multiplies matrices, whose rounding could depend on the batch."""
    from fisherscore.simulation.plan import Plan

    covariance = np.eye(3) + 0.5
    latent = fs.GaussianLatent(covariance)
    proposal = fs.normal(a=(0.0, 1.0), b=(0.0, 1.0), c=(0.0, 1.0))
    plan = Plan(fs.from_jax(noise), proposal, latent, seed=3)
    theta, z = plan.parameters(np.arange(500))
    for some in (np.arange(7), np.arange(1, 500, 3), np.array([499])):
        np.testing.assert_array_equal(plan.parameters(some)[0], theta[some])
        np.testing.assert_array_equal(plan.parameters(some)[1], z[some])


def test_a_campaign_ends_well_while_somebody_reads(folder):
    with ledger.Ledger.create(folder, {}) as store:
        reader = sqlite3.connect(folder / ledger.FILE)
        rows = reader.execute("SELECT * FROM records")
        rows.fetchone()  # a reader in the middle of the table
        store.set_metadata(num_simulations=300)
    rows.close()
    reader.close()
    assert len(fs.simulate(fs.from_jax(noise), BOX, 500, seed=1, out=folder)) == 500


def sometimes_raising(error):
    """Make a simulator that fails in a fifth of its runs."""

    def odd(theta, rng):
        if rng.uniform() < 0.2:
            raise error
        return theta

    return fs.from_python(odd)


def test_words_that_are_no_text_are_kept(tmp_path):
    sims = fs.simulate(sometimes_raising(OSError("no file \udcff")), BOX, 30, out=tmp_path)
    assert "udcff" in next(iter(sims.messages.values()))


def test_what_was_lost_is_run_again_and_failures_are_not(tmp_path):
    simulator = sometimes_raising(ValueError("its own fault"))
    first = fs.simulate(simulator, BOX, 30, out=tmp_path)
    with ledger.Ledger.create(tmp_path, {}) as store:
        theta = store.read(np.array([3])).theta[0]
        store.append([Record(index=3, status="lost", theta=theta, latent=None, x=None, message="killed")])
    assert fs.campaign_status(tmp_path).counts["lost"] == 1
    again = fs.simulate(simulator, BOX, 30, out=tmp_path)
    np.testing.assert_array_equal(again.x, first.x)
    assert (again.status == first.status).all()


def test_a_simulator_that_always_fails_stops_every_time(tmp_path):
    def never(theta, rng):
        raise ValueError("never")

    for _ in range(2):
        with pytest.raises(fs.SimulationError, match="never"):
            fs.simulate(fs.from_python(never), BOX, 10_000, out=tmp_path)
        assert fs.campaign_status(tmp_path).num_done == 10
    with pytest.raises(fs.SimulationError, match="NaN or infinite"):
        fs.simulate(fs.from_jax(lambda key, t: t / 0 * 0), BOX, 100_000, out=tmp_path / "jax")
    assert fs.campaign_status(tmp_path / "jax").num_done < 10_000
