"""Records run on a Dask cluster, through ``dask.distributed``: a client, or the address of a scheduler.

Dask itself runs again what a dead worker was busy with; a record that has killed several workers has failed. Limits on
time and memory are those of the cluster, except for programs, which bring their own.
"""

import asyncio
import concurrent.futures
import pickle
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ArgumentError, FisherScoreError, FisherScoreWarning, MissingExtraError, SimulationError
from ..simulator import OneByOneSimulator
from .engine import Job, Result
from .run import LOST, Outcome, RunOnce, Stream, failure, interrupted, text_of
from .sending import pickled

# Tasks in the cluster at a time for each of its threads, and how long a task should take.
_TASKS_A_THREAD = 3
_SECONDS_A_TASK = 0.5
_MAX_RECORDS_A_TASK = 256
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Dask:
    """Runs records on the cluster of a client or an address."""

    where: Any

    def run(self, job: Job) -> Iterator[list[Result]]:
        """Yield outcomes as tasks are done."""
        if not isinstance(job.simulator, OneByOneSimulator):
            raise SimulationError("dask: a JAX simulator runs in batches on the device. Leave dask out.")
        if not len(job.indices):
            return
        if job.simulator.timeout is not None:
            warnings.warn(
                "dask: the time limit of a function is not held by a cluster, so a run that hangs is never ended. Use "
                "workers, or limit the time in the function itself.",
                FisherScoreWarning,
                stacklevel=2,
            )
        try:
            import distributed
        except ImportError:
            raise MissingExtraError("dask: install it with: pip install 'fisherscore[dask]'") from None
        if isinstance(self.where, distributed.Client):
            yield from _explained(_Cluster(self.where, distributed, job))
            return
        if not isinstance(self.where, str):
            raise ArgumentError(f"dask: expected a dask.distributed client or an address, got {self.where!r}.")
        try:
            client = distributed.Client(self.where, timeout="30s")
        except (OSError, TimeoutError, ValueError) as error:
            raise SimulationError(f"dask: there is no scheduler at {self.where!r} ({error}). Is it running?") from None
        with client:
            yield from _explained(_Cluster(client, distributed, job))


def _explained(cluster: "_Cluster") -> Iterator[list[Result]]:
    """Yield outcomes; say what has happened where the cluster fails."""
    try:
        yield from cluster.outcomes()
    except FisherScoreError:
        raise
    # Which errors the loss of a scheduler leads to differs between versions, and between moments.
    except (Exception, concurrent.futures.CancelledError, asyncio.CancelledError) as error:
        raise SimulationError(
            f"dask: the cluster failed, or the connection to its scheduler was lost ({type(error).__name__}: "
            f"{text_of(error)}). Nothing that came in before is lost: start the cluster again and run the same call, "
            "which goes on where it stopped."
        ) from error


class _Cluster:
    """The tasks of one job on a cluster."""

    def __init__(self, client: Any, distributed: Any, job: Job):
        assert isinstance(job.simulator, OneByOneSimulator)
        self.client, self.distributed, self.job = client, distributed, job
        # Sent with every task: data scattered beforehand would be lost with the workers that hold them.
        self.payload = pickled(job.simulator.run_once, job.simulator.name)
        # Records are known by their position in the job; the last of the list is sent first.
        self.unsent = list(range(len(job.indices)))[::-1]
        self.records_a_task = 1
        self.suspects: list[int] = []  # records that were on a worker when it died
        self.tried_alone: set[int] = set()
        self.tasks: dict[Any, list[int]] = {}
        self.waiting = distributed.as_completed()

    def outcomes(self) -> Iterator[list[Result]]:
        """Keep the cluster busy and yield what comes back."""
        num_left = len(self.unsent)
        while num_left:
            self._submit()
            if not self.tasks and self.suspects:
                self.tried_alone.add(self.suspects[-1])
                self._send([self.suspects.pop()])
            if not self.waiting.has_ready():
                self._refuse_lost_scheduler()
                time.sleep(_POLL_SECONDS)
                yield []
                continue
            results = self._results(next(self.waiting))
            num_left -= len(results)
            yield results

    def _refuse_lost_scheduler(self) -> None:
        """Stop when the client has given the scheduler up: nothing will come any more."""
        if self.client.status not in ("running", "connecting"):
            raise ConnectionError(f"the client is {self.client.status}")

    def _submit(self) -> None:
        threads = max(1, sum(self.client.nthreads().values()))
        while self.unsent and len(self.tasks) < _TASKS_A_THREAD * threads:
            size = min(self.records_a_task, max(1, len(self.unsent) // (_TASKS_A_THREAD * threads)))
            self._send([self.unsent.pop() for _ in range(min(size, len(self.unsent)))])

    def _send(self, positions: list[int]) -> None:
        future = self.client.submit(
            _run_records,
            self.payload,
            self.job.indices[positions],
            self.job.parameters[positions],
            self.job.stream,
            pure=False,
        )
        self.tasks[future] = positions
        self.waiting.add(future)

    def _results(self, future: Any) -> list[Result]:
        """Return the outcomes of a task; none where its worker died and its records are to be tried again."""
        positions = self.tasks.pop(future)
        try:
            seconds, results = future.result()
        except self.distributed.scheduler.KilledWorker:
            if positions[0] not in self.tried_alone:
                # Dask suspects all that was on the worker; each is tried again with nothing else running.
                self.suspects.extend(positions)
                return []
            message = "the Dask workers that ran it died; see their logs"
            return [(int(self.job.indices[positions[0]]), failure(LOST, message))]
        if [index for index, _ in results] != self.job.indices[positions].tolist():
            raise SimulationError("dask: a worker gave results for other records than it was asked for.")
        seconds_a_record = max(seconds / len(positions), 1e-6)
        self.records_a_task = int(np.clip(_SECONDS_A_TASK / seconds_a_record, 1, _MAX_RECORDS_A_TASK))
        return results


def _run_records(
    payload: bytes, indices: np.ndarray, parameters: np.ndarray, stream: Stream
) -> tuple[float, list[Result]]:
    """Run some records; on a worker of the cluster."""
    run_once: RunOnce = pickle.loads(payload)  # noqa: S301  from the coordinator
    started = time.perf_counter()
    results = [(int(i), _run(run_once, row, stream, int(i))) for i, row in zip(indices, parameters, strict=True)]
    return time.perf_counter() - started, results


def _run(run_once: RunOnce, row: np.ndarray, stream: Stream, index: int) -> Outcome:
    """Run one record; Dask's workers are told to stop by other ways than an interrupt of a task."""
    try:
        return run_once(row, stream.sequence(index))
    except KeyboardInterrupt as error:
        return interrupted(error)
