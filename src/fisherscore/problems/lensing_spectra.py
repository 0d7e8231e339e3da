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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..errors import MissingExtraError
from .background import HUBBLE_DISTANCE, Cosmology, Distances, Growth, dchi_dlna
from .halofit import nonlinear_power
from .integrals import integrals_to_the_end, matmul, simpson
from .tomography import MAX_REDSHIFT, Populations, Sources

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
    nodes = _nodes(sources)
    a = jnp.asarray(nodes.a, dtype)
    chi, chi_between = jnp.split(nodes.distances.of(cosmology), [len(nodes.a)])
    k = (jnp.asarray(multipoles, dtype)[:, None] + 0.5) / jnp.clip(chi, 1.0)
    power = nonlinear_power(cosmology, k, a, nodes.growth.of(cosmology), derivatives=derivatives)

    # g_i: the first term of the integral does not depend on θ; distances below 1 Mpc/h count as 1, as in jax-cosmo.
    inverse = 1.0 / jnp.clip(jnp.concatenate([chi, chi_between]), 1.0)
    efficiency = jnp.asarray(nodes.sources, dtype) - chi * matmul(nodes.source_integral, inverse)
    first, second = np.triu_indices(len(nodes.sources))
    ell = multipoles
    factor = (ell - 1) * ell * (ell + 1) * (ell + 2) / (ell + 0.5) ** 4
    near = chi**2 / jnp.clip(chi**2, 1.0)
    geometry = nodes.a_weights / nodes.a**3 * dchi_dlna(cosmology, a) * near
    pairs = efficiency[first] * efficiency[second] * geometry
    amplitude = (1.5 * omega_m / HUBBLE_DISTANCE**2) ** 2
    return amplitude * matmul(pairs, power.T) * jnp.asarray(factor, dtype)


class _Nodes(NamedTuple):
    """Where the integrals are evaluated, and the constant matrices that do them."""

    a: np.ndarray  # scale factors of the Limber integral
    a_weights: np.ndarray
    distances: Distances  # to the redshifts of ``a``, then to those half way between them
    growth: Growth  # at ``a``
    sources: np.ndarray  # ∫_z^∞ n_i(z') dz' at the redshifts of ``a``
    source_integral: np.ndarray  # of n_i(z') f(z'), f given at the redshifts of the distances


@functools.lru_cache(maxsize=8)
def _nodes(sources: Sources) -> _Nodes:
    """Lay out the nodes as jax-cosmo does, and integrate by Simpson's rule."""
    a = np.linspace(1.0 / (1.0 + MAX_REDSHIFT), 1.0, 513)
    z = 1.0 / a - 1.0
    z_between = 0.5 * (z[1:] + z[:-1])
    z_all = np.concatenate([z, z_between])
    # The redshifts fall along the nodes: an integral up to the first node is minus that from z to the end.
    weights = integrals_to_the_end(z[::-1])[::-1]
    weights = np.concatenate([weights[:, : len(z)][:, ::-1], weights[:, len(z) :][:, ::-1]], axis=1)
    integral = weights * sources.density(z_all)[:, None, :]
    return _Nodes(
        a=a,
        a_weights=simpson(a),
        distances=Distances(1.0 / (1.0 + z_all)),
        growth=Growth(a),
        sources=integral.sum(axis=-1),
        source_integral=integral,
    )


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
