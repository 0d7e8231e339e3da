"""Records run on a Dask cluster, through ``dask.distributed``: a client, or the address of a scheduler.

Dask itself runs again what a dead worker was busy with; a record that has killed several workers has failed. Limits on
time and memory are those of the cluster, except for programs, which bring their own.
"""

import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ArgumentError, MissingExtraError, SimulationError
from ..simulator import OneByOneSimulator
from .engine import Job, Result
from .run import LOST, RunOnce, Stream, failure
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
        try:
            import distributed
        except ImportError:
            raise MissingExtraError("dask: install it with: pip install 'fisherscore[dask]'") from None
        if isinstance(self.where, distributed.Client):
            yield from _Cluster(self.where, distributed, job).outcomes()
            return
        if not isinstance(self.where, str):
            raise ArgumentError(f"dask: expected a dask.distributed client or an address, got {self.where!r}.")
        with distributed.Client(self.where, timeout="30s") as client:
            yield from _Cluster(client, distributed, job).outcomes()


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
                time.sleep(_POLL_SECONDS)
                yield []
                continue
            results = self._results(next(self.waiting))
            num_left -= len(results)
            yield results

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
        seconds_a_record = max(seconds / len(positions), 1e-6)
        self.records_a_task = int(np.clip(_SECONDS_A_TASK / seconds_a_record, 1, _MAX_RECORDS_A_TASK))
        return results


def _run_records(
    payload: bytes, indices: np.ndarray, parameters: np.ndarray, stream: Stream
) -> tuple[float, list[Result]]:
    """Run some records; on a worker of the cluster."""
    run_once: RunOnce = pickle.loads(payload)  # noqa: S301  from the coordinator
    started = time.perf_counter()
    results = [(int(i), run_once(row, stream.sequence(int(i)))) for i, row in zip(indices, parameters, strict=True)]
    return time.perf_counter() - started, results
