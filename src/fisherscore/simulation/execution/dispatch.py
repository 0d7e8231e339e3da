"""Where simulations are run: the engine that ``workers`` and ``dask`` ask for, and blocks of data run on it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._support.arguments import as_count
from ...errors import ArgumentError
from ..simulator import Block, Simulator, block_of
from .dask import Dask
from .engine import Engine, Here, Job
from .processes import Workers
from .run import Outcome, Stream


def engine_for(simulator: Simulator, workers: Any = None, dask: Any = None) -> Engine:
    """Choose an engine: a Dask cluster, worker processes, or this process where that is safe."""
    if dask is not None:
        if workers is not None:
            raise ArgumentError("workers, dask: expected one of the two, got both.")
        return Dask(dask)
    if workers is not None:
        return Workers(as_count(workers, "workers"))
    return Workers(1) if simulator.needs_worker else Here()


def draw_block(
    simulator: Simulator,
    rows: np.ndarray,
    stream: Stream,
    engine: Engine,
    advance: Callable[[int], object] = lambda num: None,
    *,
    first: int = 0,
) -> Block:
    """Run the simulator once per row on an engine, failures included; ``advance`` hears how many are done.

    The first row is record number ``first`` of the stream.
    """
    indices = np.arange(first, first + len(rows))
    outcomes: dict[int, Outcome] = {}
    for results in engine.run(Job(simulator, indices, rows, stream)):
        outcomes |= dict(results)
        advance(len(results))
    return block_of([outcomes[int(i)] for i in indices], indices, simulator.name)
