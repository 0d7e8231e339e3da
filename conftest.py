"""Check every array shape the package states while the tests run.

Only functions that state a shape are checked: the public ones without look at their arguments themselves, and it is
their messages that the tests want to see.
"""

import atexit
import os
import shutil
import tempfile
import typing

from beartype import beartype
from jaxtyping import install_import_hook

# For the type checker, not to be run.
collect_ignore = ["tests/typing/user_script.py"]

# Tests compile the same functions again and again, in two processes: let them share what is compiled. Set before JAX is
# imported; the worker processes inherit it.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="fisherscore-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"

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
