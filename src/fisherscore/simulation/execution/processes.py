"""Records run in worker processes on this machine.

Workers are sent a few records ahead, so that they never wait; when one dies, only the record it was running is in
question:

* ended by a fault of its own (a segmentation fault, an abort, an exit), the record has failed, and that is kept;
* killed from outside, the record is run again with the same random numbers, and given up after three such deaths;
* over its time (time during which it was stopped does not count), it is killed with everything it started;
* where its pipe brings what is no answer to what was asked, it is killed, and the record run again, at most twice.

A guardian, a process of a few lines that waits for the coordinator's death, ends the workers when nobody else can.
"""

import itertools
import selectors
import signal
from collections import deque
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from ...errors import SimulationError
from ..simulator import OneByOneSimulator
from .engine import Job, Result
from .run import BAD_OUTPUT, LOST, NONZERO_EXIT, SIGNAL, TIMEOUT, Outcome, failure, signal_name
from .running_time import RunningTime
from .sending import pickled
from .worker import PIPES_LOST, packed, unpacked
from .worker_process import Guardian, Task, WorkerProcess

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


class _BrokenPipeError(Exception):
    """What a worker sent is not what was asked for."""


class _WorkerPool:
    """All workers of one job, and the records that none of them has been sent yet."""

    def __init__(self, simulator: OneByOneSimulator, num_workers: int, job: Job):
        self.simulator, self.job = simulator, job
        self.payload = pickled(simulator.run_once, simulator.name)
        self.num_workers = min(num_workers, len(job.indices))
        self.unsent = deque(range(len(job.indices)))  # positions in the job
        self.position = {int(index): position for position, index in enumerate(job.indices)}
        self.task_numbers = itertools.count()
        self.num_losses: dict[int, int] = {}
        self.num_failed_starts = 0
        self.seconds_a_record = 0.0  # a running mean
        self.tick = RunningTime(simulator.timeout).tick
        self.selector = selectors.DefaultSelector()
        self.workers: list[WorkerProcess] = []

    def __enter__(self) -> "_WorkerPool":
        self.guardian = Guardian()
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
            for key, events in self.selector.select(self.tick):
                if key.data not in self.workers:  # removed a moment ago
                    continue
                if events & selectors.EVENT_WRITE:
                    self._write(key.data)
                else:
                    results += self._receive(key.data)
            results += self._remove_dead() + self._remove_overdue()
            num_left -= len(results)
            yield results  # also when empty: whoever keeps the outcomes may want to write them down

    def _start_worker(self) -> None:
        """Start a worker and send it the simulator."""
        worker = WorkerProcess.start(self.simulator.timeout)
        self.workers.append(worker)
        self.selector.register(worker.inbox.pipe, selectors.EVENT_READ, worker)
        self.guardian.watch(worker.process.pid)
        self._write(worker, self.payload)

    def _write(self, worker: WorkerProcess, message: bytes | None = None) -> None:
        """Write to a worker what its pipe takes; the rest when there is room again."""
        if message is None:
            worker.outbox.flush()
        else:
            worker.outbox.write(message)
        is_watched = worker.outbox.pipe in self.selector.get_map()
        if worker.outbox and not is_watched:
            self.selector.register(worker.outbox.pipe, selectors.EVENT_WRITE, worker)
        elif is_watched and not worker.outbox:
            self.selector.unregister(worker.outbox.pipe)

    def _receive(self, worker: WorkerProcess) -> list[Result]:
        """Read what a worker has sent: that it is ready, outcomes, or the end of its pipe."""
        results: list[Result] = []
        try:
            for message in worker.inbox.read():
                results += self._take(worker, unpacked(message))
        except _BrokenPipeError:
            worker.inbox.broken = True
        if worker.inbox.broken or worker.inbox.ended:
            results += self._remove(worker)
        elif worker.ready:
            self._feed(worker)
        return results

    def _take(self, worker: WorkerProcess, message: Any) -> list[Result]:
        """Judge one message."""
        if not worker.ready:
            if message is not None:
                raise SimulationError(
                    f"A worker process could not read the simulator {self.simulator.name!r}:\n{message}"
                )
            worker.ready, self.num_failed_starts = True, 0
            return []
        number, index, outcome = message
        if index is None:
            raise SimulationError(
                f"A worker could not run the simulator {self.simulator.name!r}; nothing was recorded for it:\n{outcome}"
            )
        if not worker.waiting or worker.waiting[0] != Task(number, index):
            raise _BrokenPipeError  # nobody asked for this, or it comes twice
        worker.waiting.popleft()
        seconds = worker.time.look()
        worker.time.restart()
        mean = self.seconds_a_record
        self.seconds_a_record = 0.9 * mean + 0.1 * seconds if mean else seconds
        return [(index, outcome)]

    def _feed(self, worker: WorkerProcess) -> None:
        """Send more records before the worker runs out of them."""
        affordable = _MAX_BYTES_AHEAD // (self.job.parameters[0].nbytes + 256)
        if not self.unsent or (worker.waiting and not affordable):
            return
        wanted = _SECONDS_AHEAD / self.seconds_a_record if self.seconds_a_record else 1
        ahead = int(np.clip(wanted, 1, max(1, min(_MAX_RECORDS_AHEAD, affordable))))
        if len(worker.waiting) > ahead:
            return
        if not worker.waiting:
            worker.time.restart()
        positions = [self.unsent.popleft() for _ in range(min(ahead, len(self.unsent)))]
        tasks = [Task(next(self.task_numbers), int(self.job.indices[p])) for p in positions]
        worker.waiting.extend(tasks)
        rows = [(*astuple(t), self.job.parameters[p], self.job.stream) for t, p in zip(tasks, positions, strict=True)]
        self._write(worker, packed(rows))

    def _remove_dead(self) -> list[Result]:
        """Remove workers that died while a child of theirs holds their pipe open, so that its end is not seen."""
        results: list[Result] = []
        for worker in [w for w in self.workers if w.process.poll() is not None]:
            results += self._receive(worker)
            if worker in self.workers:
                results += self._remove(worker)
        return results

    def _remove_overdue(self) -> list[Result]:
        """End workers whose record takes too long."""
        results: list[Result] = []
        for worker in list(self.workers):
            worker.look()
            if worker.waiting and worker.time.is_over:
                results += self._receive(worker)  # it may have ended while nobody was looking
            if worker in self.workers and worker.waiting and worker.time.is_over:
                outcome = failure(TIMEOUT, f"took more than {self.simulator.timeout:g} s and was killed.")
                results += self._remove(worker, outcome)
            elif worker in self.workers and worker.time.is_forgotten:
                worker.process.kill()  # as if killed from outside: the record is run again
                results += self._remove(worker)
        return results

    def _remove(self, worker: WorkerProcess, outcome: Outcome | None = None) -> list[Result]:
        """Remove a worker: say what became of the record it was running, and give the others to a new one."""
        for pipe in (worker.inbox.pipe, worker.outbox.pipe):
            if pipe in self.selector.get_map():
                self.selector.unregister(pipe)
        self.workers.remove(worker)
        exit_code = None
        if outcome is None and not worker.inbox.broken:
            exit_code = worker.wait_for_end()
            # It has closed its pipes itself, knowingly or not, and goes on: what it computes can reach nobody.
            worker.inbox.broken = exit_code in (None, PIPES_LOST)
        worker.close()
        self.guardian.forget(worker.process.pid)
        self._check_start(worker, exit_code)
        results: list[Result] = []
        if worker.waiting:
            index = worker.waiting.popleft().index
            outcome = outcome or self._outcome_of_death(index, exit_code, broken=worker.inbox.broken)
            if outcome is None:
                self.unsent.appendleft(self.position[index])
            else:
                results.append((index, outcome))
        self.unsent.extendleft(self.position[task.index] for task in reversed(worker.waiting))
        if self.unsent:
            self._start_worker()
        return results

    def _check_start(self, worker: WorkerProcess, exit_code: int | None) -> None:
        """Stop where workers cannot be started: one that ends by itself, or too many in a row that are killed."""
        self.num_failed_starts += not worker.ready
        ended_by_itself = not worker.ready and (exit_code or 0) >= 0
        if ended_by_itself or self.num_failed_starts >= _MAX_FAILED_STARTS:
            ending = "its pipes were closed or written to" if worker.inbox.broken else _ending(exit_code)
            raise SimulationError(
                f"A worker process ended ({ending}) before it could run the simulator {self.simulator.name!r}. Can a "
                "new Python process import fisherscore, and is there memory for it?"
            )

    def _outcome_of_death(self, index: int, exit_code: int | None, *, broken: bool) -> Outcome | None:
        """Judge a record by how its worker ended; None if it is to be run again."""
        if not broken and exit_code is not None and exit_code >= 0:
            return failure(NONZERO_EXIT, f"ended its process with exit status {exit_code}")
        if not broken and exit_code is not None and -exit_code in _FAULTS:
            return failure(SIGNAL, f"ended its process by {signal_name(-exit_code)}")
        # Also where pipes are broken: what an earlier record has left running in the same process may have done it.
        self.num_losses[index] = self.num_losses.get(index, 0) + 1
        if self.num_losses[index] < _MAX_LOSSES:
            return None
        if broken:
            return failure(BAD_OUTPUT, _BROKEN)
        return failure(LOST, f"its worker was killed {_MAX_LOSSES} times ({_ending(exit_code)}){_advice(exit_code)}")


_BROKEN = (
    "closed, or wrote to, file descriptors of its process that are not its own, so that its data could not be sent "
    "back. Use only those that you have opened"
)


def _advice(exit_code: int | None) -> str:
    return "; is there enough memory?" if exit_code == -signal.SIGKILL else "; who sends it that signal?"


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return "killed"
    return f"exit status {exit_code}" if exit_code >= 0 else signal_name(-exit_code)
