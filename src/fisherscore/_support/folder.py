"""Write and read folders of plain data: JSON for settings, safetensors for arrays. Nothing is ever unpickled.

A folder is written beside its place and moved there when complete, so that a kill leaves the old one or the new one.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from ..errors import ArgumentError, ModelFolderError

# No settings file of ours comes near this; a larger one is refused before it is read.
_LARGEST_JSON = 16 * 2**20
# What a folder holds and how it is read, by the document in it.
_KINDS = {
    "model.json": ("a score model", "read it with fisherscore.load"),
    "posterior.json": ("a posterior", "read it with fisherscore.Posterior.load"),
    "forecast.json": ("a forecast", "read it with fisherscore.Forecast.load"),
    "checkpoint.json": ("the checkpoint of a fit", "pass it to fisherscore.fit as checkpoint to go on"),
}


def as_folder(path: Any) -> Path:
    """Return the path of a folder, which need not exist."""
    if not isinstance(path, str | Path) or "\0" in str(path):
        raise ArgumentError(f"path: expected a folder as text or Path, got {path!r}.")
    return Path(path)


def write_folder(
    path: str | Path, documents: Mapping[str, Any], arrays: Mapping[str, Mapping[str, np.ndarray]]
) -> None:
    """Write JSON ``documents`` and safetensors ``arrays`` by file name, replacing a folder of the same files.

    A folder that holds anything else is left alone, and so are links and the current folder.
    """
    target = as_folder(path)
    try:
        _refuse_others(target, {*documents, *arrays}, " and ".join(documents))
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise ModelFolderError(
            f"path: {target} cannot be written: {error.strerror or error}. Choose another folder, inside one that can "
            "be written to."
        ) from None
    try:
        for name, document in documents.items():
            (fresh / name).write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
        for name, group in arrays.items():
            save_file({k: np.asarray(v, order="C") for k, v in group.items()}, fresh / name)
        fresh.chmod(0o755)
        _move_to(target, fresh)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _move_to(target: Path, fresh: Path) -> None:
    """Put a complete folder in its place; one that is there is moved away first and deleted last."""
    if not target.exists():
        os.replace(fresh, target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
    try:
        os.replace(target, old / "was")
        try:
            os.replace(fresh, target)
        except OSError:
            os.replace(old / "was", target)
            raise
    except OSError as error:
        with contextlib.suppress(OSError):
            old.rmdir()  # empty, unless the folder could not be put back: then it is kept there
        raise ModelFolderError(
            f"path: {target} cannot be replaced: {error.strerror or error}. Choose another folder."
        ) from None
    shutil.rmtree(old, ignore_errors=True)


def _refuse_others(target: Path, names: set[str], documents: str) -> None:
    """Refuse a place where a folder of the named files would take that of something else."""
    if target.is_symlink():
        raise ModelFolderError(
            f"path: {target} is a link to {target.readlink()}, so it is left alone. Save to the folder that it points "
            "to, or choose another."
        )
    if target.resolve() == Path.cwd():
        raise ModelFolderError(
            f"path: {target.absolute()} is the current folder, which cannot be replaced. Give a folder inside it, for "
            f"instance {str(target / 'result')!r}."
        )
    if target.exists() and not _holds_only(target, names):
        raise ModelFolderError(
            f"path: {target} exists and holds something other than {documents}, so it is left alone. "
            "Choose another folder."
        )


def _holds_only(path: Path, names: set[str]) -> bool:
    """Say whether a path is a folder with no other files than those named, so that nothing is lost with it."""
    return path.is_dir() and all(entry.name in names and entry.is_file() for entry in path.iterdir())


def read_json(path: Path, schema: str, version: int) -> dict[str, Any]:
    """Read a JSON document and check that it is of the named schema and of a version that is understood."""
    _plain_file(path)
    if path.stat().st_size > _LARGEST_JSON:
        raise ModelFolderError(f"{path} has {path.stat().st_size} bytes; a settings file of fisherscore is small.")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ModelFolderError(f"{path} is not a JSON document ({error}). Is the folder damaged?") from None
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise ModelFolderError(f"{path} was not written by fisherscore as {schema!r}.")
    if document.get("version") != version:
        raise ModelFolderError(
            f"{path} has format version {document.get('version')!r}; this fisherscore reads version {version}. "
            "Use the version of fisherscore that wrote it."
        )
    return document


def read_arrays(
    path: Path, expected: Mapping[str, tuple[tuple[int, ...], Any]], *, finite: bool = True
) -> dict[str, np.ndarray]:
    """Read safetensors and check names, shapes, types and (unless told otherwise) finiteness."""
    _plain_file(path)
    try:
        arrays = load_file(path)
    except (SafetensorError, ValueError, OverflowError) as error:
        raise ModelFolderError(f"{path} is not a safetensors file ({error}). Is the folder damaged?") from None
    if arrays.keys() != expected.keys():
        raise ModelFolderError(
            f"{path} holds {len(arrays)} arrays, not the {len(expected)} the settings beside it call for."
        )
    for name, (shape, dtype) in expected.items():
        if arrays[name].shape != shape or arrays[name].dtype != dtype:
            raise ModelFolderError(
                f"{path}: array {name!r} has shape {arrays[name].shape} and type {arrays[name].dtype}, expected "
                f"{shape} and {np.dtype(dtype)}."
            )
        if finite and not np.isfinite(arrays[name]).all():
            raise ModelFolderError(f"{path}: array {name!r} holds NaN or infinite values.")
    return arrays


def _plain_file(path: Path) -> None:
    if not path.parent.is_dir():
        raise ModelFolderError(f"path: expected a folder written by fisherscore, but {path.parent} is no folder.")
    if path.is_symlink() or not path.is_file():
        kinds = [f" The folder holds {what}: {how}." for name, (what, how) in _KINDS.items() if _is_other(path, name)]
        raise ModelFolderError(f"path: expected the file {path.name} in {path.parent}; there is none.{''.join(kinds)}")


def _is_other(path: Path, name: str) -> bool:
    """Say whether a folder has the named document in place of a document that is missing there."""
    return path.name in _KINDS and path.name != name and path.with_name(name).is_file()
