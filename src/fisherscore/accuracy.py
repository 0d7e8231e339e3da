"""Yardsticks for problems whose truth is known.

Score error:  err = E[(ŝ − s)ᵀ F̄⁻¹ (ŝ − s)] / p  over θ from the training region and x ~ p(x | θ), with F̄ the mean
of s sᵀ over the same pairs. 0 is perfect; 1 is what predicting zero scores. Every direction weighs by how well it is
constrained, so that a badly learned weak direction cannot hide.

>>> import fisherscore as fs
>>> problem = fs.problems.linear_gaussian()
>>> fs.accuracy.score_error(problem.exact_model(), problem).mean
0.0

Field error: |ŝ − s| / |s| over the whole training region for one fixed observation, implausible corners included.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._support.arguments import as_count, as_finite
from ._support.grid import region_grid
from .errors import MissingExtraError
from .problems.problem import Problem
from .score.model import ScoreModel

__all__ = [
    "FieldError",
    "ScoreError",
    "c2st",
    "field_error",
    "forecast_error",
    "region_grid",
    "score_error",
    "score_error_of",
]


def __dir__() -> list[str]:
    return list(__all__)


@dataclass(frozen=True)
class ScoreError:
    """The score error of a model.

    Attributes:
        mean: The score error: 0 is perfect, 1 is what predicting zero gives.
        standard_error: The statistical error of ``mean``.
        median: Median over the pairs.
        num_pairs: Number of pairs (θ, x) it was measured on.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> fs.accuracy.score_error(problem.exact_model(), problem, num_pairs=100).num_pairs
    100
    """

    mean: float
    standard_error: float
    median: float
    num_pairs: int


@dataclass(frozen=True)
class FieldError:
    """Relative error of the score over a grid of θ for one observation.

    Attributes:
        median: Median over the grid.
        maximum: Largest error on the grid.
        num_points: Number of points of the grid.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> fs.accuracy.field_error(problem.exact_model(), problem, [0.1, 0.2], num_per_axis=5).num_points
    25
    """

    median: float
    maximum: float
    num_points: int


def score_error(model: ScoreModel, problem: Problem, *, num_pairs: int = 10_000, seed: int = 1) -> ScoreError:
    """Measure a model's score error on fresh pairs of a problem whose score is known.

    Args:
        model: The score model.
        problem: A problem with an exact score.
        num_pairs: Number of pairs (θ, x) to draw, θ from the problem's proposal.
        seed: Seed of the pairs; ``seed + 1`` is that of the simulations.

    Returns:
        The score error with its standard error.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> fs.accuracy.score_error(problem.exact_model(), problem, num_pairs=100).mean
    0.0
    """
    theta = problem.proposal.sample(as_count(num_pairs, "num_pairs", minimum=2), seed=seed)
    x = problem.simulator.draw(theta, seed=seed + 1)
    return score_error_of(np.asarray(model.score(theta, x)), np.asarray(problem.score(theta, x)))


def score_error_of(estimate: np.ndarray, truth: np.ndarray) -> ScoreError:
    """Compute the score error from scores of the same pairs.

    Args:
        estimate: Estimated scores, shape (n, p).
        truth: True scores, shape (n, p).

    Returns:
        The score error with its standard error.

    >>> import fisherscore as fs, numpy as np
    >>> truth = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(fs.accuracy.score_error_of(0 * truth, truth).mean, 6)
    1.0
    """
    estimate, truth = np.asarray(estimate, np.float64), np.asarray(truth, np.float64)
    fisher = truth.T @ truth / len(truth)
    delta = estimate - truth
    errors = np.einsum("ni,ni->n", delta, np.linalg.solve(fisher, delta.T).T) / truth.shape[1]
    return ScoreError(
        mean=float(errors.mean()),
        standard_error=float(errors.std(ddof=1) / np.sqrt(len(errors))),
        median=float(np.median(errors)),
        num_pairs=len(errors),
    )


def field_error(model: ScoreModel, problem: Problem, x_obs: Any, *, num_per_axis: int = 31) -> FieldError:
    """Measure the relative error of the score of one observation over a grid of the training region.

    Args:
        model: The score model.
        problem: A problem with an exact score.
        x_obs: The observation.
        num_per_axis: Number of grid points along each parameter.

    Returns:
        Median and maximum of |ŝ − s| / |s|, each parameter in units of its range.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> fs.accuracy.field_error(problem.exact_model(), problem, [0.1, 0.2]).median
    0.0
    """
    grid = region_grid(problem, num_per_axis)
    truth = np.asarray(problem.score(grid, x_obs), np.float64)
    delta = np.asarray(model.score(grid, x_obs), np.float64) - truth
    # Relative to parameters' own ranges, so that the result does not depend on their units.
    scale = problem.proposal.high - problem.proposal.low
    errors = np.linalg.norm(delta * scale, axis=1) / np.linalg.norm(truth * scale, axis=1)
    return FieldError(median=float(np.median(errors)), maximum=float(errors.max()), num_points=len(errors))


def c2st(first: Any, second: Any, *, seed: int = 0) -> float:
    """Try to tell two sets of samples apart with a classifier.

    The classifier two-sample test of Lopez-Paz and Oquab (arXiv 1610.06545), as used by Lueckmann et al. (2101.04653).
    Needs scikit-learn.

    Args:
        first: Samples, shape (n, p).
        second: Samples, shape (m, p).
        seed: Seed of the classifier and of its five folds.

    Returns:
        The fraction told apart on samples left out: 0.5 is the same distribution, 1 is disjoint.

    >>> import fisherscore as fs, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> fs.accuracy.c2st(rng.normal(size=(100, 1)), rng.normal(5.0, 1.0, size=(100, 1))) > 0.95
    True
    """
    try:
        from sklearn.model_selection import StratifiedKFold, cross_val_score
        from sklearn.neural_network import MLPClassifier
    except ImportError:
        raise MissingExtraError("c2st needs scikit-learn: pip install scikit-learn") from None
    rows = np.concatenate([as_finite(first, "first"), as_finite(second, "second")])
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    labels = np.repeat([0, 1], [len(first), len(second)])
    width = 10 * rows.shape[1]
    # Trained to the end: stopped early, it misses thin structures.
    classifier = MLPClassifier((width, width), max_iter=10_000, random_state=seed)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return float(cross_val_score(classifier, rows, labels, cv=folds).mean())


def forecast_error(forecasts: Any, fishers: Any) -> float:
    """Compare the marginal errors of forecasts with those of exact Fisher matrices.

    Args:
        forecasts: Forecasts, or anything with ``sigma``.
        fishers: One exact Fisher matrix per forecast, each of shape (p, p).

    Returns:
        The largest |σ̂/σ − 1| over parameters and forecasts.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> forecast = fs.forecast(problem.exact_model(), [0.0, 0.0], problem.simulator)
    >>> fs.accuracy.forecast_error([forecast], [problem.fisher([0.0, 0.0])]) < 0.1
    True
    """
    exact = np.array([np.sqrt(np.diag(np.linalg.inv(f))) for f in fishers])
    return float(np.max(np.abs(np.array([f.sigma for f in forecasts]) / exact - 1)))
