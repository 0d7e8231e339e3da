"""The affine maps between the user's units and the network's; the chain rule stands here and nowhere else.

With u = (θ − m) / a and v = (x − n) / b the network sees (u, v), and since ∇θ = (1/a) ∇u a score in the user's units is
(1/a) times a score in u. A network that models r(u, v) = score in u divided by the constant ``c`` gives

    s(θ, x) = (c / a) r(u, v).

The same c is used for every component, so that r is the gradient of a potential exactly when s is.
"""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

# Standardised data are at most this large: their squares are numbers of single precision still.
_FARTHEST = 1e15


class Standardizer(eqx.Module):
    """Centres and scales θ, x and scores."""

    theta_centre: Float[Array | np.ndarray, " params"]
    theta_scale: Float[Array | np.ndarray, " params"]
    x_centre: Float[Array | np.ndarray, " ..."]
    x_scale: Float[Array | np.ndarray, " ..."]
    score_scale: Float[Array | np.ndarray, ""]

    @classmethod
    def of(cls, theta: np.ndarray, x: np.ndarray, score: np.ndarray | None, *, inputs: bool = True) -> "Standardizer":
        """Estimate the maps from training rows, in double precision; without scores, c = 1.

        With ``inputs=False`` θ and x are left as they are.
        """
        if not inputs:
            theta, x = (np.stack([np.full_like(a[0], v) for v in (-1.0, 1.0)]) for a in (theta, x))
        theta_scale = _spread(theta)
        size = 1.0 if score is None else np.sqrt(np.mean((score * theta_scale) ** 2))
        return cls(
            theta_centre=theta.mean(axis=0),
            theta_scale=theta_scale,
            x_centre=x.mean(axis=0),
            x_scale=_spread(x),
            score_scale=np.asarray(size),
        )

    @classmethod
    def of_region(cls, low: np.ndarray, high: np.ndarray, x: np.ndarray) -> "Standardizer":
        """Map the training region to [−1, 1]^p, and standardise x by its training rows."""
        return cls.of(np.stack([low, high]), x, None)

    def inputs(self, theta: Any, x: Any) -> tuple[Any, Any]:
        """Map (θ, x) to what the network sees."""
        return (theta - self.theta_centre) / self.theta_scale, (x - self.x_centre) / self.x_scale

    def data(self, x: Any) -> np.ndarray:
        """Map data alone, on the host and in double precision; what is beyond all measure stays finite."""
        return np.clip((np.asarray(x, np.float64) - self.x_centre) / self.x_scale, -_FARTHEST, _FARTHEST)

    def target(self, score: Any) -> Any:
        """Map a score in the user's units to what the network models."""
        return score * self.theta_scale / self.score_scale

    def score(self, output: Array) -> Array:
        """Map what the network gives to a score in the user's units."""
        return output * self.score_scale / self.theta_scale

    def log_likelihood(self, output: Array) -> Array:
        """Map a network's potential to a log-likelihood; its gradient in θ is the score."""
        return output * self.score_scale


def _spread(rows: np.ndarray) -> np.ndarray:
    """Standard deviation per column; 1 where a column is constant up to rounding, which then is 0 after centring."""
    spread = rows.std(axis=0)
    return np.where(spread > 1e-12 * np.abs(rows).max(axis=0), spread, 1.0)
