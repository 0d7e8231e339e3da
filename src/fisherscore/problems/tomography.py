"""Source galaxies of a lensing survey: how many lie at which redshift, in one population or in bins of redshift."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import brentq
from scipy.special import erf, gammainc

from .integrals import simpson

MAX_REDSHIFT = 10.0
_NUM_PANELS = 256


@dataclass(frozen=True)
class Populations:
    """Populations of galaxies with n(z) ∝ z exp(−(z / z₀)²), one for each z₀."""

    peaks: tuple[float, ...]

    def density(self, z: np.ndarray) -> np.ndarray:
        """Compute n(z), whose integral is one, shape (populations, z)."""

        def peaked(t: np.ndarray, z0: float) -> np.ndarray:
            return t * np.exp(-((t / z0) ** 2))

        return np.stack([_normalised(partial(peaked, z0=z0), z) for z0 in self.peaks])


@dataclass(frozen=True)
class RedshiftBins:
    """One population, n(z) ∝ z^a exp(−(z / z₀)^b), in bins of equal numbers by redshifts with a Gaussian scatter.

    Attributes:
        num_bins: Number of bins.
        a: The power at small redshifts.
        b: The power in the exponential.
        z0: The scale of redshifts.
        scatter: Standard deviation of a photometric redshift, over 1 + z.
    """

    num_bins: int
    a: float
    b: float
    z0: float
    scatter: float

    def edges(self) -> np.ndarray:
        """Find the redshifts between bins: quantiles of the true redshifts."""
        power = (self.a + 1.0) / self.b

        def below(z: float) -> float:
            return float(gammainc(power, (z / self.z0) ** self.b))

        parts = np.arange(1, self.num_bins) / self.num_bins * below(MAX_REDSHIFT)
        inner = [brentq(lambda z, part=part: below(z) - part, 0.0, MAX_REDSHIFT) for part in parts]
        return np.array([0.0, *inner, MAX_REDSHIFT])

    def density(self, z: np.ndarray) -> np.ndarray:
        """Compute n(z), whose integral is one, shape (bins, z)."""
        edges = self.edges()

        def within(t: np.ndarray, low: float, high: float) -> np.ndarray:
            scale = 1.0 / (np.sqrt(2.0) * self.scatter * (1.0 + t))
            parent = t**self.a * np.exp(-((t / self.z0) ** self.b))
            return parent * (erf((high - t) * scale) - erf((low - t) * scale))

        return np.stack([_normalised(partial(within, low=a, high=b), z) for a, b in itertools.pairwise(edges)])


Sources = Populations | RedshiftBins


def _normalised(density: Callable[[np.ndarray], np.ndarray], z: np.ndarray) -> np.ndarray:
    """Divide by the integral over all redshifts, by the rule and the nodes of jax-cosmo."""
    grid = np.linspace(0.0, MAX_REDSHIFT, _NUM_PANELS + 1)
    return density(z) / (simpson(grid) @ density(grid))
