"""Poisson counts in eight bins with a log-linear rate: x_k ~ Poisson(3 exp(θ₁ + θ₂ k)), k from −1 to 1.

Score Σ_k (x_k − λ_k)(1, k), Fisher matrix Σ_k λ_k (1, k)(1, k)ᵀ.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.precision import in_single_precision
from ..simulation.proposal import uniform
from .problem import Problem

_DESIGN = np.stack([np.ones(8), np.linspace(-1, 1, 8)], axis=1).astype(np.float32)


def _rates(theta: Any) -> Any:
    return 3.0 * jnp.exp(_DESIGN @ theta)


@in_single_precision
def poisson_counts() -> Problem:
    """Make the Poisson problem over θ₁ in [0.5, 2], θ₂ in [−1, 1].

    Returns:
        The problem: two parameters and eight counts.

    >>> import fisherscore as fs
    >>> fs.problems.poisson_counts().simulator.draw([1.0, 0.0]).shape
    (8,)
    """
    return Problem(
        name="poisson-counts",
        proposal=uniform(theta1=(0.5, 2.0), theta2=(-1.0, 1.0)),
        x_shape=(8,),
        draw_one=lambda key, theta: jax.random.poisson(key, _rates(theta)).astype(jnp.float32),
        log_likelihood_one=lambda theta, x: x @ (_DESIGN @ theta) - _rates(theta).sum(),
        fisher_one=lambda theta: _DESIGN.T @ (_rates(theta)[:, None] * _DESIGN),
    )
