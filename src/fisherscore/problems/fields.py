"""Maps whose score is known: Gaussian fields, and log-normal ones, which hold the same information out of their power.

A periodic map of n × n pixels has independent modes. With P(k) the power a mode, in units in which white noise of unit
variance has P = 1, and x̂_k the discrete Fourier transform,

    log p(x | θ) = −½ Σ_k [ |x̂_k|² / (n² P(k)) + log P(k) ],    F_ij = ½ Σ_k ∂_i log P(k) ∂_j log P(k).

The sums go over all n² − 1 modes but the mean. x is real, so that modes k and −k are one complex number, with two real
parts of variance n² P / 2 each: the sum over both, with the factor ½, counts each of the n² − 1 real numbers once.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.arguments import as_count
from .._support.precision import in_single_precision
from ..errors import ArgumentError
from ..simulation.proposal import Proposal, uniform
from .problem import Problem

# The signal has the power e^a where k is so many periods a side.
_PIVOT = 4.0
_SMALLEST_SIDE = 4


def _proposal() -> Proposal:
    return uniform(log_amplitude=(-1.0, 1.0), slope=(1.0, 3.0))


def _side(n: Any) -> int:
    side = as_count(n, "n", _SMALLEST_SIDE)
    if side > 4096:
        raise ArgumentError(f"n: expected at most 4096 pixels a side, got {side}.")
    return side


def _wave_numbers(n: int) -> np.ndarray:
    """Give |k| of every mode of the full plane, in periods a side."""
    each = np.fft.fftfreq(n, 1 / n)
    return np.hypot(each[:, None], each)


class _GaussianField:
    """Draws, likelihood, score and Fisher matrix of the field with spectrum e^a (k/4)^−γ + noise."""

    def __init__(self, n: int, noise: float):
        self.n, self.noise = n, noise
        wave = _wave_numbers(n)
        self.is_mean = wave == 0
        self.log_wave = np.log(np.where(self.is_mean, _PIVOT, wave) / _PIVOT)

    def power(self, theta: Any) -> Any:
        """Give the power of every mode of the plane; the mean has that of the noise, or none."""
        signal = jnp.exp(theta[0] - theta[1] * self.log_wave)
        return jnp.where(self.is_mean, self.noise, signal + self.noise)

    def slopes(self, theta: Any) -> Any:
        """Give ∂ log P of every mode, (2, n, n)."""
        signal = jnp.where(self.is_mean, 0.0, jnp.exp(theta[0] - theta[1] * self.log_wave))
        share = signal / jnp.where(self.is_mean, 1.0, self.power(theta))
        return jnp.stack([share, -self.log_wave * share])

    def draw(self, key: Any, theta: Any) -> Any:
        """Draw a map: white noise, whose modes are multiplied by √P."""
        white = jnp.fft.fft2(jax.random.normal(key, (self.n, self.n)))
        return jnp.fft.ifft2(white * jnp.sqrt(self.power(theta))).real

    def relative_power(self, theta: Any, x: Any) -> Any:
        """Give |x̂|² / (n² P) of every mode, 0 for the mean."""
        power = jnp.where(self.is_mean, 1.0, self.power(theta))
        return jnp.where(self.is_mean, 0.0, jnp.abs(jnp.fft.fft2(x)) ** 2 / (self.n**2 * power))

    def log_likelihood(self, theta: Any, x: Any) -> Any:
        power = jnp.where(self.is_mean, 1.0, self.power(theta))
        return -0.5 * jnp.sum(self.relative_power(theta, x) + jnp.log(power))

    def score(self, theta: Any, x: Any) -> Any:
        excess = jnp.where(self.is_mean, 0.0, self.relative_power(theta, x) - 1.0)
        return 0.5 * jnp.sum(excess * self.slopes(theta), axis=(1, 2))

    def fisher(self, theta: Any) -> Any:
        slopes = self.slopes(theta).reshape(2, -1)
        return 0.5 * jnp.matmul(slopes, slopes.T, precision="highest")


@in_single_precision
def gaussian_field(n: int = 32, *, noise: float = 0.1) -> Problem:
    """Make a Gaussian field of n × n pixels with the power e^a (k/4)^−γ + noise, a in [−1, 1], γ in [1, 3].

    The map is periodic, k is in periods a side, and white noise of unit variance has the power 1.

    Args:
        n: Pixels a side.
        noise: Power of the white noise.

    Returns:
        The problem: two parameters and a map, all of whose information is in its power spectrum.

    >>> import fisherscore as fs
    >>> fs.problems.gaussian_field(16).simulator.draw([0.0, 2.0]).shape
    (16, 16)
    """
    side = _side(n)
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not 0 <= noise < np.inf:
        raise ArgumentError(f"noise: expected a power of at least 0, got {noise!r}.")
    field = _GaussianField(side, float(noise))
    return _problem("gaussian-field", field, field.draw, lambda x: x)


@in_single_precision
def lognormal_field(n: int = 64) -> Problem:
    """Make a log-normal field of n × n pixels: x = exp(c g) with a Gaussian field g of power e^a (k/4)^−γ and no noise.

    Logarithms give g back, so that the score and the Fisher matrix are those of g. The constant c makes the logarithms
    vary by one in the middle of the region: far from Gaussian, so that the power of x holds only a part of what g does.

    Args:
        n: Pixels a side.

    Returns:
        The problem: two parameters and a map.

    >>> import fisherscore as fs
    >>> problem = fs.problems.lognormal_field(16)
    >>> bool((problem.simulator.draw([0.0, 2.0]) > 0).all())
    True
    """
    field = _GaussianField(_side(n), 0.0)
    middle = np.exp(-2.0 * field.log_wave)[~field.is_mean].sum() / field.n**2
    factor = float(1.0 / np.sqrt(middle))
    return _problem(
        "lognormal-field",
        field,
        lambda key, theta: jnp.exp(factor * field.draw(key, theta)),
        lambda x: jnp.log(x) / factor,
    )


def _problem(
    name: str, field: _GaussianField, draw: Callable[[Any, Any], Any], gaussian: Callable[[Any], Any]
) -> Problem:
    """Make a problem of a field that is a fixed invertible map of a Gaussian one."""
    return Problem(
        name=name,
        proposal=_proposal(),
        x_shape=(field.n, field.n),
        draw_one=draw,
        log_likelihood_one=lambda theta, x: field.log_likelihood(theta, gaussian(x)),
        score_one=lambda theta, x: field.score(theta, gaussian(x)),
        fisher_one=field.fisher,
        batch_size=_rows_side_by_side(field.n),
    )


def _rows_side_by_side(n: int) -> int:
    """Keep what is evaluated side by side within some 16 million numbers."""
    return int(np.clip(2**24 // n**2, 1, 256))
