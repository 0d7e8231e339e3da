"""Whatever is done to a campaign in whatever order, its records are those of one undisturbed run."""

import functools
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fisherscore as fs
from fisherscore.simulation.execution import ledger

BOX = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))
MOST = 48
# What happens to the simulator from outside: after how many runs it is killed, and whether the machine is in trouble.
OUTSIDE = {"runs_left": None, "trouble": False}


def tiny(theta, rng):
    if OUTSIDE["runs_left"] is not None:
        OUTSIDE["runs_left"] -= 1
        if OUTSIDE["runs_left"] < 0:
            raise KeyboardInterrupt
    x = theta + rng.normal(size=2)
    if OUTSIDE["trouble"] and x[0] > 0.0:
        raise MemoryError
    if x[1] > 4.0:
        raise ValueError("too large")
    return x


SIMULATOR = fs.from_python(tiny)
number = st.integers(1, MOST)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), number),
        st.tuples(st.just("kill"), number, st.integers(0, 30)),
        st.tuples(st.just("trouble"), number),
        st.tuples(st.just("retry"), number),
        st.tuples(st.just("merge"), st.integers(8, MOST), st.integers(1, 3)),
        st.tuples(st.just("export")),
    ),
    max_size=6,
)


@functools.cache
def undisturbed():
    return fs.simulate(SIMULATOR, BOX, MOST)


def agree(sims, *, lost=True):
    """Hold records against those of an undisturbed run; some may be lost for now."""
    rows, reference = sims.store.records.indices, undisturbed()
    np.testing.assert_array_equal(sims.theta, reference.theta[rows])
    there = sims.status != "lost"
    assert lost or there.all()
    np.testing.assert_array_equal(sims.status[there], reference.status[rows][there])
    if there.any():  # else the shape of x is not known yet
        np.testing.assert_array_equal(sims.x[there], reference.x[rows][there])
    assert np.isnan(sims.x[~there]).all()


def step(root, kind, *numbers):
    folder = root / "c"
    try:
        if kind == "extend":
            fs.simulate(SIMULATOR, BOX, numbers[0], out=folder)
        elif kind == "kill":
            OUTSIDE["runs_left"] = numbers[1]
            fs.simulate(SIMULATOR, BOX, numbers[0], out=folder)
        elif kind == "trouble":
            OUTSIDE["trouble"] = True
            fs.simulate(SIMULATOR, BOX, numbers[0], out=folder)
        elif kind == "retry":
            fs.simulate(SIMULATOR, BOX, numbers[0], out=folder, retry="all")
        elif kind == "merge":
            parts = [root / f"{k}-{numbers[1]}-{numbers[0]}" for k in range(1, numbers[1] + 1)]
            for k, part in enumerate(parts, 1):
                fs.simulate(SIMULATOR, BOX, numbers[0], out=part, shard=f"{k}/{numbers[1]}")
            fs.merge_campaigns(folder, parts, simulator=SIMULATOR)
        elif kind == "export" and (folder / ledger.FILE).exists() and fs.campaign_status(folder).num_done:
            sims = fs.open_campaign(folder)
            fs.export_simulations(sims, root / "sims.npz")
            back = fs.import_simulations(root / "sims.npz")
            assert back.fingerprint() == sims.fingerprint() and (back.status == sims.status).all()
    except KeyboardInterrupt:
        if kind != "kill":
            raise
    except (fs.SimulationError, fs.CampaignError) as error:
        if kind != "trouble" or "machine" not in str(error):
            raise
    finally:
        OUTSIDE.update(runs_left=None, trouble=False)


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@example([("kill", 48, 5), ("trouble", 30), ("merge", 20, 2), ("retry", 20), ("export",)])
@given(STEPS)
def test_records_are_those_of_an_undisturbed_run_whatever_is_done(steps):
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for one in steps:
            step(root, *one)
            if (root / "c" / ledger.FILE).exists() and fs.campaign_status(root / "c").num_done:
                agree(fs.open_campaign(root / "c"))
        sims = fs.simulate(SIMULATOR, BOX, MOST, out=root / "c")
        assert len(sims) == MOST
        agree(sims, lost=False)
        assert fs.campaign_status(root / "c").state == "finished"
