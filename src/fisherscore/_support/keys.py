"""JAX keys made from seeds on the host, where ``jax.random.key`` would compile something in every new process."""

from typing import Any

import jax
import numpy as np


def key_of(seed: int) -> Any:
    """Return a key made of all 64 bits of a seed: that of ``jax.random.key(seed)`` in double precision."""
    return key_of_words(np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32))


def short_key_of(seed: int) -> Any:
    """Return a key made of the lower 32 bits of a seed, as ``jax.random.key`` does in single precision."""
    return key_of(seed & 0xFFFFFFFF)


def key_of_words(words: Any) -> Any:
    """Return the key of two words, of the same generator whatever JAX's default is."""
    return jax.random.wrap_key_data(words, impl="threefry2x32")
