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
from ..simulator import RecordSimulator
from .engine import Job, Result, pickled
from .run import LOST, RecordFunction, Stream, failure

# So many tasks a thread are in the cluster at a time, each of about so many seconds.
_TASKS_A_THREAD = 3
_SECONDS_A_TASK = 0.5
_MOST_A_TASK = 256
_LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Dask:
    """Runs records on the cluster of a client or an address."""

    where: Any

    def run(self, job: Job) -> Iterator[list[Result]]:
        """Yield outcomes as tasks are done."""
        if not isinstance(job.simulator, RecordSimulator):
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
        assert isinstance(job.simulator, RecordSimulator)
        self.client, self.distributed, self.job = client, distributed, job
        # Sent with every task: data scattered beforehand would be lost with the workers that hold them.
        self.record = pickled(job.simulator)
        self.todo = list(range(len(job.indices)))[::-1]
        self.size = 1
        self.suspects: list[int] = []
        self.alone: set[int] = set()
        self.tasks: dict[Any, list[int]] = {}
        self.waiting = distributed.as_completed()

    def outcomes(self) -> Iterator[list[Result]]:
        """Keep the cluster busy and yield what comes back."""
        left = len(self.todo)
        while left:
            self._submit()
            if not self.tasks and self.suspects:
                self.alone.add(self.suspects[-1])
                self._send([self.suspects.pop()])
            if not self.waiting.has_ready():
                time.sleep(_LOOK_SECONDS)
                yield []
                continue
            found = self._result(next(self.waiting))
            left -= len(found)
            yield found

    def _submit(self) -> None:
        threads = max(1, sum(self.client.nthreads().values()))
        while self.todo and len(self.tasks) < _TASKS_A_THREAD * threads:
            size = min(self.size, max(1, len(self.todo) // (_TASKS_A_THREAD * threads)))
            self._send([self.todo.pop() for _ in range(min(size, len(self.todo)))])

    def _send(self, places: list[int]) -> None:
        future = self.client.submit(
            _run_records,
            self.record,
            self.job.indices[places],
            self.job.parameters[places],
            self.job.stream,
            pure=False,
        )
        self.tasks[future] = places
        self.waiting.add(future)

    def _result(self, future: Any) -> list[Result]:
        places = self.tasks.pop(future)
        try:
            seconds, results = future.result()
        except self.distributed.scheduler.KilledWorker:
            if places[0] not in self.alone:
                # Dask suspects all that was on the worker; each is tried again with nothing else about.
                self.suspects.extend(places)
                return []
            words = "the Dask workers that ran it died; see their logs"
            return [(int(self.job.indices[places[0]]), failure(LOST, words))]
        one = max(seconds / len(places), 1e-6)
        self.size = int(np.clip(_SECONDS_A_TASK / one, 1, _MOST_A_TASK))
        return results


def _run_records(
    payload: bytes, indices: np.ndarray, parameters: np.ndarray, stream: Stream
) -> tuple[float, list[Result]]:
    """Run some records; on a worker of the cluster."""
    record: RecordFunction = pickle.loads(payload)  # noqa: S301  from the coordinator
    started = time.perf_counter()
    results = [(int(i), record(row, stream.sequence(int(i)))) for i, row in zip(indices, parameters, strict=True)]
    return time.perf_counter() - started, results
