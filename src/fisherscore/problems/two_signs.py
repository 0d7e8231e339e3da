"""A likelihood with two modes in θ: x = ± A θ + noise with a sign nobody sees, six data, two parameters.

    p(x | θ) = ½ N(x; Aθ, 1) + ½ N(x; −Aθ, 1),    s = Aᵀ (x tanh(x·Aθ) − Aθ).

θ and −θ cannot be told apart, and the mean of x says nothing about θ.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.precision import in_single_precision
from ..simulation.proposal import uniform
from .problem import Problem

_DESIGN = np.array([[1, 0], [0, 1], [1, 1], [1, -1], [0.5, 1], [1, 0.5]], np.float32)


def _draw(key: Any, theta: Any) -> Any:
    sign_key, noise_key = jax.random.split(key)
    return jax.random.rademacher(sign_key, (), jnp.float32) * (_DESIGN @ theta) + jax.random.normal(noise_key, (6,))


def _log_likelihood(theta: Any, x: Any) -> Any:
    mean = _DESIGN @ theta
    return jnp.logaddexp(x @ mean, -(x @ mean)) - 0.5 * mean @ mean


@in_single_precision
def two_signs() -> Problem:
    """Make the problem over θ in [−2, 2]².

    Returns:
        The problem: two parameters and six data; θ and −θ cannot be told apart.

    >>> import fisherscore as fs
    >>> fs.problems.two_signs().simulator.draw([1.0, -1.0]).shape
    (6,)
    """
    return Problem(
        name="two-signs",
        proposal=uniform(theta1=(-2.0, 2.0), theta2=(-2.0, 2.0)),
        x_shape=(6,),
        draw_one=_draw,
        log_likelihood_one=_log_likelihood,
    )
