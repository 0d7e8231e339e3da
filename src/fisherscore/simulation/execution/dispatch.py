"""Where simulations are run: the engine that ``workers`` and ``dask`` ask for, and mock data drawn on it."""

from typing import Any

import numpy as np

from ..._support.arguments import as_count
from ...errors import ArgumentError
from ..simulator import Block, RecordSimulator, Simulator, gathered
from .dask import Dask
from .engine import Engine, Here, Job, Workers
from .run import Outcome, Stream


def engine_for(simulator: Simulator, workers: Any, dask: Any) -> Engine:
    """Choose an engine: worker processes, a Dask cluster, or this process."""
    if dask is not None:
        if workers is not None:
            raise ArgumentError("workers, dask: expected one of the two, got both.")
        return Dask(dask)
    if workers is not None:
        return Workers(as_count(workers, "workers"))
    # A program would outlive a kill of this process; a worker sees to it that it does not.
    if isinstance(simulator, RecordSimulator) and (simulator.is_command or simulator.timeout is not None):
        return Workers(1)
    return Here()


def draw_block(simulator: Simulator, rows: np.ndarray, stream: Stream, engine: Engine) -> Block:
    """Run one record per row on an engine, failures included."""
    indices = np.arange(len(rows))
    found: dict[int, Outcome] = {}
    for results in engine.run(Job(simulator, indices, rows, stream)):
        found |= dict(results)
    return gathered([found[int(i)] for i in indices], indices, simulator.name)
