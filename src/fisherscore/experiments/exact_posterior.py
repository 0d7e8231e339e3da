"""Exact posteriors of problems with two parameters, drawn on a grid: nothing to sample, and little to compile.

Under a uniform prior over the training region. An exact likelihood can be long to compile; a sampler compiles it
several times and walks through it thousands of steps, one after the other, where a grid needs its value only.
"""

import itertools
import time

import numpy as np

from ..inference.convergence import convergence
from ..inference.posterior import Posterior
from ..problems import Problem

_NUM_CHAINS = 4
# Points along each axis, and how far the grid reaches from the centre, in standard deviations of the guess: cells are
# of 0.19 σ, which adds 0.3 % to the variance.
_NUM_POINTS, _REACH = 64, 6.0
# More than this in the outermost cells, and the grid is made wider.
_LARGEST_AT_EDGE = 1e-3
_MAX_WIDENINGS = 4


def draw_exact_posterior(
    problem: Problem, x_obs: np.ndarray, guess: Posterior, *, num_samples: int, seed: int
) -> Posterior:
    """Draw from the exact posterior of a problem with two parameters; the guess says where to lay the grid."""
    started = time.perf_counter()
    low, high = problem.proposal.low, problem.proposal.high
    reach = _REACH * guess.sigma
    for _ in range(_MAX_WIDENINGS):
        ends = np.maximum(guess.mean - reach, low), np.minimum(guess.mean + reach, high)
        points, cell = _cell_centres(*ends)
        log_likelihood = np.asarray(problem.log_likelihood(points, x_obs), np.float64)
        weights = np.exp(log_likelihood - log_likelihood.max())
        weights /= weights.sum()
        if _share_at_edge(weights, (ends[0] > low, ends[1] < high)) < _LARGEST_AT_EDGE:
            break
        reach = 3.0 * reach
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(points), size=(_NUM_CHAINS, num_samples), p=weights)
    chains = points[chosen] + cell * rng.uniform(-0.5, 0.5, size=(*chosen.shape, 2))
    r_hat, effective_samples = convergence(chains)
    return Posterior(
        names=problem.proposal.names,
        units=problem.proposal.units,
        chains=chains,
        log_density=log_likelihood[chosen],
        method="grid",
        correction=f"exact log-likelihood at {_NUM_POINTS} × {_NUM_POINTS} points",
        r_hat=r_hat,
        effective_samples=effective_samples,
        num_divergent=0,
        fraction_outside=0.0,
        rarity=None,
        seconds={"grid": time.perf_counter() - started},
        support=tuple(zip(low.tolist(), high.tolist(), strict=True)),
    )


def _cell_centres(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the centres of the cells of a grid, and the size of a cell."""
    cell = (high - low) / _NUM_POINTS
    axes = [a + c * (np.arange(_NUM_POINTS) + 0.5) for a, c in zip(low, cell, strict=True)]
    return np.array(list(itertools.product(*axes))), cell


def _share_at_edge(weights: np.ndarray, ends_are_ours: tuple[np.ndarray, np.ndarray]) -> float:
    """Add up the weights of the outermost cells, where the grid ends before the training region does."""
    grid = weights.reshape(_NUM_POINTS, _NUM_POINTS)
    rows, columns = grid.sum(axis=1), grid.sum(axis=0)
    ours = zip(*ends_are_ours, strict=True)
    return sum(a[0] * first + a[-1] * last for a, (first, last) in zip((rows, columns), ours, strict=True))
