"""Records run in worker processes on this machine.

Workers are sent a few records ahead, so that they never wait; when one dies, only the record it was running is in
question:

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
from typing import Any

import numpy as np

from ..._support.compilation_cache import folder_in_use
from ...errors import SimulationError
from ..simulator import OneByOneSimulator
from .engine import Job, Result, pickled
from .guardian import kill_sessions
from .run import LOST, NONZERO_EXIT, SIGNAL, TIMEOUT, Outcome, failure, signal_name
from .worker import receive, send, send_bytes

# Signals with which a program ends itself; all others come from outside.
_FAULTS = {s for n in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSYS") if (s := getattr(signal, n, None))}
# A record whose worker is killed this often is given up.
_MAX_LOSSES = 3
# A run is given up when this many workers in a row are killed before they are ready.
_MAX_FAILED_STARTS = 5
# A worker is sent this many seconds of work at a time, and is sent more before it has nothing left.
_SECONDS_AHEAD = 0.05
_MAX_RECORDS_AHEAD = 64
# Unread tasks must fit a pipe, or sending them could wait for a worker that waits for us.
_MAX_BYTES_AHEAD = 16_384
_POLL_SECONDS = 0.5

# Told where to find modules by its arguments: an environment variable would reach the simulator's own programs.
_WORKER_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from fisherscore.simulation.execution.worker import main; main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])"
)


@dataclass(frozen=True)
class Workers:
    """Runs records in spawned worker processes on this machine."""

    num_workers: int

    def run(self, job: Job) -> Iterator[list[Result]]:
        """Yield outcomes as the workers send them."""
        if not isinstance(job.simulator, OneByOneSimulator):
            raise SimulationError(
                "workers: a JAX simulator runs in batches on the device, without worker processes. Leave workers out."
            )
        if not len(job.indices):
            return
        with _WorkerPool(job.simulator, self.num_workers, job) as pool:
            yield from pool.outcomes()


class _Guardian:
    """The process that ends all workers once its own input is closed: by us, or by our death."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("guardian.py"))],
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


@dataclass
class _Worker:
    """One process, its pipes, and the records sent to it that have no outcome yet, in the order they are run."""

    process: subprocess.Popen
    tasks: Any
    results: Any
    waiting: deque[int] = field(default_factory=deque)
    started: float = 0.0  # when the record it is running was begun
    ready: bool = False

    @classmethod
    def start(cls) -> "_Worker":
        """Start a process with a pipe in each direction."""
        task_read, task_write = os.pipe()
        result_read, result_write = os.pipe()
        arguments = (json.dumps(sys.path), str(task_read), str(result_write), str(folder_in_use() or ""))
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", _WORKER_PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(task_read, result_write),
            start_new_session=True,
        )
        os.close(task_read)
        os.close(result_write)
        return cls(process, os.fdopen(task_write, "wb"), os.fdopen(result_read, "rb", buffering=0))

    def close(self) -> None:
        """End the process and all that it started."""
        kill_sessions({self.process.pid})
        self.process.wait()
        for pipe in (self.tasks, self.results):
            with contextlib.suppress(OSError):
                pipe.close()


class _WorkerPool:
    """All workers of one job, and the records that none of them has been sent yet."""

    def __init__(self, simulator: OneByOneSimulator, num_workers: int, job: Job):
        self.simulator, self.job = simulator, job
        self.payload = pickle.dumps(pickled(simulator))
        self.num_workers = min(num_workers, len(job.indices))
        self.unsent = deque(range(len(job.indices)))  # positions in the job
        self.position = {int(index): position for position, index in enumerate(job.indices)}
        self.num_losses: dict[int, int] = {}
        self.num_failed_starts = 0
        self.seconds_a_record = 0.0  # a running mean
        self.selector = selectors.DefaultSelector()
        self.workers: list[_Worker] = []

    def __enter__(self) -> "_WorkerPool":
        self.guardian = _Guardian()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.close()
        self.selector.close()
        self.guardian.close()

    def outcomes(self) -> Iterator[list[Result]]:
        """Feed the workers and yield what they send until every record has an outcome."""
        num_left = len(self.unsent)
        for _ in range(self.num_workers):
            self._start_worker()
        while num_left:
            results: list[Result] = []
            for key, _ in self.selector.select(_POLL_SECONDS):
                results += self._receive(key.data)
            results += self._remove_dead() + self._remove_overdue()
            num_left -= len(results)
            yield results  # also when empty: whoever keeps the outcomes may want to write them down

    def _start_worker(self) -> None:
        """Start a worker and send it the simulator."""
        worker = _Worker.start()
        self.workers.append(worker)
        self.selector.register(worker.results, selectors.EVENT_READ, worker)
        self.guardian.watch(worker.process.pid)
        with contextlib.suppress(OSError):  # should it have died, the end of its pipe will say so
            send_bytes(worker.tasks, self.payload)

    def _receive(self, worker: _Worker) -> list[Result]:
        """Read one message of a worker: that it is ready, an outcome, or the end of its pipe."""
        try:
            message = receive(worker.results)
        except EOFError:
            return self._remove(worker)
        if not worker.ready:
            if message is not None:
                raise SimulationError(
                    f"A worker process could not read the simulator {self.simulator.name!r}:\n{message}"
                )
            worker.ready, self.num_failed_starts = True, 0
            self._feed(worker)
            return []
        index, outcome = message
        if index is None:
            raise SimulationError(
                f"A worker could not run the simulator {self.simulator.name!r}; nothing was recorded for it:\n{outcome}"
            )
        worker.waiting.popleft()
        now = time.monotonic()
        seconds, worker.started = now - worker.started, now
        mean = self.seconds_a_record
        self.seconds_a_record = 0.9 * mean + 0.1 * seconds if mean else seconds
        self._feed(worker)
        return [(index, outcome)]

    def _feed(self, worker: _Worker) -> None:
        """Send more records before the worker runs out of them."""
        affordable = _MAX_BYTES_AHEAD // (self.job.parameters[0].nbytes + 256)
        if not self.unsent or (worker.waiting and not affordable):
            return
        wanted = _SECONDS_AHEAD / self.seconds_a_record if self.seconds_a_record else 1
        ahead = int(np.clip(wanted, 1, max(1, min(_MAX_RECORDS_AHEAD, affordable))))
        if len(worker.waiting) > ahead:
            return
        if not worker.waiting:
            worker.started = time.monotonic()
        positions = [self.unsent.popleft() for _ in range(min(ahead, len(self.unsent)))]
        tasks = [(int(self.job.indices[p]), self.job.parameters[p], self.job.stream) for p in positions]
        worker.waiting.extend(index for index, *_ in tasks)
        with contextlib.suppress(OSError):
            send(worker.tasks, tasks)

    def _remove_dead(self) -> list[Result]:
        """Remove workers that died while a child of theirs holds their pipe open, so that its end is not seen."""
        results: list[Result] = []
        for worker in [w for w in self.workers if w.process.poll() is not None]:
            if not select.select([worker.results], [], [], 0)[0]:
                results += self._remove(worker)
        return results

    def _remove_overdue(self) -> list[Result]:
        """End workers whose record takes too long."""
        limit, now = self.simulator.timeout, time.monotonic()
        results: list[Result] = []
        if limit is not None:
            for worker in [w for w in self.workers if w.waiting and now - w.started > limit]:
                results += self._remove(worker, failure(TIMEOUT, f"took more than {limit:g} s and was killed."))
        return results

    def _remove(self, worker: _Worker, outcome: Outcome | None = None) -> list[Result]:
        """Remove a worker: say what became of the record it was running, and give the others to a new one."""
        self.selector.unregister(worker.results)
        self.workers.remove(worker)
        exit_code = None
        if outcome is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                exit_code = worker.process.wait(2.0)
        worker.close()
        self.guardian.forget(worker.process.pid)
        self._check_start(worker, exit_code)
        results: list[Result] = []
        if worker.waiting:
            index = worker.waiting.popleft()
            outcome = outcome or self._outcome_of_death(index, exit_code)
            if outcome is None:
                self.unsent.appendleft(self.position[index])
            else:
                results.append((index, outcome))
        self.unsent.extendleft(self.position[index] for index in reversed(worker.waiting))
        if self.unsent:
            self._start_worker()
        return results

    def _check_start(self, worker: _Worker, exit_code: int | None) -> None:
        """Stop where workers cannot be started: one that ends by itself, or too many in a row that are killed."""
        self.num_failed_starts += not worker.ready
        ended_by_itself = not worker.ready and (exit_code or 0) >= 0
        if ended_by_itself or self.num_failed_starts >= _MAX_FAILED_STARTS:
            raise SimulationError(
                f"A worker process ended ({_ending(exit_code)}) before it could run the simulator "
                f"{self.simulator.name!r}. Can a new Python process import fisherscore, and is there memory for it?"
            )

    def _outcome_of_death(self, index: int, exit_code: int | None) -> Outcome | None:
        """Judge a record by how its worker ended; None if it is to be run again."""
        if exit_code is not None and exit_code >= 0:
            return failure(NONZERO_EXIT, f"ended its process with exit status {exit_code}")
        if exit_code is not None and -exit_code in _FAULTS:
            return failure(SIGNAL, f"ended its process by {signal_name(-exit_code)}")
        self.num_losses[index] = self.num_losses.get(index, 0) + 1
        if self.num_losses[index] < _MAX_LOSSES:
            return None
        ending = _ending(exit_code)
        return failure(LOST, f"its worker was killed {_MAX_LOSSES} times ({ending}); is there enough memory?")


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return "killed"
    return f"exit status {exit_code}" if exit_code >= 0 else signal_name(-exit_code)
