"""A function made of one vector of its parameters: what is trained, apart from what stays as it is."""

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def _is_trained(leaf: Any) -> bool:
    """Say whether a leaf is an array of floating-point numbers, or stands for one in a function not yet made."""
    return eqx.is_inexact_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


@dataclass(frozen=True)
class Layout:
    """How a function is made of one vector of parameters."""

    parameters: Any
    rest: Any
    rest_leaves: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, function: Any) -> "Layout":
        """Take a function apart."""
        parameters, rest = eqx.partition(function, _is_trained)
        leaves, structure = jax.tree.flatten(parameters)
        rest_leaves, rest_structure = jax.tree.flatten(rest)
        return cls(structure, rest_structure, tuple(rest_leaves), tuple(leaf.shape for leaf in leaves))

    @property
    def num_numbers(self) -> int:
        """The length of the vector."""
        return sum(math.prod(shape) for shape in self.shapes)

    def vector(self, function: Any) -> np.ndarray:
        """Write the parameters of a function one after the other."""
        leaves = jax.tree.leaves(eqx.filter(function, eqx.is_inexact_array))
        return np.concatenate([np.asarray(leaf, np.float32).ravel() for leaf in leaves])

    def function(self, vector: Any, array_module: Any = jnp) -> Any:
        """Make the function again."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1].tolist()
        parts = array_module.split(vector, ends)
        leaves = [jnp.asarray(part.reshape(shape)) for part, shape in zip(parts, self.shapes, strict=True)]
        rest = jax.tree.unflatten(self.rest, self.rest_leaves)
        return eqx.combine(jax.tree.unflatten(self.parameters, leaves), rest)
