"""What there is to say of best fits: why each ended, what the model's own error does, and what the data leave free.

An error e of the score moves a best fit with covariance C by C e, though no farther than the training range lets it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..score.constraints import NOT_CONSTRAINED, TRAINING_RANGE, OwnError, precision_of_region
from ..score.model import ScoreModel
from .posterior import SMALLEST_RARITY

CONVERGED, TOO_FEW_STEPS, AT_EDGE, NO_MAXIMUM, NOT_FINITE = range(5)
# A fit that the model's own error may move by more than its σ: a code beside those.
_UNTRUSTED = 5
# So is every fit of a model whose error, a mean square in units of a posterior's variance, is larger than this.
_WORTHLESS = 0.5
# Of more fits than this, what the data leave free is not told one by one.
_MOST_TOLD = 1_000

_REASONS = {
    CONVERGED: "converged",
    TOO_FEW_STEPS: "not converged: the score is still pulling after the last step; raise max_steps or give another "
    "theta0",
    NO_MAXIMUM: "not converged: the solution is no maximum (the information matrix is not positive definite there)",
    NOT_FINITE: "not converged: the score became NaN or infinite",
}
_RISES = "not converged: the likelihood still rises at the edge of the training region in {edges}"
_STRANGE = "the observation is unlike anything simulated, and the model may be misspecified"


@dataclass(frozen=True, eq=False)
class Ended:
    """How fits ended: covariances (n, p, p), codes (n,), edges they are held at (n, p) and rarities (n,) or None."""

    covariance: np.ndarray
    reason: np.ndarray
    edges: np.ndarray
    rarity: np.ndarray | None

    @property
    def information(self) -> np.ndarray:
        """The observed information, (n, p, p)."""
        finite = np.where(np.isfinite(self.covariance), self.covariance, 0.0)
        matrix = np.linalg.pinv(finite.astype(np.float64))
        return (matrix + matrix.swapaxes(-1, -2)) / 2


@dataclass(frozen=True, eq=False)
class Findings:
    """Of each fit whether it converged, what became of it, and how far the model's own error may move it (n, p)."""

    converged: np.ndarray
    messages: np.ndarray
    moved: np.ndarray | None


def findings(model: ScoreModel, ended: Ended) -> Findings:
    """Judge fits, and say what became of each."""
    moved = _moved_by_the_model(model, ended)
    untrusted = _untrusted(model, ended, moved)
    free = _free(model, ended)
    messages = [
        _message(model, (int(reason), bool(bad)), [n for n, at in zip(model.names, edge, strict=True) if at], direction)
        for reason, bad, edge, direction in zip(ended.reason, untrusted, ended.edges, free, strict=True)
    ]
    strange = np.zeros(len(messages), bool) if ended.rarity is None else ended.rarity < SMALLEST_RARITY
    told = [f"{m}; {_STRANGE}" if s else m for m, s in zip(messages, strange, strict=True)]
    return Findings((ended.reason == CONVERGED) & ~untrusted, np.array(told), moved)


def _moved_by_the_model(model: ScoreModel, ended: Ended) -> np.ndarray | None:
    known = model.own_error
    if known is None:
        return None
    width = np.linalg.inv(_at_least(ended.information) + precision_of_region(model.low, model.high))
    return np.sqrt(np.maximum(np.diagonal(width @ known.covariance @ width, axis1=-2, axis2=-1), 0.0))


def _at_least(information: np.ndarray) -> np.ndarray:
    """Take what is negative in matrices of information as none."""
    values, vectors = np.linalg.eigh(information)
    return (vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.swapaxes(-1, -2)


def _untrusted(model: ScoreModel, ended: Ended, moved: np.ndarray | None) -> np.ndarray:
    """Mark fits that the model's own error may move by more than their error bars."""
    known = model.constraints
    if moved is None or known is None:
        return np.zeros(len(ended.reason), bool)
    sigma = np.sqrt(np.maximum(np.diagonal(ended.covariance, axis1=-2, axis2=-1), 0.0))
    return (moved > sigma).any(axis=1) | (known.error > _WORTHLESS)


def _free(model: ScoreModel, ended: Ended) -> Sequence[tuple[str, tuple[str, ...]]]:
    """Return for each fit the combinations the data leave free, in words, and the parameters that take part in them."""
    num = len(ended.reason)
    precision = precision_of_region(model.low, model.high)
    if num > _MOST_TOLD or not (np.diagonal(precision) > 0).all():
        return [("", ())] * num
    told = []
    for matrix, reason in zip(ended.information, ended.reason, strict=True):
        known = OwnError(matrix, np.zeros_like(matrix), 0).under(model.names, precision, TRAINING_RANGE)
        found = known.unconstrained if reason != NOT_FINITE else ()
        taking_part = {n for c in found for n in c.taking_part(model.names, precision)}
        told.append(("; ".join(c.text for c in found), tuple(taking_part)))
    return told


def _message(
    model: ScoreModel, ending: tuple[int, bool], edges: Sequence[str], free: tuple[str, tuple[str, ...]]
) -> str:
    """Say what became of a fit, and what would help: never a larger region where that is not what is missing."""
    (reason, untrusted), (direction, taking_part), known = ending, free, model.constraints
    badly = known is not None and bool(known.badly_learned)
    if untrusted and reason in (CONVERGED, AT_EDGE):
        why = f"; the score was {known.findings[0]}" if known is not None and badly else ""
        return f"not trusted, and no σ is given: the model's own error may move it by more than its error bar{why}"
    note = f"{NOT_CONSTRAINED}: {direction}; a prior or other data would help, more simulations would not"
    if reason == CONVERGED:
        return f"converged, but {note}" if direction else _REASONS[CONVERGED]
    if reason != AT_EDGE:
        return _REASONS[reason]
    rises = _RISES.format(edges=", ".join(edges))
    if set(edges) <= set(taking_part):
        return f"{rises}; {note}, nor would a larger region"
    if known is not None and badly:
        return f"{rises}; the score was {known.findings[0]}"
    return f"{rises}; train on a larger region"
