"""Angular power spectra of cosmic shear, C_ℓ of jax-cosmo, in a form that is quick to compute and to differentiate.

In the Limber approximation, with χ the comoving distance, D the growth factor and n_i(z) the source redshifts,

    C_ij(ℓ) = f_ℓ² (3 Ω_m H₀² / 2c²)² ∫ da |dχ/da| g_i(a) g_j(a) a⁻² P(k = (ℓ + ½)/χ, a),
    g_i(a) = ∫_z^∞ dz' n_i(z') (1 − χ(z)/χ(z')),    f_ℓ² = (ℓ−1) ℓ (ℓ+1) (ℓ+2) / (ℓ+½)⁴,

and P is the linear spectrum of Eisenstein & Hu (1998) corrected by the halofit of Takahashi et al. (2012).

jax-cosmo's own ``angular_cl`` finds the halofit scales anew at every scale factor and looks up every distance by a
search through a table, which costs tenths of a second and 200 MB a spectrum. Here the growth is taken out,
σ²(R, a) = D(a)² σ²(R, 1), and all integrals run over fixed nodes, so that they are products with constant matrices. The
spectra are the same: the tables have jax-cosmo's nodes and its linear interpolation, which matter at the level of 10⁻⁴.
"""

import functools
import itertools
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..errors import MissingExtraError

# Ω_c and σ₈ of Planck 2015, at which the covariance is taken.
FIDUCIAL: Mapping[str, float] = MappingProxyType({"omega_c": 0.2589, "sigma8": 0.8159})

_HUBBLE_DISTANCE = 2997.92458  # c / H₀ in Mpc/h
_MAX_REDSHIFT = 10.0


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
    jc = _jax_cosmo()
    theta = jnp.asarray(theta)
    nodes = _nodes(source_redshifts)
    cosmology = jc.Planck15(Omega_c=theta[0], sigma8=theta[1])
    omega_m = cosmology.Omega_m

    chi, chi_between = jnp.split(_distances(omega_m, nodes), [len(nodes.a)])
    growth = _growth(omega_m, nodes)
    k = (jnp.asarray(multipoles, theta.dtype)[:, None] + 0.5) / jnp.clip(chi, 1.0)
    power = _nonlinear_power(cosmology, k, growth, nodes, derivatives)

    # g_i: the first term of the integral does not depend on θ; distances below 1 Mpc/h count as 1, as in jax-cosmo.
    inverse = 1.0 / jnp.clip(jnp.concatenate([chi, chi_between]), 1.0)
    efficiency = jnp.asarray(nodes.sources, theta.dtype) - chi * matmul(nodes.source_integral, inverse)
    first, second = np.triu_indices(len(source_redshifts))
    ell = multipoles
    factor = (ell - 1) * ell * (ell + 1) * (ell + 2) / (ell + 0.5) ** 4
    near = chi**2 / jnp.clip(chi**2, 1.0)
    geometry = nodes.a_weights / nodes.a**3 * _dchi_dlna(omega_m, nodes.a) * near
    pairs = efficiency[first] * efficiency[second] * geometry
    amplitude = (1.5 * omega_m / _HUBBLE_DISTANCE**2) ** 2
    return amplitude * matmul(pairs, power.T) * jnp.asarray(factor, theta.dtype)


def _dchi_dlna(omega_m: Any, a: Any) -> Any:
    """Give −dχ/dln a = c / (a H) of a flat universe with a cosmological constant."""
    return _HUBBLE_DISTANCE / (a * jnp.sqrt(omega_m * a**-3.0 + 1.0 - omega_m))


def _distances(omega_m: Any, nodes: "_Nodes") -> Any:
    """Integrate the comoving distance to all redshift nodes."""
    a = jnp.asarray(nodes.distance_a, omega_m.dtype)
    return matmul(nodes.distance_integral, _dchi_dlna(omega_m, a))


def _growth(omega_m: Any, nodes: "_Nodes") -> Any:
    """Solve D'' + q D' = r D for the growth factor, D(1) = 1, by Runge-Kutta steps."""
    start, end = (jnp.asarray(nodes.growth_a[part], omega_m.dtype) for part in (np.s_[:-1], np.s_[1:]))

    def coefficients(a: Any) -> Any:
        matter = omega_m * a**-3.0 / (omega_m * a**-3.0 + 1.0 - omega_m)
        return (1.5 * (2.0 - matter)) / a, 1.5 * matter / a**2

    def step(state: Any, panel: Any) -> Any:
        width, *stages = panel

        def slope(state: Any, stage: Any) -> Any:
            q, r = stage
            return jnp.stack([state[1], r * state[0] - q * state[1]])

        one = slope(state, stages[0])
        two = slope(state + 0.5 * width * one, stages[1])
        three = slope(state + 0.5 * width * two, stages[1])
        four = slope(state + width * three, stages[2])
        state = state + width / 6.0 * (one + 2.0 * two + 2.0 * three + four)
        return state, state[0]

    panels = (end - start, coefficients(start), coefficients(0.5 * (start + end)), coefficients(end))
    begin = jnp.stack([start[0], jnp.ones_like(start[0])])
    _, growth = jax.lax.scan(step, begin, panels)
    growth = jnp.concatenate([begin[:1], growth])
    return matmul(nodes.growth_interpolation, growth / growth[-1])


def _nonlinear_power(cosmology: Any, k: Any, growth: Any, nodes: "_Nodes", derivatives: str) -> Any:
    """Compute the halofit spectrum P(k, a), k of shape (multipoles, a), from the growth factor D(a)."""
    # One call for all wave numbers: the transfer function is long, and compiling it again takes seconds.
    all_k = jnp.concatenate([jnp.asarray(nodes.k, k.dtype), jnp.asarray(nodes.sigma8_k, k.dtype), k.reshape(-1)])
    shape = all_k**cosmology.n_s * _jax_cosmo().transfer.Eisenstein_Hu(cosmology, all_k) ** 2
    at_nodes, at_sigma8, at_k = jnp.split(shape, [len(nodes.k), len(nodes.k) + len(nodes.sigma8_k)])
    normalisation = cosmology.sigma8**2 / matmul(nodes.sigma8_weights, at_sigma8)

    moments = normalisation * matmul(nodes.moments, at_nodes)
    radius, first, second = _halofit_scales(moments, growth, nodes, derivatives)
    n = 2.0 * first - 3.0
    curvature = 4.0 * (first**2 + first - second)
    matter = cosmology.Omega_m / (cosmology.Omega_m + (1.0 - cosmology.Omega_m) * nodes.a**3)
    scale = k**3 / (2.0 * np.pi**2)
    linear = normalisation * scale * at_k.reshape(k.shape) * growth**2
    return _halofit(linear, k * radius, n, curvature, matter) / scale


def _halofit_scales(moments: Any, growth: Any, nodes: "_Nodes", derivatives: str) -> tuple[Any, Any, Any]:
    """Find R with D² σ²(R) = 1 at every scale factor, and the moments D² ∫ dln k Δ² (kR)^{2p} exp(−(kR)²), p = 1, 2."""
    log_r = jnp.asarray(nodes.log_r, growth.dtype)
    sigma2, m1, m2, m3 = moments
    # jax-cosmo draws a line through the node nearest to the root and the one before it, also for roots after the node.
    # It matters at the level of 1e-4, so the same is done here: the nearest node changes where σ² passes a midpoint.
    target = growth**-2.0
    between = 0.5 * (sigma2[1:] + sigma2[:-1])
    nearest = jnp.clip(jnp.searchsorted(-between, -target, method="compare_all"), 1, len(nodes.log_r) - 2)
    slope = jnp.diff(log_r) / jnp.diff(sigma2)
    root = log_r[nearest] + slope[nearest - 1] * (target - sigma2[nearest])

    width = nodes.log_r[1] - nodes.log_r[0]
    left = jnp.clip(((root - log_r[0]) / width).astype(int), 0, len(nodes.log_r) - 2)

    def at(root: Any, value: Any, slope: Any) -> Any:
        return growth**2 * _hermite((root - log_r[left]) / width, left, value, width * slope)

    if derivatives == "true":
        # The slope of that line is off by some per cent, which jumps between lines make up for; derivatives do not see
        # the jumps. So R keeps its value, but moves with θ as the equation it solves says: a Newton step without its
        # value, d(D² σ²)/dln R being −2 m1.
        fixed = jax.lax.stop_gradient(root)
        step = at(fixed, sigma2, -2.0 * m1) / jax.lax.stop_gradient(2.0 * at(fixed, m1, 2.0 * (m1 - m2)))
        root = fixed + step - jax.lax.stop_gradient(step)
    first = at(root, m1, 2.0 * (m1 - m2))
    second = at(root, m2, 4.0 * m2 - 2.0 * m3)
    return jnp.clip(jnp.exp(root), 1e-6), first, second


def _hermite(t: Any, left: Any, value: Any, slope: Any) -> Any:
    """Interpolate between the nodes ``left`` and ``left + 1`` by the cubic with these values and slopes."""
    v0, v1, s0, s1 = value[left], value[left + 1], slope[left], slope[left + 1]
    return v0 + t * (s0 + t * (3.0 * (v1 - v0) - 2.0 * s0 - s1 + t * (2.0 * (v0 - v1) + s0 + s1)))


def _halofit(linear: Any, y: Any, n: Any, c: Any, matter: Any) -> Any:
    """Correct Δ² by Takahashi et al. (2012), equations A1 to A14, for w = −1; y = kR."""
    a_n = 10 ** (1.5222 + 2.8553 * n + 2.3706 * n**2 + 0.9903 * n**3 + 0.2250 * n**4 - 0.6038 * c)
    b_n = 10 ** (-0.5642 + 0.5864 * n + 0.5716 * n**2 - 1.5474 * c)
    c_n = 10 ** (0.3698 + 2.0404 * n + 0.8161 * n**2 + 0.5869 * c)
    gamma = 0.1971 - 0.0843 * n + 0.8460 * c
    alpha = jnp.abs(6.0835 + 1.3373 * n - 0.1959 * n**2 - 5.5274 * c)
    beta = 2.0379 - 0.7354 * n + 0.3157 * n**2 + 1.2490 * n**3 + 0.3980 * n**4 - 0.1682 * c
    nu = 10 ** (5.2105 + 3.6902 * n)
    f1, f2, f3 = matter**-0.0307, matter**-0.0585, matter**0.0743

    two_halo = linear * (1.0 + linear) ** beta / (1.0 + alpha * linear) * jnp.exp(-(y / 4.0 + y**2 / 8.0))
    one_halo = a_n * y ** (3.0 * f1) / (1.0 + b_n * y**f2 + (c_n * f3 * y) ** (3.0 - gamma)) / (1.0 + nu / y**2)
    return two_halo + one_halo


class _Nodes(NamedTuple):
    """Where the integrals are evaluated, and the constant matrices that do them."""

    a: np.ndarray  # scale factors of the Limber integral
    a_weights: np.ndarray
    distance_a: np.ndarray  # scale factors of the distance integral
    distance_integral: np.ndarray  # to the redshifts of ``a``, then to those half way between them
    growth_a: np.ndarray
    growth_interpolation: np.ndarray  # from ``growth_a`` to ``a``
    sources: np.ndarray  # ∫_z^∞ n_i(z') dz' at the redshifts of ``a``
    source_integral: np.ndarray  # of n_i(z') f(z'), f given at the redshifts of the distances
    k: np.ndarray
    log_r: np.ndarray
    moments: np.ndarray  # ∫ dln k k³/2π² (kR)^{2p} exp(−(kR)²) P(k), p = 0 to 3
    sigma8_k: np.ndarray
    sigma8_weights: np.ndarray  # ∫ dln k k³/2π² W(kR)² P(k), R = 8 Mpc/h


@functools.lru_cache(maxsize=8)
def _nodes(source_redshifts: tuple[float, ...]) -> _Nodes:
    """Lay out the nodes as jax-cosmo does, and integrate by Simpson's rule."""
    a = np.linspace(1.0 / (1.0 + _MAX_REDSHIFT), 1.0, 513)
    z = 1.0 / a - 1.0
    z_between = 0.5 * (z[1:] + z[:-1])
    z_all = np.concatenate([z, z_between])
    sources = np.stack([_source_integral(z, z_between, peak) for peak in source_redshifts])

    distance_table = np.logspace(-3.0, 0.0, 256)
    distance_a = np.concatenate([distance_table, np.sqrt(distance_table[1:] * distance_table[:-1])])
    to_table = _integrals_to_the_end(np.log(distance_table))
    growth_a = np.logspace(-3.0, 0.0, 128)

    log_k = np.linspace(np.log(1e-4), np.log(1e4), 257)
    k = np.exp(log_k)
    log_r = np.linspace(np.log(1e-4), np.log(1e1), 256)
    y2 = np.exp(2.0 * (log_r[:, None] + log_k))
    window = np.exp(-y2) * _simpson(log_k) * k**3 / (2.0 * np.pi**2)
    sigma8_k, sigma8_weights = _sigma8_integral()
    return _Nodes(
        a=a,
        a_weights=_simpson(a),
        distance_a=distance_a,
        distance_integral=_interpolation(1.0 / (1.0 + z_all), distance_table) @ to_table,
        growth_a=growth_a,
        growth_interpolation=_interpolation(a, growth_a),
        sources=sources.sum(axis=-1),
        source_integral=sources,
        k=k,
        log_r=log_r,
        moments=np.stack([window * y2**p for p in range(4)]),
        sigma8_k=sigma8_k,
        sigma8_weights=sigma8_weights,
    )


def _source_integral(z: np.ndarray, z_between: np.ndarray, peak: float) -> np.ndarray:
    """Weigh nodes for the integral over n(z') ∝ z' exp(−(z' / peak)²) from each z to the largest redshift."""
    # The redshifts fall along the nodes: an integral up to the first node is minus that from z to the end.
    weights = _integrals_to_the_end(z[::-1])[::-1]
    num = len(z)
    weights = np.concatenate([weights[:, :num][:, ::-1], weights[:, num:][:, ::-1]], axis=1)
    grid = np.linspace(0.0, _MAX_REDSHIFT, 257)
    normalisation = _simpson(grid) @ (grid * np.exp(-((grid / peak) ** 2)))
    z_all = np.concatenate([z, z_between])
    return weights * z_all * np.exp(-((z_all / peak) ** 2)) / normalisation


def _integrals_to_the_end(x: np.ndarray) -> np.ndarray:
    """Weigh the nodes x, then the points half way between them, for the integrals from each node to the last."""
    num = len(x)
    panels = np.zeros((num - 1, 2 * num - 1))
    rows = np.arange(num - 1)
    width = np.diff(x)
    panels[rows, rows] = panels[rows, rows + 1] = width / 6.0
    panels[rows, num + rows] = 4.0 * width / 6.0
    tails = np.cumsum(panels[::-1], axis=0)[::-1]
    return np.concatenate([tails, np.zeros((1, 2 * num - 1))])


def _sigma8_integral() -> tuple[np.ndarray, np.ndarray]:
    """Weigh wave numbers for the variance in spheres of 8 Mpc/h, by Romberg's rule on 128 panels."""
    # jax-cosmo takes decimal for natural logarithms here and integrates from e⁻⁴ to e³ h/Mpc. Spectra are normalised by
    # this integral, so to have its spectra is to do the same.
    low, high, depth = -4.0, 3.0, 7
    num = 2**depth
    table = []
    for step in (num >> level for level in range(depth + 1)):
        trapezoid = np.zeros(num + 1)
        trapezoid[::step] = step * (high - low) / num
        trapezoid[[0, -1]] *= 0.5
        table.append(trapezoid)
    for order in range(1, depth + 1):
        table = [(4**order * fine - coarse) / (4**order - 1) for coarse, fine in itertools.pairwise(table)]
    k = np.exp(np.linspace(low, high, num + 1))
    x = 8.0 * k
    window = 3.0 * (np.sin(x) - x * np.cos(x)) / x**3
    return k, table[0] * k**3 * window**2 / (2.0 * np.pi**2)


def _simpson(x: np.ndarray) -> np.ndarray:
    """Weigh an odd number of evenly spaced nodes by Simpson's rule."""
    weights = np.full(len(x), 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    return weights * (x[1] - x[0]) / 3.0


def _interpolation(x: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Write linear interpolation from ``nodes`` to x as a matrix."""
    return np.stack([np.interp(x, nodes, unit) for unit in np.eye(len(nodes))], axis=1)


def matmul(matrix: Any, values: Any) -> Any:
    """Multiply at full precision, which accelerators do not do unless asked."""
    return jnp.matmul(jnp.asarray(matrix, values.dtype), values, precision="highest")


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
