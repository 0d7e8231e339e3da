"""All information in the covariance: x ~ N(0, Σ(θ)), six data, Σ_ij = e^θ₁ ρ^|i−j| + ½ δ_ij with ρ = tanh θ₂.

Its mean says nothing about θ. Score and Fisher matrix are those of a Gaussian whose covariance alone depends on θ,

    s_a = ½ tr[Σ⁻¹ ∂_a Σ (Σ⁻¹ x xᵀ − 1)],    F_ab = ½ tr[Σ⁻¹ ∂_a Σ Σ⁻¹ ∂_b Σ].
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.precision import in_single_precision
from ..simulation.proposal import uniform
from .problem import Problem

_NUM_DATA = 6
_LAGS = np.abs(np.subtract.outer(np.arange(_NUM_DATA), np.arange(_NUM_DATA)))


def _covariance(theta: Any) -> Any:
    return jnp.exp(theta[0]) * jnp.tanh(theta[1]) ** _LAGS + 0.5 * jnp.eye(_NUM_DATA)


def _log_likelihood(theta: Any, x: Any) -> Any:
    lower = jnp.linalg.cholesky(_covariance(theta))
    white = jax.scipy.linalg.solve_triangular(lower, x, lower=True)
    return -0.5 * jnp.sum(white**2) - jnp.sum(jnp.log(jnp.diagonal(lower)))


def _fisher(theta: Any) -> Any:
    moved = jnp.moveaxis(jax.jacfwd(_covariance)(theta), -1, 0)
    relative = jnp.linalg.solve(_covariance(theta), moved)
    return 0.5 * jnp.einsum("aij,bji->ab", relative, relative)


@in_single_precision
def gaussian_covariance() -> Problem:
    """Make the problem over θ₁ (log amplitude) in [−1, 1] and θ₂ (correlation) in [0.2, 1.2].

    Returns:
        The problem: two parameters and six data; all information is in the covariance.

    >>> import fisherscore as fs
    >>> fs.problems.gaussian_covariance().simulator.draw([0.0, 0.5]).shape
    (6,)
    """
    return Problem(
        name="gaussian-covariance",
        proposal=uniform(log_amplitude=(-1.0, 1.0), correlation=(0.2, 1.2)),
        x_shape=(_NUM_DATA,),
        draw_one=lambda key, theta: jnp.linalg.cholesky(_covariance(theta)) @ jax.random.normal(key, (_NUM_DATA,)),
        log_likelihood_one=_log_likelihood,
        fisher_one=_fisher,
    )
