"""Parameters as they are computed with: u = (θ − centre) / scale, of order one, where the training region is.

In single precision 2459000.05 and 2459000.06 are the same number. So centres are subtracted on the host, in double
precision, and models are evaluated, maximised and sampled in u.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Scales:
    """Centres and scales of parameters, each of shape (p,), in double precision."""

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of_region(cls, low: np.ndarray, high: np.ndarray) -> "Scales":
        """Map a region to [−1, 1]^p."""
        return cls((low + high) / 2, (high - low) / 2)

    @classmethod
    def none(cls, num_parameters: int) -> "Scales":
        """Leave parameters as they are."""
        return cls(np.zeros(num_parameters), np.ones(num_parameters))

    def inner(self, theta: Any) -> np.ndarray:
        """Map θ to u, in double precision."""
        return (np.asarray(theta, np.float64) - self.centre) / self.scale

    def outer(self, u: Any) -> np.ndarray:
        """Map u to θ, in double precision."""
        return self.centre + self.scale * np.asarray(u, np.float64)

    def scores(self, scores: Any) -> np.ndarray:
        """Turn derivatives by u into derivatives by θ."""
        return np.asarray(scores, np.float64) / self.scale

    def matrices(self, matrices: Any) -> np.ndarray:
        """Turn Fisher matrices in u into those in θ."""
        return np.asarray(matrices, np.float64) / (self.scale[:, None] * self.scale)

    def covariances(self, matrices: Any) -> np.ndarray:
        """Turn covariances of u into those of θ."""
        return np.asarray(matrices, np.float64) * (self.scale[:, None] * self.scale)

    def of(self, places: Any) -> "Scales":
        """Return those of some parameters."""
        return Scales(self.centre[places], self.scale[places])


def inner_model(model: Any, x: Any) -> tuple[Scales, Any, Any]:
    """Return scales to compute in, and the model and its data in them; what was given where there are none."""
    scales = model.own_scales()
    if scales is None:
        return Scales.none(len(model.names)), model, x
    return scales, model.in_scales(scales), model.data_in_scales(x)


def is_far(low: np.ndarray, high: np.ndarray, times: float = 30.0) -> np.ndarray:
    """Say which ranges are so far from zero, in units of their width, or so small or large that u is needed."""
    width = high - low
    return (np.maximum(np.abs(low), np.abs(high)) > times * width) | (width < 1e-12) | (width > 1e12)
