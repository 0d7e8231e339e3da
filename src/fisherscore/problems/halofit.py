"""The spectrum of matter: linear, and corrected by the halofit of Takahashi et al. (2012, ApJ 761, 152).

The growth is taken out of the integrals, σ²(R, a) = D(a)² σ²(R, 1), so that they are products with constant matrices.
The tables have jax-cosmo's nodes and its linear interpolation, which matter at the level of 10⁻⁴.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .background import Cosmology, densities
from .integrals import hermite, matmul, romberg, simpson
from .transfer import transfer

# The integrals over wave numbers from 1e-4 to 1e4 h/Mpc.
_LOG_K = np.linspace(np.log(1e-4), np.log(1e4), 257)
_LOG_R = np.linspace(np.log(1e-4), np.log(1e1), 256)


def _moments() -> np.ndarray:
    """Weigh wave numbers for ∫ dln k k³/2π² (kR)^{2p} exp(−(kR)²) P(k), p = 0 to 3."""
    y2 = np.exp(2.0 * (_LOG_R[:, None] + _LOG_K))
    window = np.exp(-y2) * simpson(_LOG_K) * np.exp(3.0 * _LOG_K) / (2.0 * np.pi**2)
    return np.stack([window * y2**p for p in range(4)])


def _sigma8_integral() -> tuple[np.ndarray, np.ndarray]:
    """Weigh wave numbers for the variance in spheres of 8 Mpc/h, ∫ dln k k³/2π² W(kR)² P(k)."""
    # jax-cosmo takes decimal for natural logarithms here and integrates from e⁻⁴ to e³ h/Mpc. Spectra are normalised by
    # this integral, so to have its spectra is to do the same.
    k = np.exp(np.linspace(-4.0, 3.0, 129))
    x = 8.0 * k
    window = 3.0 * (np.sin(x) - x * np.cos(x)) / x**3
    return k, romberg(-4.0, 3.0, 7) * k**3 * window**2 / (2.0 * np.pi**2)


_MOMENTS = _moments()
_SIGMA8_K, _SIGMA8_WEIGHTS = _sigma8_integral()


def nonlinear_power(cosmology: Cosmology, k: Any, a: Any, growth: Any, *, derivatives: str = "true") -> Any:
    """Compute P(k, a), k of shape (any, a), from the growth factor D(a).

    Args:
        cosmology: The universe.
        k: Wave numbers.
        a: Scale factors.
        growth: The growth factor.
        derivatives: How the non-linear scale is found. ``"jax-cosmo"``: with the value there, which makes small jumps,
            and what automatic differentiation gives. ``"true"``: with the same value, and the
            derivatives of the equation it solves. ``"smooth"``: with the solution of that equation, without jumps.

    Returns:
        The spectrum, in the shape of k.
    """
    # One call for all wave numbers: the transfer function is long, and compiling it again takes seconds.
    fixed = jnp.asarray(np.concatenate([np.exp(_LOG_K), _SIGMA8_K]), k.dtype)
    all_k = jnp.concatenate([fixed, k.reshape(-1)])
    shape = all_k**cosmology.n_s * transfer(cosmology, all_k) ** 2
    at_nodes, at_sigma8, at_k = jnp.split(shape, [len(_LOG_K), len(fixed)])
    normalisation = cosmology.sigma8**2 / matmul(_SIGMA8_WEIGHTS, at_sigma8)

    radius, first, second = _scales(normalisation * matmul(_MOMENTS, at_nodes), growth, derivatives)
    n = 2.0 * first - 3.0
    curvature = 4.0 * (first**2 + first - second)
    scale = k**3 / (2.0 * np.pi**2)
    linear = normalisation * scale * at_k.reshape(k.shape) * growth**2
    matter, dark = densities(cosmology, a)
    return _corrected(linear, k * radius, (n, curvature), (matter, dark * (1.0 + cosmology.w))) / scale


def _scales(moments: Any, growth: Any, derivatives: str) -> tuple[Any, Any, Any]:
    """Find R with D² σ²(R) = 1 at every scale factor, and the moments D² ∫ dln k Δ² (kR)^{2p} exp(−(kR)²), p = 1, 2."""
    log_r = jnp.asarray(_LOG_R, growth.dtype)
    sigma2, m1, m2, m3 = moments
    # jax-cosmo draws a line through the node nearest to the root and the one before it, also for roots after the node.
    # It matters at the level of 1e-4, so the same is done here: the nearest node changes where σ² passes a midpoint.
    target = growth**-2.0
    between = 0.5 * (sigma2[1:] + sigma2[:-1])
    nearest = jnp.clip(jnp.searchsorted(-between, -target, method="compare_all"), 1, len(_LOG_R) - 2)
    slope = jnp.diff(log_r) / jnp.diff(sigma2)
    root = log_r[nearest] + slope[nearest - 1] * (target - sigma2[nearest])
    # Early on, little may be non-linear down to the smallest R. Beyond the table n and the curvature would run away.
    root = jnp.maximum(root, log_r[0])

    width = _LOG_R[1] - _LOG_R[0]
    left = jnp.clip(((root - log_r[0]) / width).astype(int), 0, len(_LOG_R) - 2)

    def at(root: Any, value: Any, slope: Any) -> Any:
        return growth**2 * hermite((root - log_r[left]) / width, left, value, width * slope)

    def steepness(root: Any) -> Any:
        return 2.0 * at(root, m1, 2.0 * (m1 - m2))

    if derivatives != "jax-cosmo":
        # The slope of that line is off by some per cent, which jumps between lines make up for; derivatives do not see
        # the jumps. So R keeps its value, but moves with θ as the equation it solves says: a Newton step without its
        # value, d(D² σ²)/dln R being −2 m1. Without jumps, the same step is first taken with its value.
        fixed = jax.lax.stop_gradient(root)
        if derivatives == "smooth":
            fixed = jax.lax.stop_gradient(fixed + (at(fixed, sigma2, -2.0 * m1) - 1.0) / steepness(fixed))
        step = at(fixed, sigma2, -2.0 * m1) / jax.lax.stop_gradient(steepness(fixed))
        root = fixed + step - jax.lax.stop_gradient(step)
    first = at(root, m1, 2.0 * (m1 - m2))
    second = at(root, m2, 4.0 * m2 - 2.0 * m3)
    return jnp.exp(root), first, second


def _corrected(linear: Any, y: Any, shape: tuple[Any, Any], universe: tuple[Any, Any]) -> Any:
    """Correct Δ² by equations A1 to A14; y = kR, ``universe`` has Ω_m and Ω_w (1 + w) at each scale factor."""
    (n, c), (matter, dark) = shape, universe
    a_n = 10 ** (1.5222 + 2.8553 * n + 2.3706 * n**2 + 0.9903 * n**3 + 0.2250 * n**4 - 0.6038 * c + 0.1749 * dark)
    b_n = 10 ** (-0.5642 + 0.5864 * n + 0.5716 * n**2 - 1.5474 * c + 0.2279 * dark)
    c_n = 10 ** (0.3698 + 2.0404 * n + 0.8161 * n**2 + 0.5869 * c)
    gamma = 0.1971 - 0.0843 * n + 0.8460 * c
    alpha = jnp.abs(6.0835 + 1.3373 * n - 0.1959 * n**2 - 5.5274 * c)
    beta = 2.0379 - 0.7354 * n + 0.3157 * n**2 + 1.2490 * n**3 + 0.3980 * n**4 - 0.1682 * c
    nu = 10 ** (5.2105 + 3.6902 * n)
    f1, f2, f3 = matter**-0.0307, matter**-0.0585, matter**0.0743

    two_halo = linear * (1.0 + linear) ** beta / (1.0 + alpha * linear) * jnp.exp(-(y / 4.0 + y**2 / 8.0))
    one_halo = a_n * y ** (3.0 * f1) / (1.0 + b_n * y**f2 + (c_n * f3 * y) ** (3.0 - gamma)) / (1.0 + nu / y**2)
    return two_halo + one_halo
