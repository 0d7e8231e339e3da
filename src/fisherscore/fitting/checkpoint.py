"""The state of a training kept in a folder, so that a fit that was stopped goes on where it was.

A checkpoint names the fit it belongs to (its settings, data and key) and refuses to be read by another.
"""

import hashlib
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._support.fields import count
from .._support.folder import FolderKind, write_folder
from .._support.folder_reading import read_arrays, read_document, read_whole
from ..errors import ModelFolderError

_KIND = FolderKind(schema="fisherscore-checkpoint", version=3, document="checkpoint.json", arrays="state")


class State(eqx.Module):
    """What changes from step to step; a checkpoint is this and the losses. All parameters stand in one vector."""

    parameters: Any  # these are arrays, on the device or on the host
    first_moment: Any
    second_moment: Any
    step: Any
    epoch: Any
    best_parameters: Any
    best_loss: Any
    best_epoch: Any

    @classmethod
    def first(cls, parameters: np.ndarray) -> "State":
        """Start before the first epoch; one state, or several as rows of ``parameters``."""
        each = parameters.shape[:-1]
        return cls(
            parameters=parameters,
            first_moment=np.zeros_like(parameters),
            second_moment=np.zeros_like(parameters),
            step=np.zeros(each, np.int32),
            epoch=np.zeros(each, np.int32),
            best_parameters=parameters,
            best_loss=np.full(each, np.inf, np.float32),
            best_epoch=np.zeros(each, np.int32),
        )


class Checkpoint:
    """Keeps the state of a fit in a folder, and refuses to go on from that of a different fit."""

    def __init__(self, path: str | Path, settings: Any, data: tuple[np.ndarray, ...], key: np.ndarray):
        self.path = Path(path)
        self.last_write = time.perf_counter()
        digest = hashlib.sha256()
        for array in data:
            digest.update(np.ascontiguousarray(array).tobytes())
        self.identity = {
            "settings": asdict(settings),
            "data": digest.hexdigest(),
            "key": key.tolist(),
        }

    def exists(self) -> bool:
        """Whether there is something to go on from."""
        try:
            return (self.path / _KIND.document).exists()
        except OSError as error:
            raise ModelFolderError(f"checkpoint: {self.path} cannot be read: {error.strerror or error}.") from None

    def write_sometimes(self, state: State, losses: list[np.ndarray], every_seconds: float = 10.0) -> None:
        """Write unless that was done a moment ago."""
        if time.perf_counter() - self.last_write >= every_seconds:
            self.write(state, losses)

    def write(self, state: State, losses: list[np.ndarray]) -> None:
        """Write the state and the losses of every chunk of epochs so far."""
        arrays = {f"{i:04d}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        fields = {"identity": self.identity, "num_epochs_done": sum(map(len, losses))}
        write_folder(self.path, _KIND, fields, arrays | {"losses": np.concatenate(losses)})
        self.last_write = time.perf_counter()

    def read(self, like: State) -> tuple[State, np.ndarray]:
        """Read a state of the same shapes, and the losses so far."""
        return read_whole(self.path, _KIND, lambda: self._read(like))

    def _read(self, like: State) -> tuple[State, np.ndarray]:
        document = read_document(self.path, _KIND)
        stored = document.get("identity")
        if stored != self.identity:
            raise ModelFolderError(
                f"checkpoint: {self.path} belongs to another fit: {_difference(stored, self.identity)}. "
                "Give the same simulations, settings and seed, or another folder."
            )
        leaves, structure = jax.tree.flatten(like)
        expected: dict[str, Any] = {f"{i:04d}": (leaf.shape, leaf.dtype) for i, leaf in enumerate(leaves)}
        try:
            expected["losses"] = ((count(document.get("num_epochs_done")), 2), np.float64)
        except TypeError:
            raise ModelFolderError(f"{self.path}: 'num_epochs_done' is missing or damaged.") from None
        # Losses that were never measured are stored as NaN, and a best loss before the first epoch as infinity.
        arrays = read_arrays(self.path, _KIND, document, expected, finite=False)
        history = arrays.pop("losses")
        return jax.tree.unflatten(structure, [arrays[k] for k in sorted(arrays)]), history


def _difference(stored: Any, wanted: dict[str, Any]) -> str:
    """Say in what two fits differ."""
    if not isinstance(stored, dict) or not isinstance(stored.get("settings"), dict):
        return "its settings cannot be read"
    changed = [
        f"{k} was {stored['settings'].get(k)!r}, is {v!r}"
        for k, v in wanted["settings"].items()
        if stored["settings"].get(k) != v
    ]
    if changed:
        return "; ".join(changed)
    return "the seed differs" if stored.get("key") != wanted["key"] else "the simulations differ"
