"""A prior of any form within a region that has axes of its own, in coordinates v along these.

What is drawn from is uniform in the region, which is a box in v between walls; the prior itself is the rest. So a
sampler never leaves the region in which a score was learned, whatever the prior, and simple walls do for nearly all of
it: only where the box sticks out of the prior's support does the density end within it.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._support.axes import Axes
from ...errors import ArgumentError
from ..walls import Walls
from .blocks import Block, Ends, Prior

# Draws from the region within the prior's support that are kept, how many are tried for them, and how few will do.
_NUM_KEPT, _NUM_AT_ONCE, _NUM_ROUNDS, _MIN_KEPT = 8_192, 1 << 15, 64, 64
# The support ends so far beyond its ends, in units of its width: θ is computed in single precision.
_ROUNDING = 3e-6


class AlongAxes(Block):
    """A prior over θ = centre + factor v, for v in [−1, 1]^p, within limits of θ; u runs from 0 to 1."""

    inner: Prior
    centre: np.ndarray
    factor: np.ndarray
    low: np.ndarray
    high: np.ndarray
    pool: np.ndarray
    places: tuple[int, ...] = eqx.field(static=True)

    @property
    def has_rest(self) -> bool:
        """The prior itself."""
        return True

    @property
    def is_cut(self) -> bool:
        """Whether some of the box may lie beyond the support: always, so that one compiled program does for all."""
        return True

    def walls(self) -> Walls:
        """Let u run from 0 to 1."""
        return jnp.zeros(len(self.places)), jnp.ones(len(self.places))

    def to_theta(self, u: Float[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        """Map u, from 0 to 1, to v."""
        return 2.0 * u - 1.0, jnp.asarray(len(self.places) * np.log(2.0), jnp.float32)

    def to_u(self, theta: Float[Array, " k"]) -> Float[Array, " k"]:
        """Map v to u."""
        return (theta + 1.0) / 2.0

    def draw(self, words: Array, num: int) -> Float[Array, "num k"]:
        """Take draws that were made beforehand, from a random place on."""
        begin = jnp.asarray(words[0, 0] % np.uint32(_NUM_KEPT), jnp.int32)
        return jnp.asarray(self.pool)[(begin + jnp.arange(num)) % _NUM_KEPT]

    def log_base_at(self, theta: Float[Array, " k"]) -> Float[Array, ""]:
        """Give the uniform log-density, a constant."""
        return jnp.zeros((), theta.dtype)

    def log_rest_at(self, theta: Float[Array, " k"]) -> Float[Array, ""]:
        """Give the log-density of the prior."""
        at = jnp.clip(self._outer(theta), self.low, self.high)
        return self.inner.log_base_at(at) + self.inner.log_rest_at(at)

    def inside(self, theta: Float[Array, " k"]) -> Array:
        """Say whether v is within the region and the support."""
        at, room = self._outer(theta), _ROUNDING * (self.high - self.low)
        within = ((at >= self.low - room) & (at <= self.high + room)).all() & (jnp.abs(theta) <= 1 + 1e-6).all()
        if not self.inner.is_box:
            within &= self.inner.holds(at)
        return within

    def ends(self) -> tuple[Ends, ...]:
        """Return the ends of the box."""
        return tuple((-1.0, 1.0) for _ in self.places)

    def _outer(self, v: Array) -> Array:
        return jnp.asarray(self.centre) + jnp.asarray(self.factor) @ v


def along_axes(inner: Prior, axes: Axes, low: np.ndarray, high: np.ndarray) -> AlongAxes:
    """Take a prior along the axes of a region that lies between the limits ``low`` and ``high``."""
    ends = np.array([[-np.inf if a is None else a, np.inf if b is None else b] for a, b in inner.ends()])
    low, high = np.maximum(low, ends[:, 0]), np.minimum(high, ends[:, 1])
    block = AlongAxes(
        inner=inner,
        centre=np.asarray(axes.centre, np.float32),
        factor=np.asarray(axes.factor, np.float32),
        low=low.astype(np.float32),
        high=high.astype(np.float32),
        pool=np.zeros((_NUM_KEPT, len(low)), np.float32),
        places=tuple(range(len(low))),
    )
    return eqx.tree_at(lambda b: b.pool, block, _pool(block))


def _pool(block: AlongAxes) -> np.ndarray:
    """Draw uniformly from the region and keep what lies within the support."""
    rng, kept = np.random.default_rng(0), [np.zeros((0, len(block.places)))]
    each = None if block.inner.is_box else eqx.filter_jit(lambda own, rows: jax.vmap(own.inside)(rows))
    for _ in range(_NUM_ROUNDS):
        v = rng.uniform(-1, 1, (_NUM_AT_ONCE, len(block.places))).astype(np.float32)
        if each is not None:
            within = np.asarray(each(block, jnp.asarray(v)))
        else:
            at = v @ block.factor.T + block.centre
            within = ((at >= block.low) & (at <= block.high)).all(axis=1)
        kept.append(v[within])
        if sum(map(len, kept)) >= _NUM_KEPT:
            break
    found = np.concatenate(kept)
    if len(found) < _MIN_KEPT:
        raise ArgumentError(
            "prior: next to nothing of it lies in the training region, so that this model cannot be used under it. "
            "Simulate where the prior is."
        )
    return np.resize(found, (_NUM_KEPT, len(block.places))).astype(np.float32)
