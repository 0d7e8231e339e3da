"""Fields with missing pixels, weighted so that their powers are again nearly the best quadratic statistics.

A mask mixes modes: where a field's power falls steeply, what leaks from its largest waves covers the others. With C the
covariance of the observed pixels at some typical parameters, the powers of z = C⁻¹ x, zero where nothing was observed,
are the optimal quadratic statistics there (Tegmark, Phys. Rev. D 55, 5895, 1997), and good ones elsewhere. C is that of
a stationary field: its power is estimated from pairs of observed pixels, and C⁻¹ x is found by conjugate gradients with
Fourier transforms, so that no matrix is ever made.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .modes import rings

_NUM_STEPS = 40
_MOST_RINGS = 48
# Powers are held above this fraction of their geometric mean.
_LEAST = 1e-4


def typical_power(fields: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Estimate the power (half plane) of observed pixels of fields (n, places...), each divided by its variance."""
    places = seen.shape
    axes = tuple(range(1, 1 + len(places)))
    weights = seen / seen.mean()
    means = (fields * weights).mean(axis=axes, keepdims=True)
    centred = (fields - means) * seen
    centred = centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + 1e-30)
    last = tuple(range(len(places)))
    products = np.fft.irfftn((np.abs(np.fft.rfftn(centred, axes=axes)) ** 2).mean(axis=0), s=places, axes=last)
    pairs = np.fft.irfftn(np.abs(np.fft.rfftn(seen.astype(float))) ** 2, s=places, axes=last)
    correlation = np.where(pairs > 0.5, products / np.maximum(pairs, 0.5), 0.0) * seen.mean()
    power = np.fft.rfftn(correlation).real
    ring = rings(places, _MOST_RINGS)
    means = power.ravel() @ ring.weights
    means = np.maximum(means, _LEAST * np.exp(np.mean(np.log(np.maximum(means, 1e-6)))))
    members = ring.weights > 0
    smooth = np.where(members.any(axis=1), members @ means, means[0])
    return smooth.reshape(power.shape)


def weighted(field: Array, power: Array, seen: Array) -> Array:
    """Give C⁻¹ x of one channel (places...), zero where nothing was observed."""
    places = field.shape

    def filtered(values: Array, factors: Array) -> Array:
        return seen * jnp.fft.irfftn(jnp.fft.rfftn(values) * factors, s=places)

    def step(_: int, carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        solved, residual, direction, size = carry
        image = filtered(direction, power)
        curvature = jnp.sum(direction * image)
        length = jnp.where(curvature > 0, size / jnp.where(curvature > 0, curvature, 1.0), 0.0)
        solved, residual = solved + length * direction, residual - length * image
        conditioned = filtered(residual, 1.0 / power)
        new_size = jnp.sum(residual * conditioned)
        ratio = jnp.where(size > 0, new_size / jnp.where(size > 0, size, 1.0), 0.0)
        return solved, residual, conditioned + ratio * direction, new_size

    residual = field * seen
    first = filtered(residual, 1.0 / power)
    start = (jnp.zeros_like(field), residual, first, jnp.sum(residual * first))
    return jax.lax.fori_loop(0, _NUM_STEPS, step, start)[0]
