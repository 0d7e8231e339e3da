"""Summaries that networks learned: guesses of the parameters, each of several networks trained on other simulations.

A network is a module, which condenses one observation, and a linear map of what it gives to a normal distribution of
the parameters: its mean, and the triangle whose product with its transpose is the inverse covariance. The mean, over
all networks, is the summary.
"""

from collections.abc import Mapping
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support import host_random
from .._support.layout import Layout
from .._support.precision import in_single_precision
from .._support.rows import rows_in_turn
from ..errors import ArgumentError
from .base import Block, Embedding, register_embedding
from .module import checked_module

LEARNED = "learned"


class Guesser(eqx.Module):
    """A module, and a linear map to the numbers of a normal distribution of the parameters."""

    body: Any
    centre: Float[Array, " summaries"]
    scale: Float[Array, " summaries"]
    matrix: Float[Array, "summaries numbers"]
    offset: Float[Array, " numbers"]

    @classmethod
    def of(cls, body: eqx.Module, num_summaries: int, num_parameters: int, key: Any) -> Self:
        """Draw the map at random, small."""
        num = num_parameters + num_parameters * (num_parameters + 1) // 2
        matrix = host_random.normals(key, (num_summaries, num)) * (0.1 / num_summaries**0.5)
        return cls(body, jnp.zeros(num_summaries), jnp.ones(num_summaries), jnp.asarray(matrix), jnp.zeros(num))

    def standardized(self, x: Float[Array, "rows ..."]) -> "Guesser":
        """Centre and scale what the module, untrained, gives of some observations."""
        summaries: Any = jax.vmap(self.body)(x)
        spread = jnp.std(summaries, axis=0)
        scale = jnp.where(spread > 0, spread, 1.0)
        return eqx.tree_at(lambda g: (g.centre, g.scale), self, (jnp.mean(summaries, axis=0), scale))

    def __call__(self, x: Float[Array, " ..."]) -> Float[Array, " numbers"]:
        """Give the numbers of the distribution for one observation."""
        raw: Any = self.body(x)
        summaries = (raw - jax.lax.stop_gradient(self.centre)) / jax.lax.stop_gradient(self.scale)
        return jnp.matmul(summaries, self.matrix, precision="highest") + self.offset


def negative_log_density(numbers: Float[Array, " numbers"], u: Float[Array, " params"]) -> Float[Array, ""]:
    """Give the negative logarithm of the density of u, up to a constant."""
    num = len(u)
    rows, columns = np.tril_indices(num)
    triangle = jnp.zeros((num, num)).at[rows, columns].set(numbers[num:])
    logs = jnp.clip(jnp.diagonal(triangle), -10.0, 10.0)
    away = u - numbers[:num]
    scaled = jnp.exp(logs) * away + jnp.matmul(triangle - jnp.diag(jnp.diagonal(triangle)), away, precision="highest")
    return 0.5 * jnp.sum(scaled**2) - jnp.sum(logs)


def blank_vectors(settings: Mapping[str, Any]) -> np.ndarray:
    """Give the shape that the numbers of all networks have, in an array that takes no memory."""
    return np.broadcast_to(np.zeros((), np.float32), (settings["num_networks"], settings["num_numbers"]))


@register_embedding("learned")
class Learned(Embedding):
    """The mean guess of several networks of one layout, each a vector of its parameters."""

    vectors: Float[Array | np.ndarray, "networks numbers"]
    layout: Layout = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    num_parameters: int = eqx.field(static=True)

    @classmethod
    def laid_out(cls, x_shape: tuple[int, ...], settings: Mapping[str, Any], own: Mapping[str, Any]) -> Self:
        """Take the user's module, of which only the numbers are saved."""
        if own.get("embedding") is None:
            raise ArgumentError(
                "embedding: the model was fitted with a module of the user's, of which only the trained numbers are "
                "saved. Pass a module of the same making, trained or not: fisherscore.load(path, embedding=...)."
            )
        num_parameters, num_numbers = settings["num_parameters"], settings["num_numbers"]
        num_summaries = checked_module(own["embedding"], x_shape, num_parameters)
        network = Guesser.of(own["embedding"], num_summaries, num_parameters, np.zeros(2, np.uint32))
        layout = Layout.of(network)
        if layout.num_numbers != num_numbers:
            raise ArgumentError(
                f"embedding: expected the module of the fit, which with what stands behind it has {num_numbers:,} "
                f"numbers to train; with this one there are {layout.num_numbers:,}."
            )
        return cls(blank_vectors(settings), layout, x_shape, num_parameters)

    @property
    def x_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return self.shape

    @property
    def settings(self) -> dict[str, Any]:
        """How many networks there are, of how many numbers, and for how many parameters."""
        return {
            "num_networks": self.vectors.shape[0],
            "num_numbers": self.vectors.shape[1],
            "num_parameters": self.num_parameters,
        }

    @property
    def blocks(self) -> tuple[Block, ...]:
        """One block: a guess of each parameter."""
        return (Block(LEARNED, 0, self.num_parameters),)

    def of_prepared(self, x: Float[Array, " ..."]) -> Float[Array, " summaries"]:
        """Average the guesses of all networks."""
        return jnp.mean(self.each(x), axis=0)

    def each(self, x: Float[Array, " ..."]) -> Float[Array, "networks summaries"]:
        """Give the guess of each network."""
        seen = self.inputs(x)
        guesses = [self.layout.function(vector)(seen)[: self.num_parameters] for vector in self.vectors]
        return jnp.stack(guesses)

    def inputs(self, x: Float[Array, " ..."]) -> Float[Array, " ..."]:
        """Give what the networks see of one observation."""
        return x

    def each_of_rows(self, x: np.ndarray) -> np.ndarray:
        """Give the guess of each network for observations (n, ...): shape (n, networks, summaries)."""

        def of_part(part: np.ndarray) -> Any:
            return _guesses(self, np.asarray(self.prepared(part), np.float32))

        return np.asarray(rows_in_turn(of_part, (x,), self.rows_at_once), np.float64)


@in_single_precision
@eqx.filter_jit
def _guesses(learned: Learned, x: Any) -> Any:
    return jax.vmap(learned.each)(x)
