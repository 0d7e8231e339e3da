"""Statistics of one field, in JAX: powers in rings, wavelets and what their scales have to do with each other, moments.

All take a field (channels, places) whose pixels are of order one.
"""

import itertools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .modes import octaves, rings, telling

_TINY = 1e-30
# Where the fractions of pixels below a level are counted, in standard deviations, and how softly.
_LEVELS, _SOFTNESS = np.linspace(-2.0, 2.0, 9), 0.25
# Sizes of squares, in units of their mean, at which those of parents are told apart.
_PARENT_SIZES = (0.1, 0.5, 2.0)
# Means over places are of no more blocks than this.
_MOST_BLOCKS = 64


def transform(field: Array, places: tuple[int, ...]) -> Array:
    """Give the Fourier modes of the half plane of each channel."""
    return jnp.fft.rfftn(field, axes=tuple(range(1, 1 + len(places))))


def ring_powers(modes: Array, places: tuple[int, ...], most: int) -> Array:
    """Give the logarithm of the mean power in each ring, of every channel in turn."""
    weights = rings(places, most).weights
    power = (jnp.abs(modes) ** 2).reshape(len(modes), -1) / np.prod(places)
    return jnp.log(jnp.matmul(power, weights, precision="highest") + _TINY).ravel()


def ring_coherences(modes: Array, places: tuple[int, ...], most: int) -> Array:
    """Give the correlation of every pair of channels in each ring, as its inverse hyperbolic tangent."""
    weights = rings(places, most).weights
    flat = modes.reshape(len(modes), -1)
    power = jnp.matmul(jnp.abs(flat) ** 2, weights, precision="highest") + _TINY
    pairs = []
    for i, j in itertools.combinations(range(len(modes)), 2):
        shared = jnp.matmul((flat[i] * flat[j].conj()).real, weights, precision="highest")
        pairs.append(jnp.arctanh(jnp.clip(shared / jnp.sqrt(power[i] * power[j]), -0.999999, 0.999999)))
    return jnp.concatenate(pairs)


def wavelet_statistics(modes: Array, places: tuple[int, ...]) -> Array:
    """Give, of every channel: power, sparsity and skewness of each wavelet, and how scales go together.

    Of two scales, the correlation of their squares, that of the smaller one's square with the larger one itself, and
    the power that the size of the smaller one has at the larger one's scale (scattering of the second order).
    """
    filters, tells = octaves(places), telling(places)
    axes = tuple(range(1, 1 + len(places)))
    same = 1 if len(places) == 1 else 2
    found = []
    for channel in modes:
        waves = jnp.fft.irfftn(channel * filters, s=places, axes=axes)
        square = waves**2
        power = jnp.log(square.mean(axis=axes) + _TINY)
        unit = waves * jnp.exp(-0.5 * power).reshape(-1, *(1,) * len(places))
        size = jnp.log(jnp.abs(unit).mean(axis=axes) + _TINY)
        kurtosis = jnp.log((unit**4).mean(axis=axes) + _TINY)
        skewness = jnp.arcsinh((unit**3).mean(axis=axes))
        # Rounding errors of what is the same for every field would be taken for data.
        found += [power[tells.power], size[tells.shape], kurtosis[tells.shape], skewness[tells.skewness]]
        flat = unit.reshape(len(filters), -1)
        squares = flat**2
        num = flat.shape[1]
        together = jnp.matmul(squares, squares.T, precision="highest") / num
        leaning = jnp.matmul(squares, flat.T, precision="highest") / num
        large, small = np.triu_indices(len(filters), 1)
        two, three = tells.together[large, small], tells.leaning[small, large]
        found.append(jnp.log(together[large[two], small[two]] + _TINY))
        found.append(jnp.arcsinh(leaning[small[three], large[three]]))
        sizes = jnp.fft.rfftn(jnp.abs(unit), axes=axes)
        scattered = (jnp.abs(sizes) ** 2).reshape(len(filters), -1) / num
        weights = (filters**2).reshape(len(filters), -1).T / filters[0].size
        second = jnp.log(jnp.matmul(scattered, weights, precision="highest") + _TINY)
        keep = (large // same < small // same) & tells.shape[small] & tells.power[large]
        found.append(second[small[keep], large[keep]])
    return jnp.concatenate([f.ravel() for f in found])


class Centred(NamedTuple):
    """A field less the mean of each channel, with these means; ``weights`` are 0 for missing pixels, None for none."""

    values: Array
    means: Array
    weights: Array | None


def centred(field: Array, seen: Array | None) -> Centred:
    """Subtract the mean of what was observed in every channel, and put 0 where nothing was."""
    axes = tuple(range(1, field.ndim))
    if seen is None:
        means = field.mean(axis=axes, keepdims=True)
        return Centred(field - means, means.ravel(), None)
    weights = seen / seen.mean(axis=axes, keepdims=True)
    means = (field * weights).mean(axis=axes, keepdims=True)
    return Centred((field - means) * seen, means.ravel(), weights)


def moments(field: Centred) -> Array:
    """Give mean, logarithmic variance, skewness and kurtosis of every channel, and fractions of pixels below levels."""
    num = len(field.means)
    flat = field.values.reshape(num, -1)
    weights = jnp.ones(()) if field.weights is None else field.weights.reshape(num, -1)
    variance = (flat**2 * weights).mean(axis=1)
    unit = flat / jnp.sqrt(variance + _TINY)[:, None]
    skewness, kurtosis = (unit**3 * weights).mean(axis=1), (unit**4 * weights).mean(axis=1)
    pixels = flat + field.means[:, None]
    softly = [1.0 / (1.0 + jnp.exp((pixels - level) / _SOFTNESS)) for level in _LEVELS]
    fractions = [jnp.mean(below * weights, axis=1) for below in softly]
    parts = [field.means, jnp.log(variance + _TINY), jnp.arcsinh(skewness), jnp.log(kurtosis + _TINY), *fractions]
    return jnp.concatenate(parts)


def means_of_blocks(field: Array, places: tuple[int, ...]) -> Array:
    """Average over blocks of places: what depends on where it is, at a coarse resolution."""
    side = _MOST_BLOCKS if len(places) == 1 else int(_MOST_BLOCKS**0.5)
    for axis, num in enumerate(places, 1):
        edges = np.linspace(0, num, min(side, num) + 1).round().astype(int)
        weights = np.zeros((num, len(edges) - 1), np.float32)
        for block, (begin, end) in enumerate(itertools.pairwise(edges)):
            weights[begin:end, block] = 1.0 / (end - begin)
        field = jnp.moveaxis(jnp.tensordot(field, weights, axes=(axis, 0), precision="highest"), -1, axis)
    return field.ravel()


def cascade(field: Array, places: tuple[int, ...]) -> Array:
    """Give, of every channel, how Haar coefficients of each scale go with those at their place one scale up.

    Of each scale: the power of every orientation; and, over all orientations, means of q(parent²) and of square times
    q(parent²), where q falls from 1 to 0 at several sizes. Together these hold how variances of small scales follow the
    large ones, whatever the law, with no tails to spoil their means.
    """
    return jnp.concatenate([jnp.concatenate(_cascade_of_one(channel, len(places))) for channel in field])


def _cascade_of_one(image: Array, num_axes: int) -> list[Array]:
    found, below = [], None
    while min(image.shape) >= 2:
        image, details = _haar(image, num_axes)
        axes = tuple(range(1, details.ndim))
        power = (details**2).mean(axis=axes)
        found.append(jnp.log(power + _TINY))
        unit = details**2 / (power + _TINY).reshape(-1, *(1,) * num_axes)
        if below is not None and max(details.shape[1:]) > 1:
            parents = unit
            for axis in axes:
                parents = jnp.repeat(parents, 2, axis=axis)
            parents = parents[tuple(slice(0, n) for n in below.shape)]
            children = below[tuple(slice(0, n) for n in parents.shape)]
            falls = [1.0 / (1.0 + parents / size) for size in _PARENT_SIZES]
            found.append(jnp.stack([jnp.log(f.mean() + _TINY) for f in falls]))
            found.append(jnp.stack([jnp.log((children * f).mean() + _TINY) for f in falls]))
        below = unit
    return found


def _haar(image: Array, num_axes: int) -> tuple[Array, Array]:
    """Turn a field into one of half the side and its Haar coefficients (orientations, ...); odd ends are left out."""
    parts = [image]
    for axis in range(num_axes):
        halves = []
        for part in parts:
            even = part[(slice(None),) * axis + (slice(0, part.shape[axis] // 2 * 2, 2),)]
            odd = part[(slice(None),) * axis + (slice(1, None, 2),)]
            halves += [(even + odd) / np.sqrt(2.0), (even - odd) / np.sqrt(2.0)]
        parts = halves
    return parts[0], jnp.stack(parts[1:])


def as_numbers(value: Any) -> Any:
    """Replace what is not finite, so that one strange field does not spoil a computation."""
    return jnp.nan_to_num(value, nan=0.0, posinf=1e6, neginf=-1e6)
