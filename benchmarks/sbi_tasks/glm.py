"""Spikes of a neuron, one a time step, with a logistic rate: a filter of nine steps on white noise, and an offset."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import fisherscore as fs

from .task import Task

# Lueckmann et al. 2021, appendix T: 100 steps, and a stimulus drawn by NumPy's old generator with seed 42.
_STEPS, _FILTER, _SEED = 100, 9, 42


def design() -> np.ndarray:
    """Make the design: one, and the stimulus of this step and of the eight before it.

    Returns:
        The design, shape (100, 10).
    """
    stimulus = np.random.RandomState(_SEED).randn(_STEPS)
    lagged = [np.concatenate([np.zeros(lag), stimulus[: _STEPS - lag]]) for lag in range(_FILTER)]
    return np.stack([np.ones(_STEPS), *lagged], axis=1).astype(np.float32)


def prior() -> dist.Distribution:
    """Make the prior: variance 2 of the offset, and a filter whose second differences are small.

    Returns:
        A normal distribution of ten parameters.
    """
    difference = np.eye(_FILTER) - np.eye(_FILTER, k=-1)
    root = difference @ difference + np.diag(np.arange(_FILTER) / _FILTER) ** 0.5
    precision = np.zeros((_FILTER + 1, _FILTER + 1))
    precision[0, 0], precision[1:, 1:] = 0.5, root.T @ root
    return dist.MultivariateNormal(np.zeros(_FILTER + 1), covariance_matrix=np.linalg.inv(precision))


def _draw_raw(key: Any, theta: Any) -> Any:
    return jax.random.bernoulli(key, jax.nn.sigmoid(jnp.asarray(design()) @ theta)).astype(theta.dtype)


def _draw_summaries(key: Any, theta: Any) -> Any:
    return jnp.asarray(design()).T @ _draw_raw(key, theta)


def _raw_likelihood(theta: Any, x: Any) -> Any:
    return _summary_likelihood(theta, jnp.asarray(design()).T @ x)


def _summary_likelihood(theta: Any, x: Any) -> Any:
    return x @ theta - jnp.sum(jax.nn.softplus(jnp.asarray(design()) @ theta))


def _proposal() -> fs.Proposal:
    deviations = np.sqrt(np.diag(np.asarray(prior().covariance_matrix, float)))
    return fs.normal({f"theta{i + 1}": (0.0, float(s)) for i, s in enumerate(deviations)})


def bernoulli_glm() -> Task:
    """The sum of spikes and of the stimulus before them: ten sufficient statistics."""
    return Task("bernoulli_glm", _proposal(), _draw_summaries, _summary_likelihood, prior())


def bernoulli_glm_raw() -> Task:
    """All hundred steps, each zero or one."""
    more = {"folder": "bernoulli_glm", "observation_file": "observation_raw.csv"}
    return Task("bernoulli_glm_raw", _proposal(), _draw_raw, _raw_likelihood, prior(), **more)
