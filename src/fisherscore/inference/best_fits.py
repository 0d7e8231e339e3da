"""What there is to say of best fits: why each ended, what the model's own error does, and what the data leave free.

An error e of the score moves a best fit with covariance C by C e, though no farther than the training range lets it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..score.constraints import NOT_CONSTRAINED, TRAINING_RANGE, OwnError
from ..score.model import ScoreModel
from .posterior import SMALLEST_RARITY
from .posterior_checks import STRANGE

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
_WIDEN = "train on a larger region"
# A fit's code, whether the model's own error forbids to trust it, and what would help where it is held at an edge.
_Ending = tuple[int, bool, str]
# What the data leave free: in words, the parameters that take part in it, and the number of combinations.
_Free = tuple[str, tuple[str, ...], int]


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
    nothing = np.array([number == len(model.names) for *_, number in free], bool)
    strange = np.zeros(len(free), bool) if ended.rarity is None else ended.rarity < SMALLEST_RARITY
    endings = zip(ended.reason.tolist(), untrusted.tolist(), np.where(strange, STRANGE, _WIDEN).tolist(), strict=True)
    messages = [
        _message(model, ending, [n for n, at in zip(model.names, edge, strict=True) if at], direction)
        for ending, edge, direction in zip(endings, ended.edges, free, strict=True)
    ]
    told = [m if not s or STRANGE in m else f"{m}; {STRANGE}" for m, s in zip(messages, strange, strict=True)]
    return Findings((ended.reason == CONVERGED) & ~untrusted & ~nothing, np.array(told), moved)


def _moved_by_the_model(model: ScoreModel, ended: Ended) -> np.ndarray | None:
    known = model.own_error
    if known is None:
        return None
    width = np.linalg.inv(_at_least(ended.information) + model.region_precision())
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


def _free(model: ScoreModel, ended: Ended) -> Sequence[_Free]:
    """Return for each fit the combinations the data leave free: in words, who takes part in them, how many they are."""
    num = len(ended.reason)
    precision = model.region_precision()
    if num > _MOST_TOLD or not (np.diagonal(precision) > 0).all():
        return [("", (), 0)] * num
    # What data like these leave free everywhere says more than the slope of one score.
    everywhere = () if model.constraints is None else model.constraints.unconstrained
    told = []
    for matrix, reason in zip(ended.information, ended.reason, strict=True):
        here = OwnError(matrix, np.zeros_like(matrix), 0).under(model.names, precision, TRAINING_RANGE)
        found = () if reason == NOT_FINITE else everywhere or here.unconstrained
        taking_part = {n for c in found for n in c.taking_part(model.names, precision)}
        told.append(("; ".join(c.text for c in found), tuple(taking_part), len(found)))
    return told


def _message(model: ScoreModel, ending: _Ending, edges: Sequence[str], free: _Free) -> str:
    """Say what became of a fit, and what would help: never a larger region where that is not what is missing."""
    (reason, untrusted, remedy), (direction, taking_part, num_free), known = ending, free, model.constraints
    badly = known is not None and bool(known.badly_learned)
    if num_free == len(model.names) and reason in (CONVERGED, AT_EDGE):
        return f"{NOT_CONSTRAINED}: none of the parameters, so there is no best fit and no σ is given"
    note = f"{NOT_CONSTRAINED}: {direction}; a prior or other data would help, more simulations would not"
    learning = f"the score was {known.findings[0]}" if known is not None and badly else ""
    if untrusted and reason in (CONVERGED, AT_EDGE):
        why = "not trusted, and no σ is given: the model's own error may move it by more than its error bar"
        return "; ".join(text for text in (why, learning) if text)
    if reason == CONVERGED:
        but = "; ".join(text for text in (learning, note if direction else "") if text)
        return f"converged, but {but}" if but else _REASONS[CONVERGED]
    if reason != AT_EDGE:
        return _REASONS[reason]
    rises = _RISES.format(edges=", ".join(edges))
    if set(edges) <= set(taking_part):
        return f"{rises}; {note}, nor would other ranges"
    return f"{rises}; {learning or remedy}"
