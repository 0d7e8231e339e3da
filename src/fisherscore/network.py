"""Score networks: functions of standardised (θ, x) with values in standardised scores.

Each is written for one θ and one x. A plain vector field gives a score directly, as in the paper. A conservative
network models a scalar ℓ(θ, x), has s = ∇θ ℓ, and so comes with a log-likelihood up to a term in x alone.

A network can be rebuilt from its ``settings`` (plain numbers), which is what a saved model stores.
"""

import abc
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Network(eqx.Module):
    """Base of all score networks."""

    @abc.abstractmethod
    def __call__(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, " params"]:
        """Give the score at one θ for one x."""

    @property
    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """Sizes from which :func:`build_network` makes a network of the same shape."""


class ConservativeNetwork(Network):
    """Base of networks whose score is the gradient of a potential."""

    @abc.abstractmethod
    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give ℓ(θ, x)."""

    def __call__(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, " params"]:
        """Give ∇θ ℓ."""
        return jax.grad(self.potential)(theta, x)


class MLP(eqx.Module):
    """A stack of linear layers of the given sizes with ELU between them."""

    layers: tuple[eqx.nn.Linear, ...]

    def __init__(self, sizes: Sequence[int], *, key: Array):
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(eqx.nn.Linear(a, b, key=k) for a, b, k in zip(sizes[:-1], sizes[1:], keys, strict=True))

    def __call__(self, value: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """Run the stack; the last layer is linear."""
        for layer in self.layers[:-1]:
            value = jax.nn.elu(layer(value))
        return self.layers[-1](value)


class VectorField(Network):
    """The paper's network: an MLP of (θ, x) with one output per parameter. It has no density."""

    mlp: MLP
    hidden: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, num_parameters: int, data_size: int, *, hidden: Sequence[int], key: Array):
        self.hidden = tuple(hidden)
        self.mlp = MLP((num_parameters + data_size, *self.hidden, num_parameters), key=key)

    def __call__(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, " params"]:
        """Give the score at one θ for one x."""
        return self.mlp(jnp.concatenate([theta, x.ravel()]))

    @property
    def settings(self) -> dict[str, Any]:
        """The hidden sizes."""
        return {"hidden": list(self.hidden)}


class ExponentialFamily(ConservativeNetwork):
    """ℓ(θ, x) = η(θ)·φ(x) − A(θ) with φ(x) = (x, learned features of x).

    Exact for every Gaussian whose covariance does not depend on θ, and for other exponential families once φ has
    learned their statistics; beyond the data it extrapolates with x rather than with a network.
    """

    natural: MLP
    features: MLP
    normaliser: MLP
    hidden: tuple[int, ...] = eqx.field(static=True)
    num_features: int = eqx.field(static=True)

    def __init__(self, num_parameters: int, data_size: int, *, hidden: Sequence[int], num_features: int, key: Array):
        natural_key, features_key, normaliser_key = jax.random.split(key, 3)
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


class GaussianBaseline(ConservativeNetwork):
    """A Gaussian with polynomial mean in θ, as a conservative score network with nothing left to train."""

    coefficients: Float[Array, "monomials data"]
    whitening: Float[Array, "data data"]
    exponents: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    degree: int = eqx.field(static=True)

    def __init__(self, num_parameters: int, data_size: int, *, degree: int, key: Array):
        del key
        self.degree = degree
        self.exponents = polynomial_exponents(num_parameters, degree)
        self.coefficients = jnp.zeros((len(self.exponents), data_size))
        self.whitening = jnp.eye(data_size)

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give −½ |W (x − μ(θ))|²."""
        mean = _monomials(theta, self.exponents) @ self.coefficients
        return -0.5 * jnp.sum((self.whitening @ (x.ravel() - mean)) ** 2)

    @property
    def settings(self) -> dict[str, Any]:
        """The degree of the polynomial."""
        return {"degree": self.degree}


def polynomial_exponents(num_parameters: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """List the exponents of all monomials up to a total degree."""
    chosen = itertools.chain.from_iterable(
        itertools.combinations_with_replacement(range(num_parameters), d) for d in range(degree + 1)
    )
    return tuple(tuple(c.count(i) for i in range(num_parameters)) for c in chosen)


def _monomials(theta: Array, exponents: Sequence[tuple[int, ...]]) -> Array:
    # Powers by repeated products: a power with a traced exponent has no derivative at zero.
    degree = max(max(e) for e in exponents)
    powers = [jnp.ones_like(theta)]
    for _ in range(degree):
        powers.append(powers[-1] * theta)
    table = jnp.stack(powers)
    return jnp.prod(table[np.array(exponents), np.arange(theta.shape[0])], axis=1)


# The closed list of what a saved model may name. Nothing outside it is ever built.
ARCHITECTURES: dict[str, type[Network]] = {
    "vector_field": VectorField,
    "exponential_family": ExponentialFamily,
    "gaussian_baseline": GaussianBaseline,
}


def build_network(
    architecture: str, num_parameters: int, data_size: int, settings: Mapping[str, Any], *, key: Array
) -> Network:
    """Make a network of a registered architecture with fresh weights."""
    return ARCHITECTURES[architecture](num_parameters, data_size, key=key, **settings)


def architecture_name(network: Network) -> str:
    """Return the registered name of a network's architecture."""
    return next(name for name, kind in ARCHITECTURES.items() if type(network) is kind)
