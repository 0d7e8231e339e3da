"""Regions of parameters with axes of their own: θ = centre + factor v, where v fills the box [−1, 1]^p."""

from typing import Any

import equinox as eqx
import numpy as np


class Axes(eqx.Module):
    """Centre (p,) of a region and its axes, the columns of ``factor`` (p, p): half an edge of the region each."""

    centre: np.ndarray
    factor: np.ndarray

    @property
    def inverse(self) -> np.ndarray:
        """The matrix that leads from θ − centre to v; factors are inverted in units of their rows."""
        size = np.linalg.norm(self.factor, axis=1)
        return np.linalg.inv(self.factor / size[:, None]) / size

    def inner(self, theta: Any) -> np.ndarray:
        """Map θ to v, row by row, so that rounding does not depend on how many rows there are."""
        return _applied(self.inverse, np.asarray(theta, np.float64) - self.centre)

    def outer(self, v: Any) -> np.ndarray:
        """Map v to θ."""
        return self.centre + _applied(self.factor, np.asarray(v, np.float64))

    def holds(self, theta: Any) -> np.ndarray:
        """Say which θ lie in the region, its edges included but for rounding."""
        return np.asarray((np.abs(self.inner(theta)) <= 1 + 1e-9).all(axis=-1))

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the smallest upright box around the region."""
        reach = np.abs(self.factor).sum(axis=1)
        return self.centre - reach, self.centre + reach

    def moved(self, centre: np.ndarray, scale: np.ndarray) -> "Axes":
        """Return the same region for (θ − centre) / scale."""
        return Axes((self.centre - centre) / scale, self.factor / scale[:, None])

    def precision(self) -> np.ndarray:
        """Return the precision (p, p) of the uniform distribution on the region."""
        inverse = self.inverse
        return 3.0 * inverse.T @ inverse


def _applied(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Multiply every row by a matrix, column after column: a product of matrices rounds by the number of rows."""
    total = np.zeros_like(rows)
    for column, values in zip(matrix.T, np.moveaxis(rows, -1, 0), strict=True):
        total = total + values[..., None] * column
    return total
