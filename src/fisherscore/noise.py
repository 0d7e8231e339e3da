"""One-dimensional noise of free shape: a mixture of Student's t with a common number of degrees of freedom.

One component covers everything from a Gaussian to heavy tails; three also cover skewness. Fitted by
expectation-maximisation with one pseudo-observation a component, which keeps widths from collapsing.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

_FREEDOMS = (2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0, 1000.0)
_MOST_ROWS = 20_000
_NARROWEST = 0.05


@dataclass(frozen=True)
class Noise:
    """Weights, centres and widths of the components, and their common number of degrees of freedom."""

    weights: np.ndarray
    centres: np.ndarray
    widths: np.ndarray
    freedom: float

    def log_densities(self, z: np.ndarray) -> np.ndarray:
        """Return log(weight × density) of every component at every z, shape (n, components)."""
        t = (z[:, None] - self.centres) / self.widths
        nu = self.freedom
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
        return np.log(self.weights / self.widths) + constant - (nu + 1) / 2 * np.log1p(t**2 / nu)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the log-density at every z."""
        return np.logaddexp.reduce(self.log_densities(z), axis=1)

    def shares(self, z: np.ndarray) -> np.ndarray:
        """Return the probability of every component given z."""
        logs = self.log_densities(z)
        return np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])

    def slope(self, z: np.ndarray) -> np.ndarray:
        """Return −d log density / dz."""
        t = (z[:, None] - self.centres) / self.widths
        pull = (self.freedom + 1) * t / (self.freedom + t**2) / self.widths
        return np.sum(self.shares(z) * pull, axis=1)


GAUSSIAN = Noise(np.ones(1), np.zeros(1), np.ones(1), 1000.0)


def first_noise(z: np.ndarray, num_components: int) -> Noise:
    """Start from components spread over the quantiles of z."""
    middle = np.quantile(z, (np.arange(num_components) + 0.5) / num_components)
    narrower = 0.7 if num_components > 1 else 1.0
    width = max(narrower * float(z.std()), _NARROWEST)
    return Noise(np.full(num_components, 1 / num_components), 0.7 * middle, np.full(num_components, width), 10.0)


def fit_noise(z: np.ndarray, start: Noise, num_steps: int) -> Noise:
    """Improve the shape by some steps of expectation-maximisation; the degrees of freedom by the best of a list."""
    noise, z = start, z[:_MOST_ROWS]
    for step in range(num_steps):
        t = (z[:, None] - noise.centres) / noise.widths
        share = noise.shares(z)
        weight = share * (noise.freedom + 1) / (noise.freedom + t**2)
        total = share.sum(axis=0)
        centres = (weight * z[:, None]).sum(axis=0) / (weight.sum(axis=0) + 1.0)
        squares = (weight * (z[:, None] - centres) ** 2).sum(axis=0)
        noise = Noise(
            weights=(total + 1.0) / (len(z) + len(total)),
            centres=centres,
            widths=np.maximum(np.sqrt((squares + 0.25) / (total + 1.0)), _NARROWEST),
            freedom=noise.freedom,
        )
        if step % 5 == 0:
            noise = max((replace(noise, freedom=f) for f in _FREEDOMS), key=lambda n: float(n.log_density(z).mean()))
    return noise
