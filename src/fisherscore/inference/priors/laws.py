"""Independent priors: one NumPyro distribution a parameter, those of the same kind stacked."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

from .blocks import Ends, Independent, Laws


def independent(laws: Sequence[Any], places: Sequence[int] | None = None) -> Independent:
    """Make a block of one distribution a parameter."""
    where = tuple(range(len(laws))) if places is None else tuple(places)
    ends = np.array([[np.nan if e is None else e for e in support_ends(law)] for law in laws])
    return Independent(laws=_stacked(laws), ends_of=(ends[:, 0], ends[:, 1]), places=where)


def support_ends(law: Any) -> Ends:
    """Return the ends of a distribution's support, None where it has none."""

    def end(name: str) -> float | None:
        bound = getattr(law.support, name, None)
        return None if bound is None else float(bound)

    return end("lower_bound"), end("upper_bound")


def is_scalar_law(law: Any) -> bool:
    """Say whether a prior is a proper, scalar, continuous distribution."""
    if not isinstance(law, dist.Distribution) or isinstance(law, dist.Delta | dist.ImproperUniform):
        return False
    return not (law.is_discrete or law.batch_shape or law.event_shape)


def flat_law(law: Any) -> tuple[tuple[np.ndarray, ...], Any, tuple[int, ...]]:
    """Take a distribution apart: its numbers in an order by name, its structure, and that order."""
    leaves, structure = jax.tree.flatten(law)
    order = tuple(_by_name(jax.tree.unflatten(structure, list(range(len(leaves))))))
    return tuple(_array(leaves[leaf]) for leaf in order), structure, order


def _stacked(laws: Sequence[Any]) -> tuple[Laws, ...]:
    """Stack distributions of the same kind."""
    groups: dict[Any, list[int]] = {}
    flat = [flat_law(law) for law in laws]
    for i, (numbers, structure, order) in enumerate(flat):
        groups.setdefault((structure, order, tuple(np.shape(n) for n in numbers)), []).append(i)
    return tuple(
        Laws(tuple(np.stack(same) for same in zip(*(flat[i][0] for i in at), strict=True)), structure, order, tuple(at))
        for (structure, order, _), at in groups.items()
    )


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
