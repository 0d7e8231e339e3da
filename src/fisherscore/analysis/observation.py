"""The [observation] table of an analysis file: an array, a file, or a mock observation to be drawn."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._support.npy import read_npy_file
from ..simulation.proposal import Proposal
from .document import Document, Section, WrongKind, by_name, flag, text
from .parameters import check_point


@dataclass(frozen=True, eq=False)
class Observation:
    """Observed data as an array, or the parameters of a mock observation still to be drawn.

    ``source`` is the key of the file that gives it: file, values or mock.
    """

    x: np.ndarray | None
    mock: dict[str, float] | None
    iid: bool
    source: str


def read_observation(document: Document, folder: Path, proposal: Proposal) -> Observation | None:
    """Read the observation; a file without one asks for a forecast alone."""
    if "observation" not in document.tree:
        return None
    section = document.section("observation")
    kinds = [k for k in ("file", "values", "mock") if k in section]
    if len(kinds) != 1:
        raise section.error((), f"expected one of file, values and mock, got {' and '.join(kinds) or 'none'}.")
    iid = section.take("iid", flag, False)
    x = mock = None
    if kinds == ["mock"]:
        mock = section.take("mock", by_name)
        check_point(section, "mock", mock, proposal)
        if iid:
            raise section.error(("iid",), "a mock observation is one draw. Leave iid out.")
    elif kinds == ["values"]:
        x = section.take("values", _array)
    else:
        x = _read_array(section, folder / section.take("file", text))
    section.finish()
    return Observation(x, mock, iid, kinds[0])


def _array(value: Any) -> np.ndarray:
    """Accept finite numbers, in lists of the same length."""
    try:
        array = np.atleast_1d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError):
        raise WrongKind("numbers, in lists of the same length") from None
    if not array.size or not np.isfinite(array).all():
        raise WrongKind("finite numbers")
    return array


def _read_array(section: Section, path: Path) -> np.ndarray:
    """Read an observation from .npy, or from text with numbers in columns."""
    if not path.is_file():
        raise section.error(("file",), f"expected a file at {path}, got none. Paths are relative to this file.")
    try:
        if path.suffix == ".npy":
            return _array(read_npy_file(path))
        return _array(np.loadtxt(path, delimiter="," if path.suffix == ".csv" else None))
    except (ValueError, OSError, WrongKind) as error:
        raise section.error(
            ("file",), f"expected numbers in a .npy, .csv or .txt file, got {path} ({error})."
        ) from None
