"""Networks that are trained on simulations: the paper's vector field, and a conservative one.

A plain vector field gives a score directly, as in the paper. The exponential family models a scalar ℓ(θ, x) instead.
"""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._support import host_random
from .base import Potential, ScoreFunction, register


class MLP(eqx.Module):
    """A stack of linear layers of the given sizes with ELU between them."""

    layers: tuple[eqx.nn.Linear, ...]

    def __init__(self, sizes: Sequence[int], *, key: Any):
        keys = host_random.split(host_random.words_of(key), len(sizes) - 1)
        self.layers = tuple(_linear(a, b, k) for a, b, k in zip(sizes[:-1], sizes[1:], keys, strict=True))

    def __call__(self, value: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """Run the stack; the last layer is linear."""
        for layer in self.layers[:-1]:
            value = jax.nn.elu(layer(value))
        return self.layers[-1](value)


def _linear(inputs: int, outputs: int, key: Any) -> eqx.nn.Linear:
    """Make a layer as Equinox does, with nothing to compile for its weights."""
    layer = eqx.filter_eval_shape(lambda: eqx.nn.Linear(inputs, outputs, key=jax.random.key(0)))
    limit = 1 / math.sqrt(inputs)
    shapes = ((outputs, inputs), (outputs,))
    drawn = [host_random.uniforms(k, s, -limit, limit) for k, s in zip(host_random.split(key), shapes, strict=True)]
    return eqx.tree_at(lambda one: (one.weight, one.bias), layer, [jnp.asarray(a, jnp.float32) for a in drawn])


@register("vector_field")
class VectorField(ScoreFunction):
    """The paper's network: an MLP of (θ, x) with one output per parameter. It has no density."""

    mlp: MLP
    hidden: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, num_parameters: int, data_size: int, *, hidden: Sequence[int], key: Any):
        self.hidden = tuple(hidden)
        self.mlp = MLP((num_parameters + data_size, *self.hidden, num_parameters), key=key)

    def __call__(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, " params"]:
        """Give the score at one θ for one x."""
        return self.mlp(jnp.concatenate([theta, x.ravel()]))

    @property
    def settings(self) -> dict[str, Any]:
        """The hidden sizes."""
        return {"hidden": list(self.hidden)}


@register("exponential_family")
class ExponentialFamily(Potential):
    """ℓ(θ, x) = η(θ)·φ(x) − A(θ) with φ(x) = (x, learned features of x).

    Exact for every Gaussian whose covariance does not depend on θ, and for other exponential families once φ has
    learned their statistics; beyond the data it extrapolates with x rather than with a network.
    """

    natural: MLP
    features: MLP
    normaliser: MLP
    hidden: tuple[int, ...] = eqx.field(static=True)
    num_features: int = eqx.field(static=True)

    def __init__(self, num_parameters: int, data_size: int, *, hidden: Sequence[int], num_features: int, key: Any):
        natural_key, features_key, normaliser_key = host_random.split(host_random.words_of(key), 3)
        self.hidden = tuple(hidden)
        self.num_features = num_features
        self.natural = MLP((num_parameters, *self.hidden, data_size + num_features), key=natural_key)
        self.features = MLP((data_size, *self.hidden, num_features), key=features_key)
        self.normaliser = MLP((num_parameters, *self.hidden, 1), key=normaliser_key)

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give ℓ(θ, x)."""
        flat = x.ravel()
        statistics = jnp.concatenate([flat, self.features(flat)])
        return self.natural(theta) @ statistics - self.normaliser(theta)[0]

    @property
    def settings(self) -> dict[str, Any]:
        """The hidden sizes and the number of learned features."""
        return {"hidden": list(self.hidden), "num_features": self.num_features}
