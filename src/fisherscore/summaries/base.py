"""What every summary is made of: a function of one observation, rebuilt from a registered name and plain settings."""

import abc
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from .._support.precision import in_single_precision
from .._support.rows import rows_in_turn

# Rows are summarised side by side as long as they hold no more numbers than this, on processors and on accelerators.
_NUMBERS_AT_ONCE, _NUMBERS_ON_ACCELERATORS = 2**21, 2**25
_MOST_PARTS, _LARGEST_SIZE = 8, 1_000_000
# Networks may have so many numbers; arrays of saved ones are no larger than their file.
_MOST_NUMBERS = 1_000_000_000


def rows_at_once(shape: tuple[int, ...]) -> int:
    """Say how many observations of a shape may be summarised side by side."""
    most = _NUMBERS_AT_ONCE if jax.default_backend() == "cpu" else _NUMBERS_ON_ACCELERATORS
    return max(1, most // math.prod(shape))


class Block(NamedTuple):
    """Summaries of one kind: their name, and their places among all.

    ``is_power`` says that they are logarithms of powers, which in Gaussian fields follow gamma distributions.
    """

    name: str
    start: int
    stop: int
    is_power: bool = False


class Embedding(eqx.Module):
    """Base of all summaries: x of one observation to a vector."""

    @classmethod
    @abc.abstractmethod
    def laid_out(cls, x_shape: tuple[int, ...], settings: Mapping[str, Any], own: Mapping[str, Any]) -> Self:
        """Make one with arrays of the right shapes; ``own`` holds what is the user's and not saved."""

    @property
    @abc.abstractmethod
    def x_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""

    def __call__(self, x: Float[Array, " ..."]) -> Float[Array, " summaries"]:
        """Summarise one observation, in JAX."""
        return self.of_prepared(self.prepared(x))

    def prepared(self, x: Any) -> Any:
        """Centre and scale data along any leading axes: on the host in double precision, or traced."""
        return x

    @abc.abstractmethod
    def of_prepared(self, x: Float[Array, " ..."]) -> Float[Array, " summaries"]:
        """Summarise one observation that was centred and scaled, in JAX."""

    @property
    @abc.abstractmethod
    def blocks(self) -> tuple[Block, ...]:
        """The kinds of summaries in their order."""

    @property
    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """Sizes from which :func:`build_embedding` makes one with arrays of the same shapes."""

    @property
    def num_summaries(self) -> int:
        """How many summaries there are."""
        return self.blocks[-1].stop

    @property
    def rows_at_once(self) -> int:
        """How many observations may be summarised side by side."""
        return rows_at_once(self.x_shape)

    def filled(self, x: Any) -> Any:
        """Give data in which missing pixels hold a number: what is declared missing may be NaN."""
        return x

    def rows(self, x: np.ndarray) -> np.ndarray:
        """Summarise observations along any leading axes, on the host: shape (..., summaries)."""
        batch = x.shape[: x.ndim - len(self.x_shape)]
        flat = np.asarray(x).reshape(-1, *self.x_shape)
        if not len(flat):
            return np.zeros((*batch, self.num_summaries))
        return self.of_rows(flat).reshape(*batch, -1)

    def of_rows(self, x: np.ndarray) -> np.ndarray:
        """Summarise observations (n, ...)."""

        def of_part(part: np.ndarray) -> Any:
            return _summaries(self, np.asarray(self.prepared(part), np.float32))

        return np.asarray(rows_in_turn(of_part, (x,), self.rows_at_once), np.float64)


@in_single_precision
@eqx.filter_jit
def _summaries(embedding: Embedding, x: Any) -> Any:
    return jax.vmap(embedding.of_prepared)(x)


# The closed list of what a saved model may name.
EMBEDDINGS: dict[str, type[Embedding]] = {}

_Kind = TypeVar("_Kind", bound=type[Embedding])


def register_embedding(name: str) -> Callable[[_Kind], _Kind]:
    """Register a class under the name by which saved models know it."""

    def add(kind: _Kind) -> _Kind:
        EMBEDDINGS[name] = kind
        return kind

    return add


def describe_embedding(embedding: Embedding) -> dict[str, Any]:
    """Return the registered name and the settings from which an embedding is rebuilt."""
    name = next(name for name, kind in EMBEDDINGS.items() if type(embedding) is kind)
    return {"architecture": name, "settings": embedding.settings}


def check_embedding(description: Any, depth: int = 0) -> None:
    """Raise ValueError unless a description is well formed; sizes in it are checked when it is laid out."""
    if not isinstance(description, Mapping) or depth > 1:
        raise ValueError("its summaries are no description of any")
    architecture, settings = description.get("architecture"), description.get("settings")
    if not isinstance(architecture, str) or architecture not in EMBEDDINGS or not isinstance(settings, Mapping):
        raise ValueError(f"unknown summaries {str(architecture)[:60]!r}. Known: {', '.join(EMBEDDINGS)}")
    for name, value in settings.items():
        if name == "parts":
            if not isinstance(value, list) or not 0 < len(value) <= _MOST_PARTS:
                raise ValueError("its summaries have no parts, or too many")
            for part in value:
                check_embedding(part, depth + 1)
        elif type(value) is not int or not 0 <= value <= (_MOST_NUMBERS if name == "num_numbers" else _LARGEST_SIZE):
            raise ValueError("the settings of its summaries are damaged")


def build_embedding(description: Mapping[str, Any], x_shape: tuple[int, ...], own: Mapping[str, Any]) -> Embedding:
    """Make an embedding of a registered class; ``own`` holds the user's functions by the name of their argument."""
    return EMBEDDINGS[description["architecture"]].laid_out(x_shape, description["settings"], own)
