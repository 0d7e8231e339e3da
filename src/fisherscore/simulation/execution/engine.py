"""Engines: where records are run. All give the same outcomes, in any order, for the same records.

An engine takes a :class:`Job` and yields outcomes as they come. Here are what all engines share and the simplest of
them, which runs records in this process; others are :mod:`~fisherscore.simulation.execution.processes` and
:mod:`~fisherscore.simulation.execution.dask`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..simulator import OneByOneSimulator, Simulator
from .run import Outcome, Stream

Result = tuple[int, Outcome]


@dataclass(frozen=True, eq=False)
class Job:
    """Records to be run: their numbers, what the simulator is run at, and the stream they draw from."""

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
        if isinstance(job.simulator, OneByOneSimulator):
            for index, row in zip(map(int, job.indices), job.parameters, strict=True):
                yield [(index, job.simulator.run_once(row, job.stream.sequence(index)))]
            return
        size = job.simulator.block_size
        for start in range(0, len(job.indices), size):
            part = slice(start, start + size)
            block = job.simulator.run(job.parameters[part], job.indices[part], job.stream)
            yield [
                (int(i), Outcome(str(status), x if x.size else None, block.messages.get(int(i), "")))
                for i, status, x in zip(job.indices[part], block.status, block.x, strict=True)
            ]
