"""The affine maps between the user's units and the network's; the chain rule stands here and nowhere else.

With u = (θ − m) / a and v = (x − n) / b the network sees (u, v), and since ∇θ = (1/a) ∇u a score in the user's units is
(1/a) times a score in u. Where the training region has axes of its own, u = T (θ − m) / a with a matrix T, and (1/a)
becomes (1/a) Tᵀ. A network that models r(u, v) = score in u divided by the constant ``c`` gives

    s(θ, x) = (c / a) r(u, v).

The same c is used for every component, so that r is the gradient of a potential exactly when s is.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.axes import Axes
from ..potentials.rare_events import HIDDEN
from .scales import Scales

# Standardised data are at most this large: their squares are numbers of single precision still.
_FARTHEST = 1e15
# The scale of data that are left out, in their own: what is divided by it is nothing beside any other.
_LEFT_OUT, _SURELY_LEFT_OUT = HIDDEN, 1e22


class Standardizer(eqx.Module):
    """Centres and scales θ, x and scores."""

    theta_centre: Float[Array | np.ndarray, " params"]
    theta_scale: Float[Array | np.ndarray, " params"]
    x_centre: Float[Array | np.ndarray, " ..."]
    x_scale: Float[Array | np.ndarray, " ..."]
    score_scale: Float[Array | np.ndarray, ""]
    theta_turn: Float[Array | np.ndarray, "params params"] | None = None

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
    def of_region(cls, low: np.ndarray, high: np.ndarray, x: np.ndarray, axes: Axes | None = None) -> "Standardizer":
        """Map the training region to [−1, 1]^p, and standardise x by its training rows."""
        upright = cls.of(np.stack([low, high]), x, None)
        return upright if axes is None else upright.along(axes)

    def along(self, axes: Axes) -> "Standardizer":
        """Return the same map of x, with that of θ along the axes of a region."""
        scales = Scales.of_region(axes.centre, axes.centre, axes)
        assert scales.turn is not None
        return Standardizer(
            theta_centre=scales.centre,
            theta_scale=scales.scale,
            x_centre=self.x_centre,
            x_scale=self.x_scale,
            score_scale=self.score_scale,
            theta_turn=np.linalg.inv(scales.turn),
        )

    def leaving_out(self, data: np.ndarray) -> "Standardizer":
        """Return the same map, which takes the data that are named to zero, whatever they are."""
        return replace(self, x_scale=np.where(data, _LEFT_OUT * np.asarray(self.x_scale, np.float64), self.x_scale))

    def counting(self, data: np.ndarray, usual: np.ndarray, x: np.ndarray) -> "Standardizer":
        """Return the same map, which takes the data that are named to zero where they are as usual, else next to it.

        What is next to zero is the distance from the usual value, in units of the largest among x, times 1e-30.
        """
        largest = np.where(data, np.abs(x - usual).max(axis=0), 1.0)
        return replace(
            self,
            x_centre=np.where(data, usual, self.x_centre),
            x_scale=np.where(data, _LEFT_OUT * largest, self.x_scale),
        )

    def unlearned(self, x: np.ndarray) -> np.ndarray:
        """Say which data of one observation hardly ever change, and have a value of which nothing was learned.

        Where they were left out, that is any but the usual one: values that fewer than a tenth of all have lie farther
        from the mean than their deviation, the usual one nearer. Where they are counted, it is one beyond all others.
        """
        scale = np.asarray(self.x_scale, np.float64)
        out = scale > _SURELY_LEFT_OUT
        off = np.abs(np.asarray(x, np.float64) - np.asarray(self.x_centre, np.float64))
        return np.asarray(out & (off > np.where(out, (1 + 1e-6) * scale / _LEFT_OUT, np.inf)))

    def inputs(self, theta: Any, x: Any) -> tuple[Any, Any]:
        """Map (θ, x) to what the network sees."""
        return self.parameters(theta), (x - self.x_centre) / self.x_scale

    def parameters(self, theta: Any) -> Any:
        """Map θ alone."""
        u = (theta - self.theta_centre) / self.theta_scale
        return u if self.theta_turn is None else u @ self.theta_turn.T

    def data(self, x: Any) -> np.ndarray:
        """Map data alone, on the host and in double precision; what is beyond all measure stays finite."""
        return np.clip((np.asarray(x, np.float64) - self.x_centre) / self.x_scale, -_FARTHEST, _FARTHEST)

    def target(self, score: Any) -> Any:
        """Map a score in the user's units to what the network models."""
        scaled = score * self.theta_scale / self.score_scale
        return scaled if self.theta_turn is None else scaled @ np.linalg.inv(self.theta_turn)

    def score(self, output: Array) -> Array:
        """Map what the network gives to a score in the user's units."""
        along = output if self.theta_turn is None else output @ jnp.asarray(self.theta_turn)
        return along * self.score_scale / self.theta_scale

    def fisher(self, matrix: Array) -> Array:
        """Map a Fisher matrix of what the network gives to one in the user's units."""
        if self.theta_turn is not None:
            turn = jnp.asarray(self.theta_turn)
            matrix = turn.T @ matrix @ turn
        scale = jnp.asarray(self.score_scale / self.theta_scale)
        return scale[:, None] * matrix * scale

    def in_scales(self, scales: Scales) -> "Standardizer":
        """Return the map for a model that is given u, with θ = centre + scale · (turn u), and standardised x."""
        if scales.turn is None:
            centre, scale, turn = scales.inner(self.theta_centre), self.theta_scale / scales.scale, self.theta_turn
        else:
            # One affine map after the other: v = own (θ − m) with θ = c + F u.
            own = np.diag(1 / np.asarray(self.theta_scale, np.float64))
            own = own if self.theta_turn is None else np.asarray(self.theta_turn) @ own
            turn = own @ scales.factor
            centre = np.linalg.solve(turn, own @ (self.theta_centre - scales.centre))
            scale = np.ones_like(centre)
            if np.abs(turn - np.eye(len(turn))).max() < 1e-12:
                turn = None
        return Standardizer(
            theta_centre=np.asarray(centre, np.float64),
            theta_scale=np.asarray(scale, np.float64),
            x_centre=np.zeros_like(self.x_centre),
            x_scale=np.ones_like(self.x_scale),
            score_scale=self.score_scale,
            theta_turn=turn,
        )

    def log_likelihood(self, output: Array) -> Array:
        """Map a network's potential to a log-likelihood; its gradient in θ is the score."""
        return output * self.score_scale


def _spread(rows: np.ndarray) -> np.ndarray:
    """Standard deviation per column; 1 where a column is constant up to rounding, which then is 0 after centring."""
    spread = rows.std(axis=0)
    return np.where(spread > 1e-12 * np.abs(rows).max(axis=0), spread, 1.0)
