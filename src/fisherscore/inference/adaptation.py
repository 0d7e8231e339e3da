"""How a chain of NUTS learns its step size and its mass matrix while it warms up: dual averaging and Stan's windows.

Everything here is written for one lane and mapped over lanes.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

# The mean acceptance a step size is chosen for, and the constants of dual averaging (Hoffman and Gelman 2014).
_TARGET_ACCEPTANCE = 0.8
_SHRINKAGE, _DELAY, _FORGETTING = 0.05, 10.0, 0.75
# Steps before the first window, length of the first window, steps after the last. The first two are shorter than Stan's
# 75 and 25: with 30 parameters that halves the evaluations of a chain.
_FIRST_BUFFER, _FIRST_WINDOW, _LAST_BUFFER = 15, 10, 50
# Draws in a window, for each parameter, from which on all of its covariance is used.
_DRAWS_PER_PARAMETER = 3
# Windows double in length, so that this many last for any warm-up.
_MAX_WINDOWS = 24
_NEVER = np.iinfo(np.int32).max


class Schedule(NamedTuple):
    """When to learn: steps of the warm-up, where the first window begins, and where windows end."""

    num_warmup: Int[np.ndarray, ""]
    begin: Int[np.ndarray, ""]
    ends: Int[np.ndarray, " windows"]


def schedule(num_warmup: int) -> Schedule:
    """Lay out the windows, each twice as long as the one before, as Stan does.

    A short warm-up learns the step size alone.
    """
    begin, window, last = _FIRST_BUFFER, _FIRST_WINDOW, _LAST_BUFFER
    if num_warmup < begin + window + last:
        begin, last = int(0.15 * num_warmup), int(0.1 * num_warmup)
        window = num_warmup - begin - last
    ends, end = [], begin
    while num_warmup >= 20 and end < num_warmup - last:
        # A window that would leave too little for the next one takes it all.
        end = end + window if end + 3 * window <= num_warmup - last else num_warmup - last
        ends.append(end)
        window *= 2
    padded = np.full(_MAX_WINDOWS, _NEVER, np.int32)
    padded[: len(ends)] = ends
    return Schedule(np.asarray(num_warmup, np.int32), np.asarray(begin, np.int32), padded)


class StepSize(NamedTuple):
    """Dual averaging of the logarithm of a step size."""

    current: Float[Array, ""]
    averaged: Float[Array, ""]
    error: Float[Array, ""]
    number: Float[Array, ""]
    centre: Float[Array, ""]

    @classmethod
    def around(cls, log_step: Array) -> "StepSize":
        """Begin anew, with a tendency to try ten times the given step."""
        zero = jnp.zeros_like(log_step)
        return cls(log_step, zero, zero, zero, log_step + np.float32(np.log(10.0)))

    def updated(self, acceptance: Array) -> "StepSize":
        """Take in the mean acceptance of one trajectory."""
        number = self.number + 1
        weight = 1 / (number + _DELAY)
        error = (1 - weight) * self.error + weight * (_TARGET_ACCEPTANCE - acceptance)
        current = self.centre - jnp.sqrt(number) / _SHRINKAGE * error
        share = number**-_FORGETTING
        return StepSize(current, share * current + (1 - share) * self.averaged, error, number, self.centre)


class Moments(NamedTuple):
    """Running mean and scatter of the positions of a window (Welford)."""

    number: Float[Array, ""]
    mean: Float[Array, " params"]
    scatter: Float[Array, "params params"]

    @classmethod
    def none(cls, like: Float[Array, " params"]) -> "Moments":
        """Begin with no position."""
        p = like.shape[-1]
        return cls(jnp.zeros((), like.dtype), jnp.zeros_like(like), jnp.zeros((p, p), like.dtype))

    def added(self, u: Array, used: Array) -> "Moments":
        """Take in one position, or none."""
        weight = used.astype(u.dtype)
        number = self.number + weight
        before = u - self.mean
        mean = self.mean + weight * before / jnp.maximum(number, 1)
        return Moments(number, mean, self.scatter + weight * jnp.outer(before, u - mean))

    def factor(self, scale: Array) -> Array:
        """Return the Cholesky factor of the covariance, drawn a little towards a small diagonal one as in Stan."""
        n = self.number
        covariance = self.scatter / jnp.maximum(n - 1, 1) * (n / (n + 5)) + jnp.diag(1e-3 * (5 / (n + 5)) * scale**2)
        # A covariance of fewer draws is mostly noise: only its diagonal is used.
        dense = n >= _DRAWS_PER_PARAMETER * len(scale)
        return cholesky_factor(jnp.where(dense | jnp.eye(len(scale), dtype=bool), covariance, 0.0))


def cholesky_factor(covariance: Float[Array, "params params"]) -> Float[Array, "params params"]:
    """Return the Cholesky factor of a covariance, or where there is none, that of its diagonal."""
    # In units of the standard deviations, where single precision does best.
    deviation = jnp.sqrt(jnp.diagonal(covariance))
    factor = deviation[:, None] * jnp.linalg.cholesky(covariance / jnp.outer(deviation, deviation))
    return jnp.where(jnp.isfinite(factor).all(), factor, jnp.diag(deviation))
