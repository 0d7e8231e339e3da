"""Profile likelihoods: the largest likelihood at each value of one parameter or two, all others free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import chdtri

from .._support.arguments import as_count, as_finite, as_indices, check_names
from .._support.check_pictures import draw_profile
from .._support.progress import working
from .._support.quadrature import gauss_legendre
from .._support.text import columns, html_table
from ..errors import ArgumentError
from ..score.combined import observed
from ..score.model import ScoreModel
from ..score.scales import inner_model
from .estimate import maximum_likelihood, solve_from, spread_starts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# How far a profile reaches, in standard errors, unless ranges say otherwise.
_REACH = 4.0
_MAX_STEPS = 100
_NODES, _WEIGHTS = gauss_legendre(32)
# A profile whose fits ended so: converged, or held at an edge of the region, where the likelihood is largest within it.
_GOOD = (0, 2)


class _Slice(ScoreModel):
    """A model with some of its parameters held: data are those of the model and the values held."""

    model: ScoreModel
    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    x_shape: Any = eqx.field(static=True)
    free: tuple[int, ...] = eqx.field(static=True)
    held: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, model: ScoreModel, held: list[int]) -> "_Slice":
        free = [i for i in range(len(model.names)) if i not in held]
        return cls(
            model=model,
            low=model.low[free],
            high=model.high[free],
            names=tuple(model.names[i] for i in free),
            units=tuple(model.units[i] for i in free),
            x_shape=(model.x_shape, (len(held),)),
            free=tuple(free),
            held=tuple(held),
        )

    @property
    def has_density(self) -> bool:
        """As the model's."""
        return self.model.has_density

    @property
    def rows_at_once(self) -> int:
        """As the model's."""
        return self.model.rows_at_once

    def whole(self, theta: Any, values: Any) -> Any:
        """Put free parameters and values held in their places."""
        return jnp.concatenate([theta, values])[np.argsort((*self.free, *self.held))]

    def score_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, " params"]:
        """Give the score of the free parameters."""
        return self.model.score_one(self.whole(theta, x[1]), x[0])[np.array(self.free)]

    def log_likelihood_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, ""]:
        """Give the log-likelihood."""
        return self.model.log_likelihood_one(self.whole(theta, x[1]), x[0])


@dataclass(frozen=True, eq=False)
class Profile:
    """A profile likelihood of one parameter or two; printed, that of one gives its intervals.

    Attributes:
        names: The parameters.
        grid: Their values, an array each.
        fall: Twice the fall of the log-likelihood from its maximum, shape (n,) or (n, m); NaN where no fit of the other
            parameters converged.
        theta: All parameters at the maximum for each value, shape (..., p).
        best: The parameters' values at the maximum.
        at_edge: Where the others are held by an edge of the training region, shape (n,) or (n, m).

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()  # x ~ N(theta, S), both variances 1
    >>> profile = fs.profile_likelihood(model, [0.5, -0.5], "theta1")
    >>> [round(end, 2) for end in profile.interval(0.6827)]
    [-0.5, 1.5]
    """

    names: tuple[str, ...]
    grid: tuple[np.ndarray, ...]
    fall: np.ndarray
    theta: np.ndarray
    best: np.ndarray
    at_edge: np.ndarray

    def interval(self, level: float = 0.683) -> tuple[float | None, float | None]:
        """Give the values around the best at which the profile has not fallen by more than chance explains.

        That is Wilks' theorem: twice the fall has a χ² distribution with one degree of freedom.

        Args:
            level: Confidence level, between 0 and 1.

        Returns:
            Both ends; None where the profile does not fall far enough within its grid.
        """
        if len(self.names) != 1:
            raise ArgumentError(f"interval: expected a profile of one parameter, got one of {len(self.names)}.")
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
            raise ArgumentError(f"level: expected a number between 0 and 1, got {level!r}.")
        height = float(np.sqrt(chdtri(1, 1 - level)))
        values, middle = self.grid[0], float(self.best[0])
        # The root of the fall is nearly linear, so that straight lines between points do.
        root = np.sqrt(np.maximum(self.fall, 0.0))
        return _crossing(values[values < middle][::-1], root[values < middle][::-1], middle, height), _crossing(
            values[values > middle], root[values > middle], middle, height
        )

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the profile: a curve with the levels of 68 % and 95 %, or their contours.

        Args:
            ax: Matplotlib axes to draw into; by default those of a new figure.

        Returns:
            The axes.
        """
        return draw_profile(self, ax)

    def __repr__(self) -> str:
        return f"Profile({', '.join(self.names)}; {self.fall.size} points)"

    def __str__(self) -> str:
        if len(self.names) != 1:
            best = ", ".join(f"{name} = {value:.5g}" for name, value in zip(self.names, self.best, strict=True))
            return f"Profile likelihood, largest at {best}"
        return "\n".join([f"Profile likelihood of {self.names[0]}, best {self.best[0]:.5g}", *columns(self._rows())])

    def _repr_html_(self) -> str:
        rows = [(level, f"{low} to {high}") for level, low, high in self._rows()[1:]] if len(self.names) == 1 else []
        return html_table(str(self).split("\n")[0], rows)

    def _rows(self) -> list[tuple[str, str, str]]:
        def written(end: float | None) -> str:
            return "open" if end is None else f"{end:.5g}"

        levels = [(level, self.interval(level)) for level in (0.683, 0.954)]
        return [("level", "from", "to"), *((f"{level:.1%}", written(a), written(b)) for level, (a, b) in levels)]


def profile_likelihood(
    model: ScoreModel,
    x_obs: Any,
    names: Sequence[str] | str,
    *,
    iid: bool = False,
    num_points: int | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    progress: bool | None = None,
) -> Profile:
    """Profile the likelihood of one observation: at each value of one parameter or two, the best of all others.

    No prior enters. For a model without a density the likelihood is the line integral of its score from the best fit.

    Args:
        model: A score model.
        x_obs: One observation; with ``iid``, independent draws at the same θ along one leading axis.
        names: One parameter or two.
        iid: Whether ``x_obs`` holds independent draws at the same θ.
        num_points: Number of values of each parameter; by default 41 for one, 25 for two.
        ranges: (low, high) by parameter name; by default four standard errors around the best fit, within the training
            region.
        progress: Whether to show how far it is; by default what takes more than a moment is shown.

    Returns:
        The profile, with intervals and a picture.

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> fs.profile_likelihood(model, [0.5, -0.5], ["theta1", "theta2"], num_points=9).fall.shape
    (9, 9)
    """
    whole, x = observed(model, x_obs, iid)
    if whole.data_batch_shape(x):
        raise ArgumentError("x_obs: expected one observation, got many. Profile them one by one, or pass iid=True.")
    held = as_indices(names, whole.names)
    if len(held) not in (1, 2):
        raise ArgumentError(f"names: expected one parameter or two, got {len(held)}.")
    num = as_count(num_points or (41 if len(held) == 1 else 25), "num_points", minimum=5)
    with working("profile likelihood", progress, f"{num ** len(held):,} points"):
        best = maximum_likelihood(whole, jax.tree.map(np.asarray, x), progress=progress)
        grid = tuple(_values(whole, best, i, num, ranges) for i in held)
        values = np.stack(np.meshgrid(*grid, indexing="ij"), axis=-1).reshape(-1, len(held))
        theta, good, edge = _best_of_others(whole, x, held, values, best.theta)
        heights = _heights(whole, x, np.concatenate([theta, best.theta[None]]), best.theta)
    heights[:-1][~good] = np.nan
    top = int(np.nanargmax(heights))
    shape = tuple(len(axis) for axis in grid)
    return Profile(
        names=tuple(whole.names[i] for i in held),
        grid=grid,
        fall=2 * (heights[top] - heights[:-1]).reshape(shape),
        theta=theta.reshape(*shape, -1),
        best=(theta[top] if top < len(theta) else best.theta)[held],
        at_edge=edge.reshape(shape),
    )


def _crossing(values: np.ndarray, root: np.ndarray, middle: float, height: float) -> float | None:
    """Return where the root of the fall first reaches a height on the way out from the best value."""
    beyond = np.flatnonzero(root >= height)
    if not len(beyond):
        return None
    i = int(beyond[0])
    before = (middle, 0.0) if i == 0 else (values[i - 1], root[i - 1])
    share = (height - before[1]) / (root[i] - before[1])
    return float(before[0] + share * (values[i] - before[0]))


def _values(model: ScoreModel, best: Any, i: int, num: int, ranges: Mapping[str, Any] | None) -> np.ndarray:
    """Choose the values of one parameter."""
    given = dict(ranges or {})
    check_names(given, model.names, "ranges")
    low, high = float(model.low[i]), float(model.high[i])
    name, sigma = model.names[i], best.sigma[i]
    if name in given:
        ends = as_finite(given[name], f"ranges[{name!r}]")
        if ends.shape != (2,) or not low <= ends[0] < ends[1] <= high:
            raise ArgumentError(
                f"ranges[{name!r}]: expected (low, high) within the training region, {low:g} to {high:g}, got "
                f"{given[name]!r}."
            )
        return np.linspace(float(ends[0]), float(ends[1]), num)
    if np.isfinite(sigma):
        low, high = max(low, best.theta[i] - _REACH * sigma), min(high, best.theta[i] + _REACH * sigma)
    return np.linspace(low, high, num)


def _best_of_others(
    model: ScoreModel, x: Any, held: list[int], values: np.ndarray, best: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maximise over the other parameters at each value; return θ, whether that went well, and whether at an edge."""
    num = len(values)
    if len(held) == len(model.names):
        return values[:, np.argsort(held)], np.ones(num, bool), np.zeros(num, bool)
    scales, inner, data = inner_model(model, x, upright=True)
    part = _Slice.of(inner, held)
    own, others = scales.of(held), scales.of(list(part.free))
    rows = (
        jax.tree.map(lambda a: np.repeat(np.asarray(a, np.float32)[None], num, axis=0), data),
        own.inner(values).astype(np.float32),
    )
    near = np.tile(others.inner(best[list(part.free)]).astype(np.float32), (num, 1))
    starts = [near, spread_starts(part, rows, num)] if part.has_density else [near]
    tried = []
    for start in starts:
        solved = solve_from(part, start, rows, np.asarray(_MAX_STEPS, np.int32))
        free, _, reason, _, edges = map(np.asarray, solved)
        theta = np.concatenate([others.outer(free), values], axis=1)[:, np.argsort((*part.free, *held))]
        good = np.isin(reason, _GOOD)
        height = np.where(good, _heights(model, x, theta, best), -np.inf)
        tried.append((theta, good, edges.any(axis=1), height))
    chosen = np.argmax([height for *_, height in tried], axis=0)
    theta, good, edge = (np.stack(a)[chosen, np.arange(num)] for a in list(zip(*tried, strict=True))[:3])
    return theta, good, edge


def _heights(model: ScoreModel, x: Any, theta: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Return log-likelihoods of many θ, up to a constant."""
    inside = np.clip(theta, model.low, model.high)
    if model.has_density:
        return np.asarray(model.log_likelihood(inside, x), np.float64)
    way = inside - best
    points = np.clip(best + np.asarray(_NODES)[:, None, None] * way, model.low, model.high)
    along = np.sum(np.asarray(model.score(points, x), np.float64) * way, axis=-1)
    return np.asarray(_WEIGHTS, np.float64) @ along
