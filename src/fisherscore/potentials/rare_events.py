"""Data that hardly ever differ from one value, such as counts that are zero but in a few simulations.

How often they differ, and by how much, says something of θ, but smooth closed forms and networks make nothing of so few
events, or take the datum for one without noise. So a form of all other data has one term a rare datum added,

    Σ_j [ y_j η_j(θ) − exp(η_j(θ)) ],    η_j linear in θ,

with y_j the distance from the usual value: the log-likelihood of a Poisson count whose logarithmic rate is linear in θ,
which near one posterior rates are. Events of any size are counted in units of E[y²] / E[y], 1 for rare counts, by which
the quasi-score of events that come in clumps has its right size (Wedderburn 1974). Slopes are shrunk by a normal prior
whose width is what the events themselves make likely: of a single event, little is believed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .base import ClosedForm, Evaluation, Fitter, Frame, Jets, Potential, build_potential, describe, multiply, register
from .points import Points

# To all other forms a rare datum is nothing: it comes divided by this, in units of the largest that was simulated.
HIDDEN = 1e30
# Widths of the prior of slopes, over half a region, half-Cauchy themselves with this scale (Polson and Scott 2012); the
# fits with all of them are averaged by their evidence.
_WIDTHS, _SCALE = np.array([0.25, 0.5, 1.0, 2.0, 4.0]), 0.5
_NUM_STEPS, _LARGEST_STEP = 30, 1.0


@register("rare_events")
class RareEvents(ClosedForm):
    """A closed form of the other data, and log-linear rates of rare data at some places."""

    max_data: ClassVar[int] = 4_000

    inner: Potential
    size: Float[Array, " rare"]
    level: Float[Array, " rare"]
    slope: Float[Array, "rare params"]
    places: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        num_parameters: int,
        data_size: int,
        *,
        places: tuple[int, ...] | list[int],
        inner: Mapping[str, Any],
        key: Array | None = None,
    ):
        key = jax.random.key(0) if key is None else key
        self.inner = build_potential(inner, num_parameters, data_size, key=key)
        self.places = tuple(int(place) for place in places)
        self.size, self.level = jnp.zeros(len(self.places)), jnp.zeros(len(self.places))
        self.slope = jnp.zeros((len(self.places), num_parameters))

    @classmethod
    def fit(cls, u: np.ndarray | Points, rows: np.ndarray) -> Self:
        """Raise an error: a form of the other data has to be chosen, by :class:`RareEventsFitter`."""
        raise NotImplementedError("rare events are fitted by RareEventsFitter")

    def evaluate(self, points: Points, x: np.ndarray, frame: Frame) -> Evaluation:
        """Give scores and the trace of their Jacobians: those of the inner form, and (y − e^η) ∂η and − e^η |∂η|²."""
        assert isinstance(self.inner, ClosedForm)
        places = list(self.places)
        others = self.inner.evaluate(points, _without(x, places), frame)
        level, slope, size = (np.asarray(a, np.float64) for a in (self.level, self.slope, self.size))
        rates, along = np.exp(level + points.u @ slope.T), slope @ frame.directions
        surplus = np.minimum(np.abs(x[:, places]) * HIDDEN, 1.0) * size - rates
        return Evaluation(others.scores + surplus @ along, others.traces - rates @ np.sum(along**2, axis=1))

    def value_and_score(
        self, theta: Float[Array, " params"], x: Float[Array, " ..."], jets: Jets | None = None
    ) -> tuple[Float[Array, ""], Float[Array, " params"]]:
        """Give the inner potential and its gradient, with those of the rare data added."""
        data, places = x.ravel(), np.array(self.places)
        value, score = self.inner.value_and_score(theta, data.at[places].set(0.0), jets)
        logs = self.level + multiply(self.slope, theta)
        events, rates = jnp.minimum(jnp.abs(data[places]) * HIDDEN, 1.0) * self.size, jnp.exp(logs)
        return value + jnp.sum(events * logs - rates), score + multiply(events - rates, self.slope)

    @property
    def settings(self) -> dict[str, Any]:
        """The places of rare data, and the inner potential."""
        return {"places": list(self.places), "inner": describe(self.inner)}


@dataclass(frozen=True)
class RareEventsFitter:
    """Fits a closed form to all data but those at some places, and rates to these."""

    form: Fitter
    places: tuple[int, ...]

    @property
    def max_data(self) -> int:
        """The largest data it is for."""
        return self.form.max_data

    def fit(self, points: Points, rows: np.ndarray) -> RareEvents:
        """Fit rows (n, d) drawn at points."""
        places = list(self.places)
        inner = self.form.fit(points, _without(rows, places))
        events = np.abs(rows[:, places]) * HIDDEN
        fits = points.once(("rare events", self.places), lambda: [log_linear_rate(points.u, y) for y in events.T])
        size, level, slope = zip(*fits, strict=True)
        sizes, settings = (points.num_parameters, rows.shape[1]), {"places": places, "inner": describe(inner)}
        arrays = {"size": np.array(size), "level": np.array(level), "slope": np.array(slope)}
        filled = RareEvents._filled(*sizes, settings=settings, **arrays)
        return eqx.tree_at(lambda f: f.inner, filled, inner)


def _without(x: np.ndarray, places: list[int]) -> np.ndarray:
    others = np.array(x, np.float64)
    others[:, places] = 0.0
    return others


def log_linear_rate(u: np.ndarray, y: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Fit the rate of events y (n,), zero but in a few rows, at parameters u (n, p).

    Returns:
        By what events are multiplied to be counts, the level of the logarithmic rate, and its slope (p,).
    """
    total = y.sum()
    if not total > 0:  # where all events are in the part that was left out
        return 0.0, -HIDDEN, np.zeros(u.shape[1])
    size = float(total / np.sum(y**2))
    fits = [_shrunk(u, size * y, width) for width in _WIDTHS]
    evidence = np.array([value for value, _ in fits]) + np.log(_WIDTHS / (1 + (_WIDTHS / _SCALE) ** 2))
    weights = np.exp(evidence - evidence.max())
    mean = weights @ np.stack([coefficients for _, coefficients in fits]) / weights.sum()
    # The average number of events is kept, whatever the slope.
    level = np.log(size * total) - np.log(np.exp(u @ mean[1:]).sum())
    return size, float(level), mean[1:]


def _shrunk(u: np.ndarray, counts: np.ndarray, width: float) -> tuple[float, np.ndarray]:
    """Maximise the likelihood with a normal prior of the slopes; return the evidence by Laplace, and coefficients."""
    design = np.concatenate([np.ones((len(u), 1)), u], axis=1)
    precision = np.concatenate([[0.0], np.full(u.shape[1], width**-2)])
    coefficients = np.concatenate([[np.log(counts.mean())], np.zeros(u.shape[1])])
    for _ in range(_NUM_STEPS):
        rates = np.exp(design @ coefficients)
        hessian = (design * rates[:, None]).T @ design + np.diag(precision)
        step = np.linalg.solve(hessian, design.T @ (counts - rates) - precision * coefficients)
        coefficients = coefficients + step * min(1.0, _LARGEST_STEP / max(np.abs(step).max(), 1e-300))
        if np.abs(step).max() < 1e-8:
            break
    logs = design @ coefficients
    value = counts @ logs - np.exp(logs).sum() - 0.5 * precision @ coefficients**2
    return float(value - u.shape[1] * np.log(width) - 0.5 * np.linalg.slogdet(hessian)[1]), coefficients
