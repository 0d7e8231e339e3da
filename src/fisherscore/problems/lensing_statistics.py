"""Statistics of noisy log-normal lensing maps: what spectra can tell, and the third moments that tell the shift.

With C the power of the maps at some cosmology, N that of the noise, and x̂ the modes of all bins, what x says of spectra
near C is in products x̂† M x̂, one for each way in which spectra can move: M = (C + N)^-½ D (C + N)^-½ with D a principal
direction of log[(C + N)^-½ (C' + N) (C + N)^-½] over other cosmologies C' (optimal quadratic estimators, Tegmark 1997).
Along all but the first six, spectra of the prior move by less than their noise. Let further

    u = (C + N)⁻¹ x    and    s = C u,

which is the Wiener filter. To first order in 1/λ, κ_i = κ_i^G + (κ_i^G)² / 2λ_i with κ^G Gaussian, so the means over
pixels of u_i s_i² are the best estimators of 1/λ_i where that is small (Komatsu, Spergel and Wandelt 2005 find the same
of primordial maps). They are larger in maps that happen to have more power in their few largest waves, so that this is
a statistic too. Few sharp statistics are worth more than many: what is learned of each costs simulations.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .background import Cosmology
from .lensing_fields import LogNormalMaps

# Directions in which spectra move. The first statistics are of spectra: these, and one of each of five bins.
_NUM_DIRECTIONS = 6
NUM_SPECTRA = _NUM_DIRECTIONS + 5
# The largest waves have fewer periods a side than this.
_LARGEST = 4.5
# Logarithms of eigenvalues are of no smaller ones.
_LEAST = 1e-3


class LensingStatistics:
    """Statistics of the maps of a survey, filtered for one cosmology; none of their pixels may be averaged."""

    def __init__(self, maps: LogNormalMaps, cosmology: Cosmology, others: Sequence[Cosmology]):
        self.num_pixels = n = maps.survey.num_pixels
        compiled, units = jax.jit(maps.power), (n / np.deg2rad(maps.survey.degrees)) ** 2
        num = maps.survey.sources.num_bins

        def power(one: Cosmology) -> np.ndarray:
            """Give the power at every mode of the quarter of the plane as matrices (n/2 + 1, n/2 + 1, bins, bins)."""
            pairs = np.moveaxis(np.asarray(compiled(one), np.float64), 0, -1) * units
            matrices = np.zeros((*pairs.shape[:2], num, num))
            matrices[..., maps.first, maps.second] = matrices[..., maps.second, maps.first] = pairs
            return matrices

        quarter = power(cosmology)
        signal, noise = quarter[maps.fold], maps.survey.noise**2 * np.eye(num)
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
        largest = counts * (wave > 0) * (wave < _LARGEST)
        self.largest = np.asarray(largest / largest.sum(), np.float32)
        self.first, self.second = maps.first, maps.second
        # Directions are found along one axis of the plane, for whole numbers of periods.
        along = [quarter[0, 1:] + noise, *(power(one)[0, 1:] + noise for one in others)]
        directions = _directions(along[0], np.stack(along[1:]))
        self.directions = np.asarray(_at_modes(directions, wave, counts / n**2, (maps.first, maps.second)), np.float32)

    def spectra(self, modes: Any) -> Any:
        """Give the power along the first direction, as a logarithm, the others in units of it, and of largest waves."""
        shared = (modes[self.first] * modes[self.second].conj()).real
        powers = jnp.einsum("kpxy,pxy->k", self.directions, shared)
        of_largest = jnp.log(jnp.sum(self.largest * jnp.abs(modes) ** 2, axis=(1, 2)))
        return jnp.concatenate([jnp.log(powers[:1]), powers[1:] / powers[0], of_largest])

    def third_moments(self, modes: Any) -> Any:
        """Give the mean of u_i s_i² of each bin."""
        filtered, wiener = (jnp.einsum("xyij,jxy->ixy", m, modes) for m in (self.inverse, self.wiener))
        return jnp.mean(self._pixels(filtered) * self._pixels(wiener) ** 2, axis=(1, 2))

    def _pixels(self, modes: Any) -> Any:
        return jnp.fft.irfft2(modes, s=(self.num_pixels, self.num_pixels))

    def of(self, x: Any) -> Any:
        """Compute all statistics of one map (n, n, bins), the spectra first."""
        modes = jnp.fft.rfft2(jnp.moveaxis(x, -1, 0))
        return jnp.concatenate([self.spectra(modes), self.third_moments(modes)])


def _directions(typical: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Find the principal directions (number, k, bins, bins) of spectra (m, k, bins, bins) away from typical ones.

    In units of the typical power, which all directions are put between the roots of at the end; k counts periods, and
    about 2 π k modes have each.
    """
    values, vectors = np.linalg.eigh(typical)
    root = (vectors / np.sqrt(values)[:, None, :]) @ vectors.transpose(0, 2, 1)
    values, vectors = np.linalg.eigh(root @ others @ root)
    logarithms = (vectors * np.log(np.maximum(values, _LEAST))[..., None, :]) @ vectors.swapaxes(-1, -2)
    weights = np.sqrt(np.pi * np.arange(1, 1 + len(typical)))[:, None, None]
    found = np.linalg.svd((logarithms * weights).reshape(len(others), -1), full_matrices=False)[2]
    found = found[:_NUM_DIRECTIONS].reshape(-1, *typical.shape) / weights
    # What is the sign of a direction is decided by more power being more.
    return np.asarray(root @ (found * np.sign(np.trace(found[0], axis1=1, axis2=2).sum())) @ root)


def _at_modes(directions: np.ndarray, wave: np.ndarray, counts: np.ndarray, pairs: Any) -> np.ndarray:
    """Put directions (num, k, bins, bins) at the modes of the half plane, (num, pairs of bins, ...), as weights."""
    first, second = pairs
    of_pairs = directions[:, :, first, second] * np.where(first == second, 1.0, 2.0)
    periods = np.arange(1, 1 + directions.shape[1])
    at = np.clip(wave, periods[0], periods[-1])
    weights = np.stack([[np.interp(at, periods, row) for row in one.T] for one in of_pairs])
    return np.asarray(weights * counts * (wave > 0))
