"""Functions compiled for use in a moment: on a CPU the compiler is asked not to take long.

XLA's newer code for groups of operations on CPUs takes nearly twice as long to make as its older one, and runs no
quicker on models of this size. Which one is used is an option of a single function, not of the process; a compiler that
does not know the option is left alone.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .precision import in_single_precision

_OPTIONS = {"xla_cpu_use_fusion_emitters": False}


class quickly_compiled:
    """Compile a function as ``eqx.filter_jit`` does, in less time, for single precision."""

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, compiled for arguments of these kinds."""
        return in_single_precision(self.compiled)(*args, **kwargs)

    @functools.cached_property
    def compiled(self) -> Any:
        """The function as JAX compiles it; made when it is first called, when the device is known."""
        filter_jit: Any = eqx.filter_jit  # takes the settings of jax.jit, which its types do not say
        return filter_jit(self._function, compiler_options=_known_options())


@functools.cache
def _known_options() -> dict[str, Any] | None:
    """Give the options if this is a CPU and its compiler knows them."""
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda x: x, compiler_options=_OPTIONS).lower(np.float32(0.0)).compile()
    except (RuntimeError, TypeError, ValueError):  # an option it does not know
        return None
    return dict(_OPTIONS)
