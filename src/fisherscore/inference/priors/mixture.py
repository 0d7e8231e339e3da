"""Gaussian mixtures fitted to weighted draws by expectation and maximisation, and how far draws are from one."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr

_MOST_STEPS, _TOLERANCE = 200, 1e-4
# Directions in which draws and mixture are compared, beside the axes.
_NUM_DIRECTIONS = 60
_NUM_LEVELS = 20_000


@dataclass(frozen=True, eq=False)
class Mixture:
    """Gaussians with weights (K,), means (K, p) and Cholesky factors of their covariances (K, p, p)."""

    weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray

    def log_terms(self, z: np.ndarray) -> np.ndarray:
        """Return the logarithm of weight times density of each Gaussian, shape (n, K)."""
        inverse = np.linalg.inv(self.factors)
        # w = L⁻¹ (z − m) for all Gaussians, shape (K, n, p).
        white = (z - self.means[:, None]) @ inverse.transpose(0, 2, 1)
        log_det = np.log(np.diagonal(self.factors, axis1=1, axis2=2)).sum(axis=1)
        constant = 0.5 * z.shape[1] * np.log(2 * np.pi)
        return np.log(self.weights) - log_det - constant - 0.5 * (white**2).sum(axis=2).T

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return log-densities, shape (n,)."""
        return logsumexp(self.log_terms(z), axis=1)

    def sample(self, rng: np.random.Generator, num: int) -> np.ndarray:
        """Draw from the mixture, shape (num, p)."""
        chosen = rng.choice(len(self.weights), num, p=self.weights)
        noise = rng.normal(size=(num, self.means.shape[1]))
        return self.means[chosen] + np.einsum("nij,nj->ni", self.factors[chosen], noise)


def fit_mixture(z: np.ndarray, weights: np.ndarray, num: int, rng: np.random.Generator) -> Mixture:
    """Fit ``num`` Gaussians to draws (n, p) whose covariance is about one, with weights that add up to one."""
    p = z.shape[1]
    mixture = _first(z, weights, num, rng)
    # A few draws' worth of a round Gaussian as large as one of ``num`` parts: no part collapses onto a point.
    strength, size = (p + 2) / len(z), num ** (-2 / p)
    before = -np.inf
    for _ in range(_MOST_STEPS):
        terms = mixture.log_terms(z)
        total = logsumexp(terms, axis=1)
        now = float(weights @ total)
        if now - before < _TOLERANCE:
            break
        before = now
        share = weights[:, None] * np.exp(terms - total[:, None])
        mixture = _from_shares(z, share, strength, size)
    return mixture


def _first(z: np.ndarray, weights: np.ndarray, num: int, rng: np.random.Generator) -> Mixture:
    """Begin with centres far from one another (k-means++) and each draw in the part of its nearest."""
    centres = z[[rng.choice(len(z), p=weights)]]
    for _ in range(num - 1):
        distance = weights * ((z[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
        if not distance.sum() > 0:
            break  # no more different draws than centres
        centres = np.concatenate([centres, z[[rng.choice(len(z), p=distance / distance.sum())]]])
    nearest = ((z[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    share = weights[:, None] * (nearest[:, None] == np.arange(len(centres)))
    return _from_shares(z, share, (z.shape[1] + 2) / len(z), num ** (-2 / z.shape[1]))


def _from_shares(z: np.ndarray, share: np.ndarray, strength: float, size: float) -> Mixture:
    """Make the Gaussians of which each draw belongs to each by a share, shape (n, K)."""
    mass = share.sum(axis=0) + 1e-12
    means = share.T @ z / mass[:, None]
    centred = z - means[:, None]
    scatter = (share.T[:, :, None] * centred).transpose(0, 2, 1) @ centred
    covariance = (scatter + strength * size * np.eye(z.shape[1])) / (mass + strength)[:, None, None]
    return Mixture(mass / mass.sum(), means, np.linalg.cholesky(covariance))


def discrepancy(mixture: Mixture, z: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Compare draws with a mixture not fitted to them: by their projections, and by their levels of density.

    Returns:
        The largest difference of two distribution functions (Kolmogorov's) over axes and other directions, and that of
        the mixture's log-density at the draws and at draws of its own: by how much credibilities are off.
    """
    p = z.shape[1]
    directions = np.concatenate([np.eye(p), rng.normal(size=(_NUM_DIRECTIONS if p > 1 else 0, p))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    along = max(_along(mixture, z @ d, weights, d) for d in directions)
    own = np.sort(mixture.log_density(mixture.sample(rng, _NUM_LEVELS)))
    level = mixture.log_density(z)
    order = np.argsort(level)
    theirs = np.cumsum(weights[order])
    levels = np.abs(theirs - weights[order] / 2 - np.searchsorted(own, level[order]) / len(own)).max()
    return float(along), float(levels)


def _along(mixture: Mixture, values: np.ndarray, weights: np.ndarray, direction: np.ndarray) -> float:
    """Return Kolmogorov's distance along one direction, where the mixture is one of normal laws."""
    order = np.argsort(values)
    spread = np.linalg.norm(np.einsum("kij,i->kj", mixture.factors, direction), axis=1)
    expected = ndtr((values[order, None] - mixture.means @ direction) / spread) @ mixture.weights
    return float(np.abs(np.cumsum(weights[order]) - weights[order] / 2 - expected).max())
