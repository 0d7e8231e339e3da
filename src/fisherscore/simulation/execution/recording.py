"""Run the records of a plan on an engine and write down what comes of them, a batch at a time.

The first records are run before all others: they fix the shape of x, so that what counts as a wrong shape does not
depend on the order in which workers finish, and when all of them fail there is nothing to wait for.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..._support.progress import progress_bar
from ...errors import SimulationError
from ..plan import Plan
from ..records import Record, Records
from ..simulator import OneByOneSimulator
from .engine import Engine, Job, Result
from .run import BAD_OUTPUT, LOST, OK, Outcome, Purpose, Stream, check_same_shape, failure

_NUM_FIRST = 10
# A batch is written when this much time has passed or this many records have come in.
SECONDS_A_BATCH = 0.5
RECORDS_A_BATCH = 5_000


class RecordKeeper(Protocol):
    """Where records go as they come in: a ledger, or memory."""

    def indices(self, status: str | None = None) -> np.ndarray:
        """List the records that are there, or those with a certain status."""
        ...

    def metadata(self) -> dict[str, Any]:
        """Return what is known of all records, with ``x_shape`` among it."""
        ...

    def set_metadata(self, **changes: Any) -> None:
        """Change some of it."""
        ...

    def append(self, records: Sequence[Record]) -> None:
        """Keep records."""
        ...

    def counts(self) -> dict[str, int]:
        """Count records by what became of them."""
        ...

    def first_message(self) -> str:
        """Return the message of the first record that failed."""
        ...


@dataclass
class MemoryKeeper:
    """Keeps records in memory, by the same calls as a ledger."""

    kept: list[Record] = field(default_factory=list)
    x_shape: Any = None

    def indices(self, status: str | None = None) -> np.ndarray:
        """List the records that are there, or those with a certain status."""
        return np.array([record.index for record in self.kept if status in (None, record.status)], dtype=np.int64)

    def metadata(self) -> dict[str, Any]:
        """Return the shape of x, once known."""
        return {"x_shape": self.x_shape}

    def set_metadata(self, **changes: Any) -> None:
        """Remember the shape of x."""
        self.x_shape = changes["x_shape"]

    def append(self, records: Sequence[Record]) -> None:
        """Keep records."""
        self.kept.extend(records)

    def counts(self) -> dict[str, int]:
        """Count records by what became of them."""
        names, counts = np.unique([record.status for record in self.kept], return_counts=True)
        return dict(zip(map(str, names), map(int, counts), strict=True))

    def first_message(self) -> str:
        """Return the message of the first record that failed."""
        return next((record.message for record in self.kept if record.status != OK), "")

    def records(self) -> Records:
        """Put the records in order, as arrays."""
        kept = sorted(self.kept, key=lambda record: record.index)
        latents = [record.latent for record in kept if record.latent is not None]
        blank = np.full(tuple(self.x_shape or (0,)), np.nan)
        return Records(
            indices=np.array([record.index for record in kept]),
            status=np.array([record.status for record in kept]),
            theta=np.stack([record.theta for record in kept]),
            latent=np.stack(latents) if latents else None,
            x=np.stack([blank if record.x is None else record.x for record in kept]),
            messages={record.index: record.message for record in kept if record.status != OK},
        )


def run_plan(
    plan: Plan, indices: np.ndarray, engine: Engine, keeper: RecordKeeper, *, progress: bool | None = None
) -> None:
    """Run the given records that are not there yet; the first few before the others."""
    # What was lost (its worker was killed, not the simulator at fault) is run again, with the same random numbers.
    missing = np.setdiff1d(indices, np.setdiff1d(keeper.indices(), keeper.indices(LOST)))
    one_by_one = isinstance(plan.simulator, OneByOneSimulator)
    num_first = _NUM_FIRST if one_by_one else plan.simulator.block_size
    first = int(np.searchsorted(missing, indices[:num_first][-1], side="right"))
    with progress_bar("simulate", len(indices), progress) as advance:
        advance(len(indices) - len(missing))
        for part in (missing[:first], missing[first:]):
            if len(part):
                _run_part(_Recorder(plan, keeper, part, advance), engine)
            _stop_if_all_fail(plan, keeper)


def _run_part(recorder: "_Recorder", engine: Engine) -> None:
    try:
        for results in engine.run(recorder.job()):
            recorder.take(results)
    finally:
        # Also on Ctrl-C: what has been simulated is kept.
        recorder.write()


class _Recorder:
    """Turns outcomes into records and writes them down, a batch at a time."""

    def __init__(self, plan: Plan, keeper: RecordKeeper, indices: np.ndarray, advance: Callable[..., None]):
        self.plan, self.keeper, self.indices, self.advance = plan, keeper, indices, advance
        self.theta, self.latent = plan.parameters(indices)
        self.position = {int(index): position for position, index in enumerate(indices)}
        shape = keeper.metadata()["x_shape"]
        self.shape: tuple[int, ...] | None = None if shape is None else tuple(shape)
        self.shape_is_fixed = shape is not None
        self.batch: list[Record] = []
        self.latest = time.monotonic()
        self.num_failed = 0

    def job(self) -> Job:
        """Say what is to be run: the simulator at z, or at θ where there is no latent."""
        inputs = self.theta if self.latent is None else self.latent
        return Job(self.plan.simulator, self.indices, inputs, Stream(self.plan.seed, Purpose.TRAINING))

    def take(self, results: list[Result]) -> None:
        """Keep outcomes; data of another shape than the first records' are a failure."""
        for index, outcome in sorted(results, key=lambda pair: pair[0]):
            self.batch.append(self._record(index, outcome))
            self.num_failed += self.batch[-1].status != OK
        if results:
            self.advance(len(results), f"{self.num_failed} failed" if self.num_failed else "")
        if len(self.batch) >= RECORDS_A_BATCH or time.monotonic() - self.latest > SECONDS_A_BATCH:
            self.write()

    def _record(self, index: int, outcome: Outcome) -> Record:
        x = outcome.x if outcome.status == OK else None
        if x is not None and self.shape is None:
            self.shape = x.shape
        if x is not None and self.shape is not None and x.shape != self.shape:
            if not self.shape_is_fixed:
                check_same_shape(self.plan.simulator.name, self.shape, x.shape)
            message = f"returned x of shape {x.shape}; that of the first records is {self.shape}"
            outcome, x = failure(BAD_OUTPUT, message), None
        position = self.position[index]
        return Record(
            index=index,
            status=outcome.status,
            theta=self.theta[position],
            latent=None if self.latent is None else self.latent[position],
            x=x,
            message=outcome.message,
        )

    def write(self) -> None:
        """Write down what has come in."""
        batch, self.batch, self.latest = self.batch, [], time.monotonic()
        if batch and self.shape is not None and not self.shape_is_fixed:
            self.keeper.set_metadata(x_shape=list(self.shape))
        if batch:
            self.keeper.append(batch)


def _stop_if_all_fail(plan: Plan, keeper: RecordKeeper) -> None:
    counts = keeper.counts()
    if counts and not counts.get(OK):
        raise SimulationError(
            f"The simulator {plan.simulator.name!r} failed on each of its first {sum(counts.values())} runs, so "
            f"nothing more was run. It said: {keeper.first_message()}"
        )
