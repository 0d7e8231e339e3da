"""Summaries that a user's own function gives, and several embeddings side by side."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.precision import single_precision
from ..errors import ArgumentError
from .base import Block, Embedding, build_embedding, describe_embedding, register_embedding

# More summaries are no summary.
MOST_FEATURES = 1_000


@register_embedding("features")
class GivenFeatures(Embedding):
    """A function of the user's: any that takes one observation and returns numbers, in JAX or in NumPy."""

    function: Callable[..., Any] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    num: int = eqx.field(static=True)
    in_jax: bool = eqx.field(static=True)

    @classmethod
    def of(cls, function: Callable[..., Any], observation: np.ndarray) -> Self:
        """Try the function on one observation."""
        if not callable(function):
            raise ArgumentError(f"features: expected a function of one observation, got {type(function).__name__}.")
        try:
            given = np.asarray(function(np.asarray(observation, np.float64)), np.float64).ravel()
        except Exception as error:
            raise ArgumentError(
                f"features: the function fails on an observation of shape {observation.shape}: "
                f"{type(error).__name__}: {error}. It is called with one observation as an array."
            ) from error
        if not given.size or given.size > MOST_FEATURES or not np.isfinite(given).all():
            raise ArgumentError(
                f"features: expected 1 to {MOST_FEATURES:,} finite numbers of one observation, got {given.size:,} "
                "numbers" + ("." if np.isfinite(given).all() else ", some of them NaN or infinite.")
            )
        return cls(function, observation.shape, given.size, _is_traceable(function, observation.shape, given.size))

    @classmethod
    def laid_out(cls, x_shape: tuple[int, ...], settings: Mapping[str, Any], own: Mapping[str, Any]) -> Self:
        """Take the user's function, which is not saved."""
        if own.get("features") is None:
            raise ArgumentError(
                "features: the model was fitted with a function of the user's, which is not saved with it. Pass the "
                "same one: fisherscore.load(path, features=...)."
            )
        made = cls.of(own["features"], np.random.default_rng(0).normal(size=x_shape) ** 2 + 0.1)
        if made.num != settings["num_features"]:
            raise ArgumentError(
                f"features: expected the function of the fit, which gives {settings['num_features']} numbers; this "
                f"one gives {made.num}."
            )
        return made

    @property
    def x_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return self.shape

    @property
    def settings(self) -> dict[str, Any]:
        """The number of features."""
        return {"num_features": self.num}

    @property
    def blocks(self) -> tuple[Block, ...]:
        """One block."""
        return (Block("features", 0, self.num),)

    def of_prepared(self, x: Float[Array, " ..."]) -> Float[Array, " summaries"]:
        """Call the function, on the host where it is none of JAX."""
        if self.in_jax:
            return jnp.ravel(self.function(x))
        shape: Any = jax.eval_shape(lambda: jnp.zeros(self.num, np.float32))
        return jax.pure_callback(self._on_host, shape, x, vmap_method="sequential")

    def of_rows(self, x: np.ndarray) -> np.ndarray:
        """Call the function on every row."""
        if self.in_jax:
            return super().of_rows(x)
        return np.stack([self._on_host(row) for row in x]).astype(np.float64)

    def _on_host(self, x: Any) -> np.ndarray:
        given = np.asarray(self.function(np.asarray(x, np.float64)), np.float32).ravel()
        if given.shape != (self.num,):
            raise ArgumentError(f"features: expected {self.num} numbers of every observation, got {given.size}.")
        return given


def _is_traceable(function: Callable[..., Any], shape: tuple[int, ...], num: int) -> bool:
    """Say whether JAX can trace a function."""
    try:
        with single_precision():
            given = jax.eval_shape(lambda: function(jnp.zeros(shape, np.float32)))
    except Exception:  # noqa: BLE001  whatever a function of NumPy says to a tracer
        return False
    return len(jax.tree.leaves(given)) == 1 and int(np.prod(jax.tree.leaves(given)[0].shape)) == num


@register_embedding("joined")
class Joined(Embedding):
    """Several embeddings of the same data, one after the other."""

    parts: tuple[Embedding, ...]

    @classmethod
    def laid_out(cls, x_shape: tuple[int, ...], settings: Mapping[str, Any], own: Mapping[str, Any]) -> Self:
        """Lay out all parts."""
        return cls(tuple(build_embedding(part, x_shape, own) for part in settings["parts"]))

    @classmethod
    def of(cls, parts: Sequence[Embedding]) -> Embedding:
        """Join embeddings; a single one is left as it is."""
        return parts[0] if len(parts) == 1 else cls(tuple(parts))

    @property
    def x_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return self.parts[0].x_shape

    @property
    def settings(self) -> dict[str, Any]:
        """The descriptions of the parts."""
        return {"parts": [describe_embedding(part) for part in self.parts]}

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of all parts."""
        blocks: list[Block] = []
        for part in self.parts:
            start = blocks[-1].stop if blocks else 0
            blocks += [b._replace(start=b.start + start, stop=b.stop + start) for b in part.blocks]
        return tuple(blocks)

    def filled(self, x: Any) -> Any:
        """Fill what any part leaves out."""
        for part in self.parts:
            x = part.filled(x)
        return x

    def __call__(self, x: Float[Array, " ..."]) -> Float[Array, " summaries"]:
        """Summarise one observation by every part."""
        return jnp.concatenate([part(x) for part in self.parts])

    def of_prepared(self, x: Float[Array, " ..."]) -> Float[Array, " summaries"]:
        """As for data as they are: every part prepares them by itself."""
        return self(x)

    def of_rows(self, x: np.ndarray) -> np.ndarray:
        """Summarise rows by every part."""
        return np.concatenate([part.of_rows(x) for part in self.parts], axis=1)
