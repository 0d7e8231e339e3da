"""How a simulator travels to another process: by name where it can be imported there, else by value.

Functions of modules go by name, with the plain globals they read; those of a notebook, of a script, or of a file loaded
by its path go by value, with the globals they use. Of these, modules, and what stands for a module, go by name. What
can neither be pickled nor imported, such as an open library or a lock at the top of a file, is made anew by running
that file as a module in the worker, where its author has provided for that; else the error names it.
"""

import ast
import contextlib
import functools
import importlib
import importlib.util
import io
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle

from ...errors import SimulationError
from .plain_globals import WithGlobals, plain_globals

# How deep to look for what cannot be pickled: functions that call functions, and objects in objects.
_DEPTH = 8
# Under these names files of users are run in workers; so `if __name__ == "__main__":` is not entered.
_PREFIX = "_fisherscore_user_file_"


def pickled(run_once: Any, name: str) -> bytes:
    """Pickle what runs a simulator once, so that a fresh process can load it."""
    function = getattr(run_once, "function", run_once)
    with _by_value_where_no_name_leads(function):
        return _pickled(WithGlobals(run_once, plain_globals(function)), function, name)


def _pickled(run_once: Any, function: Any, name: str) -> bytes:
    try:
        return _dumps(run_once, {})
    except Exception as error:  # noqa: BLE001  objects of users raise what they like when they are pickled
        first = error
    culprits = list(_culprits(function, (), set()))
    anew = {id(c.value): c.reference for c in culprits if c.reference is not None}
    try:
        if anew:
            return _dumps(run_once, anew)
    except Exception as error:  # noqa: BLE001
        first = error
    raise SimulationError(_refusal(name, culprits, first)) from first


@contextlib.contextmanager
def _by_value_where_no_name_leads(function: Any) -> Iterator[None]:
    """Let a function go by value whose module was loaded from a place where a fresh process would not look for it."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is None or module.__name__ == "__main__" or _is_found(module):
        yield
        return
    known = module.__name__ in cloudpickle.list_registry_pickle_by_value()
    if not known:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        if not known:
            cloudpickle.unregister_pickle_by_value(module)


def _is_found(module: types.ModuleType) -> bool:
    """Say whether importing a module by its name leads to the same file."""
    top = module.__name__.partition(".")[0]
    file = getattr(sys.modules.get(top, module), "__file__", None)
    spec = None
    for finder in sys.meta_path:
        with contextlib.suppress(ImportError, AttributeError, ValueError):  # of finders of other packages
            spec = spec or finder.find_spec(top, None)
    return spec is not None and (file is None or spec.origin is None or Path(spec.origin) == Path(file))


def _dumps(value: Any, anew: dict[int, tuple]) -> bytes:
    with io.BytesIO() as file:
        _Pickler(file, anew).dump(value)
        return file.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it states no types
    """Pickles by value what lives in scripts, and by name whatever is a module in all but its type."""

    def __init__(self, file: Any, anew: dict[int, tuple]):
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._anew = anew
        # Some packages put an object of their own where their module should be.
        self._modules = {
            id(module): name
            for name, module in list(sys.modules.items())
            if module is not None and type(module) is not types.ModuleType and name != "__main__"
        }

    def reducer_override(self, obj: Any) -> Any:
        """Name modules in disguise, and what is to be made anew; leave all else to cloudpickle."""
        if id(obj) in self._anew:
            return _global_of_file, self._anew[id(obj)]
        if id(obj) in self._modules:
            return importlib.import_module, (self._modules[id(obj)],)
        return super().reducer_override(obj)


def _global_of_file(path: str, name: str) -> Any:
    """Run a file of the user's as a module, once a process, and return one of its globals; called in workers."""
    known = _PREFIX + path
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module
        folder = str(Path(path).parent)
        if folder not in sys.path:
            sys.path.append(folder)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[known]
            raise
    return getattr(sys.modules[known], name)


class _Culprit:
    """Something that cannot be pickled: how it is reached, and from which file it could be made anew."""

    def __init__(self, path: tuple[str, ...], value: Any, owner: Callable[..., Any] | None, error: Exception):
        self.where, self.value, self.error = path, value, error
        self.file = _file_of(owner) if owner is not None else None
        self.reference: tuple | None = None
        if self.file is not None and owner is not None and _may_be_run(self.file, owner.__module__):
            self.reference = (self.file, path[-1])


def _culprits(value: Any, path: tuple[str, ...], seen: set[int], owner: Any = None) -> Iterator[_Culprit]:
    """Find the innermost values that cannot be pickled."""
    if id(value) in seen or len(path) > _DEPTH:
        return
    seen.add(id(value))
    try:
        _dumps(value, {})
        return
    except Exception as error:  # noqa: BLE001
        reason = error
    num = 0
    for name, part, part_owner in _parts(value):
        for culprit in _culprits(part, (*path, name), seen, part_owner):
            num += 1
            yield culprit
    if not num and path:
        yield _Culprit(path, value, owner, reason)


def _parts(value: Any) -> Iterator[tuple[str, Any, Any]]:
    """List what a value is made of, with names, and for globals the function that uses them."""
    if isinstance(value, types.FunctionType):
        for name in _global_names(value.__code__):
            if name in value.__globals__:
                yield name, value.__globals__[name], value
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            if cell != types.CellType():
                yield name, cell.cell_contents, None
        for number, default in enumerate(value.__defaults__ or ()):
            yield f"default {number + 1}", default, None
    elif isinstance(value, types.MethodType):
        yield "self", value.__self__, None
        yield value.__name__, value.__func__, None
    elif isinstance(value, functools.partial):
        yield "func", value.func, None
        yield from ((f"argument {i + 1}", part, None) for i, part in enumerate(value.args))
        yield from ((name, part, None) for name, part in value.keywords.items())
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", part, None) for key, part in value.items())
    elif isinstance(value, (list, tuple, set)):
        yield from ((f"[{i}]", part, None) for i, part in enumerate(value))
    elif isinstance(value, type):
        yield from ((name, part, None) for name, part in vars(value).items() if not name.startswith("__"))
    else:
        yield from ((name, part, None) for name, part in getattr(value, "__dict__", {}).items())
        yield "class", type(value), None


def _global_names(code: types.CodeType) -> list[str]:
    """List the names a function, and the functions written in it, may look up among its globals."""
    inner = [name for part in code.co_consts if isinstance(part, types.CodeType) for name in _global_names(part)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _file_of(function: Any) -> str | None:
    """Return the file whose globals a function uses."""
    file = function.__globals__.get("__file__")
    return str(Path(file).absolute()) if isinstance(file, str) and Path(file).is_file() else None


def _may_be_run(file: str, module: str) -> bool:
    """Say whether a file can be run in a worker without doing what it is there for.

    A file that was imported can be imported again. A script has to say what it does only when it is the main one;
    running any other would begin its work anew in every worker.
    """
    if module != "__main__":
        return True
    try:
        body = ast.parse(Path(file).read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, ValueError):
        return False
    names = [node for part in body if isinstance(part, ast.If) for node in ast.walk(part.test)]
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in names)


def _refusal(name: str, culprits: list[_Culprit], error: Exception) -> str:
    """Say what cannot travel, and what to do about it."""
    start = f"The simulator {name!r} cannot be sent to another process"
    if not culprits:
        return (
            f"{start} ({error}). Let its function open files, connections and the like itself instead of holding them."
        )
    worst = next((c for c in culprits if c.reference is None), culprits[0])
    what = f"{worst.where[-1]!r}, of type {type(worst.value).__name__}"
    via = f", which it reaches through {' → '.join(worst.where[:-1])}" if len(worst.where) > 1 else ""
    advice = "Let the function make it itself, at its first call, instead of holding it"
    if worst.file is not None:
        advice += (
            f'; or let {Path(worst.file).name} do its work under `if __name__ == "__main__":`, so that workers can '
            "import it; or put the function into a file of its own and import that"
        )
    return f"{start}: it uses {what}{via}, and that cannot be pickled ({worst.error}). {advice}."
