"""The paper's toy: x | θ ~ N(θ, Σ_n), split as θ → z ~ N(θ, Σ_θ*) → x ~ N(z, Σ_n − Σ_θ*).

Its score is Σ_n⁻¹ (x − θ) and its Fisher matrix Σ_n⁻¹ everywhere.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.arguments import as_finite
from .._support.precision import in_single_precision
from ..errors import ArgumentError
from ..simulation.latent import GaussianLatent
from ..simulation.proposal import Proposal, uniform
from .problem import Problem


@in_single_precision
def linear_gaussian(
    covariance: Any = ((1.0, 0.5), (0.5, 1.0)),
    latent_covariance: Any = ((0.4, 0.0), (0.0, 0.4)),
    proposal: Proposal | None = None,
) -> Problem:
    """Make the linear Gaussian problem, by default with the paper's Σ_n, Σ_θ* and box.

    Args:
        covariance: Σ_n, the covariance of x given θ, shape (p, p).
        latent_covariance: Σ_θ*, the covariance of z given θ, smaller than Σ_n.
        proposal: Parameters and training region; by default [−3, 3] for each.

    Returns:
        The problem, which is decomposable.

    >>> import fisherscore as fs
    >>> fs.problems.linear_gaussian().fisher([0.0, 0.0]).round(3).tolist()
    [[1.333, -0.667], [-0.667, 1.333]]
    """
    noise = as_finite(covariance, "covariance")
    precision = np.linalg.inv(noise)
    latent = GaussianLatent(latent_covariance)
    try:
        rest = np.linalg.cholesky(noise - latent.covariance)
    except np.linalg.LinAlgError:
        raise ArgumentError(
            "latent_covariance: covariance − latent_covariance must be positive definite, and is not. Make it smaller."
        ) from None
    whole = np.linalg.cholesky(noise)
    if proposal is None:
        proposal = uniform([(f"theta{i + 1}", (-3.0, 3.0)) for i in range(len(noise))])

    def log_likelihood(theta: Any, x: Any) -> Any:
        return -0.5 * (x - theta) @ jnp.asarray(precision, jnp.float32) @ (x - theta)

    return Problem(
        name="linear-gaussian",
        proposal=proposal,
        x_shape=(len(noise),),
        draw_one=lambda key, theta: theta + jnp.asarray(whole) @ jax.random.normal(key, theta.shape),
        log_likelihood_one=log_likelihood,
        fisher_one=lambda theta: jnp.asarray(precision, jnp.float32),
        latent=latent,
        draw_one_from_latent=lambda key, z: z + jnp.asarray(rest) @ jax.random.normal(key, z.shape),
    )
