"""Angular power spectra of cosmic shear and of galaxy numbers in bins of redshift, and among one another.

In the Limber approximation, with u_i(χ) = q_i(χ) / χ for each bin,

    C_ij(ℓ) = ∫ dχ u_i u_j P(k = (ℓ + ½)/χ, a).

    galaxies   q_i = b_i n_i(z) dz/dχ,
    shear      q_i = f_ℓ (1 + m_i) [(3 Ω_m H₀² / 2c²) χ g_i(a) / a − A ((1+z)/(1+z₀))^η C₁ρ_c Ω_m/D(a) n_i(z) dz/dχ].

b is the linear bias of galaxies, m the multiplicative bias of measured shears, and the second term the intrinsic
alignment of galaxies with the tides around them, as in the non-linear alignment model (Bridle & King 2007, NJP 9, 444;
its slope η as by the DES Collaboration 2018, PRD 98, 043526). P, g_i and f_ℓ are those of ``lensing_spectra.py``,
except that P makes no small jumps. The
galaxies of a bin have n_i(z) = N(z; z_i + δ_i, width), δ_i being the error of their mean photometric redshift.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .background import HUBBLE_DISTANCE, Cosmology, dchi_dlna
from .halofit import nonlinear_power
from .integrals import matmul
from .light_cone import light_cone

_PIVOT = 0.62  # z₀
_ALIGNMENT = 5e-14 * 2.775e11  # C₁ρ_c, as measured on SuperCOSMOS


@dataclass(frozen=True)
class GaussianBins:
    """Bins of galaxies whose redshifts are normal.

    Attributes:
        centres: The mean redshift of each bin.
        scatter: Standard deviation of its redshifts, over 1 + its mean.
    """

    centres: tuple[float, ...]
    scatter: float

    def density(self, z: Any, shifts: Any) -> Any:
        """Compute n(z) of all bins, each moved by its shift; the little that falls below z = 0 is lost."""
        centres = jnp.asarray(self.centres, z.dtype)
        width = self.scatter * (1.0 + centres)[:, None]
        return jnp.exp(-0.5 * ((z - (centres + shifts)[:, None]) / width) ** 2) / (np.sqrt(2.0 * np.pi) * width)


class Galaxies(NamedTuple):
    """What the spectra depend on besides the cosmology."""

    bias: Any  # b of each bin of lenses
    shift: Any  # δ of each bin of sources
    shear: Any  # m of each bin of sources
    lens_shift: Any  # δ of each bin of lenses
    alignment: Any  # A
    alignment_slope: Any  # η


def all_spectra(
    cosmology: Cosmology, galaxies: Galaxies, multipoles: np.ndarray, bins: tuple[GaussianBins, GaussianBins]
) -> Float[Array, "bins bins multipoles"]:
    """Compute C_ℓ of all pairs of bins: first those of sources, by their shear, then those of lenses, by number."""
    cone, dtype = light_cone(), cosmology.dtype
    a, z = jnp.asarray(cone.a, dtype), jnp.asarray(cone.z, dtype)
    chi, chi_between = jnp.split(cone.distances.of(cosmology), [len(cone.a)])
    # Distances below 1 Mpc/h count as 1, as in lensing_spectra.py.
    inverse = 1.0 / jnp.clip(jnp.concatenate([chi, chi_between]), 1.0)
    growth, step = cone.growth.of(cosmology), dchi_dlna(cosmology, a)
    k = (jnp.asarray(multipoles, dtype)[:, None] + 0.5) * inverse[: len(a)]
    power = nonlinear_power(cosmology, k, a, growth, derivatives="smooth")

    sources = bins[0].density(z, galaxies.shift)
    lenses = bins[1].density(z[: len(a)], galaxies.lens_shift)
    behind = matmul(cone.to_the_end, jnp.stack([sources, sources * inverse]).reshape(-1, len(z)).T).T
    behind = behind.reshape(2, len(sources), len(a))
    lensing = 1.5 * cosmology.omega_m / HUBBLE_DISTANCE**2 * (behind[0] - chi * behind[1]) / a
    along = inverse[: len(a)] / (a * step)  # n(z) dz/dχ over n(z) χ
    tide = galaxies.alignment * (1.0 / (a * (1.0 + _PIVOT))) ** galaxies.alignment_slope / growth
    aligned = _ALIGNMENT * cosmology.omega_m * tide * along * sources[:, : len(a)]

    shear = (1.0 + galaxies.shear)[:, None] * (lensing - aligned)
    kernels = jnp.concatenate([shear, galaxies.bias[:, None] * along * lenses])
    first, second = np.triu_indices(len(kernels))
    near = chi**2 / jnp.clip(chi**2, 1.0)
    pairs = kernels[first] * kernels[second] * (cone.a_weights / cone.a * step * near)
    factors = _shear_factors(multipoles, len(sources), len(lenses))
    values = matmul(pairs, power.T) * jnp.asarray(factors[first] * factors[second], dtype)
    # One index of a pair for each two bins, in either order.
    pair = np.zeros((len(kernels), len(kernels)), int)
    pair[first, second] = pair[second, first] = np.arange(len(first))
    return values[pair]


def _shear_factors(ell: np.ndarray, num_sources: int, num_lenses: int) -> np.ndarray:
    """Give f_ℓ of each bin of sources, and 1 of each bin of lenses."""
    shear = np.sqrt((ell - 1) * ell * (ell + 1) * (ell + 2)) / (ell + 0.5) ** 2
    return np.stack([shear] * num_sources + [np.ones_like(shear)] * num_lenses)
