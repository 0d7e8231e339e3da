"""The user's own Python: functions named as ``file.py:function`` in an analysis file."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from ..simulation.identity import source_digest
from .document import Section, text

# Names of modules that are files of users, loaded here: another analysis may bring another file of that name.
_LOADED: set[str] = set()


def load_function(section: Section, kind: str, folder: Path) -> tuple[Callable[..., Any], str | None]:
    """Load ``file.py:function``, and return it with a digest of the file's code."""
    given = section.take(kind, text)
    file, _, name = given.rpartition(":")
    path = folder / file
    if not file.endswith(".py") or not name.isidentifier():
        raise section.error((kind,), f'expected "file.py:function", got {given!r}.')
    if not path.is_file():
        raise section.error(
            (kind,), f"expected a Python file at {path}, there is none. Paths are relative to this file."
        )
    module = _import_file(section, kind, path)
    function = getattr(module, name, None)
    if not callable(function):
        known = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
        raise section.error((kind,), f"{file} has no function {name!r}. It has {', '.join(known) or 'none'}.")
    return function, source_digest(module)


def _import_file(section: Section, kind: str, path: Path) -> ModuleType:
    """Import the user's file under its own name; worker processes are sent what it defines by value."""
    if path.stem in sys.modules and path.stem not in _LOADED:
        raise section.error((kind,), f"a module named {path.stem!r} is loaded already. Rename {path.name}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    _LOADED.add(path.stem)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # for files beside it
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001  whatever the user's file raises
        del sys.modules[path.stem]
        lacks = error.name if isinstance(error, ModuleNotFoundError) else None
        remedy = f" Install {lacks} in the same environment as fisherscore." if lacks else ""
        why = f"{path.name} cannot be imported: {type(error).__name__}: {error}.{remedy}"
        raise section.error((kind,), why) from None
    cloudpickle.register_pickle_by_value(module)
    return module
