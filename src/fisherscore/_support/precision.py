"""Double precision on the device for a while, whatever JAX's default is."""

from contextlib import AbstractContextManager
from typing import Any

import jax


def double_precision() -> AbstractContextManager[Any]:
    """Let JAX compute in double precision inside a ``with`` block."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax import experimental  # before JAX 0.8

    return getattr(experimental, "enable_x64")()  # noqa: B009
