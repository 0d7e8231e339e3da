"""Draws in whatever form other programs keep them: GetDist, ArviZ, tables by name, arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._support.arguments import as_finite, as_names
from ...errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Draws:
    """Weighted draws (n, p) of named parameters, and the hard ends of each, None where it has none.

    ``derived`` are parameters that are not taken unless they are asked for.
    """

    values: np.ndarray
    names: tuple[str, ...]
    weights: np.ndarray | None
    ends: dict[str, tuple[float | None, float | None]]
    derived: tuple[str, ...] = ()


def read_draws(draws: Any, names: Any, weights: Any) -> Draws:
    """Read draws of the parameters wanted; ``names`` may say what they are called here, by their name there."""
    source = _source(draws, names)
    wanted = _wanted(source, names)
    missing = [name for name in wanted if name not in source.names]
    if missing:
        raise ArgumentError(f"names: the draws have no parameter {missing[0]!r}. They have {', '.join(source.names)}.")
    columns = [source.names.index(name) for name in wanted]
    values = as_finite(source.values[:, columns], "draws")
    called = as_names(list(wanted.values()), len(wanted))
    given = source.weights if weights is None else as_finite(weights, "weights")
    if given is not None and (given.shape != (len(values),) or (given < 0).any() or not given.sum() > 0):
        raise ArgumentError(f"weights: expected {len(values)} numbers of at least 0, one a draw, got {given.shape}.")
    ends = {wanted[name]: source.ends[name] for name in wanted if name in source.ends}
    return Draws(values, called, given, ends)


def _wanted(source: Draws, names: Any) -> dict[str, str]:
    """Return by the name of a parameter among the draws what it is called here."""
    if names is None:
        return {name: name for name in source.names if name not in source.derived}
    if isinstance(names, Mapping):
        return {str(there): here for there, here in names.items()}
    listed = (names,) if isinstance(names, str) else tuple(names)
    return {str(name): name for name in listed}


def _source(draws: Any, names: Any) -> Draws:
    """Read all parameters that the draws have."""
    if hasattr(draws, "getParamNames") and hasattr(draws, "samples"):
        return _of_getdist(draws)
    if hasattr(draws, "chains") and hasattr(draws, "support") and hasattr(draws, "names"):
        ends = dict(zip(draws.names, draws.support, strict=True))
        return Draws(np.asarray(draws.samples), tuple(draws.names), None, ends)
    group = getattr(draws, "posterior", draws)
    if hasattr(group, "data_vars"):
        return _of_variables({str(name): np.asarray(group[name].values) for name in group.data_vars}, lead=2)
    if isinstance(draws, Mapping):
        return _of_variables({str(name): as_finite(v, f"draws[{name!r}]") for name, v in draws.items()}, lead=1)
    if hasattr(draws, "columns") and hasattr(draws, "to_numpy"):
        return Draws(as_finite(draws.to_numpy(), "draws"), tuple(map(str, draws.columns)), None, {})
    values = as_finite(draws, "draws")
    if values.ndim != 2 or not values.size:
        raise ArgumentError(
            f"draws: expected an array of shape (draws, parameters), GetDist's MCSamples, ArviZ's InferenceData, a "
            f"Posterior or a mapping by name, got shape {values.shape}."
        )
    if names is None or isinstance(names, Mapping):
        raise ArgumentError(
            f"names: expected {values.shape[1]} names, one for each column of the array, got {names!r}."
        )
    listed = [names] if isinstance(names, str) else list(names)
    return Draws(values, as_names(listed, values.shape[1]), None, {})


def _of_getdist(draws: Any) -> Draws:
    """Read MCSamples: without derived parameters, with weights and hard ends."""
    names = tuple(draws.getParamNames().list())
    derived = tuple(names[i] for i, info in enumerate(draws.getParamNames().names) if info.isDerived)
    ends = {name: (draws.ranges.getLower(name), draws.ranges.getUpper(name)) for name in names}
    weights = None if draws.weights is None else np.asarray(draws.weights)
    return Draws(np.asarray(draws.samples), names, weights, ends, derived)


def _of_variables(variables: Mapping[str, np.ndarray], lead: int) -> Draws:
    """Put variables side by side, each with ``lead`` axes of draws; one with more axes gives a parameter an entry."""
    columns: dict[str, np.ndarray] = {}
    for name, values in variables.items():
        flat = values.reshape(int(np.prod(values.shape[:lead])), -1)
        if flat.shape[1] == 1:
            columns[name] = flat[:, 0]
            continue
        places: Sequence[tuple[int, ...]] = list(np.ndindex(*values.shape[lead:]))
        columns |= {f"{name}[{','.join(map(str, at))}]": flat[:, i] for i, at in enumerate(places)}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise ArgumentError(f"draws: expected as many draws of one parameter as of the others, got {sorted(lengths)}.")
    return Draws(np.stack(list(columns.values()), axis=1), tuple(columns), None, {})
