"""What a prior is to a sampler: blocks, each a law over some of the parameters with coordinates u, on the whole line or
between walls (:mod:`fisherscore.inference.walls`).

A density is the product of what can be drawn from exactly (the base) and a rest, which is one for nearly all priors.
Tempering begins at draws from the base and carries the rest with the likelihood, so that it works under a prior known
by its density alone.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions.transforms import AffineTransform, biject_to

from ..walls import Walls

# The ends of a parameter's prior, None where it has none.
Ends = tuple[float | None, float | None]


class Block(eqx.Module):
    """A prior over the parameters at ``places``; everything here is for one θ and one u of these parameters."""

    places: eqx.AbstractVar[tuple[int, ...]]

    @property
    def has_rest(self) -> bool:
        """Whether there is a rest beside what can be drawn from."""
        return False

    @property
    def is_cut(self) -> bool:
        """Whether some u lie outside the support."""
        return False

    @property
    def is_box(self) -> bool:
        """Whether the support is all that lies between the ends of each parameter."""
        return True

    def holds(self, theta: Float[Array, " k"]) -> Array:
        """Say whether θ between the ends is in the support, also where u of this block could not be elsewhere."""
        return jnp.asarray(True)

    def walls(self) -> Walls:
        """Say where u ends, below and above, for each parameter; nowhere unless said otherwise."""
        end = jnp.full(len(self.places), jnp.inf, jnp.float32)
        return -end, end

    @abc.abstractmethod
    def to_theta(self, u: Float[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, " *some"]]:
        """Map u to θ; return θ and terms whose sum is the logarithm of |∂θ/∂u|."""

    @abc.abstractmethod
    def to_u(self, theta: Float[Array, " k"]) -> Float[Array, " k"]:
        """Map θ to u; not finite where there is none."""

    @abc.abstractmethod
    def draw(self, words: Array, num: int) -> Float[Array, "num k"]:
        """Draw θ from the base, with two random words for each parameter."""

    @abc.abstractmethod
    def log_base_at(self, theta: Float[Array, " k"]) -> Float[Array, " *some"]:
        """Give terms whose sum is the log-density of the base at θ, up to a constant."""

    def log_base(self, u: Float[Array, " k"]) -> Float[Array, " *some"]:
        """Give terms whose sum is the log-density of the base at u, up to a constant."""
        theta, log_jacobian = self.to_theta(u)
        return self.log_base_at(theta) + log_jacobian

    def log_rest_at(self, theta: Float[Array, " k"]) -> Float[Array, ""]:
        """Give the logarithm of the rest at θ."""
        return jnp.zeros((), theta.dtype)

    def inside(self, theta: Float[Array, " k"]) -> Array:
        """Say whether θ is within the support."""
        return jnp.asarray(True)

    @abc.abstractmethod
    def ends(self) -> tuple[Ends, ...]:
        """Return the ends of each parameter's prior."""


class Laws(eqx.Module):
    """Distributions of the same kind, stacked: their numbers along a leading axis, and the parameters they belong to.

    Numbers are arrays, so that other numbers reuse code compiled for distributions alike. They stand in an order of
    their own, by name: NumPyro's differs from process to process, and with it what a cache of compiled code knows a
    program by.
    """

    numbers: tuple[Any, ...]
    structure: Any = eqx.field(static=True)
    order: tuple[int, ...] = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)

    def map(self, function: Callable[[Any, Any], Any], values: Any) -> Any:
        """Apply a function of a distribution and a value to each distribution and its own."""
        return jax.vmap(lambda numbers, value: function(self.rebuilt(numbers), value))(self.numbers, values)

    def rebuilt(self, numbers: tuple[Any, ...]) -> Any:
        """Make a distribution of its numbers."""
        leaves = dict(zip(self.order, numbers, strict=True))
        return jax.tree.unflatten(self.structure, [leaves[i] for i in range(len(leaves))])


class Independent(Block):
    """A law of its own for each parameter; distributions of the same kind are evaluated together.

    The places of its laws are within the block.
    """

    laws: tuple[Laws, ...]
    ends_of: tuple[np.ndarray, ...]
    places: tuple[int, ...] = eqx.field(static=True)

    def _each(self, function: Callable[[Any, Array], Any], values: Array) -> Any:
        """Apply a function of a law and a number to every parameter and its law."""
        if len(self.laws) == 1:
            return self.laws[0].map(function, values)
        parts = [laws.map(function, values[np.array(laws.places)]) for laws in self.laws]
        back = np.argsort(np.concatenate([laws.places for laws in self.laws]))
        return jax.tree.map(lambda *a: jnp.concatenate(a)[back], *parts)

    def to_theta(self, u: Float[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """Map each parameter from the line to the support of its law."""

        def one(law: Any, v: Array) -> tuple[Array, Array]:
            bijection = _bijection(law)
            value = bijection(v)
            return value, bijection.log_abs_det_jacobian(v, value)

        return self._each(one, u)

    def to_u(self, theta: Float[Array, " k"]) -> Float[Array, " k"]:
        """Map each parameter from the support of its law to the line."""
        return self._each(lambda law, value: _bijection(law).inv(value), theta)

    def walls(self) -> Walls:
        """Let u of uniform laws run from 0 to 1."""

        def ends(law: Any, _: Array) -> tuple[Array, Array]:
            walled = isinstance(law, dist.Uniform)
            return jnp.float32(0.0 if walled else -jnp.inf), jnp.float32(1.0 if walled else jnp.inf)

        return self._each(ends, jnp.zeros(len(self.places)))

    def draw(self, words: Array, num: int) -> Float[Array, "num k"]:
        """Draw each parameter from its law."""
        return self._each(lambda law, k: law.sample(jax.random.wrap_key_data(k), (num,)), words).T

    def log_base(self, u: Float[Array, " k"]) -> Float[Array, " k"]:
        """Give the log-density of each parameter's u."""

        def one(law: Any, v: Array) -> Array:
            bijection = _bijection(law)
            value = bijection(v)
            return law.log_prob(value) + bijection.log_abs_det_jacobian(v, value)

        return self._each(one, u)

    def log_base_at(self, theta: Float[Array, " k"]) -> Float[Array, " k"]:
        """Give the log-density of each parameter."""
        return self._each(lambda law, value: law.log_prob(value), theta)

    def ends(self) -> tuple[Ends, ...]:
        """Return the ends of each law's support."""
        low, high = (np.asarray(side, np.float64) for side in self.ends_of)
        return tuple(ends_from(a, b) for a, b in zip(low, high, strict=True))


class Prior(eqx.Module):
    """Blocks that hold every parameter once."""

    blocks: tuple[Block, ...]

    @property
    def num_parameters(self) -> int:
        """How many parameters there are."""
        return sum(len(block.places) for block in self.blocks)

    @property
    def has_rest(self) -> bool:
        """Whether there is more to it than can be drawn from."""
        return any(block.has_rest for block in self.blocks)

    @property
    def is_cut(self) -> bool:
        """Whether some u lie outside the support."""
        return any(block.is_cut for block in self.blocks)

    @property
    def is_box(self) -> bool:
        """Whether the support is all that lies between the ends of each parameter."""
        return all(block.is_box for block in self.blocks)

    def holds(self, theta: Float[Array, " params"]) -> Array:
        """Say whether θ between the ends is in the support."""
        pairs = zip(self.blocks, self._parts(theta), strict=True)
        return jnp.stack([block.holds(part) for block, part in pairs]).all()

    def _parts(self, values: Array) -> list[Array]:
        if len(self.blocks) == 1 and self.blocks[0].places == tuple(range(self.num_parameters)):
            return [values]
        return [values[np.array(block.places)] for block in self.blocks]

    def _joined(self, parts: list[Array], axis: int = 0) -> Array:
        order = np.concatenate([block.places for block in self.blocks])
        if (order == np.arange(len(order))).all():
            return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis)
        return jnp.take(jnp.concatenate(parts, axis), np.argsort(order), axis)

    def to_theta(self, u: Float[Array, " params"]) -> tuple[Float[Array, " params"], Float[Array, ""]]:
        """Map u to θ; return θ and the logarithm of |∂θ/∂u|."""
        both = [block.to_theta(part) for block, part in zip(self.blocks, self._parts(u), strict=True)]
        return self._joined([theta for theta, _ in both]), _total([terms for _, terms in both])

    def to_u(self, theta: Float[Array, " params"]) -> Float[Array, " params"]:
        """Map θ to u."""
        return self._joined([block.to_u(part) for block, part in zip(self.blocks, self._parts(theta), strict=True)])

    def walls(self) -> Walls:
        """Say where u ends, below and above, for each parameter."""
        low, high = zip(*(block.walls() for block in self.blocks), strict=True)
        return self._joined(list(low)), self._joined(list(high))

    def draw(self, words: Array, num: int) -> Float[Array, "num params"]:
        """Draw θ from what can be drawn from."""
        parts = [block.draw(own, num) for block, own in zip(self.blocks, self._parts(words), strict=True)]
        return self._joined(parts, axis=1)

    def log_base(self, u: Float[Array, " params"]) -> Float[Array, ""]:
        """Give the log-density at u of what can be drawn from."""
        return _total([block.log_base(part) for block, part in zip(self.blocks, self._parts(u), strict=True)])

    def log_base_at(self, theta: Float[Array, " params"]) -> Float[Array, ""]:
        """Give the log-density at θ of what can be drawn from."""
        return _total([block.log_base_at(part) for block, part in zip(self.blocks, self._parts(theta), strict=True)])

    def log_rest_at(self, theta: Float[Array, " params"]) -> Float[Array, ""]:
        """Give the logarithm of the rest at θ."""
        return _total([block.log_rest_at(part) for block, part in zip(self.blocks, self._parts(theta), strict=True)])

    def log_rest(self, u: Float[Array, " params"]) -> Float[Array, ""]:
        """Give the logarithm of the rest at u."""
        pairs = zip(self.blocks, self._parts(u), strict=True)
        return _total([block.log_rest_at(block.to_theta(part)[0]) for block, part in pairs if block.has_rest])

    def inside(self, u: Float[Array, " params"]) -> Array:
        """Say whether u is within the support."""
        pairs = zip(self.blocks, self._parts(u), strict=True)
        return jnp.stack([block.inside(block.to_theta(part)[0]) for block, part in pairs if block.is_cut]).all()

    def ends(self) -> tuple[Ends, ...]:
        """Return the ends of each parameter's prior."""
        by_place = {place: e for block in self.blocks for place, e in zip(block.places, block.ends(), strict=True)}
        return tuple(by_place[place] for place in sorted(by_place))


def _bijection(law: Any) -> Any:
    """Return the map from u to a parameter."""
    if isinstance(law, dist.Uniform):
        return AffineTransform(law.low, law.high - law.low, domain=dist.constraints.unit_interval)
    return biject_to(law.support)


def ends_from(low: float, high: float) -> Ends:
    """Write the ends of an interval, None where it is open."""
    return (float(low) if np.isfinite(low) else None), (float(high) if np.isfinite(high) else None)


def _total(terms: list[Array]) -> Array:
    parts = [part.sum() for part in terms]
    return parts[0] if len(parts) == 1 else jnp.stack(parts).sum()
