"""JAX keys made from seeds on the host, where ``jax.random.key`` would compile something in every new process."""

from typing import Any

import jax
import numpy as np


def key_of(seed: int) -> Any:
    """Return the key that ``jax.random.key(seed)`` gives."""
    settings: Any = jax.config
    if settings.jax_default_prng_impl != "threefry2x32":  # the user's choice; how others are seeded is theirs to say
        return jax.random.key(seed)
    high = seed >> 32 if settings.jax_enable_x64 else 0  # with single precision JAX drops what is above 32 bits
    words: Any = np.array([high, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(words)
