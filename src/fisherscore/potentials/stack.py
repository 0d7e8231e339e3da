"""A weighted sum of potentials: how ``auto`` combines closed forms and networks."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .base import Jets, Potential, build_potential, describe, register


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
        described = [describe(m) for m in members]
        stack = eqx.filter_eval_shape(lambda: cls(*shape, members=described, key=jax.random.key(0)))
        values = jax.device_put(np.asarray(weights, np.float32))
        return eqx.tree_at(lambda s: (s.weights, s.members), stack, (values, tuple(members)))

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give Σ_k w_k ℓ_k."""
        if not self.members:
            return jnp.zeros((), theta.dtype)
        return self.weights @ jnp.stack([member.potential(theta, x) for member in self.members])

    def value_and_score(
        self, theta: Float[Array, " params"], x: Float[Array, " ..."], jets: Jets | None = None
    ) -> tuple[Float[Array, ""], Float[Array, " params"]]:
        """Give Σ_k w_k ℓ_k and its gradient; members share their polynomials."""
        if not self.members:
            return jnp.zeros((), theta.dtype), jnp.zeros_like(theta)
        jets = jets or Jets(theta)
        parts = [member.value_and_score(theta, x, jets) for member in self.members]
        values, scores = zip(*parts, strict=True)
        weighted = zip(self.weights, scores, strict=True)
        return self.weights @ jnp.stack(values), sum((w * s for w, s in weighted), jnp.zeros_like(theta))

    @property
    def settings(self) -> dict[str, Any]:
        """The descriptions of the members."""
        return {"members": [describe(member) for member in self.members]}
