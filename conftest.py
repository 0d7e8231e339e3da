"""For all tests: shared fixtures, a cache of compiled functions, and a check of every array shape the package states.

Only functions that state a shape are checked: the public ones without look at their arguments themselves, and it is
their messages that the tests want to see.
"""

import atexit
import contextlib
import gc
import itertools
import os
import shutil
import tempfile
import typing

import pytest
from beartype import beartype
from jaxtyping import install_import_hook

# For the type checker (make types), not to be run.
collect_ignore = ["tests/typing"]

# Tests compile the same functions again and again, in two processes: let them share what is compiled. Set before JAX is
# imported; the worker processes inherit it.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="fisherscore-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
    # Also the small ones: there are thousands.
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

# Two test processes on two cores: threads of BLAS beside them would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def states_a_shape(annotation):
    """Say whether an annotation, or a part of it, is an array shape."""
    parts = (annotation, *typing.get_args(annotation))
    return any(getattr(part, "__module__", "") == "jaxtyping" for part in parts)


def check_shapes(function):
    """Check the arguments of a function if it states an array shape."""
    annotations = getattr(function, "__annotations__", {}).values()
    return beartype(function) if any(map(states_a_shape, annotations)) else function


install_import_hook("fisherscore", "conftest.check_shapes")


# Linux gives a process 65,530 memory maps, and every compiled function takes some: without end, compiling crashes. To
# count them takes longer than many a test, so that it is not done after each.
MAX_MAPS, TESTS_BETWEEN = 30_000, 10
tests_so_far = itertools.count(1)


@pytest.fixture(autouse=True)
def compiled_functions_are_dropped_in_time():
    """Forget compiled functions after some tests, once they take many memory maps."""
    yield
    if next(tests_so_far) % TESTS_BETWEEN:
        return
    with contextlib.suppress(OSError), open("/proc/self/maps", "rb") as maps:  # not on every system
        if sum(1 for _ in maps) > MAX_MAPS:
            import jax

            jax.clear_caches()
            gc.collect()


@pytest.fixture(scope="session")
def call_cli():
    """Call the command line in this process, as in ``call_cli("run", path)``; returns exit code and output."""
    # Imported only now, after the hook above is installed.
    from typer.testing import CliRunner

    from fisherscore.cli import app

    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])
