"""Files of draws that a prior is made of: arrays, tables with a head, posteriors kept here."""

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigurationError, FisherScoreError
from ..inference.posterior import Posterior

_KINDS = "a .npy or .npz array, a .csv or .txt table with names in its first line, or the folder of a posterior"


def read_draws_file(path: Path, names: tuple[str, ...], columns: Any) -> tuple[Any, ...]:
    """Return draws and names as ``prior_from_samples`` takes them; ``columns`` are their names in the file."""
    if columns is not None and (not isinstance(columns, list) or len(columns) != len(names)):
        raise ConfigurationError(f"columns: expected {len(names)} names, those of {', '.join(names)} in the file.")
    called = dict(zip(names if columns is None else map(str, columns), names, strict=True))
    if not path.exists():
        raise ConfigurationError(f"draws: no such file: {path}. Paths are relative to this file.")
    try:
        return _read(path, names), called
    except (OSError, ValueError, KeyError, IndexError, FisherScoreError) as error:
        raise ConfigurationError(f"draws: {path} cannot be read as {_KINDS} ({error}).") from None


def _read(path: Path, names: tuple[str, ...]) -> Any:
    if path.is_dir():
        return Posterior.load(path)
    if path.suffix == ".npy":
        values = np.load(path, allow_pickle=False)
        if values.ndim != 2 or values.shape[1] != len(names):
            raise ValueError(f"expected a column each for {', '.join(names)}, got shape {values.shape}")
        return dict(zip(names, values.T, strict=True))
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            values = file["samples"] if "samples" in file else file["chains"]
            known = [str(name) for name in file["names"]]
        return dict(zip(known, values.reshape(-1, len(known)).T, strict=True))
    head, *_ = path.read_text(encoding="utf-8").split("\n", 1)
    separator = "," if "," in head else None
    known = [name.strip() for name in head.lstrip("# ").split(separator)]
    values = np.loadtxt(path, delimiter=separator, skiprows=1, ndmin=2)
    return dict(zip(known, values.T, strict=True))
