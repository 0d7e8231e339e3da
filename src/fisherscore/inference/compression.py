"""Compression to one number per parameter: the locally sufficient summary at θ₀, and the one-step estimator.

    t(x) = θ₀ + F⁻¹ ŝ(θ₀, x)

keeps all the information about θ near θ₀ and is itself an estimate of θ. With nuisance parameters ν the summaries of
the others are (in block form)  s_θ − F_θν F_νν⁻¹ s_ν, scaled likewise: a shift in ν does not move them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._support.arguments import as_finite, as_indices, as_theta
from ..errors import ArgumentError
from ..score.model import ScoreModel
from .fisher_matrix import FisherMatrix
from .forecasting import Forecast


@dataclass(frozen=True)
class Summary:
    """A function of data: ``summary(x)`` has one number per kept parameter, in that parameter's units.

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> summary = fs.compress(model, [0.0, 0.0])
    >>> isinstance(summary, fs.Summary), summary([[0.5, 0.5], [1.0, 0.0]]).shape
    (True, (2, 2))
    """

    names: tuple[str, ...]
    theta0: np.ndarray
    model: ScoreModel
    weights: np.ndarray
    kept: tuple[int, ...]

    def __call__(self, x: Any) -> np.ndarray:
        """Compress data of shape (..., one observation) to (..., number of kept parameters)."""
        score = np.asarray(self.model.score(self.theta0, x), np.float64)
        return self.theta0[list(self.kept)] + score @ self.weights.T


def compress(
    model: ScoreModel,
    theta0: Any,
    *,
    fisher: Forecast | FisherMatrix | Any | None = None,
    nuisance: Sequence[str] | str = (),
) -> Summary:
    """Make the summary t(x) = θ₀ + F⁻¹ ŝ(θ₀, x); ``nuisance`` parameters are projected out and dropped.

    F is taken from ``fisher`` (a forecast, best for nuisance hardening, or a matrix); without it, from what the model
    remembers of its training simulations.

    >>> import fisherscore as fs
    >>> t = fs.compress(fs.problems.linear_gaussian().exact_model(), [0.0, 0.0])
    >>> t([0.5, -0.25]).round(3).tolist()
    [0.5, -0.25]
    """
    if not isinstance(model, ScoreModel):
        raise ArgumentError(f"model: expected a score model, got {type(model).__name__}.")
    theta = np.asarray(as_theta(theta0, model.names, "theta0"))
    if theta.ndim != 1:
        raise ArgumentError(f"theta0: expected one parameter vector of shape ({len(model.names)},), got {theta.shape}.")
    if not model.inside(theta):
        raise ArgumentError(f"theta0: {theta.tolist()} lies outside the training region.")
    hidden = as_indices(nuisance, model.names, "nuisance")
    kept = [i for i in range(len(model.names)) if i not in hidden]
    if not kept:
        raise ArgumentError("nuisance: expected to keep at least one parameter, but all are named.")
    covariance = _matrix(model, theta, fisher).covariance
    return Summary(tuple(model.names[i] for i in kept), theta, model, covariance[kept], tuple(kept))


def _matrix(model: ScoreModel, theta: np.ndarray, fisher: Any) -> FisherMatrix:
    if isinstance(fisher, Forecast):
        if fisher.names == model.names and not np.allclose(
            fisher.theta, theta, atol=0.1 * fisher.conditional_sigma.min()
        ):
            raise ArgumentError(f"fisher: this forecast was made at {fisher.theta.tolist()}, not at theta0.")
        # The slope: how the mean of ŝ really moves with θ, so that t(x) moves one for one even if ŝ is imperfect.
        fisher = fisher.slope
    if isinstance(fisher, FisherMatrix):
        if fisher.names != model.names:
            raise ArgumentError(f"fisher: expected parameters {model.names}, got {fisher.names}.")
        return fisher
    if fisher is not None:
        return FisherMatrix(model.names, as_finite(fisher, "fisher"))
    if not model.knows_fisher:
        raise ArgumentError("fisher: this model knows no Fisher matrix; give one, for instance a forecast at theta0.")
    return FisherMatrix(model.names, np.asarray(model.fisher_one(jnp.asarray(theta, jnp.float32)), np.float64))
