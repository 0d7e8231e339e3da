"""Scores linear in the data, and in their products, learned at one θ from the simulations of a forecast themselves.

Of features f(x) with covariance C and slope J = ∇θ E[f], the best score linear in f is Jᵀ C⁻¹ f (Wedderburn, Godambe).
At one θ both are moments of the forecast's own simulations, and paired random numbers make J nearly free of noise,
which no fit over a region can use. As a score it may be poor; beside the learned one it can only add to what a bound by
Cauchy-Schwarz sees, as long as no simulation is summarised by what was learned of it. So simulations are dealt into
parts, and each part is summarised by what the others say.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_NUM_PARTS = 5
# Every feature costs so many random draws; and products of features of more than so many columns take too long.
_DRAWS_PER_FEATURE, _MOST_FEATURES = 4, 300
_FLOOR = 1e-8


def may_be_linear(data_size: int) -> bool:
    """Say whether data are few enough for a score linear in them."""
    return data_size <= _MOST_FEATURES


def linear_scores(groups: Sequence[np.ndarray], steps: np.ndarray) -> list[list[np.ndarray]]:
    """Return scores linear in the data and, where there are draws enough, linear in data and their products.

    ``groups`` are data (points, draws, d) at θ₀ and at both ends of every step, ``steps`` the columns of a matrix
    (p, p). Each score is one array (points, draws, p) for every group.
    """
    num_draws = sum(group.shape[1] for group in groups) * (_NUM_PARTS - 1) // _NUM_PARTS
    most = min(num_draws // _DRAWS_PER_FEATURE, _MOST_FEATURES)
    data = _standardized(groups)
    d = data[0].shape[2]
    found = []
    if 0 < d <= most:
        found.append(_cross_fitted(data, steps))
    if 0 < d * (d + 3) // 2 <= most:
        first, second = np.triu_indices(d)
        found.append(_cross_fitted([np.concatenate([x, x[..., first] * x[..., second]], axis=2) for x in data], steps))
    return found


def _standardized(groups: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Scale the data by those at θ₀ and leave out what does not vary there, or is not a number somewhere."""
    numbers = np.all([np.isfinite(group).all(axis=(0, 1)) for group in groups], axis=0)
    groups = [group[..., numbers] for group in groups]
    centre, spread = groups[0][0].mean(axis=0), groups[0][0].std(axis=0)
    varies = spread > 0
    return [(group[..., varies] - centre[varies]) / spread[varies] for group in groups]


def _cross_fitted(groups: Sequence[np.ndarray], steps: np.ndarray) -> list[np.ndarray]:
    """Give every draw the score that the other parts of the draws teach."""
    parts = [_Sums.of([group[:, number::_NUM_PARTS] for group in groups]) for number in range(_NUM_PARTS)]
    found = [np.empty((*group.shape[:2], len(steps))) for group in groups]
    for number in range(_NUM_PARTS):
        centre, weights = _Sums.total(parts[:number] + parts[number + 1 :]).linear_score(steps)
        for scores, group in zip(found, groups, strict=True):
            scores[:, number::_NUM_PARTS] = (group[:, number::_NUM_PARTS] - centre) @ weights
    return found


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums of features over draws.

    Attributes:
        nums: Number of draws at each point (points,): θ₀, then the lower and the upper end of every step.
        sums: Their sums (points, d).
        products: Sums of the products of features over all points (d, d).
    """

    nums: np.ndarray
    sums: np.ndarray
    products: np.ndarray

    @classmethod
    def of(cls, groups: Sequence[np.ndarray]) -> "_Sums":
        points = [point for group in groups for point in group]
        nums = np.array([float(len(point)) for point in points])
        return cls(nums, np.stack([p.sum(axis=0) for p in points]), np.sum([p.T @ p for p in points], axis=0))

    @classmethod
    def total(cls, parts: Sequence["_Sums"]) -> "_Sums":
        nums, sums, products = (np.sum([getattr(p, n) for p in parts], axis=0) for n in ("nums", "sums", "products"))
        return cls(nums, sums, products)

    def linear_score(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return c and A of the score Aᵀ (f − c), with A = C⁻¹ J."""
        means = self.sums / self.nums[:, None]
        covariance = (self.products - np.einsum("n,ni,nj->ij", self.nums, means, means)) / (self.nums - 1).sum()
        slopes = ((means[2::2] - means[1::2]) / 2).T @ np.linalg.inv(steps)
        # Both ends of a step have the same random numbers.
        num_draws = self.nums[0] + self.nums[1::2].sum()
        return means[0], np.linalg.solve(_regularized(covariance, num_draws), slopes)


def _regularized(covariance: np.ndarray, num_draws: float) -> np.ndarray:
    """Shrink all correlations by the share of their squares that noise explains (Ledoit and Wolf)."""
    spread = np.sqrt(np.maximum(np.diagonal(covariance), _FLOOR))
    correlation = covariance / np.outer(spread, spread)
    np.fill_diagonal(correlation, 0.0)
    total = float(np.sum(correlation**2))
    noise = (float(np.sum((1 - correlation**2) ** 2)) - len(spread)) / num_draws
    keep = max(0.0, 1.0 - noise / total) if total > 0 else 0.0
    return (keep * correlation + (1 + _FLOOR) * np.eye(len(spread))) * np.outer(spread, spread)
