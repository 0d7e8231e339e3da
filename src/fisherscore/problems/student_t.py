"""Heavy tails whose width moves with θ: x = A tanh(B θ) + exp(½ u sin(2θ₁ + θ₂)) t₄, ten data, θ in [−1, 1]².

u runs from −1 to 1 over the data, t₄ is Student's t with four degrees of freedom, A and B are fixed random matrices.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.precision import in_single_precision
from ..simulation.proposal import uniform
from .problem import Problem

_FREEDOM = 4.0
_SLOPES = np.linspace(-1, 1, 10).astype(np.float32)


@in_single_precision
def student_t() -> Problem:
    """Make the Student-t problem.

    Returns:
        The problem: two parameters and ten data with heavy tails.

    >>> import fisherscore as fs
    >>> fs.problems.student_t().simulator.draw([0.5, -0.5]).shape
    (10,)
    """
    outer = jax.random.normal(jax.random.key(7), (10, 4))
    inner = jax.random.normal(jax.random.key(8), (4, 2))

    def location(theta: Any) -> Any:
        return outer @ jnp.tanh(inner @ theta)

    def log_scale(theta: Any) -> Any:
        return 0.5 * _SLOPES * jnp.sin(2 * theta[0] + theta[1])

    def draw_one(key: Any, theta: Any) -> Any:
        return location(theta) + jnp.exp(log_scale(theta)) * jax.random.t(key, _FREEDOM, (10,))

    def log_likelihood_one(theta: Any, x: Any) -> Any:
        z = (x - location(theta)) * jnp.exp(-log_scale(theta))
        return jnp.sum(-0.5 * (_FREEDOM + 1) * jnp.log1p(z**2 / _FREEDOM) - log_scale(theta))

    def fisher_one(theta: Any) -> Any:
        # Of one datum: (ν + 1)/(ν + 3) in the location over the scale, 2ν/(ν + 3) in the log scale.
        move = jax.jacfwd(location)(theta) * jnp.exp(-log_scale(theta))[:, None]
        widen = jax.jacfwd(log_scale)(theta)
        return ((_FREEDOM + 1) * move.T @ move + 2 * _FREEDOM * widen.T @ widen) / (_FREEDOM + 3)

    return Problem(
        name="student-t",
        proposal=uniform(theta1=(-1.0, 1.0), theta2=(-1.0, 1.0)),
        x_shape=(10,),
        draw_one=draw_one,
        log_likelihood_one=log_likelihood_one,
        fisher_one=fisher_one,
    )
