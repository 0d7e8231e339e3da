"""Map a function of one row over many rows in bounded memory, with few compilations."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

# Rows are done in parts of these sizes only, each for up to so many rows: a handful, many, and very many. To compile
# for another size would take longer than to do several parts, or to fill one up.
_SIZES = {8: 64, 512: 8_192}
_LARGEST_SIZE = 8_192


def rows_mapped(function: Callable[..., Any], rows: tuple[Any, ...], batch_size: int) -> Any:
    """Map a function of one row over traced rows, all at once, or ``batch_size`` at a time if there are more."""
    num = _num_rows(rows)
    if num <= batch_size:
        return jax.vmap(function)(*rows)
    return jax.lax.map(lambda row: function(*row), rows, batch_size=batch_size)


def rows_in_turn(
    compiled: Callable[..., Any], rows: tuple[Any, ...], batch_size: int, *, largest: int = _LARGEST_SIZE
) -> np.ndarray:
    """Apply a compiled function of rows to parts of a few sizes only, so that any number of rows reuses its code.

    A part has at most ``batch_size`` rows, of very many rows ``largest``; the first row fills up the last.
    """
    num = _num_rows(rows)
    if not num:
        return np.asarray(compiled(*rows))
    size = min(batch_size, next((size for size, most in _SIZES.items() if num <= most), largest))
    parts = []
    for begin in range(0, num, size):
        part = jax.tree.map(lambda array, begin=begin: _filled(array[begin : begin + size], size), rows)
        parts.append(np.asarray(compiled(*part))[: num - begin])
    return np.concatenate(parts)


def _filled(rows: Any, size: int) -> np.ndarray:
    """Repeat the first row at the end until there are ``size`` rows."""
    missing = size - len(rows)
    return np.concatenate([rows, np.repeat(rows[:1], missing, axis=0)]) if missing else rows


def _num_rows(rows: Any) -> int:
    return len(jax.tree.leaves(rows)[0])
