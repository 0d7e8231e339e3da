"""Priors known by their log-density alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._support.arguments import as_finite, as_names, check_names
from ...errors import ArgumentError
from ..walls import Walls
from .blocks import Block, Ends

# Points at which a log-density is tried.
_NUM_TRIALS = 4096


@dataclass(frozen=True, eq=False)
class DensityPrior:
    """A prior given by its log-density within ranges; see :func:`prior_from_density`.

    Attributes:
        names: Parameter names, in the order the log-density takes them.
        log_density: A JAX function of parameters, shape (k,).
        ranges: Ends by parameter name; those of the training region where there are none.

    >>> import fisherscore as fs
    >>> fs.prior_from_density(lambda t: -t[0] ** 2 - t[1] ** 4, ["a", "b"])
    DensityPrior(a, b)
    """

    names: tuple[str, ...]
    log_density: Callable[[Any], Any]
    ranges: Mapping[str, tuple[float, float]]

    def __repr__(self) -> str:
        return f"DensityPrior({', '.join(self.names)})"

    def block(self, places: tuple[int, ...], region: Mapping[str, tuple[float, float]]) -> "DensityBlock":
        """Return the prior as samplers take it, within ranges or else the training region.

        Args:
            places: The places of its parameters among those of the model.
            region: The ends of the training region by name.

        Returns:
            A block of a prior.
        """
        low, high = np.array([self.ranges.get(name, region[name]) for name in self.names], np.float64).T
        block = DensityBlock(
            log_density=self.log_density, low=low.astype(np.float32), high=high.astype(np.float32), places=places
        )
        points = np.random.default_rng(0).uniform(low, high, (_NUM_TRIALS, len(places))).astype(np.float32)
        values = np.asarray(eqx.filter_jit(jax.vmap(self.log_density))(points))
        if np.isnan(values).any() or np.isposinf(values).any() or not np.isfinite(values).any():
            bad = points[np.isnan(values) | np.isposinf(values)] if np.isfinite(values).any() else points
            raise ArgumentError(
                f"log_density: expected a finite number, or minus infinity where the prior is zero, got "
                f"{values[0] if len(bad) == len(points) else 'NaN or infinity'} at {bad[0].tolist()}. Give the ranges "
                "in which it is defined."
            )
        return block


class DensityBlock(Block):
    """A log-density within a box; what is drawn from is uniform, and the density is the rest."""

    log_density: Any
    low: np.ndarray
    high: np.ndarray
    places: tuple[int, ...] = eqx.field(static=True)

    @property
    def has_rest(self) -> bool:
        """The density itself."""
        return True

    def walls(self) -> Walls:
        """Let u run from 0 to 1."""
        return jnp.zeros(len(self.places)), jnp.ones(len(self.places))

    def to_theta(self, u: Float[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        """Map u, from 0 to 1, to the box."""
        span = jnp.asarray(self.high - self.low)
        return jnp.asarray(self.low) + span * u, jnp.log(span).sum()

    def to_u(self, theta: Float[Array, " k"]) -> Float[Array, " k"]:
        """Map θ to u."""
        return (theta - self.low) / (self.high - self.low)

    def draw(self, words: Array, num: int) -> Float[Array, "num k"]:
        """Draw uniformly from the box."""
        unit = jax.random.uniform(jax.random.wrap_key_data(words[0]), (num, len(self.places)))
        return self.low + (self.high - self.low) * unit

    def log_base_at(self, theta: Float[Array, " k"]) -> Float[Array, ""]:
        """Give the uniform log-density, a constant."""
        return jnp.zeros((), theta.dtype)

    def log_rest_at(self, theta: Float[Array, " k"]) -> Float[Array, ""]:
        """Give the user's log-density."""
        return self.log_density(theta)

    def ends(self) -> tuple[Ends, ...]:
        """Return the ends of the box."""
        return tuple((float(a), float(b)) for a, b in zip(self.low, self.high, strict=True))


def prior_from_density(
    log_density: Callable[[Any], Any],
    names: Sequence[str] | str,
    *,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> DensityPrior:
    """Make a prior of any log-density over some of the parameters.

    Args:
        log_density: A JAX function of an array of parameters, shape (k,), that returns the log-density up to a
            constant; minus infinity where it is zero. A function object is compiled once; numbers that change are best
            kept as arrays in an ``equinox.Module`` with a ``__call__``.
        names: The parameters, in the order in which the function takes them.
        ranges: (low, high) by parameter name: the prior is zero beyond. Parameters that have none are cut at the ends
            of the training region.

    Returns:
        A prior for :func:`sample` and wherever priors are taken, alone or in a mapping beside others. For a support
        that is no box, see :func:`restricted_prior`.

    >>> import fisherscore as fs, jax.numpy as jnp
    >>> ring = fs.prior_from_density(lambda t: -50 * (jnp.linalg.norm(t) - 1.0) ** 2, ["theta1", "theta2"])
    >>> ring
    DensityPrior(theta1, theta2)
    """
    listed = [names] if isinstance(names, str) else list(names)
    called = as_names(listed, max(1, len(listed)))
    if not callable(log_density):
        raise ArgumentError(f"log_density: expected a JAX function of one array of parameters, got {log_density!r}.")
    got = jax.tree.map(jnp.shape, eqx.filter_eval_shape(log_density, np.zeros(len(called), np.float32)))
    if got != ():
        raise ArgumentError(f"log_density: expected a function that returns one number, got shape {got}.")
    given = dict(ranges or {})
    check_names(given, called, "ranges")
    for name, ends in given.items():
        both = as_finite(ends, f"ranges[{name!r}]")
        if both.shape != (2,) or not both[0] < both[1]:
            raise ArgumentError(f"ranges[{name!r}]: expected (low, high) with low < high, got {ends!r}.")
    return DensityPrior(called, log_density, {name: (float(a), float(b)) for name, (a, b) in given.items()})
