"""A TOML file whose mistakes are reported with their line, what was expected, what came and what to do."""

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from .._support.arguments import MOST, brief
from ..errors import ConfigurationError

_REQUIRED = object()
_LARGEST_FILE = 10_000_000


class Document:
    """A TOML file, its text kept so that complaints can point into it."""

    def __init__(self, path: Path):
        self.path = path
        try:
            if path.is_file() and path.stat().st_size > _LARGEST_FILE:
                raise ConfigurationError(f"{path}: has {path.stat().st_size:,} bytes; this is no analysis file.")
            self.text = path.read_text(encoding="utf-8-sig")  # some editors begin with a mark
        except FileNotFoundError:
            raise ConfigurationError(f"{path}: no such file. To make one: fisherscore init {path}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path}: cannot be read as text ({error}).") from None
        try:
            self.tree: dict[str, Any] = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigurationError(f"{path}: not TOML: {error}. (Words need quotes, numbers none.)") from None
        except (RecursionError, ValueError) as error:
            why = "nested too deeply" if isinstance(error, RecursionError) else f"not TOML: {error}"
            raise ConfigurationError(
                f"{path}: {why}. Values here are numbers, words, and short lists of them."
            ) from None

    def line(self, keys: Sequence[str]) -> int:
        """Return the line on which a key is set, or its table begins; for a key that is not there, its table's."""
        wanted, lines = tuple(keys), self._lines
        while wanted and wanted not in lines:
            wanted = wanted[:-1]
        return lines.get(wanted, 1)

    @cached_property
    def _lines(self) -> dict[tuple[str, ...], int]:
        """Return the line with which each key first appears."""
        lines: dict[tuple[str, ...], int] = {}
        table: tuple[str, ...] = ()
        for line, statement in statements(self.text):
            paths = list(_paths(tomllib.loads(statement)))
            if statement.startswith("["):
                table = paths[-1]
            else:
                paths = [(*table, *path) for path in paths]
            for path in paths:
                lines.setdefault(path, line)
        return lines

    def error(self, keys: Sequence[str], problem: str) -> ConfigurationError:
        """Make an error that points at a key."""
        where = ".".join(keys)
        return ConfigurationError(f"{self.path}, line {self.line(keys)}: {where}{': ' if where else ''}{problem}")

    def section(self, *keys: str, required: bool = False) -> "Section":
        """Return a table of the document; one that is not there is empty."""
        tree: Any = self.tree
        for depth, key in enumerate(keys, 1):
            if key not in tree:
                if required:
                    raise self.error(keys, f"expected a table [{'.'.join(keys)}], got none. Add it.")
                return Section(self, keys, {})
            tree = tree[key]
            if not isinstance(tree, dict):
                raise self.error(keys[:depth], f"expected a table, got {brief(tree)}.")
        return Section(self, keys, tree)


class Section:
    """One table of the file: values are taken by name and kind, and keys nobody asked for are refused at the end."""

    def __init__(self, document: Document, keys: Sequence[str], tree: dict[str, Any]):
        self.document, self.keys, self.tree = document, tuple(keys), tree
        self._known: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.tree

    def take(self, name: str, kind: Callable[[Any], Any], default: Any = _REQUIRED) -> Any:
        """Return a value of the right kind, or the default; without a default the key must be there."""
        self._known.add(name)
        if name not in self.tree:
            near = difflib.get_close_matches(name, self.tree, n=1, cutoff=0.8)
            if near and near[0] not in self._known:
                raise self.error((near[0],), f"no such key. Did you mean {name!r}?")
            if default is _REQUIRED:
                raise self.error((), f"expected a key {name!r}. Add it below this line.")
            return default
        try:
            return kind(self.tree[name])
        except WrongKind as expected:
            raise self.error((name,), f"expected {expected}, got {brief(self.tree[name])}.") from None

    def error(self, keys: Sequence[str], problem: str) -> ConfigurationError:
        """Make an error that points into this table."""
        return self.document.error((*self.keys, *keys), problem)

    def finish(self) -> None:
        """Refuse keys nobody asked for, naming the likeliest one meant."""
        for name in self.tree:
            if name not in self._known:
                near = difflib.get_close_matches(name, self._known, n=1)
                hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(sorted(self._known))}."
                raise self.error((name,), f"no such key. {hint}")


class WrongKind(Exception):
    """A value is not of the expected kind; the message says what was expected."""


def text(value: Any) -> str:
    """Accept words."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise WrongKind("words in quotes")
    return value


def flag(value: Any) -> bool:
    """Accept true or false."""
    if not isinstance(value, bool):
        raise WrongKind("true or false")
    return value


def number(value: Any) -> float:
    """Accept a finite number."""
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise WrongKind("a finite number")
    except OverflowError:  # a whole number beyond all measure
        raise WrongKind("a finite number") from None
    return float(value)


def positive(value: Any) -> float:
    """Accept a number above zero."""
    if number(value) <= 0:
        raise WrongKind("a number above 0")
    return float(value)


def whole(minimum: int, *, or_zero: bool = False, most: int = MOST) -> Callable[[Any], int]:
    """Accept a whole number of at least ``minimum``, or zero for none."""

    def kind(value: Any) -> int:
        good = isinstance(value, int) and not isinstance(value, bool)
        if not good or not (value >= minimum or (or_zero and value == 0)):
            raise WrongKind(f"a whole number of at least {minimum}" + (", or 0 for none" if or_zero else ""))
        if value > most:
            raise WrongKind(f"at most {most:,}")
        return value

    return kind


def choice(*options: str) -> Callable[[Any], str]:
    """Accept one of some words."""

    def kind(value: Any) -> str:
        if value not in options:
            raise WrongKind("one of " + ", ".join(f'"{o}"' for o in options))
        return str(value)

    return kind


def words(value: Any) -> list[str]:
    """Accept a list of words."""
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise WrongKind('a list of words such as ["./sim", "{input}", "{output}"]')
    return value


def numbers(count: int) -> Callable[[Any], list[float]]:
    """Accept a list of ``count`` finite numbers."""

    def kind(value: Any) -> list[float]:
        if not isinstance(value, list) or len(value) != count:
            raise WrongKind(f"a list of {count} numbers")
        return [number(v) for v in value]

    return kind


def sizes(value: Any) -> tuple[int, ...]:
    """Accept the shape of an array: a whole number or a list of them."""
    listed = value if isinstance(value, list) else [value]
    if not listed or not all(isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in listed):
        raise WrongKind("a whole number above 0, or a list of them")
    return tuple(listed)


def by_name(value: Any) -> dict[str, float]:
    """Accept numbers by parameter name."""
    if not isinstance(value, dict) or not value:
        raise WrongKind("numbers by name such as { a = 1.0, b = 2.0 }")
    return {name: number(v) for name, v in value.items()}


def anything(value: Any) -> Any:
    """Accept any value; it is checked elsewhere."""
    return value


def _paths(tree: Any) -> Iterator[tuple[str, ...]]:
    """Return the paths of all keys of nested tables; of a list of tables those of the last."""
    tree = tree[-1] if isinstance(tree, list) and tree and isinstance(tree[-1], dict) else tree
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield (key,)
            yield from ((key, *path) for path in _paths(value))


# What matters to where a statement of TOML ends: comments, texts, which may span lines, brackets, and ends of lines.
_TOKENS = re.compile(
    r"""#[^\n]*|\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[\[\]{}]|\n""", re.DOTALL
)


def statements(text: str) -> Iterator[tuple[int, str]]:
    """Take a valid TOML document apart: give each table's head, and each key with its value, with its first line.

    >>> list(statements("[a]  # one\\n\\nb = [\\n1]\\n"))
    [(1, '[a]  # one'), (3, 'b = [\\n1]')]
    """
    text = text.replace("\r\n", "\n")
    begin, depth, line = 0, 0, 1
    ends = [(token.start(), token.group()) for token in _TOKENS.finditer(text)]
    for end, token in [*ends, (len(text), "\n")]:
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        if token == "\n" and depth == 0:
            statement = text[begin:end]
            # Blank lines are statements of their own, so a statement begins on its first line.
            if statement.strip() and not statement.lstrip().startswith("#"):
                yield line, statement.strip()
            line += statement.count("\n") + 1
            begin = end + 1
