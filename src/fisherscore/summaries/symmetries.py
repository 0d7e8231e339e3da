"""Symmetries of fields: how a field may be moved about without becoming less likely, and whether data speak against it.

A summary that is learned of fields moved about at random learns from one simulation what others would have taught it.
Moving by a symmetry that fields do not have makes a summary worse, never wrong: closed forms are fitted to summaries of
the fields as they are.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .field_shape import FieldShape

# A symmetry is given up where a mean that it says is zero is away from it by so many standard errors.
_REJECTED_AT = 4.0
# So many numbers are looked at in one go, which is quickest while they fit in the cache of a processor.
_NUMBERS_AT_ONCE = 400_000


@dataclass(frozen=True)
class Symmetries:
    """Whether fields go on at the other end, and may be turned and mirrored, with the law of x | θ the same.

    Attributes:
        periodic: Whether shifts around the ends leave the law as it is.
        rotations: Whether turns by 90 degrees do; for square maps.
        flips: Whether mirrors along each axis do.
    """

    periodic: bool = False
    rotations: bool = False
    flips: bool = False

    def moved(self, key: Array, x: Float[Array, "channels ..."]) -> Float[Array, "channels ..."]:
        """Move one field (channels, places...) at random: the places that are looked up are moved, all at once."""
        shift_key, turn_key, flip_key = jax.random.split(key, 3)
        sizes = x.shape[1:]
        places = jnp.meshgrid(*(jnp.arange(n) for n in sizes), indexing="ij")
        if self.rotations:
            quarter, half = jax.random.bernoulli(turn_key, shape=(2,))
            first, second = places
            places = [jnp.where(quarter, second, first), jnp.where(quarter, sizes[0] - 1 - first, second)]
            places = [jnp.where(half, sizes[0] - 1 - place, place) for place in places]
        if self.flips:
            mirrored = jax.random.bernoulli(flip_key, shape=(len(sizes),))
            places = [jnp.where(m, n - 1 - place, place) for m, n, place in zip(mirrored, sizes, places, strict=True)]
        if self.periodic:
            shifts = jax.random.randint(shift_key, (len(sizes),), 0, jnp.asarray(sizes))
            places = [(place + shift) % n for shift, n, place in zip(shifts, sizes, places, strict=True)]
        return x[(slice(None), *places)]

    def moved_as_given(self, key: Array, x: Float[Array, " ..."], field: FieldShape) -> Float[Array, " ..."]:
        """Move one field in the shape of an observation, where channels come last."""
        images = jnp.moveaxis(x.reshape(*field.places, field.num_channels), -1, 0)
        return jnp.moveaxis(self.moved(key, images), 0, -1).reshape(field.shape)


def symmetries_seen(x: np.ndarray, u: np.ndarray, field: FieldShape) -> Symmetries:
    """Say which symmetries nothing in fields (n, ...) drawn at u (n, p) speaks against.

    Each says of some statistics that their mean is zero at every θ: they are regressed on 1 and u.
    """
    size = max(1, _NUMBERS_AT_ONCE // math.prod(field.shape))
    parts = [_statistics(x[k : k + size], field) for k in range(0, len(x), size)]
    seam, odd, apart = (np.concatenate(each, axis=0) for each in zip(*parts, strict=True))
    is_square = len(field.places) == 2 and field.places[0] == field.places[1]
    return Symmetries(
        periodic=_is_zero(seam, u),
        rotations=is_square and _is_zero(odd, u) and _is_zero(apart, u),
        flips=_is_zero(odd, u),
    )


def _statistics(x: np.ndarray, field: FieldShape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give, of each field, what shows a seam, what changes its sign under mirrors, and what does under a turn."""
    images = np.asarray(x, np.float32).reshape(len(x), *field.places, field.num_channels)
    images = np.ascontiguousarray(np.moveaxis(images, -1, 1))
    axes = tuple(range(2, images.ndim))
    images -= images.mean(axis=axes, keepdims=True)
    images /= np.maximum(images.std(axis=axes, keepdims=True), 1e-30)
    rises = [_rise(images, axis) for axis in axes]
    steps = np.stack([_mean(rise * rise) for rise in rises])
    seam = np.concatenate([_over_seam(images, axis) - step for axis, step in zip(axes, steps, strict=True)], axis=1)
    mirrored = [_odd_along(images, rise, axis) for rise, axis in zip(rises, axes, strict=True)]
    odd = np.concatenate([*mirrored, _leaning(images, axes)], axis=1)
    return seam, odd, steps[0] - steps[-1]


def _rise(images: np.ndarray, axis: int) -> np.ndarray:
    return np.diff(images, axis=axis)


def _mean(images: np.ndarray) -> np.ndarray:
    """Average over all places: (n, channels)."""
    return images.reshape(*images.shape[:2], -1).mean(axis=2)


def _over_seam(images: np.ndarray, axis: int) -> np.ndarray:
    """Give the mean square of the step over the seam."""
    over = np.take(images, [0], axis=axis) - np.take(images, [-1], axis=axis)
    return _mean(over * over)


def _odd_along(images: np.ndarray, rise: np.ndarray, axis: int) -> np.ndarray:
    """Give what changes its sign under a mirror along an axis: steeper rises than falls, and what goes by place."""
    place = np.linspace(-1.0, 1.0, images.shape[axis], dtype=np.float32).reshape(-1, *(1,) * (images.ndim - axis - 1))
    by_place = images * place
    return np.concatenate([_mean(rise * rise * rise), _mean(by_place), _mean(images * by_place)], axis=1)


def _leaning(images: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Give what says along which diagonal maps lean; nothing for series."""
    if len(axes) == 1:
        return np.zeros((len(images), 0))
    return _mean(images[:, :, :-1, :-1] * images[:, :, 1:, 1:]) - _mean(images[:, :, 1:, :-1] * images[:, :, :-1, 1:])


def _is_zero(statistics: np.ndarray, u: np.ndarray) -> bool:
    """Say whether nothing shows that the mean of any statistic (n, k), or its slope in θ, is away from zero."""
    design = np.column_stack([np.ones(len(u)), u])
    inverse = np.linalg.inv(design.T @ design)
    for values in statistics.T:
        coefficients: Any = inverse @ (design.T @ values)
        residual = values - design @ coefficients
        errors = np.sqrt(np.diagonal(inverse @ (design.T * residual**2) @ design @ inverse))
        if np.any(np.abs(coefficients) > _REJECTED_AT * errors + 1e-12):
            return False
    return True
