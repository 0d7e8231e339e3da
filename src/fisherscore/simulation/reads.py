"""What a simulator reads besides its own source: globals, closures, attributes, helper functions, files in options.

A digest of each, by name. They are no proof of a change, since counters and caches change as well; where one differs,
more stored records are run again (:mod:`fisherscore.simulation.execution.rerun`), which decides. ``constants`` are what
a simulator has no reason to change itself; ``state`` are containers and attributes that it may.
"""

import contextlib
import dis
import functools
import hashlib
import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import jax
import numpy as np

from .identity import any_file_digest, source_digest

Reads = dict[str, dict[str, str]]
_PLAIN = (int, float, complex, str, bytes, bool, type(None), np.generic)
_ARRAYS = (np.ndarray, jax.Array)
_MOST_DEPTH, _MOST_ITEMS, _MAX_SHOWN = 6, 100_000, 40
# Where Python and what is installed into it live: of these, versions count.
_LIBRARIES = tuple(
    os.path.realpath(path) + os.sep
    for path in {
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    }
)


def read_by_function(function: Any) -> Reads:
    """Digest what a function reads."""
    walk = _Walk()
    walk.function(function, "", 0)
    return {"constants": walk.constants, "state": walk.state}


def read_by_program(arguments: Sequence[str]) -> Reads:
    """Digest the files a program's arguments name, also within options: ``--config=file``."""
    found = {}
    for word in arguments:
        for path in {word, word.partition("=")[2]}:
            if path and os.path.isfile(path):
                found[f"the file {path}"] = any_file_digest(path)
    return {"constants": found, "state": {}}


def changed_reads(stored: Mapping[str, Any], now: Reads, kind: str) -> list[str]:
    """List what was read in both sittings and differs, in words."""
    before, after = stored.get(kind, {}), now[kind]
    return [
        f"{name} (was {before[name]}, is {after[name]})"
        for name in before
        if after.get(name, before[name]) != before[name]
    ]


class _Walk:
    """Goes through a function and the user's own functions, classes and modules that it uses."""

    def __init__(self) -> None:
        self.constants: dict[str, str] = {}
        self.state: dict[str, str] = {}
        self.seen: set[int] = set()
        self.seen_instances: set[int] = set()

    def function(self, function: Any, name: str, depth: int) -> None:
        """Go through whatever can be called."""
        if id(function) in self.seen or depth > _MOST_DEPTH:
            return
        self.seen.add(id(function))
        if isinstance(function, functools.partial):
            self.function(function.func, name, depth + 1)
            for key, value in (*enumerate(function.args), *function.keywords.items()):
                self.value(value, f"argument {key} of {name or 'the partial function'}", (), depth + 1)
        elif isinstance(function, MethodType):
            self.function(function.__func__, name, depth + 1)
            self.instance(function.__self__, "self", depth + 1)
        elif isinstance(function, FunctionType):
            self._plain_function(function, depth)
        elif isinstance(wrapped := _plain_attribute(function, "__wrapped__"), FunctionType):  # jitted or cached
            self.function(wrapped, name, depth + 1)
        elif not isinstance(function, type):
            call = getattr(type(function), "__call__", None)  # noqa: B004  the method itself
            if isinstance(call, FunctionType):
                self.function(call, name, depth + 1)
                self.instance(function, "self", depth + 1)

    def _plain_function(self, function: FunctionType, depth: int) -> None:
        """Go through the globals, the closure and the default values of a function."""
        reads = _Names(function.__code__)
        for name in sorted(reads.globals - reads.assigned):
            if name in function.__globals__:
                self.value(function.__globals__[name], f"the global {name}", reads.attributes, depth + 1)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            with contextlib.suppress(ValueError):  # a cell that is not filled yet
                if name not in reads.assigned:
                    self.value(cell.cell_contents, f"the enclosed {name}", reads.attributes, depth + 1)
        defaults = [*enumerate(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
        for key, value in defaults:
            self.value(value, f"the default value {key} of {function.__name__}", (), depth + 1)

    def value(self, value: Any, name: str, attributes: Any, depth: int) -> None:
        """Digest a value that is read."""
        if depth > _MOST_DEPTH:
            return
        if isinstance(value, _PLAIN):
            self.constants[name] = _shown(value)
        elif isinstance(value, (*_ARRAYS, tuple, frozenset)):
            self.constants[name] = _digest(value)
        elif isinstance(value, list | dict | set):
            self.state[name] = _digest(value)
        elif isinstance(value, ModuleType):
            self._module(value, name, attributes, depth)
        elif isinstance(value, type):
            if _is_users(value):
                self.constants[name] = source_digest(value) or ""
                self._attributes(value, name, attributes, depth)
        elif callable(value) and _is_users(value):
            self.constants[name] = source_digest(value) or ""
            self.function(value, name, depth)
        else:
            self.instance(value, name, depth)

    def _module(self, module: ModuleType, name: str, attributes: Any, depth: int) -> None:
        file = getattr(module, "__file__", None)
        if _is_library(file):
            version = _plain_attribute(module, "__version__")
            if isinstance(version, str):
                self.constants[f"the version of {module.__name__}"] = version
        elif file is not None and id(module) not in self.seen:
            self._attributes(module, name, attributes, depth)

    def _attributes(self, owner: Any, name: str, attributes: Any, depth: int) -> None:
        """Digest those attributes of a user's module or class that the code names."""
        for attribute in sorted(attributes):
            found = vars(owner).get(attribute)
            if found is not None:
                self.value(found, f"{name}.{attribute}", attributes, depth + 1)

    def instance(self, instance: Any, name: str, depth: int) -> None:
        """Digest the attributes of an object of the user's and of its class, and go through its methods."""
        kind = type(instance)
        if id(instance) in self.seen_instances or depth > _MOST_DEPTH or not _is_users(kind):
            return
        self.seen_instances.add(id(instance))
        self.constants.setdefault(f"the class {kind.__name__}", source_digest(kind) or "")
        methods = [
            (owner, key, _method(held)) for owner in kind.__mro__ if _is_users(owner) for key, held in _own(owner)
        ]
        for owner, key, held in methods:
            if isinstance(held, FunctionType):
                self.function(held, key, depth + 1)
            elif isinstance(held, (*_PLAIN, *_ARRAYS, tuple)) and not key.startswith("__"):
                self.value(held, f"the attribute {owner.__name__}.{key}", (), depth + 1)
        assigned = _assigned([held for _, key, held in methods if isinstance(held, FunctionType) and key != "__init__"])
        for key, held in _own(instance):
            label = f"{name}.{key}"
            if isinstance(held, _PLAIN) and key not in assigned:
                self.constants[label] = _shown(held)
            elif isinstance(held, (*_PLAIN, *_ARRAYS, list, dict, set, tuple)):  # it may be a buffer or a counter
                self.state[label] = _digest(held)
            else:
                self.value(held, label, (), depth + 1)


def _method(held: Any) -> Any:
    return held.__func__ if isinstance(held, staticmethod | classmethod) else held


def _assigned(methods: Sequence[FunctionType]) -> set[str]:
    """List the attributes that methods assign."""
    codes = [code for method in methods for code in _codes(method.__code__)]
    return {i.argval for code in codes for i in dis.get_instructions(code) if i.opname == "STORE_ATTR"}


class _Names:
    """The names a function's code uses, that of functions within it included."""

    def __init__(self, code: CodeType):
        self.globals: set[str] = set()
        self.assigned: set[str] = set()
        self.attributes: set[str] = set()
        for part in _codes(code):
            self.attributes.update(part.co_names)
            for instruction in dis.get_instructions(part):
                if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                    self.globals.add(instruction.argval)
                elif instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF"):
                    self.assigned.add(instruction.argval)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _own(owner: Any) -> list[tuple[str, Any]]:
    """Return an object's or a class's own attributes without running any code of the user's."""
    held = dict(vars(owner)) if isinstance(owner, type) else _plain_attribute(owner, "__dict__")
    return sorted(held.items()) if isinstance(held, dict) and all(isinstance(key, str) for key in held) else []


def _plain_attribute(value: Any, name: str) -> Any:
    """Return an attribute, or None where there is none or the user's class makes trouble."""
    try:
        return object.__getattribute__(value, name) if not isinstance(value, ModuleType) else vars(value).get(name)
    except (AttributeError, TypeError):
        return None


def _is_users(value: Any) -> bool:
    """Say whether a function or class is the user's own rather than a library's."""
    module = getattr(value if isinstance(value, type | FunctionType) else type(value), "__module__", None)
    if isinstance(value, MethodType | functools.partial):
        return True
    wrapped = _plain_attribute(value, "__wrapped__")
    if isinstance(wrapped, FunctionType):
        return _is_users(wrapped)
    if module in (None, "builtins") or str(module) in sys.builtin_module_names:
        return False
    return not _is_library(getattr(sys.modules.get(str(module)), "__file__", ""))


def _is_library(file: str | None) -> bool:
    return file is None or os.path.realpath(file).startswith(_LIBRARIES)


def _shown(value: Any) -> str:
    """Return a plain value as it is where it is short, else its digest."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else _digest(value)


def _digest(value: Any) -> str:
    digest = hashlib.blake2b(digest_size=8)
    with contextlib.suppress(RuntimeError, ValueError, TypeError):  # arrays that were given away, sets that change
        _update(digest.update, value, 0)
    return digest.hexdigest()


def _update(add: Callable[[bytes], None], value: Any, depth: int) -> None:
    """Add a value to a digest; of what is neither plain, nor an array, nor a container of these, only its kind."""
    add(type(value).__name__.encode() + b"\0")
    if isinstance(value, _PLAIN):
        add(repr(value).encode("utf-8", "backslashreplace"))
    elif isinstance(value, _ARRAYS):
        array = np.asarray(value)
        add(f"{array.dtype}{array.shape}".encode())
        add(b"" if array.dtype.hasobject else np.ascontiguousarray(array).tobytes())
    elif isinstance(value, dict) and depth < _MOST_DEPTH and len(value) <= _MOST_ITEMS:
        for key, held in value.items():
            _update(add, key, depth + 1)
            _update(add, held, depth + 1)
    elif isinstance(value, list | tuple) and depth < _MOST_DEPTH and len(value) <= _MOST_ITEMS:
        for held in value:
            _update(add, held, depth + 1)
    elif isinstance(value, set | frozenset) and len(value) <= _MOST_ITEMS:
        add("".join(sorted(map(repr, (v for v in value if isinstance(v, _PLAIN))))).encode("utf-8", "backslashreplace"))
    elif isinstance(value, FunctionType):
        add((source_digest(value) or "").encode())
    add(b"\1")
