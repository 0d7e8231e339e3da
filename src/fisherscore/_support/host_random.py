"""Random numbers of JAX keys on the host: those of ``jax.random``, without a function to compile for each shape.

Keys are their two words, as NumPy arrays. Drawing a few thousand numbers takes less than a millisecond here, where
JAX would first compile the generator for a quarter of a second, again for every shape. Keys that are being traced have
no words yet: they are left to JAX.
"""

from typing import Any

import jax
import numpy as np
from scipy.special import erfinv

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def words_of(key: Any) -> Any:
    """Return the two words of a JAX key; one that is being traced is returned as it is."""
    if isinstance(key, np.ndarray | jax.core.Tracer):
        return key
    return np.asarray(jax.random.key_data(key), np.uint32)[:2]


def split(key: Any, num: int = 2) -> Any:
    """Make several keys from one, shape (num, 2)."""
    if not isinstance(key, np.ndarray):
        return jax.random.split(key, num)
    return np.stack(_threefry(key, np.arange(num)), axis=1)


def fold_in(key: Any, number: int) -> Any:
    """Make a key from a key and a number."""
    if not isinstance(key, np.ndarray):
        return jax.random.fold_in(key, number)
    return np.concatenate(_threefry(key, np.array([number])))


def normals(key: Any, shape: tuple[int, ...]) -> Any:
    """Draw standard normal numbers in single precision."""
    if not isinstance(key, np.ndarray):
        return jax.random.normal(key, shape)
    lowest = np.nextafter(np.float32(-1.0), np.float32(0.0))
    return np.float32(np.sqrt(2)) * erfinv(uniforms(key, shape, lowest, 1.0))


def uniforms(key: Any, shape: tuple[int, ...], low: float, high: float) -> Any:
    """Draw numbers between two others, in single precision."""
    if not isinstance(key, np.ndarray):
        return jax.random.uniform(key, shape, minval=low, maxval=high)
    mantissas = (_bits(key, int(np.prod(shape))) >> np.uint32(9)) | np.float32(1.0).view(np.uint32)
    lowest, highest = np.float32(low), np.float32(high)
    drawn = (mantissas.view(np.float32) - np.float32(1.0)) * (highest - lowest) + lowest
    return np.maximum(drawn, lowest).reshape(shape)


def permutation(key: np.ndarray, num: int) -> np.ndarray:
    """Shuffle the numbers below ``num``, by sorting random numbers so often that ties do not matter."""
    order = np.arange(num, dtype=np.int32)
    for _ in range(int(np.ceil(3 * np.log(max(1, num)) / np.log(2**32 - 1)))):
        key, own = split(key)
        order = order[np.argsort(_bits(own, num), kind="stable")]
    return order


def _bits(key: np.ndarray, num: int) -> np.ndarray:
    first, second = _threefry(key, np.arange(num))
    return first ^ second


def _threefry(key: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Encrypt counts by Threefry-2x32 with twenty rounds (Salmon et al. 2011)."""
    # Arrays of one word each: NumPy warns when scalars overflow, as they do here on purpose.
    schedule = (key[:1], key[1:], key[:1] ^ key[1:] ^ np.uint32(0x1BD11BDA))
    first = (counts >> 32).astype(np.uint32) + schedule[0]
    second = counts.astype(np.uint32) + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            first += second
            second = (second << np.uint32(rotation)) | (second >> np.uint32(32 - rotation))
            second ^= first
        first += schedule[(group + 1) % 3]
        second += schedule[(group + 2) % 3] + np.uint32(group + 1)
    return first, second
