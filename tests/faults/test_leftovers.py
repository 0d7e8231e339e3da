"""Processes that a simulator forks, a copy that returns as well or a daemon that stays behind; a cluster that dies."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import fisherscore as fs

# Forks make Python and JAX warn: the copies end before they could meet a thread that is not there.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
BOX = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))


def calm(theta, rng):
    return theta + rng.normal(size=2)


def returning_twice(theta, rng):
    """Fork, and forget to end the copy."""
    x = calm(theta, rng)
    if rng.uniform() < 0.5 and os.fork() == 0:
        return x + 1000.0
    return x


def raising_in_the_copy(theta, rng):
    x = calm(theta, rng)
    if rng.uniform() < 0.5 and os.fork() == 0:
        raise SystemExit(3)
    return x


@pytest.mark.parametrize("simulator", [returning_twice, raising_in_the_copy])
@pytest.mark.parametrize("workers", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_simulator_that_returns_twice_gives_every_record_once(tmp_path, simulator, workers):
    process = os.getpid()
    expected = fs.simulate(fs.from_python(calm), BOX, 40)
    try:
        sims = fs.simulate(fs.from_python(simulator), BOX, 40, workers=workers, out=tmp_path)
    finally:
        if os.getpid() != process:
            (tmp_path / "a copy went on").touch()
            os._exit(1)
    time.sleep(0.05)
    assert not (tmp_path / "a copy went on").exists()
    assert (sims.status == "ok").all() and len(fs.open_campaign(tmp_path)) == 40
    np.testing.assert_array_equal(sims.x, expected.x)
    np.testing.assert_array_equal(fs.open_campaign(tmp_path).x, expected.x)


def test_the_status_of_a_copy_is_what_it_asked_for():
    def forking(theta, rng):
        process = os.fork()
        if not process:
            raise SystemExit(int(theta[0]))
        return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])]

    assert fs.from_python(forking).draw([7.0]) == 7


def test_a_daemon_does_not_hold_the_campaign(tmp_path):
    numbers = tmp_path / "daemons"

    def starting_a_daemon(theta, rng):
        if not numbers.exists():
            process = os.fork()
            if not process:
                os.setsid()
                time.sleep(60)
                os._exit(0)
            numbers.write_text(str(process))
        return calm(theta, rng)

    simulator = fs.from_python(starting_a_daemon)
    try:
        fs.simulate(simulator, BOX, 10, out=tmp_path / "c")
        assert not fs.campaign_status(tmp_path / "c").running
        assert len(fs.simulate(simulator, BOX, 20, out=tmp_path / "c")) == 20
    finally:
        os.kill(int(numbers.read_text()), signal.SIGKILL)
        os.waitpid(int(numbers.read_text()), 0)


SCHEDULER = """
import asyncio, sys
from distributed import Scheduler, Worker

async def main():
    async with Scheduler(port=0, dashboard_address=None) as scheduler:
        async with Worker(scheduler.address, nthreads=1, dashboard_address=None):
            print(scheduler.address, flush=True)
            await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.slow
def test_the_death_of_a_dask_scheduler_is_explained_and_loses_nothing(tmp_path):
    def slow(theta, rng):
        time.sleep(0.02)
        return calm(theta, rng)

    cluster = subprocess.Popen([sys.executable, "-c", SCHEDULER], stdout=subprocess.PIPE, text=True)
    address = cluster.stdout.readline().strip()

    def kill_it_amid_the_campaign():
        with contextlib.suppress(fs.CampaignError):
            while fs.campaign_status(tmp_path).num_done < 20:
                time.sleep(0.05)
            return cluster.kill()
        time.sleep(0.2)  # there is none yet
        return kill_it_amid_the_campaign()

    threading.Thread(target=kill_it_amid_the_campaign, daemon=True).start()
    started = time.monotonic()
    with pytest.raises(
        fs.SimulationError, match="dask: the cluster failed, or the connection to its scheduler was lost"
    ):
        fs.simulate(fs.from_python(slow), BOX, 5_000, dask=address, out=tmp_path)
    assert time.monotonic() - started < 60
    cluster.communicate()
    num_done = len(fs.open_campaign(tmp_path))
    assert 0 < num_done < 5_000
    assert (fs.open_campaign(tmp_path).status == "ok").all()
    sims = fs.simulate(fs.from_python(slow), BOX, num_done + 10, out=tmp_path)
    np.testing.assert_array_equal(sims.x, fs.simulate(fs.from_python(calm), BOX, num_done + 10).x)
    with pytest.raises(fs.SimulationError, match="dask: there is no scheduler at"):
        fs.simulate(fs.from_python(calm), BOX, 10, dask="nosuch://somewhere:1")
