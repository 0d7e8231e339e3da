"""Plain values that a simulator reads from modules, as they are now: a worker that imports them would find others.

A script that sets ``model.RESOLUTION = 512`` means its workers too. Numbers and texts travel with the simulator and are
set where the worker's own differ; what is more than that is left to the worker's import, and found out by
:func:`fisherscore.check_simulator`.
"""

import dis
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_DEPTH = 6
_MOST_CHARACTERS = 10_000

# Module, name, value.
Setting = tuple[str, str, Any]


class WithGlobals:
    """Something that is pickled together with the plain globals it reads."""

    def __init__(self, value: Any, settings: list[Setting]):
        self.value, self.settings = value, settings

    def __reduce__(self) -> Any:
        """Become the value itself when unpickled."""
        return _with_globals, (self.value, self.settings)


def _with_globals(value: Any, settings: list[Setting]) -> Any:
    """Set what differs, and return the value; called in workers."""
    for module_name, name, setting in settings:
        module = sys.modules.get(module_name)
        if module is not None and repr(getattr(module, name, None)) != repr(setting):
            setattr(module, name, setting)
    return value


def plain_globals(function: Any) -> list[Setting]:
    """List the plain values that a function, and the user's functions it calls, read from imported modules."""
    found: dict[tuple[str, str], Any] = {}
    for module, name, value in _read_by(function, set(), 0):
        found[module, name] = value
    return [(module, name, value) for (module, name), value in found.items()]


def _read_by(function: Any, seen: set[int], depth: int) -> Iterator[Setting]:
    if isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType):
        function = vars(type(function)).get("__call__")  # an object that is called like a function
    if not isinstance(function, types.FunctionType) or id(function) in seen or depth > _DEPTH:
        return
    seen.add(id(function))
    home = function.__globals__.get("__name__")
    names, written = _names(function.__code__)
    for name in names - written:
        value = function.__globals__.get(name)
        parts: list[Any] = [value]
        if isinstance(value, types.ModuleType) and _is_users(value.__name__):
            yield from ((value.__name__, n, v) for n in names if _is_plain(v := vars(value).get(n, value)))
            parts = [vars(value).get(n) for n in names]
        elif name in function.__globals__ and home != "__main__" and _is_users(home) and _is_plain(value):
            yield str(home), name, value
        for part in parts:
            if isinstance(part, types.FunctionType) and _is_users(part.__module__):
                yield from _read_by(part, seen, depth + 1)


def _names(code: types.CodeType) -> tuple[set[str], set[str]]:
    """Return the names that code may read as globals or attributes, and the globals it writes itself."""
    names = set(code.co_names)
    written = {str(step.argval) for step in dis.get_instructions(code) if step.opname == "STORE_GLOBAL"}
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            inner, inner_written = _names(part)
            names, written = names | inner, written | inner_written
    return {name for name in names if not name.startswith("__")}, written


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return len(value) < 100 and all(map(_is_plain, value))
    return type(value) in _PLAIN and (not isinstance(value, (str, bytes)) or len(value) < _MOST_CHARACTERS)


def _is_users(module_name: Any) -> bool:
    """Say whether a module is the user's own: neither installed nor a part of Python."""
    module = sys.modules.get(str(module_name))
    file = getattr(module, "__file__", None) or ""
    top = str(module_name).partition(".")[0]
    return bool(file) and "-packages" not in file and top not in sys.stdlib_module_names
