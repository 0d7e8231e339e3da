"""Integrals and interpolations over fixed nodes as constant matrices, so that a spectrum is a few products."""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np


def matmul(matrix: Any, values: Any) -> Any:
    """Multiply at full precision, which accelerators do not do unless asked."""
    return jnp.matmul(jnp.asarray(matrix, values.dtype), values, precision="highest")


def simpson(x: np.ndarray) -> np.ndarray:
    """Weigh an odd number of evenly spaced nodes by Simpson's rule."""
    weights = np.full(len(x), 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    return weights * (x[1] - x[0]) / 3.0


def interpolation(x: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Write linear interpolation from ``nodes`` to x as a matrix."""
    return np.stack([np.interp(x, nodes, unit) for unit in np.eye(len(nodes))], axis=1)


def integrals_to_the_end(x: np.ndarray) -> np.ndarray:
    """Weigh the nodes x, then the points half way between them, for the integrals from each node to the last."""
    num = len(x)
    panels = np.zeros((num - 1, 2 * num - 1))
    rows = np.arange(num - 1)
    width = np.diff(x)
    panels[rows, rows] = panels[rows, rows + 1] = width / 6.0
    panels[rows, num + rows] = 4.0 * width / 6.0
    tails = np.cumsum(panels[::-1], axis=0)[::-1]
    return np.concatenate([tails, np.zeros((1, 2 * num - 1))])


def romberg(low: float, high: float, depth: int) -> np.ndarray:
    """Weigh 2^depth + 1 evenly spaced nodes by Romberg's rule."""
    num = 2**depth
    table = []
    for step in (num >> level for level in range(depth + 1)):
        trapezoid = np.zeros(num + 1)
        trapezoid[::step] = step * (high - low) / num
        trapezoid[[0, -1]] *= 0.5
        table.append(trapezoid)
    for order in range(1, depth + 1):
        table = [(4**order * fine - coarse) / (4**order - 1) for coarse, fine in itertools.pairwise(table)]
    return table[0]


def hermite(t: Any, left: Any, value: Any, slope: Any) -> Any:
    """Interpolate between the nodes ``left`` and ``left + 1`` by the cubic with these values and slopes."""
    v0, v1, s0, s1 = value[left], value[left + 1], slope[left], slope[left + 1]
    return v0 + t * (s0 + t * (3.0 * (v1 - v0) - 2.0 * s0 - s1 + t * (2.0 * (v0 - v1) + s0 + s1)))
