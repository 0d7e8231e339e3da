"""Two moons, a problem of the paper's own code and of Lueckmann et al. (arXiv 2101.04653): a posterior with two modes.

    x = (r cos a + 0.25, r sin a) + (−|θ₁ + θ₂|, −θ₁ + θ₂) / √2,   a ~ U(−π/2, π/2),  r ~ N(0.1, 0.01²)

Given θ, the offset u of x is a half ring: p(x | θ) = N(|u|; 0.1, 0.01) / (π |u|) where u₁ > 0, and zero elsewhere. Its
Fisher matrix does not exist: the support moves with θ.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.arguments import as_count, as_data, as_seed
from .._support.precision import in_single_precision
from ..simulation.proposal import uniform
from .problem import Problem

_RADIUS, _WIDTH, _SHIFT = 0.1, 0.01, 0.25


def _offset(theta: Any) -> Any:
    return jnp.stack([-jnp.abs(theta[0] + theta[1]), theta[1] - theta[0]]) / jnp.sqrt(2.0)


def _draw(key: Any, theta: Any) -> Any:
    angle_key, radius_key = jax.random.split(key)
    angle = jax.random.uniform(angle_key, minval=-jnp.pi / 2, maxval=jnp.pi / 2)
    radius = _RADIUS + _WIDTH * jax.random.normal(radius_key)
    return jnp.stack([radius * jnp.cos(angle) + _SHIFT, radius * jnp.sin(angle)]) + _offset(theta)


def _log_likelihood(theta: Any, x: Any) -> Any:
    u = x - _offset(theta) - jnp.array([_SHIFT, 0.0])
    radius = jnp.sqrt(jnp.maximum(u @ u, 1e-12))
    value = -0.5 * ((radius - _RADIUS) / _WIDTH) ** 2 - jnp.log(radius)
    return jnp.where(u[0] > 0, value, -jnp.inf)


@in_single_precision
def two_moons() -> Problem:
    """Make the two moons problem over the box [−1, 1]².

    Returns:
        The problem: two parameters and two data; its Fisher matrix does not exist.

    >>> import fisherscore as fs
    >>> problem = fs.problems.two_moons()
    >>> problem.simulator.draw([0.2, -0.4]).shape
    (2,)
    """
    return Problem(
        name="two-moons",
        proposal=uniform(theta1=(-1.0, 1.0), theta2=(-1.0, 1.0)),
        x_shape=(2,),
        draw_one=_draw,
        log_likelihood_one=_log_likelihood,
    )


def two_moons_posterior(x_obs: Any, num_samples: int, *, seed: int = 0) -> np.ndarray:
    """Draw from the exact posterior under the uniform prior: each offset belongs to one θ on either side.

    Args:
        x_obs: The observation, shape (2,).
        num_samples: Number of draws.
        seed: Seed of the draws.

    Returns:
        The draws, shape (num_samples, 2).

    >>> from fisherscore.problems.two_moons import two_moons_posterior
    >>> two_moons_posterior([0.0, 0.0], 100).shape
    (100, 2)
    """
    x = as_data(x_obs, (2,), "x_obs")
    num = as_count(num_samples, "num_samples")
    rng = np.random.default_rng(as_seed(seed))
    draws = np.empty((0, 2))
    while len(draws) < num:
        angle, radius = rng.uniform(-np.pi / 2, np.pi / 2, 4 * num), rng.normal(_RADIUS, _WIDTH, 4 * num)
        across = x[0] - radius * np.cos(angle) - _SHIFT
        along = np.sqrt(2) * (x[1] - radius * np.sin(angle))
        total = np.sqrt(2) * np.abs(across) * rng.choice([-1, 1], len(across))
        theta = np.stack([total - along, total + along], axis=1) / 2
        draws = np.concatenate([draws, theta[(across <= 0) & (np.abs(theta) <= 1).all(axis=1)]])
    return draws[:num]
