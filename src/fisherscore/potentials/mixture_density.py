"""A normalised density of x given θ by one network a datum: trained by maximum likelihood (``fitting.trainers``).

A density wastes less of a simulation than a regression does, but every datum has a network of its own, so that it is
for small data; larger ones are compressed first.
"""

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .base import Potential, register

# Components of a mixture are no narrower and no wider than this, in units of the data's spread.
_LOG_WIDTHS = (-7.0, 5.0)


@register("mixture_density")
class MixtureDensity(Potential):
    """A normalised density: each datum given those before it is a mixture of normals shaped by a small network.

    Every datum has a network of its own, of θ and the earlier data, so that the likelihood can have several modes and
    any noise. The arcsinh of the inputs keeps outliers within reach.
    """

    max_data: ClassVar[int] = 30

    layers: tuple[tuple[Array, Array], ...]  # weights (data, outputs, inputs) and biases (data, outputs)
    hidden: tuple[int, ...] = eqx.field(static=True)
    num_components: int = eqx.field(static=True)

    def __init__(self, num_parameters: int, data_size: int, *, hidden: Sequence[int], num_components: int, key: Array):
        self.hidden, self.num_components = tuple(hidden), num_components
        sizes = (num_parameters + data_size, *self.hidden, 3 * num_components)
        layers = []
        for number, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
            # The last layer starts near zero: components spread over the data, the same for every θ.
            scale = 0.01 if number == len(self.hidden) else inputs**-0.5
            weights = scale * jax.random.normal(jax.random.fold_in(key, number), (data_size, outputs, inputs))
            layers.append((weights, jnp.zeros((data_size, outputs))))
        spread = jnp.linspace(-1.5, 1.5, num_components) if num_components > 1 else jnp.zeros(1)
        start = jnp.concatenate([jnp.zeros(num_components), spread, jnp.full(num_components, jnp.log(0.7))])
        layers[-1] = (layers[-1][0], jnp.tile(start, (data_size, 1)))
        self.layers = tuple(layers)

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give Σ_i log p(x_i | x_<i, θ), without the constant."""
        flat = x.ravel()
        earlier = jnp.tril(jnp.ones((flat.size, flat.size)), -1) * jnp.arcsinh(flat)
        value = jnp.concatenate([jnp.broadcast_to(theta, (flat.size, theta.size)), earlier], axis=1)
        for weights, bias in self.layers[:-1]:
            inner = jax.nn.silu(jnp.einsum("doi,di->do", weights, value) + bias)
            value = value + inner if inner.shape == value.shape else inner
        weights, bias = self.layers[-1]
        shape = jnp.einsum("doi,di->do", weights, value) + bias
        logits, centres, log_widths = jnp.split(shape, 3, axis=1)
        log_widths = jnp.clip(log_widths, *_LOG_WIDTHS)
        z = (flat[:, None] - centres) * jnp.exp(-log_widths)
        logs = jax.nn.log_softmax(logits, axis=1) - 0.5 * z**2 - log_widths
        return jnp.sum(jax.scipy.special.logsumexp(logs, axis=1))

    @property
    def settings(self) -> dict[str, Any]:
        """The hidden sizes and the number of components."""
        return {"hidden": list(self.hidden), "num_components": self.num_components}
