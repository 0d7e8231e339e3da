"""One-dimensional noise of free shape: a mixture of Student's t, each with its own degrees of freedom.

One component covers everything from a Gaussian to heavy tails; several also cover skewness, and tails that differ.
Fitted by expectation-maximisation with one pseudo-observation a component, which keeps widths from collapsing.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

_FREEDOMS = np.array([2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0, 1000.0])
_TINY = 1e-300
_MAX_ROWS = 20_000
_MIN_WIDTH = 0.05


@dataclass(frozen=True, eq=False)
class Noise:
    """Weights, centres, widths and degrees of freedom of the components."""

    weights: np.ndarray
    centres: np.ndarray
    widths: np.ndarray
    freedom: np.ndarray

    @property
    def log_heights(self) -> np.ndarray:
        """The log of weight × density at the centre of every component."""
        return np.log(self.weights / self.widths) + _log_height(self.freedom)

    def log_densities(self, z: np.ndarray) -> np.ndarray:
        """Return log(weight × density) of every component at every z, shape (n, components)."""
        t = (z[:, None] - self.centres) / self.widths
        return self.log_heights + _log_shape(t**2, self.freedom)

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


def _log_height(freedom: np.ndarray) -> np.ndarray:
    """Give the log-density of Student's t at zero."""
    return gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - 0.5 * np.log(freedom * np.pi)


def _log_shape(squares: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """Give the log-density of Student's t relative to that at zero."""
    return -(freedom + 1) / 2 * np.log1p(squares / freedom)


GAUSSIAN = Noise(np.ones(1), np.zeros(1), np.ones(1), np.full(1, 1000.0))


def first_noise(z: np.ndarray, num_components: int) -> Noise:
    """Start from components spread over the quantiles of z."""
    middle = np.quantile(z, (np.arange(num_components) + 0.5) / num_components)
    narrower = 0.7 if num_components > 1 else 1.0
    width = max(narrower * float(z.std()), _MIN_WIDTH)
    each = np.ones(num_components)
    return Noise(each / num_components, 0.7 * middle, width * each, 10.0 * each)


def fit_noise(z: np.ndarray, start: Noise, num_steps: int) -> Noise:
    """Improve the shape by some steps of expectation-maximisation; degrees of freedom are the best of a list."""
    noise, z = start, z[:_MAX_ROWS]
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
            widths=np.maximum(np.sqrt((squares + 0.25) / (total + 1.0)), _MIN_WIDTH),
            freedom=noise.freedom,
        )
        if step % 5 == 0:
            noise = replace(noise, freedom=_best_freedom(z, noise))
    return noise


def _best_freedom(z: np.ndarray, noise: Noise) -> np.ndarray:
    """Choose the degrees of freedom of one component after the other by the likelihood of all.

    Expectation-maximisation would choose them by each component's share of the rows, and hardly move.
    """
    freedom = noise.freedom.copy()
    squares = ((z[:, None] - noise.centres) / noise.widths) ** 2
    scale = np.log(noise.weights / noise.widths)
    densities = np.exp(noise.log_densities(z))
    for k in range(len(freedom)):
        others = np.delete(densities, k, axis=1).sum(axis=1)
        choices = [np.exp(scale[k] + _log_height(f) + _log_shape(squares[:, k], f)) for f in _FREEDOMS]
        best = int(np.argmax([np.log(others + c + _TINY).sum() for c in choices]))
        freedom[k], densities[:, k] = _FREEDOMS[best], choices[best]
    return freedom
