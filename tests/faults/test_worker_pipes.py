"""What a simulator writes to file descriptors that are not its own, and interrupts it raises itself."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import fisherscore as fs
from fisherscore.simulation.execution import frames

BOX = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))


def calm(theta, rng):
    return theta + rng.normal(size=2)


def odd_one(theta, rng, action):
    """Do something awful at about one draw in ten."""
    x = calm(theta, rng)
    if x[0] - theta[0] > 1.3:
        action()
    return x


def own_pipes():
    """List the descriptors of this process that are pipes."""
    numbers = []
    for name in os.listdir("/proc/self/fd"):
        try:
            numbers += [int(name)] if os.readlink(f"/proc/self/fd/{name}").startswith("pipe:") else []
        except OSError:
            continue
    return numbers


def garbage():
    for number in range(3, 5_000):
        try:
            os.write(number, b"\xff" * 200)
        except OSError:
            continue


def whole_frames():
    """Answer as a worker does, but for another record."""
    import pickle

    from fisherscore.simulation.execution.frames import framed
    from fisherscore.simulation.execution.run import Outcome

    for number in own_pipes():
        try:
            os.write(number, framed(pickle.dumps((1, 1, Outcome("ok", np.zeros(2))))))
        except OSError:
            continue


def closing():
    os.closerange(3, 20_000)


def low_numbers():
    os.closerange(3, 256)


def interrupting():
    raise KeyboardInterrupt


def cancelling():
    raise asyncio.CancelledError


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "status", "words"),
    [
        (garbage, "bad_output", "file descriptors"),
        (whole_frames, "bad_output", "file descriptors"),
        (closing, "bad_output", "file descriptors"),
        (low_numbers, None, None),
        (interrupting, "raised", "KeyboardInterrupt: raised by the simulator itself"),
        (cancelling, "raised", "CancelledError"),
    ],
)
def test_it_costs_the_record_and_nothing_else(action, status, words):
    sims = fs.simulate(fs.from_python(lambda theta, rng: odd_one(theta, rng, action)), BOX, 24, seed=1, workers=2)
    expected = fs.simulate(fs.from_python(calm), BOX, 24, seed=1)
    odd = (expected.x - expected.theta)[:, 0] > 1.3
    assert 0 < odd.sum() < 5
    failed = odd if status else np.zeros(24, bool)
    np.testing.assert_array_equal(sims.status != "ok", failed)
    np.testing.assert_array_equal(sims.x[~failed], expected.x[~failed])
    assert set(sims.status[failed]) <= {status} and all(words in m for m in sims.messages.values())


@pytest.mark.slow
def test_an_interrupt_from_outside_loses_nothing(tmp_path):
    def interrupted_once(theta, rng):
        mark = tmp_path / f"{theta[0]:.17g}"
        if rng.uniform() < 0.2 and not mark.exists():
            mark.touch()
            subprocess.Popen(["/bin/sh", "-c", f"kill -INT {os.getpid()}"])
            time.sleep(5)
        return theta

    sims = fs.simulate(fs.from_python(interrupted_once), BOX, 15, workers=2)
    assert len(list(tmp_path.iterdir())) > 1
    assert (sims.status == "ok").all(), sims.messages


@pytest.fixture
def interrupts():
    """Let this process be interrupted even where it was started in the background, and interrupts are ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_in_this_process_is_the_users(tmp_path, interrupts):
    runs = []

    def third(theta, rng):
        runs.append(theta)
        if len(runs) == 3:
            signal.raise_signal(signal.SIGINT)
        return calm(theta, rng)

    with pytest.raises(KeyboardInterrupt):
        fs.simulate(fs.from_python(third), BOX, 20, out=tmp_path)
    assert fs.campaign_status(tmp_path).counts == {"ok": 2}


def test_messages_come_whole_whatever_the_pieces():
    sent = [b"", b"a", bytes(range(256)) * 500, b"\xf1sh\n" * 9]
    read_end, write_end = os.pipe()
    inbox, outbox = frames.Inbox(read_end), frames.Outbox(write_end)
    for message in sent:
        outbox.write(message)
    got = []
    while len(got) < len(sent):
        got += inbox.read()
        outbox.flush()
    assert got == sent and not inbox.broken and not inbox.ended and not outbox
    os.close(write_end)
    assert inbox.read() == [] and inbox.ended and not inbox.broken
    os.close(read_end)


@pytest.mark.parametrize(
    "written",
    [
        b"\xff" * 8,
        b"x",
        frames.framed(b"message")[:-1] + b"?",  # a bit of the message
        b"\xf1sh\n" + (1 << 60).to_bytes(8, "little") + bytes(8),  # a length without its checksum
        frames.framed(b"message") + b"\n",
    ],
)
def test_what_is_no_message_is_noticed_at_once(written):
    read_end, write_end = os.pipe()
    inbox = frames.Inbox(read_end)
    os.write(write_end, written)
    inbox.read()
    assert inbox.broken
    os.close(read_end)
    os.close(write_end)


def test_a_broken_length_reserves_no_memory():
    """The header of 0.1.0, eight bytes of a length, made the coordinator ask for all memory there is."""
    program = (
        "import resource, os; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30));"
        "from fisherscore.simulation.execution import frames; r, w = os.pipe(); os.write(w, b'\\xff' * 64);"
        "inbox = frames.Inbox(r); inbox.read(); assert inbox.broken"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
