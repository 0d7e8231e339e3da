"""Means and covariances of scores at the points of a forecast, as they are and as the bootstrap draws them again.

Points are grouped: those of one group share their random numbers, so that differences between them are nearly free of
noise, and different groups do not, so that every group adds to what is known of the covariance.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_NUM_BOOTSTRAP = 200
# Of two covariances, differences whose squares are this many times as large as expected of noise may be noise.
_BELIEVED = 2.0


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of the scores of one group, first as they are, then of every bootstrap replicate.

    Attributes:
        num: Number of simulations at each point.
        means: Mean scores, shape (1 + replicates, points, p).
        covariance: Their covariance, the mean of those of the points, shape (1 + replicates, p, p).
    """

    num: int
    means: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, rng: np.random.Generator) -> "Moments":
        """Take the moments of scores (points, simulations, p); what shares its random numbers is drawn together."""
        num_points, num, p = scores.shape
        again = [np.bincount(rng.integers(num, size=num), minlength=num) for _ in range(_NUM_BOOTSTRAP)]
        shares = np.stack([np.ones(num), *again]) / num
        means = np.stack([shares @ each for each in scores], axis=1)
        covariance = np.zeros((len(shares), p, p))
        for each, mean in zip(scores, np.moveaxis(means, 1, 0), strict=True):
            products = (each[:, :, None] * each[:, None, :]).reshape(num, p * p)
            second = (shares @ products).reshape(-1, p, p)
            covariance += (second - mean[:, :, None] * mean[:, None, :]) / num_points
        return cls(num, means, covariance * num / (num - 1))


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


def three_estimates(
    centre: Moments, ends: Sequence[Moments], steps: np.ndarray, step_error: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute plug-in, slope and bound, (1 + replicates, p, p) each, from the moments at θ and at both ends of steps.

    ``steps`` are the columns of a matrix (p, p); ``step_error`` is a relative error of the slopes for every replicate.
    """
    covariance, mean = pooled(centre, ends), centre.means[:, 0]
    # The square of a mean is too large by its variance.
    plug_in = covariance * (1 - 1 / centre.num) + mean[:, :, None] * mean[:, None, :]
    along_steps = np.stack([(end.means[:, 1] - end.means[:, 0]) / 2 for end in ends], axis=1)
    # D[j, k] = ∂E[ŝ_j] / ∂θ_k
    derivative = np.einsum("ak,baj->bjk", np.linalg.inv(steps), along_steps) * (1 + step_error)[:, None, None]
    turned = np.swapaxes(derivative, 1, 2)
    bound = turned @ np.linalg.pinv(covariance, hermitian=True) @ derivative
    return plug_in, (derivative + turned) / 2, (bound + np.swapaxes(bound, 1, 2)) / 2
