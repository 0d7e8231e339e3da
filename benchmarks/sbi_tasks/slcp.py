"""Simple likelihood, complex posterior: four points of a Gaussian in two dimensions; alone and among 92 distractors."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fisherscore as fs

from .task import Task

# Papamakarios et al. 2019 (arXiv 1805.07226) as in Lueckmann et al. 2021, appendix T.
_POINTS, _RANGE = 4, 3.0
# 20 components of Student's t with two degrees of freedom in 92 dimensions, by NumPy's old generator with seed 42.
_NOISE, _COMPONENTS, _FREEDOM, _SEED = 92, 20, 2.0, 42


def _moments(theta: Any) -> tuple[Any, Any, Any, Any]:
    return theta[:2], theta[2] ** 2, theta[3] ** 2, jnp.tanh(theta[4])


def _draw(key: Any, theta: Any) -> Any:
    mean, first, second, correlation = _moments(theta)
    noise = jax.random.normal(key, (_POINTS, 2))
    across = first * noise[:, 0]
    along = second * (correlation * noise[:, 0] + jnp.sqrt(1 - correlation**2) * noise[:, 1])
    return (mean + jnp.stack([across, along], axis=1)).reshape(-1)


def _log_likelihood(theta: Any, x: Any) -> Any:
    mean, first, second, correlation = _moments(theta)
    u, v = ((x.reshape(_POINTS, 2) - mean) / jnp.stack([first, second])).T
    rest = 1 - correlation**2
    squares = jnp.sum(u**2 - 2 * correlation * u * v + v**2) / rest
    return -0.5 * squares - _POINTS * (jnp.log(first) + jnp.log(second) + 0.5 * jnp.log(rest))


@cache
def distractors() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make what the distractors are drawn from.

    Returns:
        Centres, shape (20, 92), triangular scales, shape (20, 92, 92), and for each of the hundred data, which of the
        eight and 92 it is.
    """
    rng = np.random.RandomState(_SEED)
    centres = np.array([15 * rng.normal(size=_NOISE) for _ in range(_COMPONENTS)])
    scales = np.array(
        [
            np.tril(rng.normal(size=(_NOISE, _NOISE))) + np.diag(np.exp(rng.normal(size=_NOISE)))
            for _ in range(_COMPONENTS)
        ]
    )
    return centres, 3 * scales, rng.permutation(_NOISE + 2 * _POINTS)


def _draw_hidden(key: Any, theta: Any) -> Any:
    centres, scales, order = distractors()
    data_key, which_key, noise_key, tail_key = jax.random.split(key, 4)
    which = jax.random.randint(which_key, (), 0, _COMPONENTS)
    normal = jax.random.normal(noise_key, (_NOISE,))
    # A chi-squared number with two degrees of freedom is twice an exponential one.
    stretch = jnp.sqrt(_FREEDOM / (2 * jax.random.exponential(tail_key)))
    noise = jnp.asarray(centres, normal.dtype)[which] + stretch * (jnp.asarray(scales, normal.dtype)[which] @ normal)
    return jnp.concatenate([_draw(data_key, theta), noise])[order]


def _hidden_likelihood(theta: Any, x: Any) -> Any:
    return _log_likelihood(theta, x[np.argsort(distractors()[2])[: 2 * _POINTS]])


def _proposal() -> fs.Proposal:
    return fs.uniform({f"theta{i + 1}": (-_RANGE, _RANGE) for i in range(5)})


def slcp() -> Task:
    """Four points of two dimensions; the signs of two parameters cannot be told, so there are four modes."""
    return Task("slcp", _proposal(), _draw, _log_likelihood)


def slcp_distractors() -> Task:
    """The same eight data hidden among 92 that say nothing."""
    more = {"folder": "slcp", "observation_file": "observation_distractors.csv"}
    return Task("slcp_distractors", _proposal(), _draw_hidden, _hidden_likelihood, **more)
