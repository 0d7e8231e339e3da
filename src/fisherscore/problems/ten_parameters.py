"""Ten parameters, thirty data: x = A θ + ½ (B θ)² + noise whose width is 1 + ½ tanh(θ₁), with fixed random A and B."""

from typing import Any

import jax
import jax.numpy as jnp

from .._support.precision import in_single_precision
from ..simulation.proposal import uniform
from .problem import Problem


@in_single_precision
def ten_parameters() -> Problem:
    """Make the problem over θ in [−1, 1]¹⁰.

    Returns:
        The problem: ten parameters and thirty data.

    >>> import fisherscore as fs
    >>> fs.problems.ten_parameters().simulator.draw([0.0] * 10).shape
    (30,)
    """
    linear = jax.random.normal(jax.random.key(11), (30, 10))
    bent = jax.random.normal(jax.random.key(12), (30, 10)) / 10**0.5

    def mean(theta: Any) -> Any:
        return linear @ theta + 0.5 * (bent @ theta) ** 2

    def width(theta: Any) -> Any:
        return 1.0 + 0.5 * jnp.tanh(theta[0])

    def draw_one(key: Any, theta: Any) -> Any:
        return mean(theta) + width(theta) * jax.random.normal(key, (30,))

    def log_likelihood_one(theta: Any, x: Any) -> Any:
        return -0.5 * jnp.sum(((x - mean(theta)) / width(theta)) ** 2) - 30 * jnp.log(width(theta))

    def fisher_one(theta: Any) -> Any:
        move = jax.jacfwd(mean)(theta) / width(theta)
        widen = jax.grad(lambda t: jnp.log(width(t)))(theta)
        return move.T @ move + 60 * jnp.outer(widen, widen)

    return Problem(
        name="ten-parameters",
        proposal=uniform({f"theta{i}": (-1.0, 1.0) for i in range(1, 11)}),
        x_shape=(30,),
        draw_one=draw_one,
        log_likelihood_one=log_likelihood_one,
        fisher_one=fisher_one,
    )
