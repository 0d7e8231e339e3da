"""Data seen through increasing maps, one a datum: for skewed data.

The score does not change under invertible maps of x. Each datum is mapped to a standard normal by its own quantiles;
location, scale and correlations of the images are fitted as in ``potentials.location_scale``, with noise of several
components. Between its knots a map is linear; beyond them it grows like a logarithm, so that outliers stay within
reach.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri

from .base import ClosedForm, Potential, build_potential, describe, register
from .location_scale import LocationScale

_NUM_KNOTS = 101
# Few rows do not tell five components apart.
_MANY_ROWS = 5_000


@register("mapped")
class Mapped(ClosedForm):
    """A potential of data each of which is seen through an increasing map of its own."""

    max_data: ClassVar[int] = LocationScale.max_data

    knots: Float[Array, "data knots"]
    values: Float[Array, "data knots"]
    inner: Potential

    def __init__(
        self, num_parameters: int, data_size: int, *, num_knots: int, inner: Mapping[str, Any], key: Array | None = None
    ):
        self.knots = self.values = jnp.tile(jnp.arange(float(num_knots)), (data_size, 1))
        key = jax.random.key(0) if key is None else key
        self.inner = build_potential(inner, num_parameters, data_size, key=key)

    @classmethod
    def fit(cls, u: np.ndarray, rows: np.ndarray) -> Self:
        """Map every datum of rows (n, d) to a normal, and fit the images at u in [−1, 1]^p."""
        pairs = [_quantile_map(column) for column in rows.T]
        knots, values = (np.stack(a) for a in zip(*pairs, strict=True))
        shell = {"architecture": "gaussian_baseline", "settings": {"degree": 1}}  # replaced below
        form = cls(u.shape[1], rows.shape[1], num_knots=_NUM_KNOTS, inner=shell)._filled(knots=knots, values=values)
        images = np.asarray(jax.jit(jax.vmap(form.mapped))(jnp.asarray(rows, jnp.float32)), np.float64)
        spread = images.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        num_components = 5 if len(u) >= _MANY_ROWS else 3
        inner = LocationScale.fit_components(u, images / scale, num_components=num_components)
        scaled = form.values / jnp.asarray(scale[:, None], jnp.float32)
        return eqx.tree_at(lambda f: (f.values, f.inner), form, (scaled, inner))

    def mapped(self, x: Float[Array, " ..."]) -> Float[Array, " data"]:
        """Map one observation."""

        def one(x: Array, knots: Array, values: Array) -> Array:
            before = (values[1] - values[0]) / (knots[1] - knots[0]) * jnp.minimum(x - knots[0], 0.0)
            after = (values[-1] - values[-2]) / (knots[-1] - knots[-2]) * jnp.maximum(x - knots[-1], 0.0)
            return jnp.interp(x, knots, values) + jnp.arcsinh(before) + jnp.arcsinh(after)

        return jax.vmap(one)(x.ravel(), self.knots, self.values)

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give the inner potential of the mapped data."""
        return self.inner.potential(theta, self.mapped(x))

    @property
    def settings(self) -> dict[str, Any]:
        """The number of knots and the inner potential."""
        return {"num_knots": self.knots.shape[1], "inner": describe(self.inner)}


def _quantile_map(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return knots and values of an increasing map that takes a column to a standard normal."""
    distinct, counts = np.unique(column, return_counts=True)
    if len(distinct) < 2:
        return distinct[0] + np.arange(_NUM_KNOTS), np.zeros(_NUM_KNOTS)
    middle = (np.cumsum(counts) - 0.5 * counts) / len(column)
    if len(distinct) > _NUM_KNOTS:
        chosen = np.unique(np.searchsorted(middle, (np.arange(_NUM_KNOTS) + 0.5) / _NUM_KNOTS))
        chosen = np.clip(chosen, 0, len(distinct) - 1)
        distinct, middle = distinct[chosen], middle[chosen]
    # Every datum has the same number of knots: where there are fewer values, knots lie between them too.
    positions = np.linspace(0, len(distinct) - 1, _NUM_KNOTS)
    index = np.arange(len(distinct))
    return np.interp(positions, index, distinct), np.interp(positions, index, ndtri(middle))
