"""A worker process: reads tasks from one pipe and writes outcomes to another, until the first is closed.

It is started fresh, never forked, and does not import the user's main module: the simulator comes through the pipe. A
worker leads a session of its own, so that whoever waits for it can end it with everything it has started.
"""

import fcntl
import os
import pickle
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from .frames import BrokenFrameError, read_frame, write_frame
from .run import Outcome, RunOnce, Stream, interrupted

# With this status a worker says that its pipes have been closed or used by somebody else: by the simulator.
PIPES_LOST = 76
# Its pipes are moved up to here, or as near as the limit allows: new files get the lowest free number, and programs
# close, or write to, numbers counted from three.
_HIGH_NUMBER = 4_000
_SPARE_NUMBERS = 32


def packed(message: Any) -> bytes:
    """Turn a message into bytes."""
    return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)


def unpacked(message: bytes) -> Any:
    """Turn bytes that came through a private pipe, in a frame that was found whole, into a message."""
    return pickle.loads(message)  # noqa: S301  from our own process


def main(task_pipe: int, result_pipe: int, compiled_folder: str = "") -> None:
    """Read the simulator, report whether that worked, then run records until the pipe is closed."""
    worker = _Worker(_private(task_pipe), _private(result_pipe))
    try:
        run_once = unpacked(read_frame(worker.tasks))
        _keep_compiled(compiled_folder)
    except BaseException:  # noqa: BLE001  whatever happens, the coordinator must be told
        worker.send(traceback.format_exc(limit=-3))
        return
    worker.send(None)
    signal.signal(signal.SIGINT, worker.interrupt)
    while (records := worker.next_records()) is not None:
        for number, index, theta, stream in records:
            try:
                outcome = worker.run(run_once, theta, stream, index)
            except Exception:  # noqa: BLE001  not a fault of the simulator, whose own are outcomes: this run cannot go on
                worker.send((None, None, traceback.format_exc(limit=-2)))
                return
            worker.send((number, index, outcome))


def _private(pipe: int) -> int:
    """Move a pipe where a simulator does not meet it by accident, and programs that it starts do not inherit it."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = _HIGH_NUMBER if most == resource.RLIM_INFINITY else min(_HIGH_NUMBER, most - _SPARE_NUMBERS)
    moved = fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, max(lowest, 3))
    os.close(pipe)
    return moved


def _keep_compiled(folder: str) -> None:
    """Let a simulator that has imported JAX keep what it compiles where the coordinator does, if that keeps it."""
    if folder and "jax" in sys.modules:
        from ..._support.compilation_cache import use_folder

        use_folder(Path(folder))


class _Worker:
    """This process, seen from the coordinator: its two pipes, and who may use them."""

    def __init__(self, tasks: int, results: int):
        self.tasks, self.results = tasks, results
        self.process = os.getpid()
        self.is_interrupted = False

    def next_records(self) -> Any:
        """Wait for tasks; None when there will be no more."""
        try:
            return unpacked(read_frame(self.tasks))
        except EOFError:
            return None
        except KeyboardInterrupt:
            self._end_by_interrupt()
        except (OSError, BrokenFrameError):
            os._exit(PIPES_LOST)

    def send(self, message: Any) -> None:
        """Tell the coordinator; only this very process may, not a copy that a simulator has made of it."""
        if os.getpid() != self.process:
            os._exit(1)
        try:
            write_frame(self.results, packed(message))
        except BrokenPipeError:
            os._exit(1)  # the coordinator is gone
        except OSError:
            os._exit(PIPES_LOST)

    def run(self, run_once: RunOnce, theta: Any, stream: Stream, index: int) -> Outcome:
        """Run one record; an interrupt that nobody has sent was raised by the simulator itself."""
        try:
            return run_once(theta, stream.sequence(index))
        except KeyboardInterrupt as error:
            if self.is_interrupted:
                self._end_by_interrupt()
            return interrupted(error)

    def interrupt(self, *_: object) -> None:
        """Take note of an interrupt that was sent to this process."""
        self.is_interrupted = True
        raise KeyboardInterrupt

    def _end_by_interrupt(self) -> None:
        """End as an interrupted program does, which the coordinator sees."""
        if os.getpid() != self.process:
            os._exit(1)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(self.process, signal.SIGINT)
