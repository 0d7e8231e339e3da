"""The posterior as samplers see it: an unnormalised log-density over unconstrained coordinates u.

Each parameter is carried to the real line by the support of its own prior. For a model with a density the likelihood is
its log-likelihood. A plain vector field has none; there the likelihood relative to an anchor θ_a is the line integral
of the score,

    ℓ(θ) − ℓ(θ_a) = ∫₀¹ ŝ(θ_a + v (θ − θ_a)) · (θ − θ_a) dv,

by Gauss-Legendre quadrature, while the gradient is ŝ itself.

Samplers work in lanes: one lane is one chain for one observation, so that the chains of one posterior and the
posteriors of many observations are the same batch.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.distributions.transforms import biject_to

from .._support.quadrature import gauss_legendre
from ..score.model import ScoreModel
from .estimate import maximum_likelihood

# Stands for the logarithm of zero. Finite, so that a tempered likelihood 0 · ℓ is 0, and small enough that the square
# of a gradient this steep does not overflow in single precision, which would let a sampler accept anything.
NOTHING = -1e10
_NODES, _WEIGHTS = gauss_legendre(6)
# The nodes of the line integral and, last, its end.
_POINTS = np.append(_NODES, np.float32(1.0))


class Target(eqx.Module):
    """Prior and likelihood of a model; ``prior`` holds one NumPyro distribution a parameter."""

    model: ScoreModel
    prior: tuple[Any, ...]

    def constrain(self, u: Float[Array, " params"]) -> Float[Array, " params"]:
        """Map u to θ."""
        return jnp.stack([biject_to(d.support)(u[i]) for i, d in enumerate(self.prior)])

    def unconstrain(self, theta: Float[Array, " params"]) -> Float[Array, " params"]:
        """Map θ to u."""
        return jnp.stack([biject_to(d.support).inv(theta[i]) for i, d in enumerate(self.prior)])

    def draw_prior(self, key: Array) -> Float[Array, " params"]:
        """Draw θ from the prior."""
        keys = jax.random.split(key, len(self.prior))
        return jnp.stack([d.sample(k) for d, k in zip(self.prior, keys, strict=True)])

    def support(self) -> tuple[tuple[float | None, float | None], ...]:
        """Return the ends of each parameter's prior, None where it has none."""

        def end(law: Any, name: str) -> float | None:
            bound = getattr(law.support, name, None)
            return None if bound is None else float(bound)

        return tuple((end(law, "lower_bound"), end(law, "upper_bound")) for law in self.prior)

    def log_prior(self, u: Float[Array, " params"]) -> Float[Array, ""]:
        """Give the log prior density of u."""
        total = jnp.zeros(())
        for i, law in enumerate(self.prior):
            bijection = biject_to(law.support)
            value = bijection(u[i])
            total += law.log_prob(value) + bijection.log_abs_det_jacobian(u[i], value)
        return _bounded(total)

    def log_likelihood(self, u: Float[Array, " params"], x: Any, anchor: Any) -> Float[Array, ""]:
        """Give the log-likelihood of u up to a constant; never NaN or infinite."""
        return _bounded(self._log_likelihood_at(self.constrain(u), x, anchor))

    def log_density(self, theta: Float[Array, " params"], x: Any, anchor: Any) -> Float[Array, ""]:
        """Give log prior plus log-likelihood of θ up to a constant, as a density over θ; never NaN or infinite."""
        log_prior = sum((law.log_prob(theta[i]) for i, law in enumerate(self.prior)), jnp.zeros(()))
        return _bounded(log_prior + self._log_likelihood_at(theta, x, anchor))

    def _log_likelihood_at(self, theta: Array, x: Any, anchor: Any) -> Array:
        if self.model.has_density:
            return self.model.log_likelihood_one(theta, x)
        return _line_integral(self.model, theta, x, anchor)


class Lanes(eqx.Module):
    """Observations to be sampled side by side: row i of ``x`` is the data of lane i, ``anchors[i]`` its anchor."""

    target: Target
    x: Any
    anchors: Float[Array, "lanes params"]

    @classmethod
    def of(cls, target: Target, x: Any) -> "Lanes":
        """Make one lane for each row of ``x``; anchors are best fits, and not needed by models with a density."""
        data = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), x)
        num_lanes = len(jax.tree.leaves(data)[0])
        if target.model.has_density:
            return cls(target, data, jnp.zeros((num_lanes, len(target.prior))))
        best = maximum_likelihood(target.model, jax.tree.map(np.asarray, data))
        return cls(target, data, jnp.asarray(best.theta, jnp.float32))

    @classmethod
    def repeated(cls, target: Target, x: Any, num_lanes: int) -> "Lanes":
        """Make lanes that all hold the same observation."""
        return cls.of(target, jax.tree.map(lambda a: np.broadcast_to(a, (num_lanes, *np.shape(a))), x))

    @property
    def num_lanes(self) -> int:
        """Number of lanes."""
        return len(self.anchors)

    def row(self, lane: int) -> tuple[Any, Array]:
        """Return data and anchor of one lane."""
        return jax.tree.map(lambda a: a[lane], self.x), self.anchors[lane]

    def energy(self, u: Array, x: Any, anchor: Array) -> Array:
        """Give minus the log posterior density of u, up to a constant."""
        return -(self.target.log_prior(u) + self.target.log_likelihood(u, x, anchor))


def _bounded(value: Array) -> Array:
    return jnp.where(value > NOTHING, value, NOTHING)


def _line_integral(model: ScoreModel, theta: Array, x: Any, anchor: Array) -> Array:
    here = jax.lax.stop_gradient(theta)
    # The nodes and, last, the point itself in one call: many small evaluations cost more than one larger.
    points = anchor + _POINTS[:, None] * (here - anchor)
    scores = jax.vmap(model.score_one, (0, None))(points, x)
    integral = jnp.asarray(_WEIGHTS) @ (scores[:-1] @ (here - anchor))
    # The value of the integral with the gradient ŝ(θ): the bracket is zero but for its derivative.
    return integral + scores[-1] @ (theta - here)
