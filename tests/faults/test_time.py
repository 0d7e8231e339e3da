"""Time limits count the time a run was running: not while it, or the coordinator, was stopped."""

import importlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import fisherscore as fs

BOX = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))
# Stops the process whose number it is given, for longer than the limits below.
STOP = "kill -STOP {0}; sleep 1.2; kill -CONT {0}"


def stopping_itself(theta, rng):
    """Be stopped by somebody else, as by a debugger, in one run of ten."""
    if rng.uniform() < 0.1:
        subprocess.Popen(["/bin/sh", "-c", STOP.format(os.getpid())])
        time.sleep(0.2)
    return theta + rng.normal(size=2)


@pytest.mark.slow
def test_a_stopped_worker_loses_no_record():
    sims = fs.simulate(fs.from_python(stopping_itself, timeout=0.6), BOX, 12, workers=2)
    assert (sims.status == "ok").all(), sims.messages


PROGRAM = """
import os, subprocess, sys, time
import numpy as np
if int(sys.argv[2]) % 5 == 0:
    subprocess.Popen(["/bin/sh", "-c", sys.argv[3].format(os.getpid())])
    time.sleep(0.2)
np.save(sys.argv[1], [int(sys.argv[2]) / 2**31])
"""


@pytest.mark.slow
def test_a_stopped_program_loses_no_record(tmp_path):
    words = [sys.executable, "-c", PROGRAM, "{output}", "{seed}", STOP, "{input}"]
    sims = fs.simulate(fs.from_command(words, timeout=1.0), BOX, 12, workers=2)
    assert (sims.status == "ok").all(), sims.messages


CAMPAIGN = """
import sys, time
import fisherscore as fs

def short(theta, rng):
    open(sys.argv[1], "a").write("x")
    time.sleep(0.02)
    return theta + rng.normal(size=2)

sims = fs.simulate(fs.from_python(short, timeout=0.3), fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0)), 120, workers=2)
print((sims.status != "ok").sum())
"""


@pytest.mark.slow
def test_a_stopped_coordinator_loses_no_record(tmp_path):
    log = tmp_path / "log"
    script = CAMPAIGN.replace("sys.argv[1]", repr(str(log)))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    while not log.exists():
        time.sleep(0.01)
    for _ in range(3):
        time.sleep(0.15)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.9)
        process.send_signal(signal.SIGCONT)
    assert process.communicate()[0].split() == [b"0"]


@pytest.mark.slow
def test_what_hangs_is_ended_in_time(tmp_path):
    """The control: a limit that never ends anything would pass all of the above."""

    def hanging(theta, rng):
        while rng.uniform() < 0.1 or theta[0] > 1.0:
            theta[0] = 2.0
            with open(tmp_path / str(os.getpid()), "a") as log:
                log.write(f"{time.monotonic()}\n")
            time.sleep(0.01)
        return theta

    sims = fs.simulate(fs.from_python(hanging, timeout=0.5), BOX, 12, workers=2)
    spans = [np.ptp(np.loadtxt(log)) for log in tmp_path.iterdir()]
    assert 0 < len(spans) == (sims.status == "timeout").sum() < 6
    assert min(spans) > 0.4 and max(spans) < 1.5


def test_running_time_leaves_out_stops(monkeypatch):
    running_time = importlib.import_module("fisherscore.simulation.execution.running_time")
    now, stopped = [0.0], [False]
    monkeypatch.setattr(running_time.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(running_time, "is_stopped", lambda process: stopped[0])
    clock = running_time.RunningTime(2.0)

    def look_after(seconds):
        now[0] += seconds
        return clock.look(1)

    for _ in range(10):
        look_after(0.1)
    assert clock.seconds == pytest.approx(1.0) and not clock.is_over
    look_after(3600.0)  # nobody was looking
    assert clock.seconds < 1.2
    stopped[0] = True
    for _ in range(1000):
        look_after(0.1)
    stopped[0] = False
    look_after(0.1)  # continued at some moment in this tick
    assert clock.seconds < 1.2 and not clock.is_over and clock.seconds_stopped > 99.0
    for _ in range(11):
        look_after(0.1)
    assert clock.is_over
    clock.restart()
    assert clock.seconds == 0.0 and not clock.is_over


@pytest.mark.parametrize("with_proc", [True, False])
def test_a_stopped_process_is_seen(monkeypatch, with_proc):
    running_time = importlib.import_module("fisherscore.simulation.execution.running_time")
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    if not with_proc:
        monkeypatch.setattr(running_time, "open", lambda *_: (_ for _ in ()).throw(OSError()), raising=False)
        monkeypatch.setattr(running_time.os.path, "isdir", lambda path: False)
    try:
        for sign, expected in ((signal.SIGCONT, False), (signal.SIGSTOP, True), (signal.SIGCONT, False)):
            process.send_signal(sign)
            deadline = time.monotonic() + 5
            while running_time.is_stopped(process.pid) != expected and time.monotonic() < deadline:
                time.sleep(0.001)
            assert running_time.is_stopped(process.pid) == expected
    finally:
        process.kill()
        assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_what_stops_itself_for_ever_is_given_up(monkeypatch):
    """Run again, as what was killed from outside: a stop is nobody's fault that could be kept as a failure."""
    running_time = importlib.import_module("fisherscore.simulation.execution.running_time")
    monkeypatch.setattr(running_time, "_MOST_SECONDS_STOPPED", 0.3)

    def stopping(theta, rng):
        if theta[0] < 0.2:
            os.kill(os.getpid(), signal.SIGSTOP)
        return theta

    sims = fs.simulate(fs.from_python(stopping, timeout=30.0), BOX, 12, workers=2)
    odd = sims.theta[:, 0] < 0.2
    assert 0 < odd.sum() < 4
    np.testing.assert_array_equal(sims.status == "lost", odd)


def test_a_process_that_stays_stopped_is_reported():
    worker_process = importlib.import_module("fisherscore.simulation.execution.worker_process")
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    worker = worker_process.WorkerProcess(process, None, None, worker_process.RunningTime(1.0))
    worker.waiting.append(worker_process.Task(0, 0))
    worker.time.seconds_stopped = 100.0
    with pytest.warns(fs.FisherScoreWarning, match=f"kill -CONT {process.pid}"):
        worker.look()
    worker.look()  # once only
    process.kill()
    process.wait()
