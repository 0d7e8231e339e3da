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
from ..records import Record, Records, stacked
from ..simulator import OneByOneSimulator
from .engine import Engine, Job, Result
from .rerun import OtherDataError, Recheck, refusal, repeats
from .run import BAD_OUTPUT, LOST, OK, Outcome, Stream, check_same_shape, failure

_NUM_FIRST = 10
# So many runs in a row that the machine failed, and it will fail the others as well.
_MOST_LOST_IN_A_ROW = 20
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

    def refuse_removed(self) -> None:
        """Stop where there is no longer a place to keep records in."""
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

    def refuse_removed(self) -> None:
        """Memory stays."""

    def records(self) -> Records:
        """Put the records in order, as arrays."""
        kept = sorted(self.kept, key=lambda record: record.index)
        latents = [record.latent for record in kept if record.latent is not None]
        return Records(
            indices=np.array([record.index for record in kept]),
            status=np.array([record.status for record in kept]),
            theta=np.stack([record.theta for record in kept]),
            latent=np.stack(latents) if latents else None,
            x=stacked([record.x for record in kept], tuple(self.x_shape or (0,))),
            messages={record.index: record.message for record in kept if record.status != OK},
        )


def run_plan(
    plan: Plan,
    indices: np.ndarray,
    engine: Engine,
    keeper: RecordKeeper,
    *,
    retry: Sequence[str] = (),
    recheck: Recheck | None = None,
    repeat_first: Callable[[], Recheck | None] | None = None,
    progress: bool | None = None,
) -> None:
    """Run the given records that are not there yet; the first few before the others.

    Records that were lost, through no fault of the simulator's, are run again, and so are those of the kinds in
    ``retry``, all with the same random numbers. Nothing is written before the records of ``recheck`` came out as they
    are stored. ``repeat_first`` gives one of the first few, to be run again beside the others.
    """
    present = keeper.indices()
    again = np.concatenate([keeper.indices(kind) for kind in (LOST, *retry)])
    missing = np.setdiff1d(indices, np.setdiff1d(present, again) if len(again) else present)
    one_by_one = isinstance(plan.simulator, OneByOneSimulator)
    num_first = _NUM_FIRST if one_by_one else plan.simulator.block_size
    first = int(np.searchsorted(missing, indices[:num_first][-1], side="right"))
    if recheck is not None and not (one_by_one and len(missing)):
        _Recorder(plan, keeper, missing[:0], recheck=recheck).run(engine)
        recheck = None
    with progress_bar("simulate", len(indices), progress) as advance:
        advance(len(indices) - len(missing))
        for part, is_first in ((missing[:first], True), (missing[first:], False)):
            if len(part):
                recorder = _Recorder(plan, keeper, part, advance=advance, recheck=recheck, fixes_shape=is_first)
                recorder.run(engine)
                recheck = repeat_first() if is_first and repeat_first is not None and one_by_one else None
            _stop_if_all_fail(plan, keeper)


def _no_progress(num: int, text: str = "") -> None:
    del num, text


class _Recorder:
    """Turns outcomes into records and writes them down, a batch at a time."""

    def __init__(
        self,
        plan: Plan,
        keeper: RecordKeeper,
        indices: np.ndarray,
        *,
        advance: Callable[..., None] = _no_progress,
        recheck: Recheck | None = None,
        fixes_shape: bool = False,
    ):
        self.plan, self.keeper, self.indices, self.advance = plan, keeper, indices, advance
        self.recheck = recheck
        self.theta, self.latent = plan.parameters(indices)
        self.position = {int(index): position for position, index in enumerate(indices)}
        shape = keeper.metadata()["x_shape"]
        self.shape: tuple[int, ...] | None = None if shape is None else tuple(shape)
        self.shape_is_known, self.fixes_shape = shape is not None, fixes_shape
        self.batch: list[Record] = []
        self.latest = time.monotonic()
        self.num_failed = self.num_lost_in_a_row = 0

    def run(self, engine: Engine) -> None:
        """Run everything; what has been simulated is kept, also on Ctrl-C."""
        try:
            try:
                for results in engine.run(self._job()):
                    self.take(results)
            finally:
                self.write()
        except OtherDataError as found:
            assert self.recheck is not None
            repeatable = repeats(self.recheck, found, self.plan.simulator, self._stream, engine)
            folder = getattr(self.keeper, "folder", None)
            raise refusal(self.recheck, found, f"out: {folder}", repeatable) from None

    @property
    def _stream(self) -> Stream:
        return self.plan.stream()

    def _job(self) -> Job:
        """Say what is to be run: the simulator at z, or at θ where there is no latent; stored records first."""
        inputs, indices = self.theta if self.latent is None else self.latent, self.indices
        if self.recheck is not None:
            indices = np.concatenate([self.recheck.stored.indices, indices])
            inputs = np.concatenate([self.recheck.inputs, inputs]) if len(inputs) else self.recheck.inputs
        return Job(self.plan.simulator, indices, inputs, self._stream)

    def take(self, results: list[Result]) -> None:
        """Keep outcomes; data of another shape than the first records' are a failure."""
        num_before = len(self.batch)
        for index, outcome in sorted(results, key=lambda pair: pair[0]):
            if self.recheck is not None and index in self.recheck.waiting:
                self.recheck.take(index, outcome)
                continue
            self.batch.append(self._record(index, outcome))
            self.num_failed += outcome.status != OK
            self._stop_if_the_machine_fails(outcome)
        if len(self.batch) > num_before:
            self.advance(len(self.batch) - num_before, f"{self.num_failed} failed" if self.num_failed else "")
        if len(self.batch) >= RECORDS_A_BATCH or time.monotonic() - self.latest > SECONDS_A_BATCH:
            self.write()

    def _record(self, index: int, outcome: Outcome) -> Record:
        position = self.position.pop(index, None)
        if position is None:
            raise SimulationError(
                f"The simulator {self.plan.simulator.name!r} gave a result for record {index}, which was not asked for "
                "or has one already, so no result after it can be trusted; what came before is kept. Does it start a "
                "copy of its process (os.fork) that returns as well?"
            )
        x = outcome.x if outcome.status == OK else None
        if x is not None and self.shape is None:
            self.shape = x.shape
        if x is not None and self.shape is not None and x.shape != self.shape:
            if self.fixes_shape:
                check_same_shape(self.plan.simulator.name, self.shape, x.shape)
            message = f"returned x of shape {x.shape}; that of the first records is {self.shape}"
            outcome, x = failure(BAD_OUTPUT, message), None
        return Record(
            index=index,
            status=outcome.status,
            theta=self.theta[position],
            latent=None if self.latent is None else self.latent[position],
            x=x,
            message=outcome.message,
        )

    def _stop_if_the_machine_fails(self, outcome: Outcome) -> None:
        self.num_lost_in_a_row = self.num_lost_in_a_row + 1 if outcome.status == LOST else 0
        if self.num_lost_in_a_row >= _MOST_LOST_IN_A_ROW:
            raise _machine_error(self.plan, f"the last {self.num_lost_in_a_row}", outcome.message)

    def write(self) -> None:
        """Write down what has come in, unless stored records that must come out the same have not come out yet."""
        self.keeper.refuse_removed()
        if self.recheck is not None and self.recheck.holds:
            return
        batch, self.batch, self.latest = self.batch, [], time.monotonic()
        if batch and self.shape is not None and not self.shape_is_known:
            self.shape_is_known = True
            self.keeper.set_metadata(x_shape=list(self.shape))
        if batch:
            self.keeper.append(batch)


def _stop_if_all_fail(plan: Plan, keeper: RecordKeeper) -> None:
    counts = keeper.counts()
    if counts and set(counts) == {LOST}:
        raise _machine_error(plan, f"all {sum(counts.values())}", keeper.first_message())
    if counts and not counts.get(OK):
        raise SimulationError(
            f"The simulator {plan.simulator.name!r} failed on each of its first {sum(counts.values())} runs, so "
            f"nothing more was run. It said: {keeper.first_message()}"
        )


def _machine_error(plan: Plan, which: str, message: str) -> SimulationError:
    return SimulationError(
        f"The machine, not the simulator {plan.simulator.name!r}, failed {which} runs, so nothing more was run: "
        f"{message}. They count as not done. See to memory, disk space and open files; the same call then runs them "
        "again."
    )
