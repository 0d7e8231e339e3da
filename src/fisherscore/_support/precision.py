"""JAX as our code expects it for a while, whatever the user has set: single precision, or double, and no strictness.

All settings are those of one thread and of one ``with`` block; none is changed for good.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

import jax

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

# The settings our code is written for, where JAX has them. Our code makes NaN on purpose, and replaces them, where
# JAX would stop; it mixes arrays and NumPy's numbers; and its random numbers are those of this generator.
_SETTINGS: dict[str, Any] = {
    "numpy_dtype_promotion": "standard",
    "numpy_rank_promotion": "allow",
    "debug_nans": False,
    "debug_infs": False,
    "disable_jit": False,
    "default_prng_impl": "threefry2x32",
    "threefry_partitionable": True,
    "transfer_guard": "allow",
}


def double_precision() -> AbstractContextManager[Any]:
    """Let JAX compute in double precision inside a ``with`` block."""
    return _settings(True)


def single_precision() -> AbstractContextManager[Any]:
    """Let JAX compute in single precision inside a ``with`` block."""
    return _settings(False)


def in_single_precision(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Let a function run in single precision, whatever JAX's settings are; inside a transformation of JAX, as it is."""

    @functools.wraps(function)
    def run(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs))):
            return function(*args, **kwargs)
        with single_precision():
            return function(*args, **kwargs)

    return run


@contextlib.contextmanager
def _settings(double: bool) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(_enable_x64(double))
        config: Any = jax.config
        for name, value in _SETTINGS.items():
            # Only what differs: every other setting makes JAX look up again what it has compiled.
            if hasattr(jax, name) and getattr(config, f"jax_{name}", value) != value:
                stack.enter_context(getattr(jax, name)(value))
        if getattr(config, "jax_default_matmul_precision", None) is not None:
            stack.enter_context(jax.default_matmul_precision("float32"))
        yield


def _enable_x64(value: bool) -> AbstractContextManager[Any]:
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(value)
    from jax import experimental  # before JAX 0.8

    return getattr(experimental, "enable_x64")(value)  # noqa: B009
