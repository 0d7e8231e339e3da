"""One-dimensional noise of free shape: a mixture of Student's t, each with its own degrees of freedom.

One component covers everything from a Gaussian to heavy tails; several also cover skewness, and tails that differ.
Fitted by expectation-maximisation with one pseudo-observation a component, which keeps widths from collapsing. Every
datum has noise of its own; all are fitted at once. Many rows are first put into groups of neighbours, small in the
tails, of which the fit sees the means.

Functions take the array module, NumPy or ``jax.numpy``.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.special

from .shrinkage import repeated

_FREEDOMS = np.array([2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0, 1000.0])
_TINY = 1e-300
_MAX_ROWS = 20_000
_MIN_WIDTH = 0.05
_NUM_GROUPS = 256
# Degrees of freedom are chosen anew after this many steps of expectation-maximisation.
_STEPS_PER_CHOICE = 5


class Noise(NamedTuple):
    """Weights, centres, widths and degrees of freedom of the components of every datum, each (data, components)."""

    weights: Any
    centres: Any
    widths: Any
    freedom: Any

    @classmethod
    def of_heights(cls, log_heights: Any, centres: Any, widths: Any, freedom: Any) -> "Noise":
        """Make noise from the log heights of its components."""
        return cls(np.exp(log_heights - _log_height(freedom, np)) * widths, centres, widths, freedom)

    def log_heights(self, xp: Any = np) -> Any:
        """Give the log of weight × density at the centre of every component, (data, components)."""
        return xp.log(self.weights / self.widths) + _log_height(self.freedom, xp)

    def log_densities(self, z: Any, xp: Any = np) -> Any:
        """Give log(weight × density) of every component, in front, at every z (n, data)."""
        heights = self.log_heights(xp)
        return xp.stack([heights[:, k] + self._log_shape(z, k, xp) for k in range(self.centres.shape[1])])

    def log_density(self, z: Any, xp: Any = np) -> Any:
        """Give the log-density at every z (n, data)."""
        return _log_sum(self.log_densities(z, xp), xp)

    def slope(self, z: Any, xp: Any = np) -> Any:
        """Give ψ = −d log density / dz at every z (n, data)."""
        return self._average([self._pull(z, k)[0] for k in range(self.centres.shape[1])], self._shares(z, xp))

    def slopes(self, z: Any, xp: Any = np) -> tuple[Any, Any]:
        """Give ψ and its derivative at every z (n, data)."""
        shares = self._shares(z, xp)
        pulls, derivatives = zip(*(self._pull(z, k) for k in range(self.centres.shape[1])), strict=True)
        slope = self._average(pulls, shares)
        spread = self._average([p**2 for p in pulls], shares) - slope**2
        return slope, self._average(derivatives, shares) - spread

    def _shares(self, z: Any, xp: Any) -> Any:
        """Give the probability of every component, in front, given z; None where there is one."""
        if self.centres.shape[1] == 1:
            return None
        logs = self.log_densities(z, xp)
        heights = xp.exp(logs - logs.max(axis=0))
        return heights / heights.sum(axis=0)

    def _pull(self, z: Any, k: int) -> tuple[Any, Any]:
        """Give ψ of one component by itself, and its derivative."""
        width, freedom = self.widths[:, k], self.freedom[:, k]
        t = (z - self.centres[:, k]) / width
        below = freedom + t**2
        return (freedom + 1) / width * t / below, (freedom + 1) / width**2 * (freedom - t**2) / below**2

    def _log_shape(self, z: Any, k: int, xp: Any) -> Any:
        freedom = self.freedom[:, k]
        t = (z - self.centres[:, k]) / self.widths[:, k]
        return -(freedom + 1) / 2 * xp.log1p(t**2 / freedom)

    @staticmethod
    def _average(values: Any, shares: Any) -> Any:
        return values[0] if shares is None else sum(v * s for v, s in zip(values, shares, strict=True))


def gaussian_noise(num_data: int) -> Noise:
    """Give a standard normal for every datum, as nearly as makes no difference."""
    one = np.ones((num_data, 1))
    return Noise(one, 0.0 * one, one, 1000.0 * one)


def first_noise(z: np.ndarray, num_components: int) -> Noise:
    """Start from components spread over the quantiles of z (n, data)."""
    middle = np.quantile(z, (np.arange(num_components) + 0.5) / num_components, axis=0).T
    narrower = 0.7 if num_components > 1 else 1.0
    width = np.maximum(narrower * z.std(axis=0), _MIN_WIDTH)[:, None]
    each = np.ones((z.shape[1], num_components))
    return Noise(each / num_components, 0.7 * middle, width * each, 10.0 * each)


def fit_noise(z: Any, start: Noise, num_steps: Any, num_rows: Any = None, xp: Any = np) -> Noise:
    """Improve the shapes by steps of expectation-maximisation, in fives; degrees of freedom are the best of a list.

    Only the first ``num_rows`` rows count, where it is given.
    """
    means, counts = _grouped(z[:_MAX_ROWS], len(z) if num_rows is None else num_rows, xp)
    num_rows = counts.sum()

    def step(_: int, noise: Noise) -> Noise:
        logs = noise.log_densities(means, xp)
        shares = counts * xp.exp(logs - _log_sum(logs, xp))  # (components, groups, data)
        centres, widths, totals = [], [], []
        for k in range(noise.centres.shape[1]):
            freedom, total = noise.freedom[:, k], shares[k].sum(axis=0)
            t = (means - noise.centres[:, k]) / noise.widths[:, k]
            weight = shares[k] * (freedom + 1) / (freedom + t**2)
            centre = (weight * means).sum(axis=0) / (weight.sum(axis=0) + 1.0)
            squares = (weight * (means - centre) ** 2).sum(axis=0)
            centres.append(centre)
            widths.append(xp.maximum(xp.sqrt((squares + 0.25) / (total + 1.0)), _MIN_WIDTH))
            totals.append((total + 1.0) / (num_rows + noise.centres.shape[1]))
        stacked = [xp.stack(part, axis=1) for part in (totals, centres, widths)]
        return Noise(stacked[0], stacked[1], stacked[2], noise.freedom)

    def steps(_: int, noise: Noise) -> Noise:
        noise = step(0, noise)
        noise = noise._replace(freedom=_best_freedom(means, counts, noise, xp))
        return repeated(_STEPS_PER_CHOICE - 1, step, noise, xp)

    return repeated(num_steps // _STEPS_PER_CHOICE, steps, start, xp)


def _grouped(z: Any, num_rows: Any, xp: Any) -> tuple[Any, Any]:
    """Put sorted rows into groups of neighbours, single ones in the tails; give means (groups, data) and sizes.

    Rows from ``num_rows`` on are none; a group may be empty.
    """
    if len(z) <= _NUM_GROUPS:
        return z, (np.arange(len(z))[:, None] < num_rows).astype(float)
    num = xp.minimum(num_rows, len(z))
    counted = np.arange(len(z))[:, None] < num
    ordered = xp.where(counted, xp.sort(xp.where(counted, z, np.inf), axis=0), 0.0)
    edges = xp.round(num * (1 - np.cos(np.pi * np.arange(_NUM_GROUPS + 1) / _NUM_GROUPS)) / 2).astype(int)
    sums = xp.concatenate([xp.zeros((1, z.shape[1])), xp.cumsum(ordered, axis=0)])
    counts = xp.diff(edges)[:, None].astype(float)
    return (sums[edges[1:]] - sums[edges[:-1]]) / xp.maximum(counts, 1.0), counts


def _best_freedom(z: Any, counts: Any, noise: Noise, xp: Any) -> Any:
    """Choose the degrees of freedom of one component after the other by the likelihood of all.

    Expectation-maximisation would choose them by each component's share of the rows, and hardly move.
    """
    scale = xp.log(noise.weights / noise.widths)
    densities = list(xp.exp(noise.log_densities(z, xp)))
    chosen = []
    for k in range(len(densities)):
        others = sum((d for j, d in enumerate(densities) if j != k), xp.zeros(z.shape))
        squares = ((z - noise.centres[:, k]) / noise.widths[:, k]) ** 2
        freedoms = xp.asarray(_FREEDOMS)[:, None, None]
        logs = scale[:, k] + _log_height(freedoms, xp) - (freedoms + 1) / 2 * xp.log1p(squares / freedoms)
        choices = xp.exp(logs)  # (choices, groups, data)
        best = xp.argmax((counts * xp.log(others + choices + _TINY)).sum(axis=1), axis=0)
        chosen.append(xp.asarray(_FREEDOMS)[best])
        densities[k] = xp.take_along_axis(choices, best[None, None, :], axis=0)[0]
    return xp.stack(chosen, axis=1)


def _log_sum(logs: Any, xp: Any) -> Any:
    """Add up densities given as logs, in front."""
    if len(logs) == 1:
        return logs[0]
    largest = logs.max(axis=0)
    return largest + xp.log(xp.exp(logs - largest).sum(axis=0))


def _log_height(freedom: Any, xp: Any) -> Any:
    """Give the log-density of Student's t at zero."""
    if xp is np:
        log_gamma = scipy.special.gammaln
    else:
        from jax.scipy.special import gammaln as log_gamma
    return log_gamma((freedom + 1) / 2) - log_gamma(freedom / 2) - 0.5 * xp.log(freedom * np.pi)
