"""Modules of Equinox that a user wants trained as a summary: what is refused, and in which words."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._support.precision import in_single_precision
from ..errors import ArgumentError
from .given import MOST_FEATURES


@in_single_precision
def checked_module(module: Any, x_shape: tuple[int, ...], num_parameters: int) -> int:
    """Refuse what cannot be trained as a summary of observations; return how many numbers it gives of one."""
    if not isinstance(module, eqx.Module) or not callable(module):
        raise ArgumentError(
            "embedding: expected an Equinox module that is called with one observation, or fisherscore.LearnedSummary, "
            f"got {type(module).__name__}. Functions with nothing to train are for features=."
        )
    _refuse_what_is_drawn_or_kept(module)
    leaves = [leaf for leaf in jax.tree.leaves(module) if eqx.is_array(leaf)]
    if not any(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
        raise ArgumentError("embedding: the module has no numbers to train. Pass it as features=.")
    if any(not jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
        raise ArgumentError(
            "embedding: expected no arrays in the module but those to train, of floating-point numbers; it has one of "
            f"{next(x.dtype for x in leaves if not jnp.issubdtype(x.dtype, jnp.floating))}. Make it a tuple in a "
            "static field, or write it into the code."
        )
    _refuse_what_cannot_be_compared(module)
    return _num_outputs(module, x_shape, num_parameters)


def _refuse_what_is_drawn_or_kept(module: Any) -> None:
    """Refuse modules that need a random key or a state beside the observation."""
    for node in _all_of(module, eqx.nn.Dropout):
        if not node.inference and node.p != 0:
            raise ArgumentError(
                "embedding: the module has dropout, which needs a random key that an observation does not come with. "
                "Leave it out (weights decay, and several networks are averaged), or pass "
                "equinox.nn.inference_mode(module)."
            )
    if _all_of(module, eqx.nn.StateIndex):
        raise ArgumentError(
            "embedding: the module keeps a state, as batch normalisation does: its summary of one observation would "
            "depend on others. Use equinox.nn.GroupNorm or LayerNorm."
        )


def _all_of(module: Any, kind: type) -> list[Any]:
    """Find all parts of a module that are of a kind."""

    def found(node: Any) -> bool:
        return isinstance(node, kind)

    return [node for node in jax.tree.leaves(module, is_leaf=found) if found(node)]


def _refuse_what_cannot_be_compared(module: Any) -> None:
    """Refuse modules whose parts beside arrays have no hash: compiled code is looked up by it."""
    rest = eqx.filter(module, eqx.is_array, inverse=True)
    try:
        hash((tuple(jax.tree.leaves(rest)), jax.tree.structure(rest)))
    except TypeError as error:
        raise ArgumentError(
            f"embedding: a part of the module that is no array has no hash ({error}). Let static fields hold numbers, "
            "words, functions or tuples of these."
        ) from None


def _num_outputs(module: Any, x_shape: tuple[int, ...], num_parameters: int) -> int:
    """Call a module with one observation of a shape, without computing anything, and look at what it gives."""
    try:
        given: Any = eqx.filter_eval_shape(lambda: module(jnp.zeros(x_shape, jnp.float32)))
    except Exception as error:
        raise ArgumentError(
            f"embedding: the module fails on one observation of shape {x_shape}: {type(error).__name__}: "
            f"{str(error)[:500]}. It is called with one observation, with no axis of a batch, and channels come last."
        ) from error
    has_shape = hasattr(given, "shape")
    is_vector = has_shape and len(given.shape) == 1 and jnp.issubdtype(given.dtype, jnp.floating)
    if not is_vector or not num_parameters <= given.shape[0] <= MOST_FEATURES:
        got = f"an array of shape {given.shape}, {given.dtype}" if has_shape else type(given).__name__
        raise ArgumentError(
            f"embedding: expected a vector of {num_parameters} to {MOST_FEATURES:,} floating-point numbers of one "
            f"observation of shape {x_shape}, at least one for each of {num_parameters} parameters; the module gives "
            f"{got}."
        )
    return int(given.shape[0])
