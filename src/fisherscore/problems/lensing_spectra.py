"""Angular power spectra of cosmic shear, C_ℓ of jax-cosmo, in a form that is quick to compute and to differentiate.

In the Limber approximation, with χ the comoving distance, D the growth factor and n_i(z) the source redshifts,

    C_ij(ℓ) = f_ℓ² (3 Ω_m H₀² / 2c²)² ∫ da |dχ/da| g_i(a) g_j(a) a⁻² P(k = (ℓ + ½)/χ, a),
    g_i(a) = ∫_z^∞ dz' n_i(z') (1 − χ(z)/χ(z')),    f_ℓ² = (ℓ−1) ℓ (ℓ+1) (ℓ+2) / (ℓ+½)⁴,

and P is the linear spectrum of Eisenstein & Hu (1998) corrected by the halofit of Takahashi et al. (2012).

jax-cosmo's own ``angular_cl`` finds the halofit scales anew at every scale factor and looks up every distance by a
search through a table, which costs tenths of a second and 200 MB a spectrum. Here all integrals run over fixed nodes,
so that they are products with constant matrices. The spectra are the same: the tables have jax-cosmo's nodes.
"""

import functools
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..errors import MissingExtraError
from .background import HUBBLE_DISTANCE, Cosmology, dchi_dlna
from .halofit import nonlinear_power
from .integrals import matmul
from .light_cone import light_cone
from .tomography import Populations, Sources

# Ω_c and σ₈ of Planck 2015, at which the covariance is taken.
FIDUCIAL: Mapping[str, float] = MappingProxyType({"omega_c": 0.2589, "sigma8": 0.8159})


def fiducial_covariance(multipoles: np.ndarray, source_redshifts: tuple[float, ...]) -> np.ndarray:
    """Compute the covariance of the spectra of Gaussian fields with shape noise at the fiducial cosmology."""
    jc = _jax_cosmo()
    probes = [jc.probes.WeakLensing([jc.redshift.smail_nz(1.0, 2.0, z) for z in source_redshifts], sigma_e=0.26)]
    ell = jnp.asarray(multipoles, jnp.float32)
    signal = jax.jit(lambda theta: spectra(theta, multipoles, source_redshifts))(jnp.array(list(FIDUCIAL.values())))
    noise = jc.angular_cl.noise_cl(ell, probes)
    covariance = jc.angular_cl.gaussian_cl_covariance(ell, probes, signal, noise, sparse=False)
    return np.asarray(covariance, dtype=np.float64)


def spectra(
    theta: Any, multipoles: np.ndarray, source_redshifts: tuple[float, ...], derivatives: str = "true"
) -> Float[Array, "pairs multipoles"]:
    """Compute C_ℓ of all pairs of source populations at one θ = (Ω_c, σ₈), in jax-cosmo's order and to its numbers."""
    theta = jnp.asarray(theta)
    cosmology = Cosmology(omega_c=theta[0], sigma8=theta[1])
    return limber_spectra(cosmology, multipoles, Populations(source_redshifts), derivatives=derivatives)


def limber_spectra(
    cosmology: Cosmology, multipoles: np.ndarray, sources: Sources, *, derivatives: str = "true"
) -> Float[Array, "pairs multipoles"]:
    """Compute C_ℓ of all pairs of sources, the first with all from itself on, then the second."""
    dtype, omega_m = cosmology.dtype, cosmology.omega_m
    cone, integral = light_cone(), _source_integral(sources)
    a = jnp.asarray(cone.a, dtype)
    chi, chi_between = jnp.split(cone.distances.of(cosmology), [len(cone.a)])
    k = (jnp.asarray(multipoles, dtype)[:, None] + 0.5) / jnp.clip(chi, 1.0)
    power = nonlinear_power(cosmology, k, a, cone.growth.of(cosmology), derivatives=derivatives)

    # g_i: the first term of the integral does not depend on θ; distances below 1 Mpc/h count as 1, as in jax-cosmo.
    inverse = 1.0 / jnp.clip(jnp.concatenate([chi, chi_between]), 1.0)
    efficiency = jnp.asarray(integral.sum(axis=-1), dtype) - chi * matmul(integral, inverse)
    first, second = np.triu_indices(len(integral))
    ell = multipoles
    factor = (ell - 1) * ell * (ell + 1) * (ell + 2) / (ell + 0.5) ** 4
    near = chi**2 / jnp.clip(chi**2, 1.0)
    geometry = cone.a_weights / cone.a**3 * dchi_dlna(cosmology, a) * near
    pairs = efficiency[first] * efficiency[second] * geometry
    amplitude = (1.5 * omega_m / HUBBLE_DISTANCE**2) ** 2
    return amplitude * matmul(pairs, power.T) * jnp.asarray(factor, dtype)


@functools.lru_cache(maxsize=8)
def _source_integral(sources: Sources) -> np.ndarray:
    """Weigh f(z') for the integral of n_i(z') f(z') from each z to the end, f at the redshifts of the distances."""
    cone = light_cone()
    return cone.to_the_end * sources.density(cone.z)[:, None, :]


def _jax_cosmo() -> Any:
    try:
        with warnings.catch_warnings():
            # It imports pkg_resources, which setuptools warns about; nothing a user of this package can change.
            warnings.simplefilter("ignore")
            import jax_cosmo
    except ImportError:
        raise MissingExtraError(
            'Weak lensing needs jax-cosmo, which is not installed. Get it with: pip install "fisherscore[cosmology]"'
        ) from None
    return jax_cosmo
