"""What is compared: posteriors on a grid with exact ones, and how often the truth is where it should be."""

from typing import Any

import numpy as np

POINTS = {1: 400, 2: 60, 3: 25}  # along each axis; with more parameters there is no grid


def grid_of(low: np.ndarray, high: np.ndarray) -> np.ndarray | None:
    """Return midpoints of equal cells of the box, shape (n, p); None where they would be too many."""
    num = POINTS.get(len(low))
    if num is None:
        return None
    axes = [a + (b - a) * (np.arange(num) + 0.5) / num for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(low))


def masses(log_density: np.ndarray) -> np.ndarray:
    """Return normalised masses of cells, one row a posterior; what is not a number has none."""
    filled = np.where(np.isfinite(log_density), log_density, -1e300)
    weights = np.exp(filled - filled.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def moments(grid: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations, shape (posterior, parameter)."""
    mean = mass @ grid
    return mean, np.sqrt(np.maximum(mass @ grid**2 - mean**2, 0.0))


def levels(log_density: np.ndarray, mass: np.ndarray, at_truth: np.ndarray) -> np.ndarray:
    """Return the posterior mass of what is more probable than the truth: uniform where posteriors are calibrated."""
    return np.where(log_density > at_truth[:, None], mass, 0.0).sum(axis=1)


def compare(grid: np.ndarray, exact: np.ndarray, found: dict[str, np.ndarray]) -> dict[str, Any]:
    """Compare posteriors with exact ones.

    Args:
        grid: Midpoints of equal cells.
        exact: Exact log-densities there, one row an observation.
        found: ``on_grid``, the same of a system, and ``at_truth``, its log-densities of the true parameters.

    Returns:
        Root mean squares of errors of the mean in units of the exact σ and of σ relative to it; the accuracy of the
        best possible classifier of exact and approximate draws, ½ + ¼ Σ |difference of masses|; calibration levels.
    """
    truth, mine = masses(exact), masses(found["on_grid"])
    (mean, sigma), (mean_found, sigma_found) = moments(grid, truth), moments(grid, mine)
    return {
        "mean_error": float(np.sqrt(np.mean(((mean_found - mean) / sigma) ** 2))),
        "width_error": float(np.sqrt(np.mean((sigma_found / sigma - 1) ** 2))),
        "width_bias": float(np.mean(sigma_found / sigma - 1)),
        "c2st": float(np.mean(0.5 + 0.25 * np.abs(mine - truth).sum(axis=1))),
        "levels": np.sort(levels(found["on_grid"], mine, found["at_truth"])).round(4).tolist(),
    }


def calibration(sorted_levels: list[float]) -> float:
    """Return the largest distance of the levels' distribution from a uniform one."""
    values, num = np.array(sorted_levels), len(sorted_levels)
    steps = np.arange(num + 1) / num
    return float(max(np.max(steps[1:] - values), np.max(values - steps[:-1])))
