"""Log-normal convergence maps in several bins of redshift, drawn from the spectra of cosmic shear.

With κ_i = λ_i (exp(g_i − v_i / 2) − 1), g Gaussian and v its variance, the correlation functions are tied by

    ξ_ij(r) = λ_i λ_j (exp(ζ_ij(r)) − 1),    so that    ζ_ij(r) = log(1 + ξ_ij(r) / (λ_i λ_j)).

All functions of (k_x, k_y) here are even in both, so a quarter of the plane is enough: modes 0 to n/2 along each axis,
between which and the pixels a matrix of cosines goes to and fro.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.interpolate import CubicSpline

from .background import Cosmology
from .integrals import matmul
from .lensing_spectra import limber_spectra
from .tomography import RedshiftBins

# Multipoles at which spectra are computed; between them goes a cubic spline of logarithms, good to 1e-5.
_NUM_MULTIPOLES = 48


@dataclass(frozen=True)
class Survey:
    """What is observed of the sky.

    Attributes:
        degrees: Side of the map.
        num_pixels: Pixels a side.
        sources: The source galaxies.
        galaxies: Galaxies per square arcminute, in all bins together.
        ellipticity: Scatter of the ellipticity of a galaxy.
    """

    degrees: float
    num_pixels: int
    sources: RedshiftBins
    galaxies: float
    ellipticity: float

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of a pixel."""
        area = (60.0 * self.degrees / self.num_pixels) ** 2
        return self.ellipticity / float(np.sqrt(self.galaxies / self.sources.num_bins * area))


class LogNormalMaps:
    """Maps of a survey given a cosmology and the shifts λ."""

    def __init__(self, survey: Survey):
        self.survey, n = survey, survey.num_pixels
        # Multipoles of whole numbers of periods a side, up to the corner of the plane of modes.
        step = 360.0 / survey.degrees
        nodes = step * np.arange(1, int(np.sqrt(0.5) * n) + 4)
        self.multipoles = np.geomspace(nodes[0], nodes[-1], _NUM_MULTIPOLES)
        self.spline = CubicSpline(np.log(self.multipoles), np.eye(_NUM_MULTIPOLES))(np.log(nodes))
        periods = np.arange(n // 2 + 1)
        self.left, self.fraction = _lines(np.hypot(periods[:, None], periods), len(nodes))
        weights = np.where(periods % (n // 2) == 0, 1.0, 2.0)
        self.cosines = np.cos(2.0 * np.pi * np.outer(periods, periods) / n) * weights
        self.fold = np.minimum(np.arange(n), n - np.arange(n))
        self.first, self.second = np.triu_indices(survey.sources.num_bins)

    def power(self, cosmology: Cosmology) -> Any:
        """Compute C_ij at every mode of the quarter of the plane, (pairs, n/2 + 1, n/2 + 1); the mean has none."""
        spectra = limber_spectra(cosmology, self.multipoles, self.survey.sources)
        nodes = jnp.exp(matmul(self.spline, jnp.log(spectra).T)).T
        nodes = jnp.pad(nodes, ((0, 0), (1, 0)))
        below = nodes[:, self.left]
        power = below + self.fraction.astype(nodes.dtype) * (nodes[:, self.left + 1] - below)
        return power.at[:, 0, 0].set(0.0)

    def gaussian_power(self, cosmology: Cosmology, shifts: Any) -> Any:
        """Compute the power of g in units in which white noise of variance 1 has 1."""
        shift = (shifts[self.first] * shifts[self.second])[:, None, None]
        correlation = self._transformed(self.power(cosmology)) / np.deg2rad(self.survey.degrees) ** 2
        # Of the logarithm's transform the sign is dropped, and the mean of a map is none.
        power = jnp.abs(self._transformed(jnp.log1p(correlation / shift)))
        return power.at[:, 0, 0].set(0.0)

    def _transformed(self, values: Any) -> Any:
        """Sum values times cosines over the whole plane."""
        return matmul(self.cosines, jnp.swapaxes(matmul(self.cosines, jnp.swapaxes(values, 1, 2)), 1, 2))

    def root(self, power: Any) -> list[list[Any]]:
        """Find lower triangular L with L Lᵀ = power at every mode, row by row; written out, for millions of them."""
        num = self.survey.sources.num_bins
        tiny = float(np.finfo(power.dtype).tiny)
        pairs = {(int(i), int(j)): power[k] for k, (i, j) in enumerate(zip(self.first, self.second, strict=True))}
        rows: list[list[Any]] = [[] for _ in range(num)]
        for j in range(num):
            pivot = pairs[j, j] - sum(entry**2 for entry in rows[j])
            inverse = jnp.where(pivot > 0, jax.lax.rsqrt(jnp.maximum(pivot, tiny)), 0.0)
            for i in range(j, num):
                left = pairs[j, i] - sum(a * b for a, b in zip(rows[i][:j], rows[j][:j], strict=True))
                rows[i].append(left * inverse)
        return rows

    def gaussian(self, rows: list[list[Any]], white: Any) -> Any:
        """Colour white noise (bins, n, n) by the rows of a matrix at every mode, of which zeros at the end may lack."""
        modes = jnp.fft.rfft2(white)
        coloured = [sum(entry[self.fold] * modes[j] for j, entry in enumerate(row)) for row in rows]
        return jnp.fft.irfft2(jnp.stack(coloured), s=white.shape[1:])

    def convergence(self, gaussian: Any, shifts: Any) -> Any:
        """Turn Gaussian maps (bins, n, n) into log-normal ones."""
        variance = jnp.var(gaussian, axis=(1, 2), keepdims=True)
        return shifts[:, None, None] * jnp.expm1(gaussian - 0.5 * variance)

    def draw(self, key: Any, cosmology: Cosmology, shifts: Any) -> Any:
        """Draw noisy maps, (n, n, bins)."""
        n, num = self.survey.num_pixels, self.survey.sources.num_bins
        of_field, of_noise = jax.random.split(key)
        rows = self.root(self.gaussian_power(cosmology, shifts))
        white = jax.random.normal(of_field, (num, n, n), cosmology.dtype)
        maps = jnp.moveaxis(self.convergence(self.gaussian(rows, white), shifts), 0, -1)
        return maps + self.survey.noise * jax.random.normal(of_noise, (n, n, num), cosmology.dtype)


def _lines(periods: np.ndarray, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Say on which line through two nodes the power of a mode lies, by its first node and the way along the line.

    Nodes are whole numbers of periods. From three on, it is the line through the nearest node and the one before, also
    for modes beyond the nearest: so was it where the observed map and its posterior come from, and a line through the
    nodes on both sides would move the power of some modes by a tenth.
    """
    nearest = np.clip(np.ceil(periods - 0.5).astype(int), 1, num_nodes - 1)
    before = np.where(nearest >= 3, 1, np.clip(periods, 1.0, 2.0) < nearest)
    left = nearest - before
    return left, periods - left
