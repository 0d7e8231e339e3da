"""The posterior as samplers see it: an unnormalised log-density over unconstrained coordinates u.

Each parameter is carried to the real line by the support of its own prior, except where that is uniform: there u runs
from 0 to 1, between walls. For a model with a density the likelihood is its log-likelihood. A plain vector field has
none; there the likelihood relative to an anchor θ_a is the line integral of the score,

    ℓ(θ) − ℓ(θ_a) = ∫₀¹ ŝ(θ_a + v (θ − θ_a)) · (θ − θ_a) dv,

by Gauss-Legendre quadrature, while the gradient is ŝ itself.

Samplers work in lanes: one lane is one chain for one observation, so that the chains of one posterior and the
posteriors of many observations are the same batch.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.quadrature import gauss_legendre
from ..score.model import ScoreModel
from .estimate import maximum_likelihood
from .priors.blocks import Prior
from .priors.laws import independent
from .walls import Walls

# Stands for the logarithm of zero. Finite, so that a tempered likelihood 0 · ℓ is 0, and small enough that the square
# of a gradient this steep does not overflow in single precision, which would let a sampler accept anything.
NOTHING = -1e10
# The log prior outside its support. Far below what a sampler that went astray can meet, so that it can be
# told from that.
OUTSIDE = -1e13
_NODES, _WEIGHTS = gauss_legendre(6)
EVALUATIONS_PER_INTEGRAL = 7
# The nodes of the line integral and, last, its end.
_POINTS = np.append(_NODES, np.float32(1.0))


class Target(eqx.Module):
    """Prior and likelihood of a model."""

    model: ScoreModel
    prior: Prior

    @classmethod
    def of(cls, model: ScoreModel, prior: Prior | Sequence[Any]) -> "Target":
        """Take a prior, or one distribution a parameter."""
        return cls(model, prior if isinstance(prior, Prior) else Prior((independent(prior),)))

    @property
    def num_parameters(self) -> int:
        """How many parameters there are."""
        return self.prior.num_parameters

    def constrain(self, u: Float[Array, " params"]) -> Float[Array, " params"]:
        """Map u to θ."""
        return self.prior.to_theta(u)[0]

    def constrain_with_jacobian(self, u: Float[Array, " params"]) -> tuple[Float[Array, " params"], Float[Array, ""]]:
        """Map u to θ; return θ and the logarithm of |∂θ/∂u|."""
        return self.prior.to_theta(u)

    def unconstrain(self, theta: Float[Array, " params"]) -> Float[Array, " params"]:
        """Map θ to u."""
        return self.prior.to_u(theta)

    @property
    def walls(self) -> Walls:
        """Where u ends, below and above: infinite for parameters that are carried to the whole real line."""
        return self.prior.walls()

    def draw_base(self, words: Array, num: int) -> Float[Array, "num params"]:
        """Draw θ from the base of the prior, with two random words for each parameter."""
        return self.prior.draw(words, num)

    def log_prior(self, u: Float[Array, " params"]) -> Float[Array, ""]:
        """Give the log prior density of u."""
        value = self.prior.log_base(u)
        return self._cut(u, _bounded(value + self.prior.log_rest(u) if self.prior.has_rest else value))

    def log_base(self, u: Float[Array, " params"]) -> Float[Array, ""]:
        """Give the log-density at u of the base of the prior, from which tempering begins."""
        return self._cut(u, _bounded(self.prior.log_base(u)))

    def log_rest(self, u: Float[Array, " params"], x: Any, anchor: Any) -> Float[Array, ""]:
        """Give the logarithm of all that the base is multiplied by: the rest of the prior and the likelihood."""
        likelihood = self.log_likelihood(u, x, anchor)
        return _bounded(likelihood + self.prior.log_rest(u)) if self.prior.has_rest else likelihood

    def _cut(self, u: Array, value: Array) -> Array:
        return jnp.where(self.prior.inside(u), value, OUTSIDE) if self.prior.is_cut else value

    def log_likelihood(self, u: Float[Array, " params"], x: Any, anchor: Any) -> Float[Array, ""]:
        """Give the log-likelihood of u up to a constant; never NaN or infinite."""
        return _bounded(self._log_likelihood_at(self.constrain(u), x, anchor))

    def _log_likelihood_at(self, theta: Array, x: Any, anchor: Any) -> Array:
        if self.model.has_density:
            return self.model.log_likelihood_one(theta, x)
        return _line_integral(self.model, theta, x, anchor)


class Lanes(eqx.Module):
    """Observations to be sampled side by side: row i of ``x`` is the data of lane i, ``anchors[i]`` its anchor."""

    target: Target
    x: Any
    anchors: np.ndarray

    @classmethod
    def of(cls, target: Target, x: Any) -> "Lanes":
        """Make one lane for each row of ``x``; anchors are best fits, and not needed by models with a density."""
        data = jax.tree.map(lambda a: np.asarray(a, np.float32), x)
        num_lanes = len(jax.tree.leaves(data)[0])
        if target.model.has_density:
            return cls(target, data, np.zeros((num_lanes, target.num_parameters), np.float32))
        return cls(target, data, np.asarray(maximum_likelihood(target.model, data).theta, np.float32))

    def repeated(self, num: int) -> "Lanes":
        """Make ``num`` lanes of each, side by side."""
        return self._rows(np.repeat(np.arange(self.num_lanes), num))

    def part(self, rows: slice) -> "Lanes":
        """Return some of the lanes."""
        return self._rows(np.arange(self.num_lanes)[rows])

    def _rows(self, rows: np.ndarray) -> "Lanes":
        return Lanes(self.target, jax.tree.map(lambda a: a[rows], self.x), self.anchors[rows])

    @property
    def num_lanes(self) -> int:
        """Number of lanes."""
        return len(self.anchors)

    def row(self, lane: int) -> tuple[Any, Any]:
        """Return data and anchor of one lane."""
        return jax.tree.map(lambda a: a[lane], self.x), self.anchors[lane]

    def padded(self, num_lanes: int) -> "Lanes":
        """Repeat the first lane at the end until there are ``num_lanes``."""
        rows = np.where(np.arange(num_lanes) < self.num_lanes, np.arange(num_lanes), 0)
        return self._rows(rows)

    def energy_and_gradient(self, u: Array, x: Any, anchor: Any) -> tuple[Array, Array]:
        """Give minus the log posterior density of u, up to a constant, and its gradient; never NaN or infinite."""

        def energy(u: Array) -> Array:
            return -(self.target.log_prior(u) + self.target.log_likelihood(u, x, anchor))

        value, gradient = jax.value_and_grad(energy)(u)
        return value, jnp.where(jnp.isfinite(gradient), gradient, 0.0)


def random_words(seed: int, stream: int | tuple[int, ...], num: int) -> np.ndarray:
    """Return two words for each of ``num`` keys of random numbers; the first do not depend on how many there are."""
    key = (stream,) if isinstance(stream, int) else stream
    return np.random.SeedSequence(seed, spawn_key=key).generate_state(2 * num, np.uint32).reshape(num, 2)


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
