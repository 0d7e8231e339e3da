"""Stored records, run again: a campaign knows its simulator by what it does, not only by what it looks like.

Before a campaign is gone on with, a few of its records are run again at the parameters and with the seed they are
stored with, and must come out as they are stored: to the last bit, or up to rounding in single precision for functions
of JAX, whose rounding depends on the batch. This sees what no digest of a source can see: changed globals and files, an
edited program, another version of a library.
"""

import warnings
from dataclasses import dataclass, field

import numpy as np

from ...errors import CampaignError, FisherScoreWarning
from ..records import Records
from .engine import Engine, Job
from .run import LOST, OK, Outcome, Stream

# What may differ for functions of JAX: relative to each number, and to the largest of the record.
_SINGLE_RELATIVE, _SINGLE_OF_LARGEST = 1e-4, 1e-6
# Differences below this, relative to the largest number, are called rounding in messages.
_ROUNDING = 1e-9
_SKIP = "pass num_checked=0 (--num-checked 0; in an analysis file checked = 0 under [budget])"


class OtherDataError(Exception):
    """A record that was run again came out otherwise than it is stored; turned into words by :func:`refusal`."""

    def __init__(self, row: int, outcome: Outcome):
        super().__init__()
        self.row, self.outcome = row, outcome


@dataclass(frozen=True, eq=False)
class Recheck:
    """Stored records that are to be run again.

    Attributes:
        stored: The records as they are stored, all of which succeeded.
        exact: Whether they must be the same to the last bit.
        changed: What is known to have changed since, in words.
        only_warn: Whether other data lead to a warning only: the simulator is new, so it can only be one whose runs
            cannot be repeated.
    """

    stored: Records
    exact: bool
    changed: tuple[str, ...] = ()
    only_warn: bool = False
    waiting: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "waiting", {int(index): row for row, index in enumerate(self.stored.indices)})

    @property
    def inputs(self) -> np.ndarray:
        """What the simulator is run at."""
        return self.stored.theta if self.stored.latent is None else self.stored.latent

    def take(self, index: int, outcome: Outcome) -> None:
        """Compare one outcome with what is stored."""
        row = self.waiting.pop(index)
        if _same(self.stored.x[row], outcome, self.exact):
            return
        if not self.only_warn:
            self.waiting[index] = row  # what has come in since is not written
            raise OtherDataError(row, outcome)
        if outcome.status == OK:
            warnings.warn(
                f"The simulator is not repeatable: record {index}, run twice with the same parameters and seed, gave "
                "different data. A run that is lost cannot be repeated, nor a campaign gone on with that was stopped. "
                "Draw all random numbers from the generator or the seed that is passed.",
                FisherScoreWarning,
                stacklevel=2,
            )

    @property
    def holds(self) -> bool:
        """Whether nothing may be written yet."""
        return bool(self.waiting) and not self.only_warn


def choose(succeeded: np.ndarray, num: int) -> np.ndarray:
    """Choose records to run again: the first and the last, and others that change as a campaign grows."""
    if num < 1 or not len(succeeded):
        return np.zeros(0, np.int64)
    others = min(num, len(succeeded)) - 2
    if others <= 0:
        return np.unique(succeeded[[-1, 0]][:num])
    inner = np.random.default_rng(len(succeeded)).choice(np.arange(1, len(succeeded) - 1), others, replace=False)
    return succeeded[np.concatenate([[0], np.sort(inner), [len(succeeded) - 1]])]


def run_again(recheck: Recheck, job: Job, engine: Engine) -> None:
    """Run records again by themselves, and compare."""
    for results in engine.run(job):
        for index, outcome in results:
            if index in recheck.waiting:
                recheck.take(index, outcome)


def repeats(recheck: Recheck, found: OtherDataError, simulator: object, stream: Stream, engine: Engine) -> bool:
    """Say whether the record that came out otherwise comes out in that way a second time."""
    if found.outcome.status == LOST:
        return True
    row = slice(found.row, found.row + 1)
    job = Job(simulator, recheck.stored.indices[row], recheck.inputs[row], stream)  # type: ignore[arg-type]
    (again,) = [outcome for results in engine.run(job) for _, outcome in results]
    if found.outcome.x is None or again.x is None:
        return again.status == found.outcome.status
    return _same(found.outcome.x, again, recheck.exact)


def refusal(recheck: Recheck, found: OtherDataError, where: str, repeatable: bool) -> CampaignError:
    """Say which record differs and by how much, why that may be, and what to do."""
    index, stored, outcome = int(recheck.stored.indices[found.row]), recheck.stored.x[found.row], found.outcome
    begin = f"{where}: record {index} was run again, with the parameters and the seed it is stored with, "
    if not repeatable:
        return CampaignError(
            f"{begin}and gives other data every time: the simulator is not repeatable. Draw all random numbers from "
            "the generator, the key or the seed that is passed (fisherscore.check_simulator looks for this) and begin "
            f"anew in another folder; to go on all the same, {_SKIP}."
        )
    if outcome.status == LOST:
        return CampaignError(
            f"{begin}and the machine failed it: {outcome.message}. See to memory, disk space and open files, and run "
            "the same call again."
        )
    if outcome.status != OK or outcome.x is None:
        what, rounding = f"and now has the status {outcome.status!r}: {outcome.message}", False
    elif outcome.x.shape != stored.shape:
        what, rounding = f"and now gives x of shape {outcome.x.shape} instead of {stored.shape}", False
    else:
        what, rounding = _difference(stored, outcome.x)
    if rounding:
        return CampaignError(
            f"{begin}{what}. So small a difference is that of rounding on another machine, with other threads or with "
            "another version of a library; data must come out as they are stored to the last bit. Go on where it was "
            f"begun, or choose another folder; if it is the same simulator for you, {_SKIP}."
        )
    cause = (
        f"Since it was stored these changed: {'; '.join(recheck.changed)}"
        if recheck.changed
        else "Something that it reads has changed: a global, an attribute, a file, a program, the version of a library"
    )
    return CampaignError(
        f"{begin}{what}. {cause}. Data of two simulators must not be mixed: go back to what it was, or choose another "
        "folder."
    )


def _same(stored: np.ndarray, outcome: Outcome, exact: bool) -> bool:
    if outcome.status != OK or outcome.x is None or outcome.x.shape != stored.shape:
        return False
    if exact or np.array_equal(stored, outcome.x):
        return np.array_equal(stored, outcome.x)
    allowed = _SINGLE_RELATIVE * np.abs(stored) + _SINGLE_OF_LARGEST * np.abs(stored).max()
    return bool((np.abs(outcome.x - stored) <= allowed).all())


def _difference(stored: np.ndarray, x: np.ndarray) -> tuple[str, bool]:
    """Say by how much data differ, and whether that may be rounding."""
    apart = np.abs(x - stored)
    worst = np.unravel_index(int(apart.argmax()), apart.shape)
    name = f"x[{', '.join(map(str, map(int, worst)))}]"
    text = (
        f"and differs in {int((apart > 0).sum())} of {apart.size} numbers, by at most {apart.max():.3g} "
        f"({name} was {stored[worst]:.12g}, is {x[worst]:.12g})"
    )
    return text, bool(apart.max() <= _ROUNDING * max(np.abs(stored).max(), 1e-300))
