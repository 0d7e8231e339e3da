"""Engines: where records are run. All give the same outcomes, in any order, for the same records.

An engine takes a :class:`Job`, which hands out records to run, and yields outcomes as they come. Worker processes are
fed a few records ahead, so that they never wait; when one dies, only the record it was running is in question:

* ended by a fault of its own (a segmentation fault, an abort, an exit), the record has failed, and that is kept;
* killed from outside, the record is run again with the same random numbers, and given up after three such deaths;
* over its time, it is killed with everything it started.

A guardian, a process of a few lines that waits for the coordinator's death, ends the workers when nobody else can.
"""

import contextlib
import json
import os
import pickle
import select
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...errors import SimulationError
from ..simulator import RecordSimulator, Simulator
from .guardian import kill_sessions
from .run import LOST, NONZERO_EXIT, SIGNAL, TIMEOUT, Outcome, Stream, failure, signal_name
from .worker import receive, send, send_bytes

# Signals with which a program ends itself; all others come from outside.
_FAULTS = {s for n in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSYS") if (s := getattr(signal, n, None))}
_MOST_LOSSES = 3
# So many workers in a row may be killed before they are ready.
_MOST_STILLBORN = 5
# A worker is sent so many seconds of work at a time, and is sent more before it has nothing left.
_SECONDS_AHEAD = 0.05
_MOST_AHEAD = 64
_LOOK_SECONDS = 0.5

# Unread tasks must fit a pipe, or sending them could wait for a worker that waits for us.
_BYTES_AHEAD = 16_384

# Told where to find things by its arguments: an environment variable would reach the simulator's own programs.
_WORKER_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from fisherscore.simulation.execution.worker import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)

Result = tuple[int, Outcome]


@dataclass
class Job:
    """Records still to be run: their indices and parameters, and the stream they draw from."""

    simulator: Simulator
    indices: np.ndarray
    parameters: np.ndarray
    stream: Stream


class Engine(Protocol):
    """Runs the records of a job."""

    def run(self, job: Job) -> Iterator[list[Result]]:
        """Yield outcomes as they come, in any order, each record once; now and then an empty list."""
        ...


@dataclass(frozen=True)
class Here:
    """Runs records in this process, one by one or, on a device, block by block."""

    def run(self, job: Job) -> Iterator[list[Result]]:
        """Yield one record, or one block, at a time."""
        if isinstance(job.simulator, RecordSimulator):
            for index, row in zip(map(int, job.indices), job.parameters, strict=True):
                yield [(index, job.simulator.record(row, job.stream.sequence(index)))]
            return
        size = job.simulator.block_size
        for start in range(0, len(job.indices), size):
            part = slice(start, start + size)
            block = job.simulator.run(job.parameters[part], job.indices[part], job.stream)
            yield [
                (int(i), Outcome(str(status), x if x.size else None, block.messages.get(int(i), "")))
                for i, status, x in zip(job.indices[part], block.status, block.x, strict=True)
            ]


@dataclass(frozen=True)
class Workers:
    """Runs records in spawned worker processes on this machine."""

    num_workers: int

    def run(self, job: Job) -> Iterator[list[Result]]:
        """Yield outcomes as the workers send them."""
        if not isinstance(job.simulator, RecordSimulator):
            raise SimulationError(
                "workers: a JAX simulator runs in batches on the device, without worker processes. Leave workers out."
            )
        if not len(job.indices):
            return
        with _Crew(job.simulator, self.num_workers, job) as crew:
            yield from crew.outcomes()


def pickled(simulator: RecordSimulator) -> bytes:
    """Pickle a simulator by value where its function lives in a notebook or a script."""
    import cloudpickle

    try:
        return cloudpickle.dumps(simulator.record)
    except (TypeError, pickle.PicklingError, AttributeError) as error:
        raise SimulationError(
            f"The simulator {simulator.name!r} cannot be sent to another process ({error}). Let its function open "
            "files, connections and the like itself instead of holding them."
        ) from error


@dataclass
class _Worker:
    """One process, its pipes, and the records sent to it that have no outcome yet, in the order they are run."""

    process: subprocess.Popen
    tasks: Any
    results: Any
    waiting: deque[int] = field(default_factory=deque)
    since: float = 0.0
    ready: bool = False

    def close(self) -> None:
        """End the process and all that it started."""
        kill_sessions({self.process.pid})
        self.process.wait()
        for pipe in (self.tasks, self.results):
            with contextlib.suppress(OSError):
                pipe.close()


class _Crew:
    """All workers of one run."""

    def __init__(self, simulator: RecordSimulator, num_workers: int, job: Job):
        self.simulator, self.job = simulator, job
        self.payload = pickle.dumps(pickled(simulator))
        self.num_workers = min(num_workers, len(job.indices))
        self.todo = deque(range(len(job.indices)))
        self.position = {int(index): place for place, index in enumerate(job.indices)}
        self.losses: dict[int, int] = {}
        self.num_stillborn = 0
        self.seconds = 0.0  # a running mean of what one record takes
        self.selector = selectors.DefaultSelector()
        self.workers: list[_Worker] = []

    def __enter__(self) -> "_Crew":
        # Reads the numbers of sessions to end once its own input is closed: by us, or by our death.
        self.guardian = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("guardian.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.close()
        self.selector.close()
        self.guardian.kill()
        assert self.guardian.stdin is not None
        with contextlib.suppress(OSError):
            self.guardian.stdin.close()
        self.guardian.wait()

    def _tell_guardian(self, line: str) -> None:
        assert self.guardian.stdin is not None
        with contextlib.suppress(OSError):
            self.guardian.stdin.write(f"{line}\n".encode())
            self.guardian.stdin.flush()

    def outcomes(self) -> Iterator[list[Result]]:
        """Feed the workers and yield what they send until every record has an outcome."""
        left = len(self.todo)
        for _ in range(self.num_workers):
            self._hire()
        while left:
            found: list[Result] = []
            for key, _ in self.selector.select(_LOOK_SECONDS):
                found += self._hear(key.data)
            found += self._silent() + self._overdue()
            left -= len(found)
            yield found  # also when empty: whoever keeps the outcomes may want to write them down

    def _hire(self) -> None:
        """Start a worker and send it the simulator."""
        task_read, task_write = os.pipe()
        result_read, result_write = os.pipe()
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", _WORKER_PROGRAM, json.dumps(sys.path), str(task_read), str(result_write)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(task_read, result_write),
            start_new_session=True,
        )
        os.close(task_read)
        os.close(result_write)
        worker = _Worker(process, os.fdopen(task_write, "wb"), os.fdopen(result_read, "rb", buffering=0))
        self.workers.append(worker)
        self.selector.register(worker.results, selectors.EVENT_READ, worker)
        self._tell_guardian(f"+{process.pid}")
        with contextlib.suppress(OSError):  # its death is heard of below
            send_bytes(worker.tasks, self.payload)

    def _hear(self, worker: _Worker) -> list[Result]:
        """Read what one worker has to say: that it is ready, an outcome, or nothing more."""
        try:
            message = receive(worker.results)
        except EOFError:
            return self._bury(worker)
        if not worker.ready:
            if message is not None:
                raise SimulationError(
                    f"A worker process could not read the simulator {self.simulator.name!r}:\n{message}"
                )
            worker.ready, self.num_stillborn = True, 0
            self._feed(worker)
            return []
        index, outcome = message
        if index is None:
            raise SimulationError(
                f"A worker could not run the simulator {self.simulator.name!r}; nothing was recorded for it:\n{outcome}"
            )
        worker.waiting.popleft()
        now = time.monotonic()
        took, worker.since = now - worker.since, now
        self.seconds = took if not self.seconds else 0.9 * self.seconds + 0.1 * took
        self._feed(worker)
        return [(index, outcome)]

    def _feed(self, worker: _Worker) -> None:
        """Send more records before the worker runs out of them."""
        affordable = _BYTES_AHEAD // (self.job.parameters[0].nbytes + 256)
        if not self.todo or (worker.waiting and not affordable):
            return
        wanted = _SECONDS_AHEAD / self.seconds if self.seconds else 1
        ahead = int(np.clip(wanted, 1, max(1, min(_MOST_AHEAD, affordable))))
        if len(worker.waiting) > ahead:
            return
        if not worker.waiting:
            worker.since = time.monotonic()
        places = [self.todo.popleft() for _ in range(min(ahead, len(self.todo)))]
        indices = [int(self.job.indices[p]) for p in places]
        tasks = [(i, self.job.parameters[p], self.job.stream) for i, p in zip(indices, places, strict=True)]
        worker.waiting.extend(indices)
        with contextlib.suppress(OSError):
            send(worker.tasks, tasks)

    def _silent(self) -> list[Result]:
        """Find workers that died while a child of theirs still holds their pipe open, so that its end is not seen."""
        found: list[Result] = []
        for worker in [w for w in self.workers if w.process.poll() is not None]:
            if not select.select([worker.results], [], [], 0)[0]:
                found += self._bury(worker)
        return found

    def _overdue(self) -> list[Result]:
        """End workers whose record takes too long."""
        limit, now, found = self.simulator.timeout, time.monotonic(), []
        for worker in [w for w in self.workers if w.waiting and limit is not None and now - w.since > limit]:
            words = f"took more than {limit:g} s and was killed."
            found += self._bury(worker, failure(TIMEOUT, words))
        return found

    def _bury(self, worker: _Worker, verdict: Outcome | None = None) -> list[Result]:
        """Take leave of a worker: say what became of the record it was running, and give the others back."""
        self.selector.unregister(worker.results)
        self.workers.remove(worker)
        code = None
        if verdict is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = worker.process.wait(2.0)
        worker.close()
        self._tell_guardian(f"-{worker.process.pid}")
        self.num_stillborn += not worker.ready
        if self.num_stillborn >= _MOST_STILLBORN or (not worker.ready and (code or 0) >= 0):
            raise SimulationError(
                f"A worker process ended ({_ending(code)}) before it could run the simulator {self.simulator.name!r}. "
                "Can a new Python process import fisherscore, and is there memory for it?"
            )
        found: list[Result] = []
        if worker.waiting:
            index = worker.waiting.popleft()
            verdict = verdict or self._verdict(index, code)
            if verdict is None:
                self.todo.appendleft(self.position[index])
            else:
                found.append((index, verdict))
        self.todo.extendleft(self.position[i] for i in reversed(worker.waiting))
        if self.todo:
            self._hire()
        return found

    def _verdict(self, index: int, code: int | None) -> Outcome | None:
        """Judge a record by how its worker ended; None if it is to be run again."""
        if code is not None and code >= 0:
            return failure(NONZERO_EXIT, f"ended its process with exit status {code}")
        if code is not None and -code in _FAULTS:
            return failure(SIGNAL, f"ended its process by {signal_name(-code)}")
        self.losses[index] = self.losses.get(index, 0) + 1
        if self.losses[index] < _MOST_LOSSES:
            return None
        return failure(LOST, f"its worker was killed {_MOST_LOSSES} times ({_ending(code)}); is there enough memory?")


def _ending(code: int | None) -> str:
    if code is None:
        return "killed"
    return f"exit status {code}" if code >= 0 else signal_name(-code)
