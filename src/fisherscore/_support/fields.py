"""Read the fields of a JSON document, or say which of them is damaged.

A reader takes what JSON holds and returns the value, or raises TypeError or ValueError when it is of another kind.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelFolderError

Reader = Callable[[Any], Any]


@dataclass(frozen=True)
class Added:
    """Reads a field that documents of earlier versions do not have; there it has a default."""

    reader: Reader
    default: Any

    def __call__(self, value: Any) -> Any:
        """Read the field where it is there."""
        return self.reader(value)


def read_fields(document: Mapping[str, Any], readers: Mapping[str, Reader], path: Path) -> dict[str, Any]:
    """Return the fields of a document by name, each as its reader gives it."""
    values = {}
    for name, reader in readers.items():
        try:
            if isinstance(reader, Added) and name not in document:
                values[name] = reader.default
            else:
                values[name] = reader(document[name])
        except (KeyError, TypeError, ValueError):
            raise ModelFolderError(f"{path}: {name!r} is missing or damaged.") from None
    return values


def text(value: Any) -> str:
    """Read a text."""
    if not isinstance(value, str):
        raise TypeError
    return value


def number(value: Any) -> float:
    """Read a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError
    return float(value)


def count(value: Any) -> int:
    """Read a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError
    return value


def optional(reader: Reader) -> Reader:
    """Read null as None, and all else by the reader given."""
    return lambda value: None if value is None else reader(value)


def tuple_of(reader: Reader) -> Reader:
    """Read a list as a tuple."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise TypeError
        return tuple(map(reader, value))

    return read


def names(value: Any) -> tuple[str, ...]:
    """Read a list of one or more texts, all different."""
    texts = tuple_of(text)(value)
    if not texts or len(set(texts)) != len(texts):
        raise ValueError
    return texts


def dictionary_of(reader: Reader) -> Reader:
    """Read an object whose values are all of one kind."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise TypeError
        return {name: reader(entry) for name, entry in value.items()}

    return read
