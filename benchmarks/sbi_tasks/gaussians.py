"""Tasks of Gaussian data: ten means under a Gaussian and a uniform prior, and the common mean of two Gaussians."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

import fisherscore as fs

from .task import Task

# Lueckmann et al. 2021, appendix T: ten parameters, and variances (not deviations) of prior and data of 0.1.
_DIM, _VARIANCE = 10, 0.1
# Two data around one mean, with deviations 1 and 0.1 in equal parts, in a range of 10 to each side.
_WIDE, _NARROW, _RANGE = 1.0, 0.1, 10.0


def _draw_linear(key: Any, theta: Any) -> Any:
    return theta + _VARIANCE**0.5 * jax.random.normal(key, theta.shape)


def _linear_likelihood(theta: Any, x: Any) -> Any:
    return -0.5 * jnp.sum((x - theta) ** 2) / _VARIANCE


def _draw_mixture(key: Any, theta: Any) -> Any:
    which, noise = jax.random.split(key)
    width = jnp.where(jax.random.bernoulli(which), _WIDE, _NARROW)
    return theta + width * jax.random.normal(noise, theta.shape)


def _mixture_likelihood(theta: Any, x: Any) -> Any:
    squares = jnp.sum((x - theta) ** 2)
    return jnp.logaddexp(-0.5 * squares / _WIDE**2, -0.5 * squares / _NARROW**2 - 2 * jnp.log(_NARROW / _WIDE))


def _names(num: int) -> list[str]:
    return [f"theta{i + 1}" for i in range(num)]


def gaussian_linear() -> Task:
    """Ten means with Gaussian prior and noise, both of variance 0.1."""
    laws = {name: dist.Normal(0.0, _VARIANCE**0.5) for name in _names(_DIM)}
    return Task("gaussian_linear", fs.Proposal.of(laws), _draw_linear, _linear_likelihood)


def gaussian_linear_uniform() -> Task:
    """Ten means in [−1, 1] with Gaussian noise of variance 0.1."""
    proposal = fs.uniform(dict.fromkeys(_names(_DIM), (-1.0, 1.0)))
    return Task("gaussian_linear_uniform", proposal, _draw_linear, _linear_likelihood)


def gaussian_mixture() -> Task:
    """Two means in [−10, 10] of noise that is wide or narrow, the same for both data."""
    proposal = fs.uniform(dict.fromkeys(_names(2), (-_RANGE, _RANGE)))
    return Task("gaussian_mixture", proposal, _draw_mixture, _mixture_likelihood)
