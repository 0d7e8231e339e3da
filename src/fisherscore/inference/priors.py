"""Priors as users give them, a mapping from parameter name to a NumPyro distribution, made into one law a parameter."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
import numpyro.distributions as dist

from .._support.arguments import check_names
from ..errors import ArgumentError
from ..score.model import ScoreModel


def prior_laws(model: ScoreModel, prior: Mapping[str, Any] | None) -> tuple[Any, ...]:
    """Return one distribution a parameter; those not named are uniform over the training region."""
    ranges = zip(model.names, model.low, model.high, strict=True)
    laws: dict[str, Any] = {name: dist.Uniform(float(low), float(high)) for name, low, high in ranges}
    if prior is None:
        return tuple(laws.values())
    if not isinstance(prior, Mapping):
        raise ArgumentError(
            f"prior: expected a mapping from parameter name to a NumPyro distribution, got {type(prior).__name__}."
        )
    check_names(prior, model.names, "prior")
    for name, law in prior.items():
        if not _is_usable(law):
            raise ArgumentError(
                f"prior[{name!r}]: expected a proper scalar continuous NumPyro distribution, got {law!r}."
            )
    laws |= prior
    return tuple(laws[name] for name in model.names)


def support_of(laws: Sequence[Any]) -> tuple[tuple[float | None, float | None], ...]:
    """Return the ends of each parameter's prior, None where it has none."""

    def end(law: Any, name: str) -> float | None:
        bound = getattr(law.support, name, None)
        return None if bound is None else float(bound)

    return tuple((end(law, "lower_bound"), end(law, "upper_bound")) for law in laws)


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

        def one(numbers: tuple[Any, ...], value: Any) -> Any:
            leaves = dict(zip(self.order, numbers, strict=True))
            return function(jax.tree.unflatten(self.structure, [leaves[i] for i in range(len(leaves))]), value)

        return jax.vmap(one)(self.numbers, values)


def stacked_laws(laws: Sequence[Any]) -> tuple[Laws, ...]:
    """Stack distributions of the same kind."""
    groups: dict[Any, list[int]] = {}
    flat = [jax.tree.flatten(law) for law in laws]
    for i, (leaves, structure) in enumerate(flat):
        groups.setdefault((structure, tuple(np.shape(leaf) for leaf in leaves)), []).append(i)
    stacked = []
    for (structure, shapes), places in groups.items():
        order = tuple(_by_name(jax.tree.unflatten(structure, list(range(len(shapes))))))
        numbers = tuple(np.stack([_array(flat[i][0][leaf]) for i in places]) for leaf in order)
        stacked.append(Laws(numbers, structure, order, tuple(places)))
    return tuple(stacked)


def _by_name(value: Any) -> list[int]:
    """Return the leaves of a distribution in the order of their names."""
    if not isinstance(value, dist.Distribution):
        return jax.tree.leaves(value)
    fields = zip(type(value).gather_pytree_data_fields(), value.tree_flatten()[0], strict=True)
    return [leaf for _, child in sorted(fields, key=lambda field: field[0]) for leaf in _by_name(child)]


def _array(number: Any) -> np.ndarray:
    """Return a number of a distribution as an array, real ones in single precision."""
    array = np.asarray(number)
    whole = array.dtype == bool or (np.issubdtype(array.dtype, np.integer) and array.ndim > 0)
    return array if whole else array.astype(np.float32)


def _is_usable(law: Any) -> bool:
    """Say whether a prior is a proper, scalar, continuous distribution."""
    if not isinstance(law, dist.Distribution) or isinstance(law, dist.Delta | dist.ImproperUniform):
        return False
    return not (law.is_discrete or law.batch_shape or law.event_shape)
