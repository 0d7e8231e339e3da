"""Checks of posteriors by many simulated observations whose truth is known.

Ranks of the truth among the draws are uniform for right posteriors (simulation-based calibration, Talts et al. 2018,
arXiv 1804.06788), and so is the credibility at which the truth is just covered (TARP, Lemos et al. 2023, arXiv
2302.03026): the fraction of draws nearer to a random point than the truth is.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import chdtr, ndtr, ndtri

from .._support.arguments import as_finite, as_names
from ..errors import ArgumentError
from .diagnosis_result import FAIL, LEVEL, PASS, UNCLEAR, Check, Diagnosis

_MIN_POSTERIORS = 50
_MIN_DRAWS = 20
# Streams of their own: random points must not be those that a user's own seed 0 gives.
_REFERENCE_STREAM = np.random.SeedSequence(0, spawn_key=(2302, 3026))
_TIES_STREAM = np.random.SeedSequence(0, spawn_key=(1804, 6788))
# Smaller p-values are rounding errors.
_SMALLEST_P_VALUE = 1e-10


def check_calibration(theta: Any, samples: Any, *, names: Sequence[str] | None = None) -> Diagnosis:
    """Check one's own posterior samples, from whatever method, for right widths and places.

    Simulate observations at parameters drawn from the prior, and draw from the posterior of each. Draws should be
    independent, so thin a chain before. Parameters may be discrete: where draws equal the truth, its rank among them is
    chosen at random, always in the same way.

    Args:
        theta: The true parameters of the observations, shape (m, p), drawn from the prior.
        samples: Draws from the posterior of each observation, shape (m, draws, p).
        names: Parameter names; by default theta1, theta2 and so on.

    Returns:
        The checks ``"calibration"`` (of the ranks) and ``"coverage"``, with ranks and coverages.

    >>> import fisherscore as fs, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> theta = rng.normal(size=(200, 1))  # prior N(0, 1), x ~ N(theta, 1), so the posterior is N(x / 2, 1 / 2)
    >>> x = theta + rng.normal(size=(200, 1))
    >>> samples = x[:, None] / 2 + np.sqrt(0.5) * rng.normal(size=(200, 100, 1))
    >>> fs.check_calibration(theta, samples).passed
    True
    >>> too_narrow = x[:, None] / 2 + 0.5 * rng.normal(size=(200, 100, 1))
    >>> fs.check_calibration(theta, too_narrow).passed
    False
    """
    truth, draws = as_finite(theta, "theta"), as_finite(samples, "samples")
    if truth.ndim != 2 or not truth.size:
        raise ArgumentError(f"theta: expected shape (observations, parameters), got {truth.shape}.")
    num, p = truth.shape
    if draws.ndim != 3 or draws.shape[::2] != (num, p) or draws.shape[1] < _MIN_DRAWS:
        raise ArgumentError(
            f"samples: expected shape ({num}, draws, {p}) with at least {_MIN_DRAWS} draws for each of the {num} rows "
            f"of theta, got {draws.shape}."
        )
    if num < 2:
        raise ArgumentError(
            "theta: expected the parameters of many observations, got 1. One posterior cannot be told right from "
            f"wrong: simulate more observations, at least {_MIN_POSTERIORS}, and sample the posterior of each."
        )
    called = tuple(f"theta{i + 1}" for i in range(p)) if names is None else as_names(names, p)
    region = truth.min(axis=0), truth.max(axis=0)
    if (region[0] == region[1]).any():
        raise ArgumentError("theta: expected parameters drawn from the prior, but one of them never varies. Drop it.")
    ranks = ranks_of(truth, draws, _TIES_STREAM)
    coverage = coverage_of(truth, draws, region, _REFERENCE_STREAM)
    return Diagnosis(calibration_checks(ranks, coverage), called, num, ranks, coverage)


def ranks_of(truth: np.ndarray, draws: np.ndarray, seed: int | np.random.SeedSequence) -> np.ndarray:
    """Return the rank of each truth (m, p) among draws (m, draws, p), as a fraction between 0 and 1, shape (m, p)."""
    return _fraction_below(truth, draws, np.random.default_rng(seed))


def _fraction_below(truth: np.ndarray, draws: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the fraction of draws (m, draws, ...) below each truth (m, ...), never 0 or 1.

    Among draws equal to it, as discrete parameters have them, a truth takes a random place: only then are the ranks of
    right posteriors uniform.
    """
    below = (draws < truth[:, None]).sum(axis=1)
    equal = (draws == truth[:, None]).sum(axis=1)
    return (below + rng.integers(0, equal, endpoint=True) + 0.5) / (draws.shape[1] + 1)


def coverage_of(
    truth: np.ndarray, draws: np.ndarray, region: tuple[np.ndarray, np.ndarray], seed: int | np.random.SeedSequence
) -> np.ndarray:
    """Return the credibility at which each truth is just covered, seen from a random point of the region.

    The seed of these points must have nothing to do with that of truths and draws.
    """
    low, high = region
    rng = np.random.default_rng(seed)
    reference = rng.uniform(low, high, size=truth.shape)

    def distance(points: np.ndarray, centre: np.ndarray) -> np.ndarray:
        return np.sum(((points - centre) / (high - low)) ** 2, axis=-1)

    return _fraction_below(distance(truth, reference), distance(draws, reference[:, None]), rng)


def calibration_checks(ranks: np.ndarray, coverage: np.ndarray) -> tuple[Check, Check]:
    """Test that ranks and coverages are uniform."""
    p_value = min(1.0, ranks.shape[1] * min(uniformity(column) for column in ranks.T))
    widths = ndtri(ranks).std(axis=0)
    worst = int(np.argmax(np.abs(np.log(widths))))
    levels = np.sort(coverage)
    gap = float(np.max(np.abs(levels - (np.arange(len(levels)) + 0.5) / len(levels))))
    return (
        _check("calibration", float(widths[worst]) - 1, p_value, len(ranks)),
        _check("coverage", gap, uniformity(coverage), len(coverage)),
    )


def uniformity(fractions: np.ndarray) -> float:
    """Return the p-value of fractions being uniform: shape (KS), bias and width of their normal scores, together."""
    from scipy.stats import kstest  # half a second to import, and not needed by samplers

    scores = ndtri(fractions)
    num = len(scores)
    width = chdtr(num, np.sum(scores**2))
    tests = (
        kstest(fractions, "uniform").pvalue,
        2 * ndtr(-abs(scores.mean()) * np.sqrt(num)),
        2 * min(width, 1 - width),
    )
    return float(min(1.0, len(tests) * min(tests)))


def _check(name: str, value: float, p_value: float, num: int) -> Check:
    verdict = UNCLEAR if num < _MIN_POSTERIORS else PASS
    if p_value < LEVEL:
        verdict = FAIL
    return Check(
        name=name,
        value=value,
        standard_error=1 / np.sqrt(2 * num),
        tolerance=0.0,
        verdict=verdict,
        meaning=f"posteriors are miscalibrated ({name}, {_written(p_value)})",
    )


def _written(p_value: float) -> str:
    return f"p = {p_value:.1g}" if p_value >= _SMALLEST_P_VALUE else f"p < {_SMALLEST_P_VALUE:.0e}"
