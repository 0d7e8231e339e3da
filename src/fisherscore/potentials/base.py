"""What every score is made of: a function of standardised (θ, x), and the closed list of such functions.

A :class:`ScoreFunction` gives a score at one θ for one x. A :class:`Potential` is a scalar ℓ(θ, x) whose θ-gradient is
that score, and so comes with a log-likelihood up to a term in x alone. A :class:`ClosedForm` is a potential that is
fitted in seconds, with no training.

Each function can be rebuilt from its registered name and its ``settings`` (plain numbers), which is what a saved model
stores. Names of the registry stand in saved files: they never change.
"""

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class ScoreFunction(eqx.Module):
    """Base of all scores: written for one θ and one x, both standardised."""

    @abc.abstractmethod
    def __call__(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, " params"]:
        """Give the score at one θ for one x."""

    @property
    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """Sizes from which :func:`build` makes a function with arrays of the same shapes."""


class Potential(ScoreFunction):
    """Base of scores that are the gradient of a scalar ℓ(θ, x)."""

    @abc.abstractmethod
    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give ℓ(θ, x)."""

    def __call__(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, " params"]:
        """Give ∇θ ℓ."""
        return jax.grad(self.potential)(theta, x)


class ClosedForm(Potential):
    """Base of potentials with a fit of their own, for up to ``max_data`` data."""

    max_data: ClassVar[int]

    @classmethod
    @abc.abstractmethod
    def fit(cls, u: np.ndarray, rows: np.ndarray) -> Self:
        """Fit standardised rows (n, d) drawn at parameters u (n, p), scaled to [−1, 1]."""

    def _filled(self, **arrays: np.ndarray) -> Self:
        """Return a copy that holds the fitted arrays, in single precision."""
        names = list(arrays)
        values = [jnp.asarray(arrays[n], jnp.float32) for n in names]
        return eqx.tree_at(lambda form: [getattr(form, name) for name in names], self, values)


# The closed list of what a saved model may name. Nothing outside it is ever built.
ARCHITECTURES: dict[str, type[ScoreFunction]] = {}

_Kind = TypeVar("_Kind", bound=type[ScoreFunction])


def register(name: str) -> Callable[[_Kind], _Kind]:
    """Register a class under the name by which saved models know it."""

    def add(kind: _Kind) -> _Kind:
        ARCHITECTURES[name] = kind
        return kind

    return add


def build(name: str, num_parameters: int, data_size: int, settings: Mapping[str, Any], *, key: Array) -> ScoreFunction:
    """Make a function of a registered class with fresh weights."""
    return ARCHITECTURES[name](num_parameters, data_size, key=key, **settings)


def build_potential(description: Mapping[str, Any], num_parameters: int, data_size: int, *, key: Array) -> Potential:
    """Make a potential from its description, to be a part of another one."""
    name = description["architecture"]
    built = build(name, num_parameters, data_size, description["settings"], key=key)
    if not isinstance(built, Potential):
        raise ValueError(f"a {name} has no potential and cannot be part of another one")
    return built


def describe(function: ScoreFunction) -> dict[str, Any]:
    """Return the registered name and the settings from which a function is rebuilt."""
    name = next(name for name, kind in ARCHITECTURES.items() if type(function) is kind)
    return {"architecture": name, "settings": function.settings}
