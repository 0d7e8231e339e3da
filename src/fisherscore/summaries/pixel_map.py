"""One increasing map of all pixels, under which every field is as nearly Gaussian as it can be.

A field that is an increasing function of a Gaussian one, such as a log-normal one, has all its information in its power
spectrum once that function is undone. It is found without knowing the parameters: with f the map, the quantiles of f(x)
in one field must be a straight line a + b z in those of a normal distribution, with a and b of each field's own, since
mean and variance move with the parameters. Lines and f are fitted in turn (alternating least squares, as in Breiman and
Friedman, J. Am. Stat. Assoc. 80, 580, 1985).
"""

import numpy as np
from scipy.special import ndtr, ndtri

NUM_KNOTS = 65
_NUM_ROUNDS = 20
_MOST_PIXELS = 16_384
# Quantiles are taken as far out as this, or as the number of pixels allows.
_FARTHEST, _FARTHEST_KNOT = 4.0, 3.5


def fit_pixel_map(fields: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit the map to fields (n, pixels): its knots and its values there, both increasing."""
    step = -(-fields.shape[1] // _MOST_PIXELS)
    sorted_pixels = np.sort(fields[:, ::step], axis=1)
    num_pixels = sorted_pixels.shape[1]
    farthest = min(_FARTHEST, -ndtri(1.0 / num_pixels))
    normal = np.linspace(-farthest, farthest, 2 * NUM_KNOTS)
    places = np.clip(ndtr(normal) * num_pixels - 0.5, 0, num_pixels - 1)
    below = np.minimum(places.astype(int), num_pixels - 2)
    share = places - below
    quantiles = (1 - share) * sorted_pixels[:, below] + share * sorted_pixels[:, below + 1]
    knots = _knots(quantiles)
    values = np.linspace(-1.0, 1.0, len(knots))
    if len(knots) < 3:
        return _increasing(knots, values)
    design = np.stack([np.ones_like(normal), normal])
    # The tails of a field are known by few pixels.
    weights = np.sqrt(np.exp(-0.5 * normal**2))
    solve = np.linalg.pinv((design * weights).T)
    for _ in range(_NUM_ROUNDS):
        lines = solve @ (np.interp(quantiles, knots, values) * weights).T
        values = _averages(quantiles, (lines.T @ design), knots)
        values = np.maximum.accumulate(values)
        images = np.interp(quantiles, knots, values)
        values = (values - images.mean()) / max(float(images.std()), 1e-30)
    return _increasing(knots, values)


def _knots(quantiles: np.ndarray) -> np.ndarray:
    """Lay knots from the smallest to the largest, where a normal of pooled quantiles would have equal steps."""
    steps = ndtr(np.linspace(-_FARTHEST_KNOT, _FARTHEST_KNOT, NUM_KNOTS - 2))
    return np.unique(np.quantile(quantiles, [0.0, *steps, 1.0]))


def _averages(quantiles: np.ndarray, targets: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Fit the values of a piecewise linear function at its knots to targets by weighted averages (one step of each)."""
    flat, target = quantiles.ravel(), targets.ravel()
    place = np.clip(np.searchsorted(knots, flat) - 1, 0, len(knots) - 2)
    share = np.clip((flat - knots[place]) / (knots[place + 1] - knots[place]), 0.0, 1.0)
    num = len(knots)
    # The normal equations of linear interpolation are tridiagonal, and kept smooth by a little curvature penalty.
    matrix = np.zeros((num, num))
    np.add.at(matrix, (place, place), (1 - share) ** 2)
    np.add.at(matrix, (place + 1, place + 1), share**2)
    np.add.at(matrix, (place, place + 1), share * (1 - share))
    np.add.at(matrix, (place + 1, place), share * (1 - share))
    right = np.bincount(place, (1 - share) * target, num) + np.bincount(place + 1, share * target, num)
    bend = np.diff(np.eye(num), 2, axis=0)
    matrix += 1e-4 * len(flat) / num * bend.T @ bend + 1e-9 * len(flat) * np.eye(num)
    return np.linalg.solve(matrix, right)


def _increasing(knots: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give exactly so many knots, strictly increasing as their values, by a small slope where these are flat."""
    if len(knots) < 2:
        knots, values = knots[0] + np.array([-1.0, 1.0]), np.array([-1.0, 1.0])
    wanted = np.linspace(0, len(knots) - 1, NUM_KNOTS)
    at = np.arange(len(knots))
    knots, values = np.interp(wanted, at, knots), np.interp(wanted, at, values)
    slope = 1e-3 * (values[-1] - values[0] + 1e-30) / (knots[-1] - knots[0])
    return knots, values + slope * (knots - knots[0])
