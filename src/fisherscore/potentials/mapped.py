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

from .base import ClosedForm, Evaluation, Frame, Jets, Potential, build_potential, describe, register
from .location_scale import LocationScale
from .points import Points

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
    def fit(cls, u: np.ndarray | Points, rows: np.ndarray) -> Self:
        """Map every datum of rows (n, d) to a normal, and fit the images at u in [−1, 1]^p."""
        points = Points.of(u)
        pairs = [_quantile_map(column) for column in rows.T]
        knots, values = (np.stack(a) for a in zip(*pairs, strict=True))
        images = _images(rows, knots, values)
        spread = images.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        num_components = 5 if len(points) >= _MANY_ROWS else 3
        inner = LocationScale.fit_components(points, images / scale, num_components=num_components, name="images")
        sizes, settings = (points.num_parameters, rows.shape[1]), {"num_knots": _NUM_KNOTS, "inner": describe(inner)}
        form = cls._filled(*sizes, settings=settings, knots=knots, values=values / scale[:, None])
        return eqx.tree_at(lambda f: f.inner, form, inner)

    def evaluate(self, points: Points, x: np.ndarray, frame: Frame) -> Evaluation:
        """Give scores and the trace of their Jacobians, those of the inner potential of the mapped data."""
        assert isinstance(self.inner, ClosedForm)
        return self.inner.evaluate(points, _images(x, *np.asarray([self.knots, self.values], np.float64)), frame)

    def mapped(self, x: Float[Array, " ..."]) -> Float[Array, " data"]:
        """Map one observation."""
        flat, knots, values = x.ravel(), self.knots, self.values
        rises = (values[:, 1:] - values[:, :-1]) / (knots[:, 1:] - knots[:, :-1])
        # Which of its intervals a datum lies in: how many of the knots within are not above it.
        place = jnp.sum(flat[:, None] >= knots[:, 1:-1], axis=1)[:, None]
        begin, value, rise = (jnp.take_along_axis(a, place, axis=1)[:, 0] for a in (knots, values, rises))
        inside = jnp.clip(flat, knots[:, 0], knots[:, -1])
        before = rises[:, 0] * jnp.minimum(flat - knots[:, 0], 0.0)
        after = rises[:, -1] * jnp.maximum(flat - knots[:, -1], 0.0)
        return value + rise * (inside - begin) + jnp.arcsinh(before) + jnp.arcsinh(after)

    def value_and_score(
        self, theta: Float[Array, " params"], x: Float[Array, " ..."], jets: Jets | None = None
    ) -> tuple[Float[Array, ""], Float[Array, " params"]]:
        """Give the inner potential of the mapped data and its gradient."""
        return self.inner.value_and_score(theta, self.mapped(x), jets)

    @property
    def settings(self) -> dict[str, Any]:
        """The number of knots and the inner potential."""
        return {"num_knots": self.knots.shape[1], "inner": describe(self.inner)}


def _images(rows: np.ndarray, knots: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Map rows (n, d), as :meth:`Mapped.mapped` maps one observation."""
    before = (values[:, 1] - values[:, 0]) / (knots[:, 1] - knots[:, 0]) * np.minimum(rows - knots[:, 0], 0.0)
    after = (values[:, -1] - values[:, -2]) / (knots[:, -1] - knots[:, -2]) * np.maximum(rows - knots[:, -1], 0.0)
    inside = [np.interp(column, k, v) for column, k, v in zip(rows.T, knots, values, strict=True)]
    return np.stack(inside, axis=1) + np.arcsinh(before) + np.arcsinh(after)


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
