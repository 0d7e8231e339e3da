"""Fisher forecasts from a learned score: three estimates from fresh simulations at θ, each with its error.

    plug-in   E[ŝ ŝᵀ]                  the paper's; noise in ŝ looks like information, and a ŝ too small hides some
    slope     D = ∇θ' E[ŝ(θ, x)] at θ' = θ, x ~ p(x | θ')      linear in the error of ŝ
    bound     Dᵀ Cov(ŝ)⁻¹ D  ≤  F      by Cauchy-Schwarz, whatever ŝ is: the conservative forecast

The bound takes in more than the model: scores linear in the data and in their products, which the same simulations
teach (``linear_scores.py``), stand beside ŝ as further components where they add more than their noise.

D comes from simulations at θ ± δ with the same random numbers, ŝ always being evaluated at θ. Steps are taken along the
principal axes of E[ŝ ŝᵀ] beside the precision of the training range, each as long as the error along it: parameters
that the data know in combination only would be moved too little one by one. Every pair has random numbers of its own,
and Cov(ŝ) is the mean over all points as far as it does not bend over a step, so that with many parameters it is not
left to the few simulations at θ. The gap between plug-in and bound is the
forecast's own systematic error (compare Coulton & Wandelt, arXiv 2305.08994).
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._support.arguments import as_count, as_seed, as_theta, refuse_outside
from .._support.progress import Advance, progress_bar
from ..errors import ArgumentError, FisherScoreWarning
from ..score.combined import CombinedScore
from ..score.model import ScoreModel
from ..simulation.execution.dispatch import draw_block, engine_for
from ..simulation.execution.engine import Engine
from ..simulation.execution.run import OK, Purpose, Stream
from ..simulation.simulator import Simulator
from .fisher_matrix import FisherMatrix
from .forecast_notes import forecast_notes
from .forecast_result import Forecast
from .linear_scores import linear_scores, may_be_linear
from .score_moments import Moments, bound_of, derivative_of, plug_in_and_slope

# Half-width of the finite difference in units of the σ along it: large enough for simulators that do not vary
# smoothly with θ at fixed random numbers, small enough for a bias of a few parts in a thousand.
_STEP = 0.4
# What that step leaves of relative error in D: all there is for simulators so smooth that paired noise cancels.
_STEP_ERROR = 2e-3
# Beside ŝ, linear scores may take part in the bound up to so many components in all, and where what is taken off for
# their noise is no more than this part of it: of larger noise, the bound with the best luck would be chosen.
_MOST_STATISTICS, _MOST_NOISE = 60, 0.2
# Dropping more failed runs than this would bias the forecast.
_MAX_FAILURES = 0.01


def forecast(
    model: ScoreModel,
    theta0: Any,
    simulator: Simulator,
    *,
    num_simulations: int = 10_000,
    seed: int = 0,
    workers: int | None = None,
    dask: Any = None,
    progress: bool | None = None,
) -> Forecast:
    """Forecast parameter errors at one point from fresh simulations.

    Args:
        model: A score model.
        theta0: Parameters, shape (p,), or a mapping by name.
        simulator: The simulator of the data.
        num_simulations: All that is spent, shared evenly by 2p + 1 points: θ₀, and two beside it for each parameter. Up
            to 1 % of the simulations may fail.
        seed: Whole number; the same seed gives the same forecast.
        workers: Number of worker processes, as in :func:`fisherscore.simulate`.
        dask: A Dask client, as in :func:`fisherscore.simulate`.
        progress: Whether to show how far it is; by default what takes more than a moment is shown.

    Returns:
        The forecast, with errors of every estimate.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> forecast = fs.forecast(problem.exact_model(), [0.0, 0.0], problem.simulator)
    >>> forecast.sigma.round(1).tolist()
    [1.0, 1.0]
    """
    theta = _checked(model, theta0, simulator, "theta0")
    if theta.ndim != 1:
        raise ArgumentError(
            f"theta0: expected one point of shape ({len(model.names)},), got shape {theta.shape}. For many points use "
            "forecast_grid."
        )
    refuse_outside(theta, model, "theta0")
    point = _Point(model, theta, simulator.with_names(model.names), engine_for(simulator, workers, dask), as_seed(seed))
    with progress_bar("forecast", as_count(num_simulations, "num_simulations"), progress) as advance:
        return point.forecast(num_simulations, advance)


def forecast_grid(
    model: ScoreModel,
    theta0s: Any,
    simulator: Simulator,
    *,
    num_simulations: int = 10_000,
    seed: int = 0,
    workers: int | None = None,
    dask: Any = None,
    progress: bool | None = None,
) -> list[Forecast]:
    """Forecast parameter errors at many points, each from simulations of its own.

    Args:
        model: A score model.
        theta0s: Parameters, shape (n, p), or a mapping by name to n values each.
        simulator: The simulator of the data.
        num_simulations: What is spent on each point, as in :func:`fisherscore.forecast`.
        seed: Seed of the first point; that of point i is ``seed + i``.
        workers: Number of worker processes, as in :func:`fisherscore.simulate`.
        dask: A Dask client, as in :func:`fisherscore.simulate`.
        progress: Whether to show how far it is; by default what takes more than a moment is shown.

    Returns:
        One forecast for each point.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> points = [[-1.0, -1.0], [1.0, 1.0]]
    >>> forecasts = fs.forecast_grid(problem.exact_model(), points, problem.simulator, num_simulations=1_000)
    >>> [forecast.theta0.tolist() for forecast in forecasts]
    [[-1.0, -1.0], [1.0, 1.0]]
    """
    theta = _checked(model, theta0s, simulator, "theta0s")
    if theta.ndim != 2:
        raise ArgumentError(f"theta0s: expected points of shape (n, {len(model.names)}), got shape {theta.shape}.")
    refuse_outside(theta, model, "theta0s")
    engine, named, first = engine_for(simulator, workers, dask), simulator.with_names(model.names), as_seed(seed)
    if first + len(theta) > 2**63:
        raise ArgumentError(
            f"seed: expected that of the last point, seed + {len(theta) - 1}, to be at most 2**63 - 1, got {seed}. "
            "Choose a smaller seed."
        )
    points = [_Point(model, row, named, engine, first + i) for i, row in enumerate(theta)]
    total = as_count(num_simulations, "num_simulations") * len(points)
    with progress_bar("forecast", total, progress) as advance:
        return [point.forecast(num_simulations, advance) for point in points]


def _checked(model: Any, theta: Any, simulator: Any, argument: str) -> np.ndarray:
    """Check what both kinds of forecast are given, and return the parameters as an array."""
    if not isinstance(model, ScoreModel):
        raise ArgumentError(f"model: expected a score model, got {type(model).__name__}.")
    if isinstance(model, CombinedScore):
        raise ArgumentError("model: combined probes have several simulators; forecast each probe and add with .add.")
    if not isinstance(simulator, Simulator):
        raise ArgumentError(f"simulator: expected a simulator, got {simulator!r}. Wrap a function with from_python.")
    return np.asarray(as_theta(theta, model.names, argument))


@dataclass(frozen=True, eq=False)
class _Point:
    """One point θ of a forecast, and where its simulations come from."""

    model: ScoreModel
    theta: np.ndarray
    simulator: Simulator
    engine: Engine
    seed: int

    def forecast(self, num_simulations: int, advance: Advance) -> Forecast:
        """Make the three estimates and their bootstrap replicates from ``num_simulations`` fresh simulations."""
        p = len(self.theta)
        num = as_count(num_simulations, "num_simulations", minimum=20 * (2 * p + 1)) // (2 * p + 1)
        centre = self.draw(0, [self.theta], num, advance)
        steps = _steps(self.model, self.theta, centre.scores[0])
        ends = [
            self.draw(1 + axis, [self.theta - step, self.theta + step], num, advance)
            for axis, step in enumerate(steps.T)
        ]
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(1,)))
        at_centre, *at_ends = (Moments.of(each, rng) for each in _statistics([centre, *ends], steps))
        step_error = _STEP_ERROR * rng.normal(size=len(at_centre.means))
        step_error[0] = 0.0
        derivative = derivative_of(at_ends, steps, step_error)
        own = at_centre.first(p), [end.first(p) for end in at_ends]
        plug_in, slope = (
            FisherMatrix(self.model.names, values[0], values[1:])
            for values in plug_in_and_slope(*own, derivative[:, :p])
        )
        bound = self.bound(at_centre, at_ends, derivative)
        spent = sum(each.scores.shape[0] * each.scores.shape[1] for each in (centre, *ends))
        result = Forecast(self.theta, plug_in, slope, bound, num_simulations=spent)
        result = replace(result, notes=forecast_notes(result, self.model))
        for note in result.notes:
            warnings.warn(note, FisherScoreWarning, stacklevel=3)
        return result

    def bound(self, centre: Moments, ends: list[Moments], derivative: np.ndarray) -> FisherMatrix:
        """Compute the bound of ŝ, and of p more statistics of each linear score where these pay for their noise.

        The square of the noise in D is never negative, and must not be claimed as information. That of a linear score
        counts twice where there is nothing to learn: draws that share a noise by chance then teach it to one another.
        """
        p, own, bounds = len(self.theta), None, []
        for number in range(p, derivative.shape[1] + 1, p):
            parts = centre.first(number), [end.first(number) for end in ends]
            values = bound_of(*parts, derivative[:, :number])
            noise = values[1:].mean(axis=0) - values[0]
            own = noise if own is None else own
            taken = 2 * noise - own
            if number == p or _is_small(taken - own, values[0]):
                bounds.append(FisherMatrix(self.model.names, values[0] - taken, values[1:] - noise - taken))
        return max(bounds, key=_information)

    def draw(self, group: int, thetas: list[np.ndarray], num: int, advance: Advance) -> "_Drawn":
        """Simulate at points with the same random numbers, those of a group; scores are those at θ.

        What failed at one of the points is left out at all of them.
        """
        scores = np.full((len(thetas), num, len(self.theta)), np.nan)
        size = int(np.prod(self.model.x_shape))
        data = np.full((len(thetas), num, size if may_be_linear(size) else 0), np.nan)
        stream = Stream(self.seed, Purpose.FORECAST)
        for each, x, theta in zip(scores, data, thetas, strict=True):
            rows = np.tile(theta, (num, 1))
            block = draw_block(self.simulator, rows, stream, self.engine, advance, first=group * num)
            good = block.status == OK
            if np.mean(~good) > _MAX_FAILURES:
                block.refuse_failures(self.simulator.name, rows)
            each[good] = self.model.score(self.theta, block.x[good])
            if x.shape[1]:
                x[good] = np.reshape(block.x[good], (-1, size))
        good = np.isfinite(scores).all(axis=(0, 2))
        return _Drawn(scores[:, good], data[:, good])


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Scores (points, simulations, p) of a group, and its data (points, simulations, d); none where d is large."""

    scores: np.ndarray
    data: np.ndarray


def _statistics(groups: list[_Drawn], steps: np.ndarray) -> list[np.ndarray]:
    """Put linear scores beside those of the model, for every group (points, simulations, q)."""
    p = len(steps)
    linear = linear_scores([group.data for group in groups], steps)[: max(0, _MOST_STATISTICS // p - 1)]
    columns = zip(*linear, strict=True) if linear else ([] for _ in groups)
    return [np.concatenate([group.scores, *more], axis=2) for group, more in zip(groups, columns, strict=True)]


def _is_small(noise: np.ndarray, bound: np.ndarray) -> bool:
    """Say whether what noise adds to a bound is a small part of it, in every direction that the bound knows."""
    values, vectors = np.linalg.eigh(bound)
    if not values[0] > 0:
        return False
    half = vectors / np.sqrt(values)
    return bool(np.linalg.norm(half.T @ noise @ half, ord=2) < _MOST_NOISE)


def _information(bound: FisherMatrix) -> float:
    """Return the logarithm of the determinant, or less than any where a direction is not known."""
    sign, logarithm = np.linalg.slogdet(bound.matrix)
    known = sign > 0 and np.linalg.eigvalsh(bound.matrix)[0] > 0
    return float(logarithm) if known else -np.inf


def _steps(model: ScoreModel, theta: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Choose steps within the region, the columns of a matrix (p, p): principal axes, each a part of the σ along it."""
    precision = scores.T @ scores / len(scores) + model.region_precision()
    if not (np.diagonal(precision) > 0).all():
        name = model.names[int(np.argmin(np.diagonal(precision)))]
        raise ArgumentError(f"model: its score for {name!r} is zero at theta0, so there is nothing to forecast.")
    room, span = np.minimum(theta - model.low, model.high - theta), model.high - model.low
    unit = 1 / np.sqrt(np.diagonal(precision))
    if (room < 1e-3 * np.minimum(_STEP * unit, span)).any():
        name = model.names[int(np.argmin(room / span))]
        raise ArgumentError(
            f"theta0: {name!r} lies on the edge of the training region, where no simulation can be run beyond it. Move "
            "theta0 inwards or train on a larger region."
        )
    # Parameters next to an edge are moved alone, as far as they can be, so as not to shorten the steps of the others.
    tight = room < _STEP * unit
    axes = np.diag(np.where(tight, room, 0.0))
    loose = np.flatnonzero(~tight)
    if len(loose):
        values, vectors = np.linalg.eigh((precision * np.outer(unit, unit))[np.ix_(loose, loose)])
        axes[np.ix_(loose, loose)] = unit[loose, None] * vectors * (_STEP / np.sqrt(values))
    with np.errstate(divide="ignore"):
        return axes * np.minimum(1.0, (room[:, None] / np.abs(axes)).min(axis=0))
