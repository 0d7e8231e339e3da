"""Posterior predictive checks: would this model, at these parameters, have given data like those observed?

Data are simulated at draws of the posterior. Each datum gets a p-value, two-sided, from its place among the simulated
ones; all of them together get one from their distance from what is usual. Half of the simulations say what is usual,
the other half how far simulated data are from it, so that observed and simulated data are judged alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.arguments import as_count, as_finite, as_indices, as_seed
from .._support.check_pictures import draw_predictions
from .._support.progress import Advance, progress_bar
from .._support.text import columns, html_table
from ..errors import ArgumentError
from ..simulation.execution.dispatch import draw_block, engine_for
from ..simulation.execution.engine import Engine
from ..simulation.execution.run import OK, Purpose, Stream
from ..simulation.simulator import Simulator
from .diagnosis_result import LEVEL
from .posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# With fewer no p-value could be small enough to tell.
_MIN_SIMULATIONS, _MIN_SUCCESSES = 400, 200
_MOST_ROWS = 8
# Distances use the correlations of data of which there are at least so many simulations for each.
_ROWS_PER_DATUM = 5


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """What a posterior predicts, and how well the observation fits in; printed, it is a table of the rarest data.

    Attributes:
        observed: The data observed, or statistics of them, shape (d,).
        replicates: The same of data simulated at draws of the posterior, shape (n, d).
        p_values: How rare each is, two-sided: the chance of one as far out on either side, shape (d,).
        p_value: How rare all are together: the chance of data as far, in all directions at once, from what is usual.
        p_value_of_rarest: How rare the rarest of all is, its being the rarest of d taken into account.
        num_failed: Number of simulations that failed and were left out.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> posterior = fs.sample(problem.exact_model(), [0.5, -0.5], num_samples=200, num_warmup=200)
    >>> check = fs.predictive_check(posterior, problem.simulator, [0.5, -0.5], num_simulations=400)
    >>> check.p_values.shape, check.passed
    ((2,), True)
    """

    observed: np.ndarray
    replicates: np.ndarray
    p_values: np.ndarray
    p_value: float
    p_value_of_rarest: float
    num_failed: int

    @property
    def passed(self) -> bool:
        """Whether neither all data together nor the rarest of them are too rare to be chance."""
        return min(self.p_value, self.p_value_of_rarest) >= LEVEL

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw what is predicted for each datum, and what was observed.

        Args:
            ax: Matplotlib axes to draw into; by default those of a new figure.

        Returns:
            The axes.
        """
        return draw_predictions(self, ax)

    def __repr__(self) -> str:
        return f"PredictiveCheck(p = {self.p_value:.2g}; {len(self.replicates):,} simulations)"

    def __str__(self) -> str:
        rows: list[Sequence[str]] = [("datum", "observed", "predicted", "p")]
        rows += self._rows()
        cut = [f"and {len(self.p_values) - _MOST_ROWS} that are less rare"] if len(self.p_values) > _MOST_ROWS else []
        return "\n".join([self._headline(), *columns(rows), *cut])

    def _repr_html_(self) -> str:
        rows = [(f"datum {number}", f"{seen}; predicted {mean} (p = {p})") for number, seen, mean, p in self._rows()]
        return html_table(self._headline(), rows)

    def _headline(self) -> str:
        verdict = "The model predicts data like these" if self.passed else "The model does not predict data like these"
        failed = f"; {self.num_failed:,} simulations failed" if self.num_failed else ""
        together = f"all together p = {self.p_value:.2g}, the rarest p = {self.p_value_of_rarest:.2g}"
        return f"{verdict}: {together}, from {len(self.replicates):,} simulations at draws of the posterior{failed}."

    def _rows(self) -> list[tuple[str, str, str, str]]:
        mean, spread = self.replicates.mean(axis=0), self.replicates.std(axis=0)
        return [
            (str(i), f"{self.observed[i]:.5g}", f"{mean[i]:.5g} ± {spread[i]:.2g}", f"{self.p_values[i]:.2g}")
            for i in np.argsort(self.p_values, kind="stable")[:_MOST_ROWS]
        ]


def predictive_check(
    posterior: Posterior,
    simulator: Simulator,
    x_obs: Any,
    *,
    num_simulations: int = 1_000,
    statistics: Callable[[np.ndarray], Any] | None = None,
    iid: bool = False,
    names: Sequence[str] | None = None,
    seed: int = 0,
    workers: int | None = None,
    dask: Any = None,
    progress: bool | None = None,
) -> PredictiveCheck:
    """Simulate at draws of a posterior, and say how well the observation fits in.

    A posterior can be right and the model wrong: this is a check of the simulator, not of the learned score. The data
    have been used twice, for the posterior and for the check, so p-values are if anything too large.

    Args:
        posterior: The posterior of ``x_obs``.
        simulator: The simulator of the data, of any kind. Runs that fail are left out and counted.
        x_obs: The observation; with ``iid``, one more leading axis of independent draws at the same θ.
        num_simulations: Number of simulated data sets, at least 400: of fewer no p-value is small enough to tell.
        statistics: A function of one data set that returns the numbers to be compared; by default the data
            themselves, and with ``iid`` the mean and the standard deviation of each datum over the draws.
        iid: Whether ``x_obs`` holds independent draws at the same θ; each simulated data set then has as many.
        names: The parameters the simulator takes, where the posterior has others beside them; by default all.
        seed: Seed of the simulations.
        workers: Number of worker processes, as in :func:`fisherscore.simulate`.
        dask: A Dask client, as in :func:`fisherscore.simulate`.
        progress: Whether to show how far it is; by default what takes more than a moment is shown.

    Returns:
        The check, with p-values and a picture.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> posterior = fs.sample(problem.exact_model(), [0.5, -0.5], num_samples=200, num_warmup=200)
    >>> print(fs.predictive_check(posterior, problem.simulator, [0.5, -0.5], num_simulations=400).num_failed)
    0
    """
    if not isinstance(posterior, Posterior) or not isinstance(simulator, Simulator):
        raise ArgumentError(
            f"posterior, simulator: expected a posterior and a simulator, got {type(posterior).__name__} and "
            f"{type(simulator).__name__}."
        )
    num, given = as_count(num_simulations, "num_simulations", minimum=_MIN_SIMULATIONS), as_finite(x_obs, "x_obs")
    if iid and (given.ndim < 2 or not len(given)):
        raise ArgumentError(f"x_obs: with iid=True expected draws along one more leading axis, got {given.shape}.")
    places = as_indices(posterior.names if names is None else names, posterior.names)
    rng = np.random.default_rng(np.random.SeedSequence(as_seed(seed), spawn_key=(int(Purpose.PREDICTIVE),)))
    theta = posterior.samples[rng.integers(len(posterior.samples), size=num)][:, places]
    run = simulator.with_names(tuple(posterior.names[i] for i in places)), engine_for(simulator, workers, dask)
    num_draws = len(given) if iid else None
    with progress_bar("predictive check", num * (num_draws or 1), progress) as advance:
        x, num_failed = _simulated(run, theta, num_draws, (as_seed(seed), advance))
    return _judged(given, x, statistics or (_mean_and_spread if iid else np.ravel), num_failed)


def _simulated(
    run: tuple[Simulator, Engine], theta: np.ndarray, num_draws: int | None, how: tuple[int, Advance]
) -> tuple[np.ndarray, int]:
    """Simulate at each θ, once or a number of times; return data sets without failures, and how many runs failed."""
    (simulator, engine), (seed, advance), num = run, how, len(theta)
    rows = np.repeat(theta, num_draws or 1, axis=0)
    block = draw_block(simulator, rows, Stream(seed, Purpose.PREDICTIVE), engine, advance)
    failed = (block.status != OK).reshape(num, -1)
    if failed.any(axis=1).sum() > num - max(_MIN_SUCCESSES, num // 2):
        block.refuse_failures(simulator.name, rows)
    x = block.x if num_draws is None else block.x.reshape(num, num_draws, *block.x.shape[1:])
    return x[~failed.any(axis=1)], int(failed.sum())


def _judged(
    given: np.ndarray, x: np.ndarray, compared: Callable[[np.ndarray], Any], num_failed: int
) -> PredictiveCheck:
    """Compare what was observed with what was simulated, by some numbers of each."""
    if given.shape != x.shape[1:]:
        raise ArgumentError(f"x_obs: expected one observation of shape {x.shape[1:]}, got {given.shape}.")
    observed = _numbers(compared(given), None)
    return _compared(observed, np.stack([_numbers(compared(one), observed.shape) for one in x]), num_failed)


def _mean_and_spread(draws: np.ndarray) -> np.ndarray:
    """Give mean and standard deviation of each datum over independent draws."""
    return np.concatenate([draws.mean(axis=0).ravel(), draws.std(axis=0).ravel()])


def _numbers(values: Any, shape: tuple[int, ...] | None) -> np.ndarray:
    """Check what a function of the data returned."""
    numbers = np.atleast_1d(as_finite(values, "statistics"))
    if numbers.ndim != 1 or (shape is not None and numbers.shape != shape):
        raise ArgumentError(
            f"statistics: expected a function that returns as many numbers for every data set, got {numbers.shape}"
            f"{'' if shape is None else f' and {shape}'}."
        )
    return numbers


def _compared(observed: np.ndarray, replicates: np.ndarray, num_failed: int) -> PredictiveCheck:
    """Compute p-values of each number, of all together and of the rarest."""
    num = len(replicates)
    below = (1 + (replicates <= observed).sum(axis=0)) / (num + 1)
    above = (1 + (replicates >= observed).sum(axis=0)) / (num + 1)
    usual, others = replicates[::2], np.concatenate([replicates[1::2], observed[None]])
    # A number that never varies is right or infinitely far off.
    spread = usual.std(axis=0, ddof=1)
    spread = np.where(spread > 0, spread, 1e-12 * (1 + np.abs(usual[0])))
    white = (others - usual.mean(axis=0)) / spread
    return PredictiveCheck(
        observed=observed,
        replicates=replicates,
        p_values=np.minimum(1.0, 2 * np.minimum(below, above)),
        p_value=_rank(_distances(white, (usual - usual.mean(axis=0)) / spread)),
        p_value_of_rarest=_rank(np.abs(white).max(axis=1)),
        num_failed=num_failed,
    )


def _distances(white: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Return squared distances, with the correlations where there are simulations enough to know them."""
    d = usual.shape[1]
    if d == 1 or len(usual) < _ROWS_PER_DATUM * d:
        return (white**2).sum(axis=1)
    correlation = usual.T @ usual / len(usual) + 1e-6 * np.eye(d)
    return np.einsum("ni,ij,nj->n", white, np.linalg.inv(correlation), white)


def _rank(values: np.ndarray) -> float:
    """Return the p-value of the last of some values among all of them."""
    return float((values >= values[-1]).mean())
