"""A flat universe with dark energy of constant w: its distances and the growth of its structure.

Distances are in Mpc/h, the scale factor a is 1 today, and E² = Ω_m a⁻³ + (1 − Ω_m) a^−3(1+w).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .integrals import integrals_to_the_end, interpolation, matmul

HUBBLE_DISTANCE = 2997.92458  # c / H₀ in Mpc/h


class Cosmology(NamedTuple):
    """Parameters of a flat universe; by default those of Planck 2015."""

    omega_c: Any = 0.2589
    omega_b: Any = 0.0486
    sigma8: Any = 0.8159
    h: Any = 0.6774
    n_s: Any = 0.9667
    w: Any = -1.0

    @property
    def omega_m(self) -> Any:
        """All matter."""
        return self.omega_c + self.omega_b

    @property
    def dtype(self) -> Any:
        """The precision to compute in."""
        return jnp.result_type(*self)


def densities(cosmology: Cosmology, a: Any) -> tuple[Any, Any]:
    """Give the shares of matter and of dark energy at scale factors a."""
    omega_m = cosmology.omega_m
    dark = (1.0 - omega_m) * a ** (-3.0 * (1.0 + cosmology.w))
    matter = omega_m * a**-3.0
    return matter / (matter + dark), dark / (matter + dark)


def dchi_dlna(cosmology: Cosmology, a: Any) -> Any:
    """Give −dχ/dln a = c / (a H)."""
    omega_m = cosmology.omega_m
    squared = omega_m * a**-3.0 + (1.0 - omega_m) * a ** (-3.0 * (1.0 + cosmology.w))
    return HUBBLE_DISTANCE / (a * jnp.sqrt(squared))


class Distances:
    """The comoving distance to given scale factors, through a table as jax-cosmo has it."""

    def __init__(self, a: np.ndarray):
        table = np.logspace(-3.0, 0.0, 256)
        self.nodes = np.concatenate([table, np.sqrt(table[1:] * table[:-1])])
        self.integral = interpolation(a, table) @ integrals_to_the_end(np.log(table))

    def of(self, cosmology: Cosmology) -> Any:
        """Integrate to all scale factors."""
        a = jnp.asarray(self.nodes, cosmology.dtype)
        return matmul(self.integral, dchi_dlna(cosmology, a))


class Growth:
    """The growth factor D, D(1) = 1, at given scale factors, by Runge-Kutta steps between jax-cosmo's nodes."""

    def __init__(self, a: np.ndarray):
        self.nodes = np.logspace(-3.0, 0.0, 128)
        self.interpolation = interpolation(a, self.nodes)

    def of(self, cosmology: Cosmology) -> Any:
        """Solve D'' + q D' = r D."""
        nodes = jnp.asarray(self.nodes, cosmology.dtype)
        start, end = nodes[:-1], nodes[1:]

        def coefficients(a: Any) -> Any:
            matter, dark = densities(cosmology, a)
            return (2.0 - 0.5 * (matter + (1.0 + 3.0 * cosmology.w) * dark)) / a, 1.5 * matter / a**2

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
        return matmul(self.interpolation, growth / growth[-1])
