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
import numpy as np
from jaxtyping import Array, Float
from scipy.special import expit, softmax

from .._support import host_random
from .base import Potential, register

# Components of a mixture are no narrower and no wider than this, in units of the data's spread.
_LOG_WIDTHS = (-7.0, 5.0)
# Arrays of derivatives are no larger than this, so that they stay in the processor's cache.
_NUMBERS_AT_ONCE = 2**18


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

    def __init__(self, num_parameters: int, data_size: int, *, hidden: Sequence[int], num_components: int, key: Any):
        self.hidden, self.num_components = tuple(hidden), num_components
        sizes = (num_parameters + data_size, *self.hidden, 3 * num_components)
        self.layers = _first_layers(key, sizes, data_size)

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give Σ_i log p(x_i | x_<i, θ), without the constant."""
        return self.log_densities(theta[None], x.ravel()[None])[0]

    def log_densities(self, theta: Float[Array, "rows params"], x: Float[Array, "rows data"]) -> Float[Array, " rows"]:
        """Give the potential of many rows at once.

        Rows stand last in all that follows, so that every layer is one product of matrices a datum, with nothing to
        transpose: half as many seconds as the potential mapped over rows.
        """
        value = jnp.asarray(_inputs(theta.T, x.T, jnp))
        for weights, bias in self.layers[:-1]:
            inner = jax.nn.silu(weights @ value + bias[..., None])
            value = value + inner if inner.shape == value.shape else inner
        weights, bias = self.layers[-1]
        logits, centres, log_widths = jnp.split(weights @ value + bias[..., None], 3, axis=1)
        log_widths = jnp.clip(log_widths, *_LOG_WIDTHS)
        z = (x.T[:, None] - centres) * jnp.exp(-log_widths)
        logs = logits - 0.5 * z**2 - log_widths
        return jnp.sum(_log_sum(logs) - _log_sum(logits), axis=0)

    def directional_derivatives(
        self, theta: np.ndarray, x: np.ndarray, directions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Differentiate the potential of rows once and twice along each direction (k, params); both are (rows, k).

        In NumPy, since a compiled function of these would take longer to compile than to run.
        """
        layers = [(np.asarray(weights), np.asarray(bias)[..., None]) for weights, bias in self.layers]
        widest = max(weights.shape[1] for weights, _ in layers)
        num_at_once = max(1, _NUMBERS_AT_ONCE // (len(directions) * x.shape[1] * widest))
        along = np.asarray(directions, np.float32)
        blocks = [slice(begin, begin + num_at_once) for begin in range(0, len(x), num_at_once)]
        rows = [(np.asarray(theta[b], np.float32).T, np.asarray(x[b], np.float32).T) for b in blocks]
        first, second = zip(*(_derivatives(layers, *each, along) for each in rows), strict=True)
        return np.concatenate(first), np.concatenate(second)

    @property
    def settings(self) -> dict[str, Any]:
        """The hidden sizes and the number of components."""
        return {"hidden": list(self.hidden), "num_components": self.num_components}


def _first_layers(key: Any, sizes: tuple[int, ...], data_size: int) -> tuple[tuple[Array, Array], ...]:
    """Draw weights; the last layer starts near zero: components spread over the data, the same for every θ."""
    key = host_random.words_of(key)
    num_layers, num_components = len(sizes) - 1, sizes[-1] // 3
    layers = []
    for number, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        scale = 0.01 if number == num_layers - 1 else inputs**-0.5
        weights = host_random.normals(host_random.fold_in(key, number), (data_size, outputs, inputs))
        layers.append((scale * weights, np.zeros((data_size, outputs))))
    spread = np.linspace(-1.5, 1.5, num_components) if num_components > 1 else np.zeros(1)
    start = np.concatenate([np.zeros(num_components), spread, np.full(num_components, np.log(0.7))])
    layers[-1] = (layers[-1][0], np.tile(start, (data_size, 1)))
    return tuple((jnp.asarray(w, jnp.float32), jnp.asarray(b, jnp.float32)) for w, b in layers)


def _inputs(theta: Any, x: Any, array_module: Any) -> Any:
    """Give every datum's network θ and the arcsinh of the data before it, (data, params + data, rows)."""
    size = len(x)
    earlier = np.tri(size, k=-1, dtype=np.float32)[:, :, None] * array_module.arcsinh(x)
    return array_module.concatenate([array_module.broadcast_to(theta, (size, *theta.shape)), earlier], axis=1)


def _log_sum(logs: Array) -> Array:
    """Compute the logarithm of the sum of exponentials over the components."""
    largest = jax.lax.stop_gradient(jnp.max(logs, axis=1))
    return jnp.log(jnp.sum(jnp.exp(logs - largest[:, None]), axis=1)) + largest


def _derivatives(layers: Any, theta: np.ndarray, data: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, ...]:
    """Differentiate the log-density of a block of rows, which stand last, along each direction."""
    value = _inputs(theta, data, np)
    first = np.zeros((len(directions), *value.shape), np.float32)
    first[:, :, : len(theta)] = directions[:, None, :, None]
    second = np.zeros_like(first)
    for weights, bias in layers[:-1]:
        inner = _silu(weights @ value + bias, weights @ first, weights @ second)
        if inner[0].shape == value.shape:
            inner = (value + inner[0], first + inner[1], second + inner[2])
        value, first, second = inner
    weights, bias = layers[-1]
    return _mixture_derivatives(data, weights @ value + bias, weights @ first, weights @ second)


def _silu(value: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, ...]:
    """Carry a value with its first and second derivatives through the activation."""
    gate = expit(value)
    slope = gate * (1 + value * (1 - gate))
    curvature = gate * (1 - gate) * (2 + value * (1 - 2 * gate))
    return value * gate, slope * first, curvature * first**2 + slope * second


def _mixture_derivatives(
    data: np.ndarray, value: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Turn the last layer and its derivatives (k, data, outputs, rows) into those of the log-density, (rows, k)."""
    logits, centres, log_widths = np.split(value, 3, axis=1)
    (logits_1, centres_1, widths_1), (logits_2, centres_2, widths_2) = (np.split(a, 3, axis=2) for a in (first, second))
    inside = (log_widths > _LOG_WIDTHS[0]) & (log_widths < _LOG_WIDTHS[1])
    widths_1, widths_2 = inside * widths_1, inside * widths_2
    inverse = np.exp(-np.clip(log_widths, *_LOG_WIDTHS))
    z = (data[:, None] - centres) * inverse
    z_1 = -centres_1 * inverse - z * widths_1
    z_2 = (centres_1 * widths_1 - centres_2) * inverse - z_1 * widths_1 - z * widths_2
    logs = logits - 0.5 * z**2 + np.log(inverse)
    logs_1 = logits_1 - z * z_1 - widths_1
    logs_2 = logits_2 - z_1**2 - z * z_2 - widths_2
    mixture_1, mixture_2 = _log_sum_derivatives(logs, logs_1, logs_2)
    heights_1, heights_2 = _log_sum_derivatives(logits, logits_1, logits_2)
    return (mixture_1 - heights_1).sum(axis=1).T, (mixture_2 - heights_2).sum(axis=1).T


def _log_sum_derivatives(logs: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shares = softmax(logs, axis=1)
    slope = (shares * first).sum(axis=2)
    return slope, (shares * (second + first**2)).sum(axis=2) - slope**2
