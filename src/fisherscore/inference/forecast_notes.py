"""What there is to say of a forecast: what the data leave free, and where the learned score cannot be believed."""

import numpy as np

from ..score.constraints import BADLY_LEARNED, NOT_CONSTRAINED, TRAINING_RANGE, OwnError
from ..score.model import ScoreModel
from .fisher_matrix import FisherMatrix
from .forecast_result import Forecast

# A bound with a larger relative error is no number to quote.
_MAX_UNSURE = 0.3
_ONLY = "with a prior (forecast.add) or with a parameter held (forecast.fix)"


def forecast_notes(result: Forecast, model: ScoreModel, prior: tuple[np.ndarray, str] | None = None) -> tuple[str, ...]:
    """Compare the estimates with a prior, with the model's own error and with one another.

    ``prior`` is a precision (p, p) and what it is called; by default that of the training range.
    """
    precision, called = prior or (model.region_precision(), TRAINING_RANGE)
    bounded = bool((np.diagonal(precision) > 0).all())
    known = model.own_error
    free = ""
    notes: list[str] = []
    if bounded:
        p = len(result.names)
        error = np.zeros((p, p)) if known is None else known.covariance
        number = 0 if known is None else known.num_simulations
        here = OwnError(result.fisher, error, number).under(result.names, precision, called)
        notes += here.findings
        free = "; ".join(c.text for c in here.unconstrained)
    direction, claimed = result.degenerate_direction(), not result.plug_in.degenerate_direction()
    if direction and claimed and not free:
        notes.append(
            f"{BADLY_LEARNED}: the score claims information that its slope does not show, along {direction}. Check "
            "that the model was trained on simulations of this simulator, with theta and x in the same order; else "
            "more simulations would help"
        )
    elif direction:
        told = [] if free else [f"{NOT_CONSTRAINED}: {direction}"]
        singular = f"the Fisher matrix of the data alone is singular, so there are errors only {_ONLY}"
        notes += [*told, *([] if prior else [singular])]
    elif not any(note.startswith(BADLY_LEARNED) for note in notes):
        notes += _of_bound(
            _with(result, precision) if free else result, free=bool(free), explained=_explained(result, known)
        )
    return tuple(notes)


def _with(result: Forecast, precision: np.ndarray) -> Forecast:
    """Add the training range, without which there are no errors."""
    return result.add(FisherMatrix(result.names, precision))


def _explained(result: Forecast, known: OwnError | None) -> tuple[float, float]:
    """Return by how much σ of the bound may be below and above that of the plug-in for the model's own error.

    A score that is too small by a factor has an error of the square of what is missing, and the plug-in misses as much
    of 1/σ, while the bound does not depend on such a factor. Noise makes the plug-in larger and the bound smaller, by
    about its square in σ.
    """
    if known is None:
        return 0.0, 0.0
    inverse = np.linalg.pinv(result.fisher, hermitian=True)
    square = float(np.clip(np.linalg.eigvals(inverse @ known.covariance).real.max(), 0.0, 1.0))
    return square**0.5, square


def _of_bound(result: Forecast, *, free: bool, explained: tuple[float, float]) -> list[str]:
    """Say where the bound is not determined, or where plug-in and bound disagree beyond what errors explain."""
    if result.degenerate_direction() or result.bound.sigma_error is None:
        return []
    unsure = result.bound.sigma_error / result.bound.sigma
    if not unsure.max() < _MAX_UNSURE:
        name = result.names[int(np.argmax(unsure))]
        return [
            f"The conservative bound is not determined: that of {name!r} has an error of {unsure.max():.0%}. The "
            "learned score hardly responds to the parameters here, or too few simulations were spent on the forecast"
        ]
    excess, spread = _excess_of_bound(result)
    # Beside what the data leave free, noise is information of the bound: it then counts only where it claims less.
    off = np.maximum(excess, 0.0) if free else np.abs(excess)
    off = off - np.where(excess < 0, *explained)
    worst = int(np.nanargmax(off / spread))
    if not off[worst] < 3 * spread[worst] + 0.02:
        return [
            f"{BADLY_LEARNED}: the plug-in forecast and the conservative bound disagree: for {result.names[worst]!r} "
            f"the bound's error is {excess[worst]:+.0%} (± {spread[worst]:.0%}) from the plug-in's. The learned score "
            "is noisy or biased here: quote the bound, or train on more simulations"
        ]
    return []


def _excess_of_bound(result: Forecast) -> tuple[np.ndarray, np.ndarray]:
    """Return by how much σ of the bound exceeds that of the plug-in, relatively, and the error of that."""
    assert result.plug_in.draws is not None
    assert result.bound.draws is not None
    with np.errstate(invalid="ignore"):
        excess = np.sqrt(np.diagonal(result.bound.covariance) / np.diagonal(result.plug_in.covariance)) - 1
        spread = np.std(
            [
                np.sqrt(np.abs(np.diagonal(np.linalg.inv(b)) / np.diagonal(np.linalg.inv(a))))
                for a, b in zip(result.plug_in.draws, result.bound.draws, strict=True)
            ],
            axis=0,
        )
    return excess, spread
