"""Functions compiled for use in a moment: the compiler is asked not to take long.

XLA's newer code for groups of operations on CPUs takes nearly twice as long to make as its older one, and its highest
level of optimisation a quarter longer than the first; on models of this size neither runs any quicker. On GPUs it tries
out many ways to multiply each pair of matrices before it settles on one. These are options of a single function, not of
the process; what a compiler does not know is left out.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .precision import in_single_precision

_OPTIONS: dict[str, dict[str, Any]] = {
    "cpu": {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1},
    "gpu": {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False},
}


class quickly_compiled:
    """Compile a function as ``eqx.filter_jit`` does, in less time, for single precision."""

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, compiled for arguments of these kinds; within another's compilation, as a part of that."""
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs))):
            return self._function(*args, **kwargs)
        return in_single_precision(self.compiled)(*args, **kwargs)

    @functools.cached_property
    def compiled(self) -> Any:
        """The function as JAX compiles it; made when it is first called, when the device is known."""
        filter_jit: Any = eqx.filter_jit  # takes the settings of jax.jit, which its types do not say
        return filter_jit(self._function, compiler_options=_known_options())


@functools.cache
def _known_options() -> dict[str, Any]:
    """Give the options for this kind of device that its compiler knows."""
    options = _OPTIONS.get(jax.default_backend(), {})
    if _is_known(options):
        return dict(options)
    return {name: value for name, value in options.items() if _is_known({name: value})}


def _is_known(options: dict[str, Any]) -> bool:
    try:
        jax.jit(lambda x: x, compiler_options=options).lower(np.float32(0.0)).compile()
    except (RuntimeError, TypeError, ValueError):
        return False
    return True
