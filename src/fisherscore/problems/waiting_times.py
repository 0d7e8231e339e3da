"""Skewed data: waiting times x_k ~ Gamma(shape 1.5, mean μ_k), log μ_k = θ₁ + θ₂ sin k + θ₃ cos k, k = 1 to 8.

Score Σ_k 1.5 (x_k / μ_k − 1)(1, sin k, cos k), Fisher matrix 1.5 Σ_k of the squares, the same everywhere.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.precision import in_single_precision
from ..simulation.proposal import uniform
from .problem import Problem

_SHAPE = 1.5
_K = np.arange(1, 9)
_DESIGN = np.stack([np.ones(8), np.sin(_K), np.cos(_K)], axis=1).astype(np.float32)


@in_single_precision
def waiting_times() -> Problem:
    """Make the problem over θ in [−1, 1]³.

    Returns:
        The problem: three parameters and eight data.

    >>> import fisherscore as fs
    >>> fs.problems.waiting_times().simulator.draw([0.0, 0.0, 0.0]).shape
    (8,)
    """

    def draw_one(key: Any, theta: Any) -> Any:
        return jax.random.gamma(key, _SHAPE, (8,)) / _SHAPE * jnp.exp(_DESIGN @ theta)

    def log_likelihood_one(theta: Any, x: Any) -> Any:
        log_mean = _DESIGN @ theta
        return -_SHAPE * jnp.sum(x * jnp.exp(-log_mean) + log_mean)

    return Problem(
        name="waiting-times",
        proposal=uniform(theta1=(-1.0, 1.0), theta2=(-1.0, 1.0), theta3=(-1.0, 1.0)),
        x_shape=(8,),
        draw_one=draw_one,
        log_likelihood_one=log_likelihood_one,
        fisher_one=lambda theta: _SHAPE * _DESIGN.T @ _DESIGN + 0.0 * theta[0],
    )
