"""Worker processes that die, hang or are killed; the same data from every engine."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fisherscore as fs

pytestmark = pytest.mark.slow
BOX = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))


def noise(theta, rng):
    return theta + rng.normal(size=2)


def now_and_then(how):
    """Make a simulator that does something awful at about one draw in ten."""

    def simulator(theta, rng):
        x = theta + rng.normal(size=2)
        if x[0] - theta[0] > 1.3:
            if how == "segfault":
                import ctypes

                ctypes.string_at(0)
            if how == "abort":
                os.abort()
            if how == "exit":
                os._exit(3)
            if how == "hang":
                subprocess.Popen([sys.executable, "-c", "import time; time.sleep(77.25)"])
                time.sleep(600)
        return x

    return simulator


@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        ("segfault", "signal", "SIGSEGV"),
        ("abort", "signal", "SIGABRT"),
        ("exit", "nonzero_exit", "exit status 3"),
        ("hang", "timeout", "took more than 1 s"),
    ],
)
def test_a_worker_that_dies_costs_one_record(how, status, words):
    simulator = fs.from_python(now_and_then(how), timeout=1.0 if how == "hang" else None)
    sims = fs.simulate(simulator, BOX, 40, workers=2)
    calm = fs.simulate(fs.from_python(now_and_then("nothing")), BOX, 40)
    odd = (calm.x - calm.theta)[:, 0] > 1.3
    assert 0 < odd.sum() < 10
    np.testing.assert_array_equal(sims.status != "ok", odd)
    assert set(sims.status[odd]) == {status} and all(words in m for m in sims.messages.values())
    np.testing.assert_array_equal(sims.x[~odd], calm.x[~odd])
    assert not any(b"sleep(77.25)" in path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))


def test_the_same_data_from_every_engine(tmp_path):
    import distributed

    simulator, num = fs.from_python(noise), 120
    here = fs.simulate(simulator, BOX, num, seed=4)
    found = {w: fs.simulate(simulator, BOX, num, seed=4, workers=w) for w in (1, 2, 4)}
    shards = [fs.simulate(simulator, BOX, num, seed=4, out=tmp_path / k, shard=f"{k}/3") for k in "123"]
    assert [len(s) for s in shards] == [40, 40, 40]
    found["shards"] = fs.merge_campaigns(tmp_path / "all", [tmp_path / k for k in "123"])

    def slower(theta, rng):
        time.sleep(0.02)
        return noise(theta, rng)

    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        killer = subprocess.Popen([sys.executable, "-c", f"import os, time; time.sleep(1); os.kill({victim}, 9)"])
        found["dask"] = fs.simulate(fs.from_python(slower), BOX, num, seed=4, dask=client)
        killer.wait()
        found["dask by address"] = fs.simulate(simulator, BOX, 30, seed=4, dask=cluster.scheduler_address)
    for name, sims in found.items():
        np.testing.assert_array_equal(sims.x, here.x[: len(sims)], err_msg=str(name))
        np.testing.assert_array_equal(sims.theta, here.theta[: len(sims)], err_msg=str(name))
    assert len(fs.simulate(simulator, BOX, 130, seed=4, out=tmp_path / "all")) == 130


def test_shards_of_another_campaign_are_not_merged(tmp_path):
    fs.simulate(fs.from_python(noise), BOX, 10, seed=4, out=tmp_path / "1", shard="1/2")
    fs.simulate(fs.from_python(noise), BOX, 10, seed=5, out=tmp_path / "2", shard="2/2")
    with pytest.raises(fs.CampaignError, match="seed was 4, is 5"):
        fs.merge_campaigns(tmp_path / "all", [tmp_path / "1", tmp_path / "2"])
    for wrong in ("3/2", "0/2", "x", "1/"):
        with pytest.raises(fs.ArgumentError, match="shard: expected"):
            fs.simulate(fs.from_python(noise), BOX, 10, out=tmp_path / "3", shard=wrong)


def test_what_cannot_be_sent_to_another_process_is_named():
    import threading

    lock = threading.Lock()
    with pytest.raises(fs.SimulationError, match="cannot be sent to another process"):
        fs.simulate(fs.from_python(lambda theta, rng: [bool(lock)]), BOX, 10, workers=2)


def test_a_jax_simulator_needs_no_workers():
    with pytest.raises(fs.SimulationError, match="JAX simulator runs in batches on the device"):
        fs.simulate(fs.from_jax(lambda key, theta: theta), BOX, 10, workers=2)


def test_kills_at_random_moments_change_nothing(tmp_path):
    """A small version of benchmarks/kills.py."""
    path = Path(__file__).parents[2] / "benchmarks" / "kills.py"
    spec = importlib.util.spec_from_file_location("kills", path)
    kills = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kills)
    reference = kills.undisturbed(tmp_path, 150)
    coordinator = kills.kill_coordinator(tmp_path, 150, 2, reference)
    workers = kills.kill_workers(tmp_path, 150, 4, reference)
    assert coordinator["identical"] and workers["identical"]
    assert workers["run_again"] <= workers["kills"] and not coordinator["left_over"] + workers["left_over"]
