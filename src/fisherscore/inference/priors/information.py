"""What a prior adds to a Fisher matrix: the precision of a normal law, of others the inverse of their covariance."""

from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

from ..._support.keys import key_of
from ...errors import ArgumentError
from .density import DensityPrior
from .given import Parameters, RestrictedPrior, pieces_of, prior_of, uncut
from .inequalities import rows_of
from .regions import drawn
from .samples import SamplePrior

_NUM_DRAWS = 1 << 16
# Weighted draws that are worth fewer do not give a covariance.
_MIN_EFFECTIVE = 200.0

Information = tuple[tuple[str, ...], np.ndarray]


def information(prior: Any, parameters: Parameters) -> Information:
    """Return names and matrix of the information in a prior about the parameters it names."""
    inside, cuts = uncut(prior, parameters.names)
    pieces = pieces_of(inside, parameters.names)
    named = {name for own, _ in pieces for name in own}
    for where, about in cuts:
        touched = about if callable(where) else [about[i] for i in np.flatnonzero(rows_of(where, about)[0].any(axis=0))]
        named |= set(touched)
    names = tuple(name for name in parameters.names if name in named)
    matrix = np.zeros((len(names), len(names)))
    if isinstance(prior, RestrictedPrior):
        parts = [(names, _of_draws(prior, names, parameters))]
    else:
        parts = [(own, _of_law(own, law, parameters)) for own, law in pieces]
    for own, block in parts:
        places = np.array([names.index(name) for name in own])
        matrix[np.ix_(places, places)] = block
    return names, matrix


def _of_law(names: tuple[str, ...], law: Any, parameters: Parameters) -> np.ndarray:
    """Return the information in one law."""
    if isinstance(law, dist.Normal):
        return np.array([[float(law.scale) ** -2.0]])
    if isinstance(law, dist.MultivariateNormal):
        return np.linalg.inv(np.asarray(law.covariance_matrix, np.float64))
    if isinstance(law, SamplePrior):
        return np.linalg.inv(law.covariance)
    if isinstance(law, DensityPrior):
        return _of_draws(law, names, parameters)
    if len(names) == 1:
        variance = np.asarray(_variance(law), np.float64)
        if not np.isfinite(variance):
            raise ArgumentError(
                f"prior: the {type(law).__name__} law of {names[0]!r} has no finite variance, so it is worth no "
                "Gaussian information. Give a standard deviation instead."
            )
        return 1 / variance.reshape(1, 1)
    draws = np.asarray(law.sample(key_of(0), (_NUM_DRAWS,)), np.float64).reshape(_NUM_DRAWS, -1)
    return np.linalg.inv(np.cov(draws, rowvar=False))


def _variance(law: Any) -> Any:
    try:
        return law.variance
    except NotImplementedError:
        return np.var(np.asarray(law.sample(key_of(0), (_NUM_DRAWS,)), np.float64))


def _of_draws(prior: Any, names: tuple[str, ...], parameters: Parameters) -> np.ndarray:
    """Return the inverse covariance of draws from a prior, weighted by what cannot be drawn from."""
    if not np.isfinite([parameters.low, parameters.high]).all():
        _refuse_without_region(prior, parameters)
    law = prior_of(parameters, prior)
    words = np.random.SeedSequence(0).generate_state(2 * len(parameters.names), np.uint32).reshape(-1, 2)
    theta = drawn(law, words, _NUM_DRAWS)
    weights = np.ones(_NUM_DRAWS)
    if law.has_rest:
        rest = np.asarray(jax.jit(jax.vmap(law.log_rest_at))(theta), np.float64)
        weights = np.exp(rest - rest.max())
    weights /= weights.sum()
    if 1 / (weights**2).sum() < _MIN_EFFECTIVE:
        raise ArgumentError(
            "prior: its log-density is too narrow for its ranges to find its covariance. Give narrower ranges to "
            "prior_from_density."
        )
    columns = [parameters.names.index(name) for name in names]
    chosen = np.asarray(theta, np.float64)[:, columns]
    centred = chosen - weights @ chosen
    return np.linalg.inv((weights[:, None] * centred).T @ centred)


def _refuse_without_region(prior: Any, parameters: Parameters) -> None:
    """Refuse a prior that is uniform over a region nobody knows, or cut at its ends."""
    pieces = pieces_of(uncut(prior, parameters.names)[0], parameters.names)
    ranged = {name for own, law in pieces for name in own if not isinstance(law, DensityPrior) or name in law.ranges}
    missing = [name for name in parameters.names if name not in ranged]
    if missing:
        raise ArgumentError(
            f"prior: it leaves {missing[0]!r} to the training region, which a Fisher matrix does not know. Use "
            "prior_information(model, prior), or give that parameter a law or range of its own."
        )
