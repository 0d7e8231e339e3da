"""Spectra of shear, galaxy-galaxy lensing and clustering of one survey, with many nuisance parameters.

The data are x | θ ~ N(μ(θ), Σ): spectra C_ℓ of shear in pairs of source bins, of each lens bin with the shear of each
source bin, and of each lens bin with itself, 10⁷ C_ℓ(θ), with Σ the covariance of Gaussian fields with shape and shot
noise at the fiducial parameters, seen on a part f_sky of the sky in bands of Δℓ multipoles,

    Cov[C_ij, C_kl] = (Ĉ_ik Ĉ_jl + Ĉ_il Ĉ_jk) / ((2ℓ + 1) Δℓ f_sky),    Ĉ_ij = C_ij + δ_ij noise_i.

Score and Fisher matrix follow in ``gaussian_noise.py``, the spectra themselves are in ``three_by_two_spectra.py``.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._support.arguments import as_count
from .._support.compiling import quickly_compiled
from .._support.precision import in_single_precision
from ..errors import ArgumentError
from ..simulation.proposal import uniform
from .background import Cosmology
from .gaussian_noise import gaussian_noise
from .problem import Problem
from .three_by_two_spectra import Galaxies, GaussianBins, all_spectra
from .weak_lensing import UNIT

F_SKY = 0.35  # 14 400 square degrees
SOURCE_DENSITY, LENS_DENSITY = 10.0, 1.0  # galaxies per square arcminute, in all bins together
ELLIPTICITY = 0.26
_PER_STERADIAN = (60.0 * 180.0 / np.pi) ** 2
_LARGEST_SCALE, _SMALLEST_SCALE = 20.0, 2000.0

# Fiducial values and half the width of the ranges: two to five of the standard deviations these spectra allow.
_COSMOLOGY = {
    "omega_c": (0.26, 0.025),
    "omega_b": (0.049, 0.015),
    "sigma8": (0.82, 0.025),
    "h": (0.68, 0.1),
    "n_s": (0.966, 0.035),
    "w": (-1.0, 0.12),
}
_ALIGNMENT = {"alignment": (1.0, 0.08), "alignment_slope": (0.0, 0.6)}
_BIAS, _SHIFT, _SHEAR, _LENS_SHIFT = 0.08, 0.012, 0.075, 0.01


@in_single_precision
def three_by_two(
    *, num_sources: int = 4, num_lenses: int = 5, num_multipoles: int = 3, lens_shifts: bool = False
) -> Problem:
    """Make the problem, by default with 21 parameters and 105 data.

    The survey sees 35 % of the sky, with ten source and one lens galaxy per square arcminute, divided evenly over bins
    of redshift, and an ellipticity scatter of 0.26. Sources are centred evenly from z = 0.45 to 1.35 with a scatter of
    0.08 (1 + z), lenses from 0.3 to 0.9 with 0.04 (1 + z). Each of the bands between ℓ = 20 and 2000, evenly spaced in
    log ℓ, is represented by its middle. The ranges are some two to five standard deviations to either side of the
    fiducial values. With ``num_sources=6, num_lenses=10, lens_shifts=True`` there are 40 parameters and 273 data.

    Args:
        num_sources: Number of bins of source galaxies, each with the parameters shift (of its mean redshift) and shear
            (the multiplicative bias of its shears).
        num_lenses: Number of bins of lens galaxies, each with the parameter bias (their linear bias).
        num_multipoles: Number of bands of multipoles.
        lens_shifts: Whether the mean redshifts of the lens bins are parameters, too.

    Returns:
        The problem, with parameters omega_c, omega_b, sigma8, h, n_s, w, alignment and alignment_slope (intrinsic
        alignments), bias1 and on, shift1 and on, shear1 and on, and with ``lens_shifts`` lens_shift1 and on.

    >>> import fisherscore as fs
    >>> problem = fs.problems.three_by_two()
    >>> problem.proposal.num_parameters, problem.x_shape
    (21, (105,))
    """
    if not isinstance(lens_shifts, bool):
        raise ArgumentError(f"lens_shifts: expected True or False, got {lens_shifts!r}.")
    layout = Layout(
        num_sources=as_count(num_sources, "num_sources"),
        num_lenses=as_count(num_lenses, "num_lenses"),
        num_multipoles=as_count(num_multipoles, "num_multipoles"),
        lens_shifts=lens_shifts,
    )
    ranges = layout.ranges()
    noise = np.linalg.cholesky(UNIT**2 * layout.covariance())

    def mean(theta: Any) -> Any:
        return UNIT * layout.data_of(layout.spectra(jnp.asarray(theta)))

    return Problem(
        name="three-by-two",
        proposal=uniform({name: (value - half, value + half) for name, (value, half) in ranges.items()}),
        x_shape=(len(noise),),
        batch_size=32,
        **gaussian_noise(mean, noise),
    )


@dataclass(frozen=True)
class Layout:
    """Which bins, multipoles and parameters there are, and in what order."""

    num_sources: int
    num_lenses: int
    num_multipoles: int
    lens_shifts: bool

    @property
    def bins(self) -> tuple[GaussianBins, GaussianBins]:
        """The bins of sources and of lenses."""
        return (
            GaussianBins(tuple(np.linspace(0.45, 1.35, self.num_sources)), 0.08),
            GaussianBins(tuple(np.linspace(0.3, 0.9, self.num_lenses)), 0.04),
        )

    @property
    def edges(self) -> np.ndarray:
        """The multipoles between the bands."""
        return np.geomspace(_LARGEST_SCALE, _SMALLEST_SCALE, self.num_multipoles + 1)

    @property
    def multipoles(self) -> np.ndarray:
        """The middle of each band."""
        return np.sqrt(self.edges[1:] * self.edges[:-1])

    def ranges(self) -> dict[str, tuple[float, float]]:
        """List the parameters in their order, each with its fiducial value and half the width of its range."""
        biases = 1.0 + np.array(self.bins[1].centres)  # galaxies at larger redshifts are rarer, and more biased
        ranges = _COSMOLOGY | _ALIGNMENT
        ranges |= {f"bias{i}": (float(b), _BIAS) for i, b in enumerate(biases, 1)}
        ranges |= {f"shift{i}": (0.0, _SHIFT) for i in range(1, self.num_sources + 1)}
        ranges |= {f"shear{i}": (0.0, _SHEAR) for i in range(1, self.num_sources + 1)}
        if self.lens_shifts:
            ranges |= {f"lens_shift{i}": (0.0, _LENS_SHIFT) for i in range(1, self.num_lenses + 1)}
        return ranges

    def spectra(self, theta: Any) -> Any:
        """Compute all spectra at one θ."""
        sizes = [6, 2, self.num_lenses, self.num_sources, self.num_sources]
        cosmology, alignment, bias, shift, shear, rest = jnp.split(theta, np.cumsum(sizes))
        galaxies = Galaxies(
            bias=bias,
            shift=shift,
            shear=shear,
            lens_shift=rest if self.lens_shifts else jnp.zeros_like(bias),
            alignment=alignment[0],
            alignment_slope=alignment[1],
        )
        universe = Cosmology(**dict(zip(_COSMOLOGY, cosmology, strict=True)))
        return all_spectra(universe, galaxies, self.multipoles, self.bins)

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """List the two bins of each spectrum that is measured: shear, then lenses with shear, then clustering."""
        sources, lenses = np.arange(self.num_sources), self.num_sources + np.arange(self.num_lenses)
        first, second = np.triu_indices(self.num_sources)
        return (
            np.concatenate([first, np.repeat(lenses, len(sources)), lenses]),
            np.concatenate([second, np.tile(sources, len(lenses)), lenses]),
        )

    def data_of(self, spectra: Any) -> Any:
        """Line up the spectra that are measured, each with its multipoles one after the other."""
        return spectra[self.pairs()].reshape(-1)

    def covariance(self) -> np.ndarray:
        """Compute the covariance of the data at the fiducial parameters."""
        theta = jnp.array([value for value, _ in self.ranges().values()])
        signal = np.asarray(quickly_compiled(self.spectra)(theta), np.float64)
        shape = ELLIPTICITY**2 * self.num_sources / (SOURCE_DENSITY * _PER_STERADIAN)
        shot = self.num_lenses / (LENS_DENSITY * _PER_STERADIAN)
        noise = np.diag([shape] * self.num_sources + [shot] * self.num_lenses)
        seen = signal + noise[:, :, None]
        i, j = self.pairs()
        of_bands = seen[np.ix_(i, i)] * seen[np.ix_(j, j)] + seen[np.ix_(i, j)] * seen[np.ix_(j, i)]
        of_bands /= (2.0 * self.multipoles + 1.0) * np.diff(self.edges) * F_SKY
        # Different bands are independent.
        num, bands = len(i), self.num_multipoles
        return np.einsum("pqb,bc->pbqc", of_bands, np.eye(bands)).reshape(num * bands, num * bands)
