"""What the document of a saved model may say, and the arrays that belong to it: checked before anything is made."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._support import fields as read
from .._support.arguments import is_name
from .._support.folder_reading import Shapes
from ..errors import ModelFolderError
from ..potentials.base import build
from ..potentials.sizes import check_description
from .training_summary import TrainingSummary

STANDARDIZER = ("theta_centre", "theta_scale", "x_centre", "x_scale", "score_scale")
# In files the arrays of the training summary are called "reference.*", as in the first version.
SUMMARY = ("fisher_coefficients", "whitening", "distances")
_MOST_PARAMETERS, _MOST_AXES = 5_000, 32
# Axes of a region that are more alike than this span nothing that double precision can tell.
_FLATTEST = 1e12


@dataclass(frozen=True)
class Description:
    """Names, units, the shape of one observation, and the function that the model is."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    x_shape: tuple[int, ...]
    full_whitening: bool
    function: Any
    own_axes: bool = False
    turned: bool = False

    @classmethod
    def of(cls, document: dict[str, Any], path: Path, num_bytes: int) -> "Description":
        """Check a document whose arrays take so many bytes; no size in it may be larger."""
        try:
            names, units = read.names(document["names"]), read.tuple_of(read.text)(document["units"])
            x_shape = read.tuple_of(read.count)(document["x_shape"])
            fits = len(units) == len(names) <= _MOST_PARAMETERS and all(map(is_name, names))
            if not fits or not 0 < len(x_shape) <= _MOST_AXES or not 0 < math.prod(x_shape) <= num_bytes:
                raise ValueError
            full_whitening = document["full_whitening"]
            if not isinstance(full_whitening, bool):
                raise TypeError
            own_axes = document.get("own_axes")
            turned = own_axes is not None and own_axes["turned"]
            if not isinstance(turned, bool):
                raise TypeError
        except (KeyError, TypeError, ValueError):
            raise ModelFolderError(f"{path}: names, units or x_shape are missing or damaged.") from None
        function = {key: document.get(key) for key in ("architecture", "settings")}
        try:
            check_description(function, len(names), math.prod(x_shape), num_bytes)
        except ValueError as error:
            raise ModelFolderError(f"{path}: the network cannot be laid out: {error}.") from None
        return cls(
            names, units, x_shape, full_whitening, function=function, own_axes=own_axes is not None, turned=turned
        )

    def skeleton(self, path: Path) -> Any:
        """Lay out the function's arrays without making them."""
        name, size = self.function["architecture"], math.prod(self.x_shape)
        try:
            return eqx.filter_eval_shape(
                lambda: build(name, len(self.names), size, self.function["settings"], key=jax.random.key(0))
            )
        except (TypeError, ValueError, OverflowError, IndexError, KeyError) as error:
            raise ModelFolderError(f"{path}: the network cannot be laid out: {error}.") from None

    def shapes(self, leaves: list[Any]) -> Shapes:
        """Give the shapes and types of all arrays, given those of the function."""
        p = len(self.names)
        shapes = dict(zip(STANDARDIZER, ((p,), (p,), self.x_shape, self.x_shape, ()), strict=True))
        expected: dict[str, Any] = {f"network.{i:04d}": (leaf.shape, leaf.dtype) for i, leaf in enumerate(leaves)}
        expected |= {f"standardizer.{n}": (shape, np.float64) for n, shape in shapes.items()}
        summary = TrainingSummary.shapes(p, math.prod(self.x_shape), full=self.full_whitening)
        expected |= {f"reference.{n}": (shape, np.float64) for n, shape in summary.items()}
        expected |= {"standardizer.theta_turn": ((p, p), np.float64)} if self.turned else {}
        expected |= {"region.low": ((p,), np.float64), "region.high": ((p,), np.float64)}
        if self.own_axes:
            expected |= {"region.centre": ((p,), np.float64), "region.factor": ((p, p), np.float64)}
        return expected


def check_values(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Refuse numbers that no fit can have given: a scale that is not above 0, a region without room."""
    wrong = [
        f"standardizer.{name}"
        for name in ("theta_scale", "x_scale", "score_scale")
        if not (arrays[f"standardizer.{name}"] > 0).all()
    ]
    if not (arrays["region.low"] < arrays["region.high"]).all():
        wrong.append("region.low")
    for name in ("standardizer.theta_turn", "region.factor"):
        if name in arrays and not np.linalg.cond(arrays[name] / np.abs(arrays[name]).max(axis=1)[:, None]) < _FLATTEST:
            wrong.append(name)
    distances = arrays["reference.distances"]
    if (np.diff(distances) < 0).any() or distances[0] < 0:
        wrong.append("reference.distances")
    if wrong:
        raise ModelFolderError(f"{path}: array {wrong[0]!r} holds values that no fit can have given. Is it damaged?")


def read_provenance(entries: Any) -> dict[str, Any]:
    """Return what is known of a fit; raise TypeError where what others rely on is of another kind."""
    if not isinstance(entries, dict):
        raise TypeError
    for name, reader in _PROVENANCE.items():
        reader(entries.get(name))
    return entries


def _matrix(value: Any) -> np.ndarray:
    """Read a square matrix of finite numbers."""
    matrix = np.asarray(value, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise TypeError
    return matrix


_PROVENANCE = {
    "estimated_error": read.optional(read.number),
    "error_covariance": read.optional(_matrix),
    "information": read.optional(_matrix),
    "weights": read.optional(read.dictionary_of(read.number)),
    "simulations": read.optional(read.dictionary_of(lambda value: value)),
    "data_sha256": read.optional(read.text),
    "versions": read.optional(read.dictionary_of(read.text)),
}
