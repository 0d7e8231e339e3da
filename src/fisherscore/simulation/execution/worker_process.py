"""A worker process seen from its coordinator: how it is started, what is on its way to it, and how it ends."""

import contextlib
import json
import os
import subprocess
import sys
import warnings
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from ..._support.compilation_cache import folder_in_use
from ...errors import FisherScoreWarning, SimulationError
from .frames import Inbox, Outbox
from .guardian import kill_sessions
from .running_time import RunningTime

# Told where to find modules by its arguments: an environment variable would reach the simulator's own programs.
_WORKER_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from fisherscore.simulation.execution.worker import main; main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])"
)
# A process that has closed its pipe is given this long to end.
_SECONDS_TO_END = 2.0
# A process that has been stopped for so long is reported.
_SECONDS_TO_REPORT = 60.0


class Guardian:
    """The process that ends all workers once its own input is closed: by us, or by our death."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("guardian.py")), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, session: int) -> None:
        """Let it end a session."""
        self._write(f"+{session}")

    def forget(self, session: int) -> None:
        """Tell it that a session is gone, since its number may serve another."""
        self._write(f"-{session}")

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()

    def close(self) -> None:
        """End it when there is nothing left to watch."""
        self.process.kill()
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()


def _module_path() -> str:
    """Say where this process finds modules."""
    return json.dumps([str(folder) for folder in sys.path if isinstance(folder, (str, os.PathLike))])


def _compiled() -> str:
    """Name the folder in which this process keeps what JAX compiles, if it does."""
    return str(folder_in_use() or "")


@dataclass(frozen=True)
class Task:
    """One record that was sent to a worker: the number of the task, which is never used again, and of the record."""

    number: int
    index: int


@dataclass(eq=False)
class WorkerProcess:
    """One process, its pipes, and the tasks sent to it that have no outcome yet, in the order they are run."""

    process: subprocess.Popen
    outbox: Outbox
    inbox: Inbox
    time: RunningTime  # of the record it is running
    waiting: deque[Task] = field(default_factory=deque)
    ready: bool = False
    is_reported: bool = False  # that it has been stopped for long

    @classmethod
    def start(cls, limit: float | None) -> "WorkerProcess":
        """Start a process with a pipe in each direction."""
        pipes: list[int] = []
        try:
            pipes += [*os.pipe(), *os.pipe()]
            task_read, task_write, result_read, result_write = pipes
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-c", _WORKER_PROGRAM, _module_path(), str(task_read), str(result_write), _compiled()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(task_read, result_write),
                start_new_session=True,
            )
        except OSError as error:
            for pipe in pipes:
                os.close(pipe)
            raise SimulationError(
                f"workers: this machine cannot start another process ({error}). What was recorded before is kept: run "
                "the same call again with fewer workers."
            ) from None
        os.close(task_read)
        os.close(result_write)
        return cls(process, Outbox(task_write), Inbox(result_read), RunningTime(limit))

    def look(self) -> None:
        """Add to the time of the record it is running."""
        if self.waiting:
            self.time.look(None if self.time.limit is None else self.process.pid)
        if self.time.seconds_stopped > _SECONDS_TO_REPORT and not self.is_reported:
            self.is_reported = True
            warnings.warn(
                f"Worker process {self.process.pid}, or a program it has started, has been stopped for "
                f"{_SECONDS_TO_REPORT:.0f} s, which does not count towards its time limit. Continue it by "
                f"kill -CONT {self.process.pid}; or end it by kill -9, and its record will be run again. After an "
                "hour it is ended.",
                FisherScoreWarning,
                stacklevel=2,
            )

    def wait_for_end(self) -> int | None:
        """Wait a moment for the end of a process whose pipe is closed; None where it goes on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(_SECONDS_TO_END)
        return self.process.poll()  # once more, should we have been stopped ourselves while waiting

    def close(self) -> None:
        """End the process and all that it started."""
        kill_sessions({self.process.pid})
        self.process.wait()
        for pipe in (self.outbox.pipe, self.inbox.pipe):
            os.close(pipe)
