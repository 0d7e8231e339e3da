"""Parameters as they are computed with: u of order one where the training region is, θ = centre + scale · u.

In single precision 2459000.05 and 2459000.06 are the same number. So centres are subtracted on the host, in double
precision, and models are evaluated, maximised and sampled in u. Where a training region has axes of its own, u runs
along these: θ = centre + scale · (turn u).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.axes import Axes


@dataclass(frozen=True, eq=False)
class Scales:
    """Centres and scales of parameters, each of shape (p,), and a matrix (p, p) or None; in double precision."""

    centre: np.ndarray
    scale: np.ndarray
    turn: np.ndarray | None = None

    @classmethod
    def of_region(cls, low: np.ndarray, high: np.ndarray, axes: Axes | None = None) -> "Scales":
        """Map a region to [−1, 1]^p."""
        if axes is None:
            return cls((low + high) / 2, (high - low) / 2)
        scale = np.linalg.norm(axes.factor, axis=1)
        return cls(np.asarray(axes.centre), scale, axes.factor / scale[:, None])

    @classmethod
    def none(cls, num_parameters: int) -> "Scales":
        """Leave parameters as they are."""
        return cls(np.zeros(num_parameters), np.ones(num_parameters))

    @property
    def factor(self) -> np.ndarray:
        """The matrix (p, p) from u to θ − centre."""
        return np.diag(self.scale) if self.turn is None else self.scale[:, None] * self.turn

    @property
    def log_volume(self) -> float:
        """The logarithm of how much larger volumes are in θ than in u."""
        volume = float(np.log(self.scale).sum())
        return volume if self.turn is None else volume + float(np.linalg.slogdet(self.turn)[1])

    def inner(self, theta: Any) -> np.ndarray:
        """Map θ to u, in double precision."""
        u = (np.asarray(theta, np.float64) - self.centre) / self.scale
        return u if self.turn is None else u @ np.linalg.inv(self.turn).T

    def outer(self, u: Any) -> np.ndarray:
        """Map u to θ, in double precision."""
        u = np.asarray(u, np.float64)
        return self.centre + self.scale * (u if self.turn is None else u @ self.turn.T)

    def scores(self, scores: Any) -> np.ndarray:
        """Turn derivatives by u into derivatives by θ."""
        scores = np.asarray(scores, np.float64)
        return (scores if self.turn is None else scores @ np.linalg.inv(self.turn)) / self.scale

    def matrices(self, matrices: Any) -> np.ndarray:
        """Turn Fisher matrices in u into those in θ."""
        matrices = np.asarray(matrices, np.float64)
        if self.turn is not None:
            inverse = np.linalg.inv(self.turn)
            matrices = inverse.T @ matrices @ inverse
        return matrices / (self.scale[:, None] * self.scale)

    def covariances(self, matrices: Any) -> np.ndarray:
        """Turn covariances of u into those of θ."""
        matrices = np.asarray(matrices, np.float64)
        if self.turn is not None:
            matrices = self.turn @ matrices @ self.turn.T
        return matrices * (self.scale[:, None] * self.scale)

    def of(self, places: Any) -> "Scales":
        """Return those of some parameters; of scales along axes of a region there are none."""
        if self.turn is not None:
            raise ValueError("scales along the axes of a region belong to all of its parameters")
        return Scales(self.centre[places], self.scale[places])


def inner_model(model: Any, x: Any, *, upright: bool = False) -> tuple[Scales, Any, Any]:
    """Return scales to compute in, and the model and its data in them; what was given where there are none.

    With ``upright``, every u belongs to one parameter, whatever the axes of the training region.
    """
    scales = model.own_scales()
    if scales is None:
        return Scales.none(len(model.names)), model, x
    if upright and scales.turn is not None:
        scales = Scales.of_region(model.low, model.high)
    return scales, model.in_scales(scales), model.data_in_scales(x)


def is_far(low: np.ndarray, high: np.ndarray, times: float = 30.0) -> np.ndarray:
    """Say which ranges are so far from zero, in units of their width, or so small or large that u is needed."""
    width = high - low
    return (np.maximum(np.abs(low), np.abs(high)) > times * width) | (width < 1e-12) | (width > 1e12)
