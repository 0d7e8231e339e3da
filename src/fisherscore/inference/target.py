"""The posterior as samplers see it: an unnormalised log-density over unconstrained coordinates.

Priors are NumPyro distributions by name; each parameter is carried to the real line by its prior's own support. For a
model with a density the likelihood is its log-likelihood. A plain vector field has none; there the likelihood relative
to an anchor θ_a is the line integral of the score,

    ℓ(θ) − ℓ(θ_a) = ∫₀¹ ŝ(θ_a + v (θ − θ_a)) · (θ − θ_a) dv,

by Gauss-Legendre quadrature, while the gradient is ŝ itself.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions.transforms import biject_to

from .._support.arguments import check_names
from .._support.quadrature import gauss_legendre
from ..errors import ArgumentError
from ..score.model import ScoreModel

# Stands for the logarithm of zero. Finite, so that a tempered likelihood 0 · ℓ is 0, and small enough that the square
# of a gradient this steep does not overflow in single precision, which would let a sampler accept anything.
NOTHING = -1e10
_NODES, _WEIGHTS = gauss_legendre(6)
# The nodes of the line integral and, last, its end.
_POINTS = np.append(_NODES, np.float32(1.0))


class Target(eqx.Module):
    """Prior and likelihood of a model over unconstrained coordinates u."""

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
        theta = self.constrain(u)
        if self.model.has_density:
            value = self.model.log_likelihood_one(theta, x)
        else:
            value = _line_integral(self.model, theta, x, anchor)
        return _bounded(value)


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


def target(model: ScoreModel, prior: Mapping[str, Any] | None) -> Target:
    """Put a model under a prior by name; parameters not named are uniform over the training region."""
    laws: dict[str, Any] = {
        n: dist.Uniform(float(a), float(b)) for n, a, b in zip(model.names, model.low, model.high, strict=True)
    }
    if prior is not None:
        if not isinstance(prior, Mapping):
            raise ArgumentError(
                f"prior: expected a mapping from parameter name to a NumPyro distribution, got {type(prior).__name__}."
            )
        check_names(prior, model.names, "prior")
        for name, law in prior.items():
            usable = isinstance(law, dist.Distribution) and not isinstance(law, dist.Delta | dist.ImproperUniform)
            if not usable or law.is_discrete or law.batch_shape or law.event_shape:
                raise ArgumentError(
                    f"prior[{name!r}]: expected a proper scalar continuous NumPyro distribution, got {law!r}."
                )
        laws |= prior
    return Target(model, tuple(laws[n] for n in model.names))
