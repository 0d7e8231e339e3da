"""The matter transfer function of Eisenstein & Hu (1998, ApJ 496, 605), acoustic oscillations included.

Wave numbers are in h/Mpc, the sound horizon is in Mpc/h. Numbers in brackets are those of the equations there, with
Θ = 2.726 K / 2.7 K.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .background import Cosmology

_THETA = 2.726 / 2.7


class _Scales(NamedTuple):
    """The scales that matter at recombination."""

    k_equality: Any
    sound_horizon: Any
    k_silk: Any
    z_ratio: Any  # (1 + z_eq) / (1 + z_d)
    drag_ratio: Any  # baryons to photons at the drag epoch


def transfer(cosmology: Cosmology, k: Any) -> Any:
    """Compute T(k) of baryons and cold dark matter together (16)."""
    scales = _scales(cosmology)
    share = cosmology.omega_b / cosmology.omega_m
    return share * _baryons(cosmology, scales, k) + (1.0 - share) * _cold_matter(cosmology, scales, k)


def _scales(cosmology: Cosmology) -> _Scales:
    matter, baryons = cosmology.omega_m * cosmology.h**2, cosmology.omega_b * cosmology.h**2
    z_equality = 2.5e4 * matter / _THETA**4  # (2)
    k_equality = 0.0746 * matter / (_THETA**2 * cosmology.h)  # (3)
    first = 0.313 * matter**-0.419 * (1.0 + 0.607 * matter**0.674)
    second = 0.238 * matter**0.223
    z_drag = 1291.0 * matter**0.251 / (1.0 + 0.659 * matter**0.828) * (1.0 + first * baryons**second)  # (4)
    at_drag, at_equality = (31.5 * baryons / _THETA**4 * (1e3 / z) for z in (z_drag, z_equality))  # (5)
    within = (jnp.sqrt(1.0 + at_drag) + jnp.sqrt(at_drag + at_equality)) / (1.0 + jnp.sqrt(at_equality))
    horizon = 2.0 / (3.0 * k_equality) * jnp.sqrt(6.0 / at_equality) * jnp.log(within)  # (6)
    silk = 1.6 * baryons**0.52 * matter**0.73 * (1.0 + (10.4 * matter) ** -0.95) / cosmology.h  # (7)
    return _Scales(k_equality, horizon, silk, (1.0 + z_equality) / (1.0 + z_drag), at_drag)


def _pressureless(q: Any, alpha: Any, beta: Any) -> Any:
    """Compute T̃₀ (19), q = k / (13.41 k_eq)."""
    logarithm = jnp.log(np.e + 1.8 * beta * q)
    c = 14.2 / alpha + 386.0 / (1.0 + 69.9 * q**1.08)
    return logarithm / (logarithm + c * q**2)


def _cold_matter(cosmology: Cosmology, scales: _Scales, k: Any) -> Any:
    """Compute the share of the cold dark matter (17, 18), suppressed by the baryons (11, 12)."""
    matter = cosmology.omega_m * cosmology.h**2
    baryons = cosmology.omega_b / cosmology.omega_m
    a1 = (46.9 * matter) ** 0.670 * (1.0 + (32.1 * matter) ** -0.532)
    a2 = (12.0 * matter) ** 0.424 * (1.0 + (45.0 * matter) ** -0.582)
    alpha = a1**-baryons * a2 ** -(baryons**3)
    b1 = 0.944 / (1.0 + (458.0 * matter) ** -0.708)
    cold = cosmology.omega_c / cosmology.omega_m
    beta = 1.0 / (1.0 + b1 * (cold ** ((0.395 * matter) ** -0.0266) - 1.0))
    q = k / (13.41 * scales.k_equality)
    weight = 1.0 / (1.0 + (k * scales.sound_horizon / 5.4) ** 4)
    return weight * _pressureless(q, 1.0, beta) + (1.0 - weight) * _pressureless(q, alpha, beta)


def _baryons(cosmology: Cosmology, scales: _Scales, k: Any) -> Any:
    """Compute the share of the baryons (21): damped oscillations of the sound horizon's length (14, 22 to 24)."""
    matter = cosmology.omega_m * cosmology.h**2
    share = cosmology.omega_b / cosmology.omega_m
    root = jnp.sqrt(1.0 + scales.z_ratio)
    grown = scales.z_ratio * (-6.0 * root + (2.0 + 3.0 * scales.z_ratio) * jnp.log((root + 1.0) / (root - 1.0)))  # (15)
    alpha = 2.07 * scales.k_equality * scales.sound_horizon * (1.0 + scales.drag_ratio) ** -0.75 * grown
    beta = 0.5 + share + (3.0 - 2.0 * share) * jnp.sqrt((17.2 * matter) ** 2 + 1.0)
    phase = k * scales.sound_horizon
    node = 8.41 * matter**0.435
    shifted = phase / (1.0 + (node / phase) ** 3) ** (1.0 / 3.0)
    smooth = _pressureless(k / (13.41 * scales.k_equality), 1.0, 1.0) / (1.0 + (phase / 5.2) ** 2)
    damped = alpha / (1.0 + (beta / phase) ** 3) * jnp.exp(-((k / scales.k_silk) ** 1.4))
    return (smooth + damped) * jnp.sinc(shifted / np.pi)
