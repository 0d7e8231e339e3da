"""For results that are kept: the versions they depend on, JSON files, and a table on the terminal."""

import json
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

from .text import columns
from .whole_file import write_whole


def versions() -> dict[str, str]:
    """Return the versions and the device a result depends on."""
    from .. import __version__  # here: the package imports this room

    device = jax.devices()[0].device_kind
    values = {"python": platform.python_version(), "device": device, "fisherscore": __version__}
    for name in ("jax", "equinox", "optax", "numpyro", "numpy"):
        try:
            values[name] = version(name)
        except PackageNotFoundError:
            values[name] = "not installed"
    return values


def write_json(result: Any, path: Path) -> None:
    """Write a result as readable JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(result, indent=2, allow_nan=False) + "\n")


def print_table(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
    print("\n".join(["", title, "-" * len(title), *columns(rows)]))
