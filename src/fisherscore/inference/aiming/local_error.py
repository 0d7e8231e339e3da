"""What the score of an aimed model is off by where it is used: at the observation, over its posterior.

A fit's own error is a mean over its region, most of which lies farther out than the posterior, and over all data there.
Where that is too large for a posterior, it is looked at closely: the closed forms are fitted again with a fifth of the
simulations left out in turn, and how far their scores at the observation are apart over the posterior, and those of
members of different kinds, says what this posterior is off by.

Over a normal posterior of covariance C, an error a + B (θ − mean) of the score moves it by C a, and makes it wider.
Twice the Kullback-Leibler divergence that comes of this is aᵀ C a + ½ tr (B C)²: what varies counts by half.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import ArgumentError, TrainingError
from ...fitting.error_estimate import PartialFit, closed_form_error, misfit
from ...potentials.closed_forms import CLOSED_FORMS
from ...potentials.stack import Stack
from ...score.constraints import LARGEST_ERROR
from ...score.fitted import FittedScore
from ...score.provenance import Provenance
from ...simulation.simulations import Simulations
from ..posterior import Posterior
from ..posterior_checks import covariance_within_modes

_NUM_PARTS, _NUM_DRAWS = 5, 200


def needs_a_closer_look(posterior: Posterior, model: FittedScore) -> bool:
    """Say whether a model of closed forms is too far off by its own error, which is one of its whole region."""
    only_closed = all(name in CLOSED_FORMS for name, weight in model.weights.items() if weight)
    if model.own_error is None or not only_closed or not isinstance(model.function, Stack) or not model.weights:
        return False
    return bool(_largest(posterior, model, model.own_error.covariance) > LARGEST_ERROR)


def with_local_error(
    model: FittedScore,
    x_obs: Any,
    posterior: Posterior,
    sims: Simulations,
    again: Callable[[Simulations, int], FittedScore],
) -> FittedScore:
    """Return the model that knows its error at an observation, over a posterior; ``again`` fits to fewer simulations.

    Where a part of the simulations is too little to learn from, the model is returned as it is.
    """
    draws = posterior.samples[np.linspace(0, len(posterior.samples) - 1, _NUM_DRAWS).astype(int)]
    draws = draws[model.inside(draws)]
    parts = np.array_split(np.random.default_rng(0).permutation(len(sims)), _NUM_PARTS)
    fits = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, part in enumerate(parts):
            try:
                one = again(sims.take(np.delete(np.arange(len(sims)), part)), number)
            except (TrainingError, ArgumentError):
                return model
            fits.append(PartialFit(1 - len(part) / len(sims), _scores(one, draws, x_obs)))
    covariance = _covariance(model, _scores(model, draws, x_obs), fits, _of_members(model, draws, x_obs))
    if not np.isfinite(covariance).all():
        return model
    # Kept in units of half of each axis, as a fit keeps it.
    factor = model.own_scales().factor
    known = {**model.provenance, "error_covariance": factor.T @ covariance @ factor}
    return replace(model, provenance=Provenance(known))


def said_of(posterior: Posterior, before: FittedScore, after: FittedScore) -> str:
    """Say what the two errors are."""
    errors = [known.covariance for known in (before.own_error, after.own_error) if known is not None]
    whole, here = (_largest(posterior, before, error) ** 0.5 for error in errors)
    return (
        f"by the model's own error, a mean over its region, posteriors are off by up to {whole:.1g} of their σ; fits "
        f"with a fifth of the simulations left out put this one off by up to {here:.1g}"
    )


def _largest(posterior: Posterior, model: FittedScore, error: np.ndarray) -> float:
    """Return the largest mean square by which a posterior is off along a direction, in its σ."""
    covariance = covariance_within_modes(posterior.samples, model.low, model.high)
    root = np.linalg.cholesky(covariance + np.diag(1e-9 * np.diagonal(covariance) + 1e-300))
    return float(np.linalg.eigvalsh(root.T @ error @ root)[-1])


def _scores(model: FittedScore, draws: np.ndarray, x_obs: Any) -> np.ndarray:
    """Return scores (n, p) over a posterior, in which what varies counts by half in a square."""
    scores = np.asarray(model.score(draws, x_obs), np.float64)
    mean = scores.mean(axis=0)
    return mean + np.sqrt(0.5) * (scores - mean)


def _of_members(model: FittedScore, draws: np.ndarray, x_obs: Any) -> tuple[list[np.ndarray], list[float]]:
    """Return the scores of members of different kinds, and their weights."""
    assert isinstance(model.function, Stack)
    weights = np.asarray(model.function.weights, np.float64).tolist()
    scores = [_scores(replace(model, function=member), draws, x_obs) for member in model.function.members]
    return scores, weights


def _covariance(
    model: FittedScore, whole: np.ndarray, fits: list[PartialFit], members: tuple[list[np.ndarray], list[float]]
) -> np.ndarray:
    """Return the covariance (p, p) of the error of scores (n, p) over a posterior."""
    assert model.own_error is not None
    metric = np.linalg.inv(model.own_error.information + model.region_precision())
    scatter = closed_form_error(whole, fits)
    return np.asarray(scatter.with_misfit(misfit(*members), metric).covariance)
