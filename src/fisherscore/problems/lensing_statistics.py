"""Statistics of noisy log-normal lensing maps: spectra, and the third moments that tell the shift.

With C the power of the maps at some cosmology, N that of the noise, and x̂ the modes of all bins, let

    u = (C + N)⁻¹ x    and    s = C u,

which is the Wiener filter. To first order in 1/λ, κ_i = κ_i^G + (κ_i^G)² / 2λ_i with κ^G Gaussian, so the means over
pixels of u_i s_i² are the best estimators of 1/λ_i where that is small (Komatsu, Spergel and Wandelt 2005 find the same
of primordial maps). They are taken in bands of the wave number of u, and for all pairs of bins.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .background import Cosmology
from .lensing_fields import LogNormalMaps

# Edges of rings for spectra, and of bands for third moments, in periods a side.
_RINGS = (1.0, 4.5, 15.0, 50.0, 115.0)
_BANDS = (1.0, 4.0, 12.0, 40.0, 1e9)
# Of the statistics of five bins, the first so many are spectra.
NUM_SPECTRA = 60


class LensingStatistics:
    """Statistics of the maps of a survey, filtered for one cosmology; none of their pixels may be averaged."""

    def __init__(self, maps: LogNormalMaps, cosmology: Cosmology):
        self.num_pixels = n = maps.survey.num_pixels
        power = np.asarray(jax.jit(maps.power)(cosmology), np.float64) * (n / np.deg2rad(maps.survey.degrees)) ** 2
        num = maps.survey.sources.num_bins
        signal = np.zeros((n, n // 2 + 1, num, num))
        pairs = np.moveaxis(power[:, maps.fold], 0, -1)
        signal[..., maps.first, maps.second] = signal[..., maps.second, maps.first] = pairs
        noise = maps.survey.noise**2 * np.eye(num)
        inverse = np.linalg.inv(signal + noise)
        inverse[0, 0] = 0.0
        wiener = signal @ inverse
        wave = np.hypot(np.fft.fftfreq(n, 1 / n)[:, None], np.fft.rfftfreq(n, 1 / n))
        counts = np.where((np.arange(n // 2 + 1) % (n // 2) == 0), 1.0, 2.0) * np.ones((n, 1))
        # All in units in which u and s have variance 1 at this cosmology.
        variances = ((counts[..., None, None] * part).sum(axis=(0, 1)) / n**2 for part in (inverse, wiener @ signal))
        of_inverse, of_wiener = (np.sqrt(np.diagonal(v))[:, None] for v in variances)
        self.inverse = np.asarray(inverse / of_inverse, np.float32)
        self.wiener = np.asarray(wiener / of_wiener, np.float32)
        self.rings = np.asarray(_means(wave, counts, _RINGS), np.float32)
        self.bands = [(wave >= low) & (wave < high) for low, high in itertools.pairwise(_BANDS)]
        self.first, self.second = np.triu_indices(num, 1)

    def spectra(self, modes: Any) -> Any:
        """Give logarithms of the power of each bin in rings, and for pairs of bins their coherence."""
        power = jnp.einsum("rxy,ixy->ir", self.rings, jnp.abs(modes) ** 2)
        shared = (modes[self.first] * modes[self.second].conj()).real
        shared = jnp.einsum("rxy,pxy->pr", self.rings, shared)
        coherence = jnp.arctanh(shared / jnp.sqrt(power[self.first] * power[self.second]))
        return jnp.concatenate([jnp.log(power).ravel(), coherence.ravel()])

    def third_moments(self, modes: Any) -> Any:
        """Give means of u_i s_j² for all i and j, and those of u_i s_i² in bands of u."""
        filtered, wiener = (jnp.einsum("xyij,jxy->ixy", m, modes) for m in (self.inverse, self.wiener))
        squares = self._pixels(wiener) ** 2
        pairs = [self._pixels(filtered * band) for band in self.bands]
        in_bands = jnp.stack([jnp.mean(u * squares, axis=(1, 2)) for u in pairs])
        apart = jnp.einsum("ixy,jxy->ij", sum(pairs), squares) / self.num_pixels**2
        num = len(apart)
        return jnp.concatenate([in_bands.ravel(), apart[~np.eye(num, dtype=bool)]])

    def _pixels(self, modes: Any) -> Any:
        return jnp.fft.irfft2(modes, s=(self.num_pixels, self.num_pixels))

    def of(self, x: Any) -> Any:
        """Compute all statistics of one map (n, n, bins), the spectra first."""
        modes = jnp.fft.rfft2(jnp.moveaxis(x, -1, 0))
        return jnp.concatenate([self.spectra(modes), self.third_moments(modes)])


def _means(wave: np.ndarray, counts: np.ndarray, edges: tuple[float, ...]) -> np.ndarray:
    """Weigh the modes of the half plane for means over rings."""
    rings = np.stack([(wave >= low) & (wave < high) for low, high in itertools.pairwise(edges)]) * counts
    return np.asarray(rings / rings.sum(axis=(1, 2), keepdims=True))
