"""Fisher forecasts from a learned score: three estimates from fresh simulations at θ, each with its error.

    plug-in   E[ŝ ŝᵀ]                  the paper's; noise in ŝ looks like information, and a ŝ too small hides some
    slope     D = ∇θ' E[ŝ(θ, x)] at θ' = θ, x ~ p(x | θ')      linear in the error of ŝ
    bound     Dᵀ Cov(ŝ)⁻¹ D  ≤  F      by Cauchy-Schwarz, whatever the network: the conservative forecast

D comes from simulations at θ ± δ with the same random numbers, ŝ always being evaluated at θ. The gap between
plug-in and bound is the forecast's own systematic error (compare Coulton & Wandelt, arXiv 2305.08994).
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.arguments import as_count, as_seed, as_theta
from .._support.text import columns
from ..errors import ArgumentError, FisherScoreWarning
from ..score.combined import CombinedScore
from ..score.model import ScoreModel
from ..simulation.execution.dispatch import draw_block, engine_for
from ..simulation.execution.engine import Engine
from ..simulation.execution.run import OK, Purpose, Stream
from ..simulation.simulator import Simulator
from .fisher_matrix import FisherMatrix

# Half-width of the finite difference in units of the conditional σ: large enough for simulators that do not vary
# smoothly with θ at fixed random numbers, small enough for a bias of a few parts in a thousand.
_STEP = 0.4
# What that step leaves of relative error in D: all there is for simulators so smooth that paired noise cancels.
_STEP_ERROR = 2e-3
_NUM_BOOTSTRAP = 200
# A bound with a larger relative error is no number to quote.
_MOST_UNSURE = 0.3
# Dropping more failed runs than this would bias the forecast.
_MOST_FAILURES = 0.01


@dataclass(frozen=True)
class Forecast:
    """Three Fisher matrices at one θ: ``plug_in``, ``slope`` and ``bound``, with the parameters by name.

    ``fisher``, ``covariance`` and ``sigma`` are the plug-in's; those ending in ``_bound`` the conservative ones.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> forecast = fs.forecast(problem.exact_model(), [0.0, 0.0], problem.simulator)
    >>> forecast.fix("theta1").names, forecast.sigma_bound.round(1).tolist()
    (('theta2',), [1.0, 1.0])
    """

    theta: np.ndarray
    plug_in: FisherMatrix
    slope: FisherMatrix
    bound: FisherMatrix
    num_simulations: int

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that are left."""
        return self.plug_in.names

    @property
    def fisher(self) -> np.ndarray:
        """The plug-in Fisher matrix."""
        return self.plug_in.matrix

    @property
    def fisher_error(self) -> np.ndarray | None:
        """Standard error of each entry of the plug-in."""
        return self.plug_in.error

    @property
    def fisher_slope(self) -> np.ndarray:
        """The slope estimate of the Fisher matrix."""
        return self.slope.matrix

    @property
    def fisher_slope_error(self) -> np.ndarray | None:
        """Standard error of each entry of the slope."""
        return self.slope.error

    @property
    def fisher_bound(self) -> np.ndarray:
        """The conservative Fisher matrix, which never claims more than the data hold."""
        return self.bound.matrix

    @property
    def fisher_bound_error(self) -> np.ndarray | None:
        """Standard error of each entry of the bound."""
        return self.bound.error

    @property
    def covariance(self) -> np.ndarray:
        """The plug-in covariance."""
        return self.plug_in.covariance

    @property
    def covariance_error(self) -> np.ndarray | None:
        """Standard error of each entry of the plug-in covariance."""
        return self.plug_in.covariance_error

    @property
    def sigma(self) -> np.ndarray:
        """Marginal errors of the plug-in."""
        return self.plug_in.sigma

    @property
    def sigma_error(self) -> np.ndarray | None:
        """Standard error of the plug-in's marginal errors."""
        return self.plug_in.sigma_error

    @property
    def sigma_bound(self) -> np.ndarray:
        """Conservative marginal errors."""
        return self.bound.sigma

    @property
    def conditional_sigma(self) -> np.ndarray:
        """Conditional errors of the plug-in."""
        return self.plug_in.conditional_sigma

    @property
    def correlation(self) -> np.ndarray:
        """Correlations of the plug-in."""
        return self.plug_in.correlation

    def figure_of_merit(self, names: Sequence[str] | None = None) -> float:
        """Compute the plug-in's figure of merit, 1 / √det of the covariance of the named parameters."""
        return self.plug_in.figure_of_merit(names)

    def marginalize(self, names: Sequence[str] | str) -> "Forecast":
        """Let the named parameters be free and drop them, in all three estimates."""
        return self._mapped(lambda f: f.marginalize(names))

    def fix(self, names: Sequence[str] | str) -> "Forecast":
        """Take the named parameters as known and drop them, in all three estimates."""
        return self._mapped(lambda f: f.fix(names))

    def add(self, other: "Forecast | FisherMatrix | Mapping[str, float]") -> "Forecast":
        """Add other data (each estimate to its like) or a Gaussian prior given as standard deviations by name."""
        if not isinstance(other, Forecast):
            return self._mapped(lambda f: f.add(other))
        parts = {k: getattr(self, k).add(getattr(other, k)) for k in ("plug_in", "slope", "bound")}
        own = dict(zip(self.names, self.theta, strict=True))
        theirs = dict(zip(other.names, other.theta, strict=True))
        for name in set(own) & set(theirs):
            if abs(own[name] - theirs[name]) > 0.1 * min(1 / np.sqrt(np.diagonal(self.fisher))):
                raise ArgumentError(
                    f"other: forecasts at different parameters do not add: {name!r} is {own[name]:.6g} here and "
                    f"{theirs[name]:.6g} there. Forecast both at the same theta0."
                )
        theta = np.array([(theirs | own)[n] for n in parts["plug_in"].names])
        return Forecast(theta, **parts, num_simulations=self.num_simulations + other.num_simulations)

    def times(self, number: float) -> "Forecast":
        """Return the forecast for ``number`` independent observations like this one."""
        return self._mapped(lambda f: f.times(number))

    def table(self) -> str:
        """Return the marginal and conditional errors as a table."""
        return _table(self)

    def __str__(self) -> str:
        return self.table()

    def _mapped(self, function: Callable[[FisherMatrix], FisherMatrix]) -> "Forecast":
        parts = {k: function(getattr(self, k)) for k in ("plug_in", "slope", "bound")}
        by_name = dict(zip(self.names, self.theta, strict=True))
        theta = np.array([by_name.get(n, np.nan) for n in parts["plug_in"].names])
        return Forecast(theta, **parts, num_simulations=self.num_simulations)


def forecast(
    model: ScoreModel,
    theta0: Any,
    simulator: Simulator,
    *,
    num_simulations: int = 10_000,
    seed: int = 0,
    workers: int | None = None,
    dask: Any = None,
) -> Any:
    """Forecast parameter errors at ``theta0`` from fresh simulations; many rows of ``theta0`` give a list.

    ``num_simulations`` is all that is spent on one θ: 2p + 1 points with as many simulations each. They run here, or as
    ``workers`` and ``dask`` say, like those of :func:`fisherscore.simulate`. Up to 1 % of them may fail.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> forecast = fs.forecast(problem.exact_model(), [0.0, 0.0], problem.simulator)
    >>> forecast.sigma.round(1).tolist()
    [1.0, 1.0]
    """
    if not isinstance(model, ScoreModel):
        raise ArgumentError(f"model: expected a score model, got {type(model).__name__}.")
    if isinstance(model, CombinedScore):
        raise ArgumentError("model: combined probes have several simulators; forecast each probe and add with .add.")
    if not isinstance(simulator, Simulator):
        raise ArgumentError(f"simulator: expected a simulator, got {simulator!r}. Wrap a function with from_python.")
    theta = np.asarray(as_theta(theta0, model.names, "theta0"))
    if theta.ndim > 2:
        raise ArgumentError(f"theta0: expected shape (p,) or (n, p), got {theta.shape}.")
    _refuse_outside(model, np.atleast_2d(theta))
    num = as_count(num_simulations, "num_simulations", minimum=20 * (2 * len(model.names) + 1))
    engine = engine_for(simulator, workers, dask)
    named = simulator.with_names(model.names)

    def one(row: np.ndarray, number: int) -> Forecast:
        def scores(at: np.ndarray, each: int) -> np.ndarray:
            return _scores(model, row, at, named, engine, each, number)

        return _forecast_one(model, row, scores, num, number)

    if theta.ndim == 2:
        return [one(row, as_seed(seed) + i) for i, row in enumerate(theta)]
    return one(theta, as_seed(seed))


def _forecast_one(
    model: ScoreModel, theta: np.ndarray, scores: Callable[[np.ndarray, int], np.ndarray], num: int, seed: int
) -> Forecast:
    p = len(theta)
    each = num // (2 * p + 1)
    centre = scores(theta, each)
    steps = _steps(model, theta, centre[np.isfinite(centre).all(axis=1)])
    ends = np.stack(
        [[scores(theta + sign * steps[k] * np.eye(p)[k], each) for sign in (-1, 1)] for k in range(p)]
    )  # parameter, end, record, component
    good = np.isfinite(centre).all(axis=1) & np.isfinite(ends).all(axis=(0, 1, 3))
    centre, ends, each = centre[good], ends[:, :, good], int(good.sum())
    slopes = (ends[:, 1] - ends[:, 0]) / (2 * steps[:, None, None])
    # One estimate from the records, and replicates from records drawn again with replacement; pairs stay together.
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    estimate = _three(centre, slopes)
    replicates = [
        _three(centre[rows], slopes[:, rows] * (1 + _STEP_ERROR * rng.normal()))
        for rows in rng.integers(each, size=(_NUM_BOOTSTRAP, each))
    ]
    plug_in, slope, bound = (
        FisherMatrix(model.names, value, np.stack([r[i] for r in replicates])) for i, value in enumerate(estimate)
    )
    result = Forecast(theta, plug_in, slope, _less_noise(bound), num_simulations=each * (2 * p + 1))
    _warn_if_doubtful(result)
    return result


def _scores(
    model: ScoreModel, theta: np.ndarray, at: np.ndarray, simulator: Simulator, engine: Engine, num: int, seed: int
) -> np.ndarray:
    """Simulate at ``at`` with the random numbers of ``seed`` and return the scores at θ, NaN where a run failed."""
    rows = np.tile(at, (num, 1))
    block = draw_block(simulator, rows, Stream(seed, Purpose.FORECAST), engine)
    good = block.status == OK
    if np.mean(~good) > _MOST_FAILURES:
        block.refuse_failures(simulator.name, rows)
    scores = np.full((num, len(theta)), np.nan)
    scores[good] = model.score(theta, block.x[good])
    return scores


def _steps(model: ScoreModel, theta: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Choose δ for each parameter: a part of its conditional σ, within the training region."""
    information = np.mean(scores**2, axis=0)
    if not (information > 0).all():
        name = model.names[int(np.argmin(information))]
        raise ArgumentError(f"model: its score for {name!r} is zero at theta0, so there is nothing to forecast.")
    room = np.minimum(theta - model.low, model.high - theta)
    steps = np.minimum(_STEP / np.sqrt(information), room)
    if (steps < 1e-3 * np.minimum(_STEP / np.sqrt(information), model.high - model.low)).any():
        name = model.names[int(np.argmin(room / (model.high - model.low)))]
        raise ArgumentError(
            f"theta0: {name!r} lies on the edge of the training region, where no simulation can be run beyond it. Move "
            "theta0 inwards or train on a larger region."
        )
    return steps


def _three(centre: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute plug-in, slope and bound from scores at θ (record, j) and their differences (k, record, j)."""
    num, p = centre.shape
    plug_in = centre.T @ centre / num
    derivative = slopes.mean(axis=1).T  # D[j, k] = ∂E[ŝ_j] / ∂θ_k
    covariance = np.cov(centre, rowvar=False).reshape(p, p)
    bound = derivative.T @ np.linalg.pinv(covariance, hermitian=True) @ derivative
    return plug_in, (derivative + derivative.T) / 2, (bound + bound.T) / 2


def _less_noise(bound: FisherMatrix) -> FisherMatrix:
    """Take off what the noise of D adds to the bound: a square of noise is never negative, and must not be claimed."""
    assert bound.draws is not None
    bias = bound.draws.mean(axis=0) - bound.matrix
    return FisherMatrix(bound.names, bound.matrix - bias, bound.draws - 2 * bias)


def _refuse_outside(model: ScoreModel, theta: np.ndarray) -> None:
    for row in theta:
        if not model.inside(row):
            region = ", ".join(
                f"{n} in [{a:.6g}, {b:.6g}]" for n, a, b in zip(model.names, model.low, model.high, strict=True)
            )
            raise ArgumentError(f"theta0: {row.tolist()} lies outside the training region ({region}).")


def _warn_if_doubtful(result: Forecast) -> None:
    """Warn when the data may leave a direction free, or when plug-in and bound disagree beyond their errors."""
    assert result.plug_in.draws is not None
    assert result.bound.draws is not None
    for estimate in (result.plug_in, result.bound):
        if estimate.degenerate_direction() is not None:
            warnings.warn(
                f"The Fisher matrix is singular: the data do not constrain {estimate.degenerate_direction()}. "
                "Errors exist only after .add or .fix.",
                FisherScoreWarning,
                stacklevel=4,
            )
            return
    with np.errstate(invalid="ignore"):
        claims = np.sqrt(np.diagonal(result.bound.covariance) / np.diagonal(result.plug_in.covariance)) - 1
        spread = np.std(
            [
                np.sqrt(np.abs(np.diagonal(np.linalg.inv(b)) / np.diagonal(np.linalg.inv(a))))
                for a, b in zip(result.plug_in.draws, result.bound.draws, strict=True)
            ],
            axis=0,
        )
    worst = int(np.nanargmax(np.abs(claims) / spread))
    assert result.bound.sigma_error is not None
    unsure = result.bound.sigma_error / result.bound.sigma
    if not unsure.max() < _MOST_UNSURE:
        name = result.names[int(np.argmax(unsure))]
        warnings.warn(
            f"The conservative bound is not determined: that of {name!r} has an error of {unsure.max():.0%}. The "
            "learned score hardly responds to the parameters here, or too few simulations were spent on the forecast.",
            FisherScoreWarning,
            stacklevel=4,
        )
    if not abs(claims[worst]) < 3 * spread[worst] + 0.02:
        warnings.warn(
            f"The plug-in forecast and the conservative bound disagree: for {result.names[worst]!r} the bound's error "
            f"is {claims[worst]:+.0%} (± {spread[worst]:.0%}) from the plug-in's. The learned score is noisy or biased "
            "here: quote the bound, or train on more simulations.",
            FisherScoreWarning,
            stacklevel=4,
        )


def _table(result: Forecast) -> str:
    """Lay out one row per parameter: σ of the three estimates with errors, and the conditional σ."""
    degenerate = [f.degenerate_direction() for f in (result.plug_in, result.slope, result.bound)]
    head = f"Fisher forecast, {result.num_simulations:,} simulations"
    if any(degenerate):
        return f"{head}\nsingular: the data do not constrain {next(d for d in degenerate if d)}"
    rows: list[Sequence[str]] = [("parameter", "value", "σ plug-in", "σ slope", "σ bound", "σ conditional")]
    estimates = (result.plug_in, result.slope, result.bound)
    sigmas = [f.sigma for f in estimates]
    errors = [f.sigma_error for f in estimates]
    for i, name in enumerate(result.names):
        cells = [f"{s[i]:.4g}" + ("" if e is None else f" ± {e[i]:.1g}") for s, e in zip(sigmas, errors, strict=True)]
        rows.append((name, f"{result.theta[i]:.6g}", *cells, f"{result.conditional_sigma[i]:.4g}"))
    return "\n".join([head, *columns(rows), f"figure of merit {result.figure_of_merit():.5g}"])
