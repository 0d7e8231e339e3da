"""Means and covariances of scores at the points of a forecast, as they are and as the bootstrap draws them again.

Columns are statistics: the scores of a model, p of them, and any number of others that a bound may use as well.

Points are grouped: those of one group share their random numbers, so that differences between them are nearly free of
noise, and different groups do not, so that every group adds to what is known of the covariance.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_NUM_BOOTSTRAP = 200
# Combinations of statistics whose correlation matrix has smaller eigenvalues, relative to the largest, are rounding.
_ROUNDING = 1e-10
# Of two covariances, differences whose squares are this many times as large as expected of noise may be noise.
_BELIEVED = 2.0


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of the scores of one group, first as they are, then of every bootstrap replicate.

    Attributes:
        num: Number of simulations at each point.
        means: Mean statistics, shape (1 + replicates, points, q).
        covariance: Their covariance, the mean of those of the points, shape (1 + replicates, q, q).
    """

    num: int
    means: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, rng: np.random.Generator) -> "Moments":
        """Take the moments of statistics (points, simulations, q); what shares its random numbers is drawn together."""
        num_points, num, q = scores.shape
        again = [np.bincount(rng.integers(num, size=num), minlength=num) for _ in range(_NUM_BOOTSTRAP)]
        shares = np.stack([np.ones(num), *again]) / num
        means = np.stack([shares @ each for each in scores], axis=1)
        covariance = np.zeros((len(shares), q, q))
        for each, mean in zip(scores, np.moveaxis(means, 1, 0), strict=True):
            products = (each[:, :, None] * each[:, None, :]).reshape(num, q * q)
            second = (shares @ products).reshape(-1, q, q)
            covariance += (second - mean[:, :, None] * mean[:, None, :]) / num_points
        return cls(num, means, covariance * num / (num - 1))

    def first(self, number: int) -> "Moments":
        """Return the moments of the first statistics alone."""
        return Moments(self.num, self.means[..., :number], self.covariance[:, :number, :number])


def pooled(centre: Moments, ends: Sequence[Moments]) -> np.ndarray:
    """Average the covariances at θ and beside it, as far as they are alike, shape (1 + replicates, p, p).

    The mean over all points is far less noisy than what is known at θ alone, and off by how the covariance bends over
    a step. Of its difference to that at θ, the part that noise explains is believed to be noise.
    """
    groups = (centre, *ends)
    freedom = np.array([group.num - 1.0 for group in groups])
    everywhere = np.einsum("g,gbij->bij", freedom / freedom.sum(), np.stack([group.covariance for group in groups]))
    difference = everywhere - centre.covariance
    inverse = np.linalg.pinv(everywhere[0], hermitian=True)
    # Squares in units of the covariance itself, tr(C⁻¹ Δ C⁻¹ Δ), so that units of parameters do not matter.
    seen, noise = (
        np.einsum("bij,bji->b", d, d) for d in (inverse @ difference[:1], inverse @ (difference[1:] - difference[0]))
    )
    share = min(1.0, _BELIEVED * float(noise.mean() / seen[0])) if seen[0] > 0 else 1.0
    return centre.covariance + share * difference


def plug_in_and_slope(
    centre: Moments, ends: Sequence[Moments], derivative: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute two estimates, (1 + replicates, p, p) each, from the moments of scores and the slopes of their means."""
    mean = centre.means[:, 0]
    # The square of a mean is too large by its variance.
    plug_in = pooled(centre, ends) * (1 - 1 / centre.num) + mean[:, :, None] * mean[:, None, :]
    return plug_in, (derivative + np.swapaxes(derivative, 1, 2)) / 2


def derivative_of(ends: Sequence[Moments], steps: np.ndarray, step_error: np.ndarray) -> np.ndarray:
    """Compute D[j, k] = ∂E[t_j] / ∂θ_k of statistics t, shape (1 + replicates, q, p).

    ``steps`` are the columns of a matrix (p, p); ``step_error`` is a relative error of the slopes for every replicate.
    """
    along_steps = np.stack([(end.means[:, 1] - end.means[:, 0]) / 2 for end in ends], axis=1)
    derivative: np.ndarray = np.einsum("ak,baj->bjk", np.linalg.inv(steps), along_steps)
    return derivative * (1 + step_error)[:, None, None]


def bound_of(centre: Moments, ends: Sequence[Moments], derivative: np.ndarray) -> np.ndarray:
    """Compute Dᵀ C⁻¹ D, shape (1 + replicates, p, p); statistics may be in any units, and need not be independent."""
    covariance = pooled(centre, ends)
    spread = np.sqrt(np.diagonal(covariance[0]))
    unit = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1.0), 0.0)
    inverse = np.linalg.pinv(covariance * np.outer(unit, unit), rcond=_ROUNDING, hermitian=True)
    scaled = derivative * unit[:, None]
    bound = np.swapaxes(scaled, 1, 2) @ inverse @ scaled
    return (bound + np.swapaxes(bound, 1, 2)) / 2
