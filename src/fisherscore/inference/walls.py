"""Straight motion between walls: where a prior ends abruptly, samplers are thrown back instead of being stretched.

A posterior that an edge of a uniform prior cuts off keeps its shape up to there in coordinates that end there, while
coordinates that stretch the edge to infinity bend it around a corner, which takes chains a long time. With w the white
momentum, u moves by L w, and a wall at u_i has the normal L_i, the i-th row of L; there w is mirrored. The motion keeps
volumes and can be run backwards, so nothing has to be corrected (Afshar and Domke 2015).
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

# A motion that meets more walls is given up. Corners between correlated parameters are narrow, and throw back often.
_MOST_WALLS = 64

Walls = tuple[Any, Any]


def carried(u: Any, w: Any, step: Any, factor: Any, walls: Walls) -> tuple[Array, Array]:
    """Move u by ``step`` times L w and mirror w wherever a wall is met; return both, u NaN where it met too many."""
    low, high = (jnp.asarray(ends) for ends in walls)
    factor = jnp.asarray(factor)
    sign = jnp.sign(step)

    def moving(state: tuple[Array, Array, Array, Array]) -> Array:
        left, number = state[2:]
        return (left > 0) & (number < _MOST_WALLS)

    def move(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        u, w, left, number = state
        velocity = sign * (factor @ w)
        distance = jnp.where(velocity > 0, high, low) - u
        times = jnp.where(velocity == 0, jnp.inf, distance / jnp.where(velocity == 0, 1.0, velocity))
        wall = jnp.argmin(times)
        hit = times[wall] < left
        passed = jnp.where(hit, jnp.maximum(times[wall], 0.0), left)
        normal = factor[wall]
        mirrored = w - 2 * (w @ normal) / (normal @ normal + 1e-30) * normal
        u = jnp.clip(u + passed * velocity, low, high)
        return u, jnp.where(hit, mirrored, w), jnp.where(hit, left - passed, 0.0), number + 1

    start = u, w, jnp.abs(step), jnp.zeros((), jnp.int32)
    u, w, left, _ = jax.lax.while_loop(moving, move, start)
    return jnp.where(left > 0, jnp.nan, u), w
