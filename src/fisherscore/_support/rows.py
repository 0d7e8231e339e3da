"""Map a function of one row over many rows in bounded memory, with few compilations."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

_FEWEST = 8


def rows_mapped(function: Callable[..., Any], rows: tuple[Any, ...], at_once: int) -> Any:
    """Map a function of one row over traced rows, all at once if they are few, else so many at a time."""
    num = _num_rows(rows)
    if num <= at_once:
        return jax.vmap(function)(*rows)
    return jax.lax.map(lambda row: function(*row), rows, batch_size=at_once)


def rows_in_turn(compiled: Callable[..., Any], rows: tuple[Any, ...], at_once: int) -> Array:
    """Apply a compiled function of rows to parts of a few sizes only, so that any number of rows reuses its code.

    A part has ``at_once`` rows, or, where there are fewer, the next power of two; the first row fills it up.
    """
    num = _num_rows(rows)
    if not num:
        return compiled(*rows)
    size = min(at_once, max(_FEWEST, 1 << (num - 1).bit_length()))
    parts = []
    for begin in range(0, num, size):
        part = jax.tree.map(lambda array, begin=begin: _filled(array[begin : begin + size], size), rows)
        parts.append(np.asarray(compiled(*part))[: num - begin])
    return jnp.asarray(np.concatenate(parts))


def _filled(rows: Any, size: int) -> np.ndarray:
    missing = size - len(rows)
    return np.concatenate([rows, np.repeat(rows[:1], missing, axis=0)]) if missing else rows


def _num_rows(rows: Any) -> int:
    return len(jax.tree.leaves(rows)[0])
