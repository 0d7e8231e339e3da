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
from jaxtyping import Array, Float

from .._support.legendre import exponents_up_to, legendre

# Components of a mixture are no narrower and no wider than this, in units of the data's spread.
_LOG_WIDTHS = (-7.0, 5.0)


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


class MixtureDensity(ConservativeNetwork):
    """A normalised density: each datum given those before it is a mixture of normals shaped by a small network.

    Every datum has a network of its own, of θ and the earlier data, so that the likelihood can have several modes and
    any noise. The arcsinh of the inputs keeps outliers within reach.
    """

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


class GaussianBaseline(ConservativeNetwork):
    """A Gaussian whose mean moves with θ (:mod:`fisherscore.potentials.gaussian`): ℓ = −½ |W (x − μ(θ))|²."""

    mean: Float[Array, "terms data"]
    whitening: Float[Array, "data data"]
    degree: int = eqx.field(static=True)
    num_parameters: int = eqx.field(static=True)

    def __init__(self, num_parameters: int, data_size: int, *, degree: int, key: Array):
        del key
        self.degree, self.num_parameters = degree, num_parameters
        self.mean = jnp.zeros((len(exponents_up_to(num_parameters, degree)), data_size))
        self.whitening = jnp.eye(data_size)

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give −½ |W (x − μ(θ))|²."""
        terms = legendre(theta, exponents_up_to(self.num_parameters, self.degree), jnp)
        return -0.5 * jnp.sum((self.whitening @ (x.ravel() - terms @ self.mean)) ** 2)

    @property
    def settings(self) -> dict[str, Any]:
        """The degree of the polynomial."""
        return {"degree": self.degree}


class LocationScaleBaseline(ConservativeNetwork):
    """Location, scale and correlations that move with θ (``potentials.location_scale``), noise of free shape."""

    whitening: Float[Array, "data data"]
    location: Float[Array, "terms data"]
    log_variance: Float[Array, "terms data"]
    mixing: Float[Array, "mixing_terms data data"]
    noise: Float[Array, "4 data components"]  # log heights, centres, widths, degrees of freedom
    degree: int = eqx.field(static=True)
    mixing_degree: int = eqx.field(static=True)
    num_parameters: int = eqx.field(static=True)

    def __init__(
        self,
        num_parameters: int,
        data_size: int,
        *,
        degree: int,
        mixing_degree: int,
        num_components: int,
        key: Array,
    ):
        del key
        self.degree, self.mixing_degree, self.num_parameters = degree, mixing_degree, num_parameters
        num_terms = len(exponents_up_to(num_parameters, degree))
        num_mixing = len(exponents_up_to(num_parameters, mixing_degree))
        self.location = self.log_variance = jnp.zeros((num_terms, data_size))
        self.whitening = jnp.eye(data_size)
        self.mixing = jnp.zeros((num_mixing, data_size, data_size))
        self.noise = jnp.ones((4, data_size, num_components))

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give Σ_i log density of datum i given those before it."""
        terms = legendre(theta, exponents_up_to(self.num_parameters, self.degree), jnp)
        mixing_terms = legendre(theta, exponents_up_to(self.num_parameters, self.mixing_degree), jnp)
        white = self.whitening @ x.ravel()
        log_variance = jnp.clip(terms @ self.log_variance, -14.0, 14.0)
        residual = white - terms @ self.location - jnp.tensordot(mixing_terms, self.mixing, 1) @ white
        z = residual * jnp.exp(-0.5 * log_variance)
        log_heights, centres, widths, freedom = self.noise
        squares = ((z[:, None] - centres) / widths) ** 2
        logs = log_heights - (freedom + 1) / 2 * jnp.log1p(squares / freedom)
        return jnp.sum(jax.scipy.special.logsumexp(logs, axis=1) - 0.5 * log_variance)

    @property
    def settings(self) -> dict[str, Any]:
        """The degrees of the polynomials and the number of components of the noise."""
        return {
            "degree": self.degree,
            "mixing_degree": self.mixing_degree,
            "num_components": self.noise.shape[2],
        }


class PolynomialFamily(ConservativeNetwork):
    """ℓ(θ, x) = η(θ)·x − A(θ) with polynomials η and A: an exponential family in the data themselves."""

    coefficients: Float[Array, "terms data+1"]  # the last column is −A
    degree: int = eqx.field(static=True)
    num_parameters: int = eqx.field(static=True)

    def __init__(self, num_parameters: int, data_size: int, *, degree: int, key: Array):
        del key
        self.degree, self.num_parameters = degree, num_parameters
        self.coefficients = jnp.zeros((len(exponents_up_to(num_parameters, degree)), data_size + 1))

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give η(θ)·x − A(θ)."""
        terms = legendre(theta, exponents_up_to(self.num_parameters, self.degree), jnp)
        return terms @ self.coefficients @ jnp.append(x.ravel(), 1.0)

    @property
    def settings(self) -> dict[str, Any]:
        """The degree of the polynomials."""
        return {"degree": self.degree}


class Mapped(ConservativeNetwork):
    """A network that sees every datum through an increasing map of its own; the score does not change under such maps.

    Between its knots a map is linear; beyond them it grows like a logarithm, so that outliers stay within reach.
    """

    knots: Float[Array, "data knots"]
    values: Float[Array, "data knots"]
    inner: ConservativeNetwork

    def __init__(self, num_parameters: int, data_size: int, *, num_knots: int, inner: Mapping[str, Any], key: Array):
        self.knots = self.values = jnp.tile(jnp.arange(float(num_knots)), (data_size, 1))
        self.inner = _conservative(inner, num_parameters, data_size, key)

    def mapped(self, x: Float[Array, " ..."]) -> Float[Array, " data"]:
        """Map one observation."""

        def one(x: Array, knots: Array, values: Array) -> Array:
            before = (values[1] - values[0]) / (knots[1] - knots[0]) * jnp.minimum(x - knots[0], 0.0)
            after = (values[-1] - values[-2]) / (knots[-1] - knots[-2]) * jnp.maximum(x - knots[-1], 0.0)
            return jnp.interp(x, knots, values) + jnp.arcsinh(before) + jnp.arcsinh(after)

        return jax.vmap(one)(x.ravel(), self.knots, self.values)

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give the inner network's ℓ of the mapped data."""
        return self.inner.potential(theta, self.mapped(x))

    @property
    def settings(self) -> dict[str, Any]:
        """The number of knots and the inner network."""
        return {"num_knots": self.knots.shape[1], "inner": described(self.inner)}


class Stack(ConservativeNetwork):
    """A weighted sum of conservative networks."""

    weights: Float[Array, " members"]
    members: tuple[ConservativeNetwork, ...]

    def __init__(self, num_parameters: int, data_size: int, *, members: Sequence[Mapping[str, Any]], key: Array):
        self.weights = jnp.ones(len(members))
        self.members = tuple(_conservative(m, num_parameters, data_size, key) for m in members)

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give Σ_k w_k ℓ_k."""
        return self.weights @ jnp.stack([member.potential(theta, x) for member in self.members])

    @property
    def settings(self) -> dict[str, Any]:
        """What the members are."""
        return {"members": [described(member) for member in self.members]}


# The closed list of what a saved model may name. Nothing outside it is ever built.
ARCHITECTURES: dict[str, type[Network]] = {
    "vector_field": VectorField,
    "exponential_family": ExponentialFamily,
    "mixture_density": MixtureDensity,
    "gaussian_baseline": GaussianBaseline,
    "location_scale_baseline": LocationScaleBaseline,
    "polynomial_family": PolynomialFamily,
    "mapped": Mapped,
    "stack": Stack,
}


def build_network(
    architecture: str, num_parameters: int, data_size: int, settings: Mapping[str, Any], *, key: Array
) -> Network:
    """Make a network of a registered architecture with fresh weights."""
    return ARCHITECTURES[architecture](num_parameters, data_size, key=key, **settings)


def architecture_name(network: Network) -> str:
    """Return the registered name of a network's architecture."""
    return next(name for name, kind in ARCHITECTURES.items() if type(network) is kind)


def described(network: Network) -> dict[str, Any]:
    """Return what a network can be rebuilt from: its architecture and settings."""
    return {"architecture": architecture_name(network), "settings": network.settings}


def _conservative(
    description: Mapping[str, Any], num_parameters: int, data_size: int, key: Array
) -> ConservativeNetwork:
    built = build_network(description["architecture"], num_parameters, data_size, description["settings"], key=key)
    if not isinstance(built, ConservativeNetwork):
        raise ValueError(f"a {description['architecture']} has no potential and cannot be part of another network")
    return built
