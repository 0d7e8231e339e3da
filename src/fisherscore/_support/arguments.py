"""Turn what users pass into arrays, or say what is wrong with it.

Every message names the argument, what was expected, what came and what to do. Arrays under a JAX transformation
(tracers) are checked by shape alone: their values are not there to look at.
"""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import jax
import numpy as np

from ..errors import ArgumentError
from .masks import with_nan_for_masked


def is_traced(value: Any) -> bool:
    """Say whether a value stands for an array inside a JAX transformation."""
    return isinstance(value, jax.core.Tracer)


# More of anything does not fit in memory, or never ends.
MOST = 100_000_000


def as_count(value: Any, argument: str, minimum: int = 1) -> int:
    """Return a whole number of at least ``minimum``, and not beyond all measure."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < minimum:
        raise ArgumentError(f"{argument}: expected a whole number of at least {minimum}, got {brief(value)}.")
    if int(value) > MOST:
        raise ArgumentError(f"{argument}: expected at most {MOST:,}, got {brief(value)}.")
    return int(value)


def as_seed(value: Any) -> int:
    """Return a seed: a whole number from 0 to 2**63 - 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) < 2**63:
        raise ArgumentError(f"seed: expected a whole number from 0 to 2**63 - 1, got {brief(value)}.")
    return int(value)


def as_finite(value: Any, argument: str) -> np.ndarray:
    """Return a finite array of floats."""
    if value is None:
        raise ArgumentError(f"{argument}: expected numbers, got None. Pass an array of floats.")
    try:
        array = _as_floats(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(
            f"{argument}: expected numbers, got {brief(value)} ({error}). Pass an array of floats."
        ) from None
    if not np.all(np.isfinite(array)):
        bad = np.argwhere(~np.isfinite(array))
        where = tuple(int(i) for i in bad[0])
        raise ArgumentError(
            f"{argument}: expected finite numbers, got {array[where]} at index {where} ({len(bad)} of {array.size} "
            "values are NaN or infinite). Remove or repair them."
        )
    return array


def _as_floats(value: Any) -> np.ndarray:
    """Convert to double precision; masked entries become NaN, and what is no real number raises TypeError."""
    value = with_nan_for_masked(value)
    given = np.asarray(value)
    if given.dtype.kind in "cMmSU" or given.dtype.names:
        raise TypeError(f"it holds {given.dtype}, not real numbers")
    with np.errstate(over="ignore"):  # a longer float may become infinite, which is found
        return np.asarray(value if given.dtype.kind == "O" else given, dtype=np.float64)


def in_order(table: Any, names: Sequence[str], argument: str) -> Any:
    """Put what has names of its own (pandas, polars) in the order of parameters; other values stay as they are."""
    columns = getattr(table, "columns", None)
    if columns is None and getattr(table, "ndim", None) == 1 and hasattr(table, "to_numpy"):
        columns = getattr(table, "index", None)  # of a pandas series
    labels = [] if columns is None or callable(columns) else list(columns)
    if not any(isinstance(label, str) for label in labels):
        return table
    if sorted(map(str, labels)) != sorted(names):
        raise ArgumentError(
            f"{argument}: expected columns called {', '.join(names)}, got {brief(labels)}. Rename them, or pass an "
            "array with the columns in this order (to_numpy())."
        )
    return np.stack([as_finite(np.asarray(table[name]), f"{argument}[{name!r}]") for name in names], axis=-1)


def as_theta(theta: Any, names: Sequence[str], argument: str = "theta") -> Any:
    """Return parameters with a last axis in the order of ``names``; a mapping by name is put in that order."""
    if isinstance(theta, Mapping):
        check_names(theta.keys(), names, argument)
        missing = [n for n in names if n not in theta]
        if missing:
            raise ArgumentError(f"{argument}: no value for {missing}. Expected all of {list(names)}.")
        theta = _stacked({n: as_finite(theta[n], f"{argument}[{n!r}]") for n in names}, argument)
    if not is_traced(theta):
        theta = as_finite(in_order(theta, names, argument), argument)
    if theta.ndim == 0 or theta.shape[-1] != len(names):
        raise ArgumentError(
            f"{argument}: expected shape (..., {len(names)}), the last axis holding {', '.join(names)}; "
            f"got shape {theta.shape}."
        )
    return theta


def _stacked(by_name: Mapping[str, np.ndarray], argument: str) -> np.ndarray:
    """Put the values of parameters side by side on a last axis; a single value goes with many of the others."""
    try:
        return np.stack(np.broadcast_arrays(*by_name.values()), axis=-1)
    except ValueError:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in by_name.items())
        raise ArgumentError(
            f"{argument}: expected as many values of one parameter as of the others, got shapes {shapes}."
        ) from None


def refuse_outside(theta: np.ndarray, model: Any, argument: str) -> None:
    """Refuse parameters, shape (..., p), that lie outside a model's training region."""
    rows = theta.reshape(-1, len(model.names))
    outside = rows[~model.inside(rows)]
    if len(outside):
        ranges = zip(model.names, model.low, model.high, strict=True)
        region = ", ".join(f"{name} in [{low:.6g}, {high:.6g}]" for name, low, high in ranges)
        raise ArgumentError(f"{argument}: {outside[0].tolist()} lies outside the training region ({region}).")


def as_data(x: Any, shape: tuple[int, ...], argument: str = "x") -> Any:
    """Return data whose last axes have the shape of one observation."""
    if not is_traced(x):
        x = as_finite(x, argument)
    if shape == (1,) and (x.ndim == 0 or x.shape[-1] != 1):
        hint = " For one number per observation, add a last axis of length 1: x[..., None]."
    else:
        hint = ""
    if x.ndim < len(shape) or x.shape[x.ndim - len(shape) :] != tuple(shape):
        expected = ", ".join(("...", *map(str, shape)))
        raise ArgumentError(
            f"{argument}: expected shape ({expected}), one observation having shape {tuple(shape)}; "
            f"got shape {x.shape}.{hint}"
        )
    return x


def check_names(given: Any, known: Sequence[str], argument: str) -> None:
    """Refuse parameter names that are not known."""
    allowed = set(known)
    unknown = [n for n in given if n not in allowed]
    if unknown:
        raise ArgumentError(f"{argument}: unknown parameter name {unknown[0]!r}. Known names: {', '.join(known)}.")


def as_indices(names: Sequence[str] | str, known: Sequence[str], argument: str = "names") -> list[int]:
    """Return the positions of parameter names, refusing unknown and repeated ones."""
    names = [names] if isinstance(names, str) else list(names)
    check_names(names, known, argument)
    if len(set(names)) != len(names):
        raise ArgumentError(f"{argument}: a parameter is named twice in {names}.")
    return [list(known).index(n) for n in names]


def as_names(names: Any, num: int, argument: str = "names") -> tuple[str, ...]:
    """Return ``num`` parameter names, all different."""
    called = (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if isinstance(names, str) or len(called) != num or not all(map(is_name, called)):
        raise ArgumentError(
            f"{argument}: expected {num} names, one per parameter, each a text that can be printed; got "
            f"{brief(names)}. Pass a list of {num} texts."
        )
    if len(set(called)) != len(called):
        raise ArgumentError(f"{argument}: a parameter is named twice in {list(called)}. Give each a name of its own.")
    return tuple(map(str, called))


def is_name(value: Any) -> bool:
    """Say whether a value will do as a name: a text that is not blank and can be printed."""
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def brief_text(error: BaseException) -> str:
    """Write down the words of an error in one line of at most 300 characters."""
    try:
        text = " ".join(str(error).split())
    except Exception as second:  # noqa: BLE001  the user's own classes may do anything
        text = f"(its text cannot be shown: {type(second).__name__})"
    return text if len(text) <= 300 else text[:297] + "..."


def brief(value: Any) -> str:
    """Write down a value in at most 60 characters."""
    try:
        text = repr(value)
    except ValueError:  # a whole number with more digits than Python writes down
        return "a number of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."
