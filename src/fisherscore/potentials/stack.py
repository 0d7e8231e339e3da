"""A weighted sum of potentials: how ``auto`` combines closed forms and networks."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .base import Potential, build_potential, describe, register


@register("stack")
class Stack(Potential):
    """Σ_k w_k ℓ_k(θ, x)."""

    weights: Float[Array, " members"]
    members: tuple[Potential, ...]

    def __init__(self, num_parameters: int, data_size: int, *, members: Sequence[Mapping[str, Any]], key: Array):
        self.weights = jnp.ones(len(members))
        self.members = tuple(build_potential(m, num_parameters, data_size, key=key) for m in members)

    @classmethod
    def of(cls, members: Sequence[Potential], weights: Sequence[float], shape: tuple[int, int]) -> Self:
        """Add up potentials; ``shape`` is the number of parameters and that of data."""
        stack = cls(*shape, members=[describe(m) for m in members], key=jax.random.key(0))
        values = jnp.asarray(weights, jnp.float32)
        return eqx.tree_at(lambda s: (s.weights, s.members), stack, (values, tuple(members)))

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give Σ_k w_k ℓ_k."""
        return self.weights @ jnp.stack([member.potential(theta, x) for member in self.members])

    @property
    def settings(self) -> dict[str, Any]:
        """The descriptions of the members."""
        return {"members": [describe(member) for member in self.members]}
