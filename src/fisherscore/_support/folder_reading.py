"""Read folders that :mod:`fisherscore._support.folder` wrote: sizes are checked first, then checksums and contents."""

import hashlib
import math
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from ..errors import ModelFolderError
from .documents import agrees, parse
from .folder import ARRAYS_HASH, LARGEST_JSON, FolderKind

# What a folder holds and how it is read, by the document in it.
_KINDS = {
    "model.json": ("a score model", "read it with fisherscore.load"),
    "posterior.json": ("a posterior", "read it with fisherscore.Posterior.load"),
    "forecast.json": ("a forecast", "read it with fisherscore.Forecast.load"),
    "checkpoint.json": ("the checkpoint of a fit", "pass it to fisherscore.fit as checkpoint to go on"),
}
_REMEDY = "Restore the folder from a copy, or delete it and make it anew."
_ATTEMPTS = 5

Shapes = Mapping[str, tuple[tuple[int, ...], Any]]
_Value = TypeVar("_Value")


def read_whole(folder: Path, kind: FolderKind, read: Callable[[], _Value]) -> _Value:
    """Call a function that reads a folder; once more if the folder was replaced meanwhile."""
    for _ in range(_ATTEMPTS):
        before = _raw(folder / kind.document)
        try:
            return read()
        except ModelFolderError:
            if _raw(folder / kind.document) == before:
                raise
    return read()


def _raw(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size <= LARGEST_JSON else None
    except OSError:
        return None


def read_document(folder: Path, kind: FolderKind) -> dict[str, Any]:
    """Read the document of a folder; its schema, version and checksum are checked."""
    path = folder / kind.document
    document = read_json(path, kind.schema, tuple(v for v in (kind.unchecked, kind.version) if v is not None))
    if document["version"] == kind.unchecked:
        if "checksum" in document or ARRAYS_HASH in document:
            raise ModelFolderError(f"{path} says that it is of version {kind.unchecked}, which it is not. {_REMEDY}")
    elif not agrees(document):
        raise ModelFolderError(f"{path} does not agree with its checksum: it has been changed or damaged. {_REMEDY}")
    return document


def read_json(path: Path, schema: str, versions: tuple[int, ...]) -> dict[str, Any]:
    """Read a JSON document and check that it is of the named schema and of a version that is understood."""
    plain_file(path)
    if path.stat().st_size > LARGEST_JSON:
        raise ModelFolderError(f"{path} has {path.stat().st_size} bytes; a settings file of fisherscore is small.")
    try:
        document = parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{path} is not a JSON document ({error}). Is the folder damaged? {_REMEDY}") from None
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise ModelFolderError(f"{path} was not written by fisherscore as {schema!r}.")
    version = document.get("version")
    if isinstance(version, bool) or version not in versions:
        raise ModelFolderError(
            f"{path} has format version {str(version)[:20]}; this fisherscore reads version "
            f"{' and '.join(map(str, versions))}. Use the version of fisherscore that wrote it."
        )
    return document


def arrays_path(folder: Path, kind: FolderKind, document: Mapping[str, Any]) -> Path:
    """Return the file of arrays that a document names; it must be there."""
    if document["version"] == kind.unchecked:
        name = kind.unchecked_arrays
    else:
        name = kind.arrays_file(str(document.get(ARRAYS_HASH)))
    if kind.hash_in(name) is None and name != kind.unchecked_arrays:
        raise ModelFolderError(f"{folder / kind.document}: {ARRAYS_HASH!r} is missing or damaged. {_REMEDY}")
    plain_file(folder / name)
    return folder / name


def read_arrays(
    folder: Path, kind: FolderKind, document: Mapping[str, Any], expected: Shapes, *, finite: bool = True
) -> dict[str, np.ndarray]:
    """Read the arrays beside a document: their size, hash, names, shapes, types and finiteness are checked."""
    path = arrays_path(folder, kind, document)
    try:
        content = _content(path, expected)
    except OSError as error:
        raise ModelFolderError(f"{path} cannot be read: {error.strerror or error}. {_REMEDY}") from None
    if ARRAYS_HASH in document and hashlib.sha256(content).hexdigest() != document[ARRAYS_HASH]:
        raise ModelFolderError(f"{path} does not agree with its checksum: it has been changed or damaged. {_REMEDY}")
    try:
        arrays = load(content)
    except (SafetensorError, ValueError, OverflowError, KeyError, TypeError) as error:
        raise ModelFolderError(f"{path} is not a safetensors file ({error}). Is it damaged? {_REMEDY}") from None
    _check(path, arrays, expected, finite)
    return arrays


def _content(path: Path, expected: Shapes) -> bytes:
    """Read a file whose size is that of the arrays expected and a header."""
    total = sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in expected.values())
    size = path.stat().st_size
    # The header says how long it is in the first 8 bytes: it must be just what is left, and not long.
    if 8 + total <= size <= 8 + total + 4096 + 512 * len(expected):
        content = path.read_bytes()
        if len(content) >= 8 and struct.unpack("<Q", content[:8])[0] == len(content) - 8 - total:
            return content
    raise ModelFolderError(
        f"{path} is not a safetensors file of the {len(expected)} arrays that the settings beside it call for: it has "
        f"{size:,} bytes, the arrays {total:,}. Is it damaged? {_REMEDY}"
    )


def _check(path: Path, arrays: Mapping[str, np.ndarray], expected: Shapes, finite: bool) -> None:
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


def plain_file(path: Path) -> None:
    """Refuse a file that is not there, or is a link or a device."""
    try:
        is_folder, is_file = path.parent.is_dir(), path.is_file() and not path.is_symlink()
    except OSError as error:
        raise ModelFolderError(f"path: {path.parent} cannot be read: {error.strerror or error}.") from None
    if not is_folder:
        raise ModelFolderError(f"path: expected a folder written by fisherscore, but {path.parent} is no folder.")
    if not is_file:
        kinds = [f" The folder holds {what}: {how}." for name, (what, how) in _KINDS.items() if _is_other(path, name)]
        raise ModelFolderError(f"path: expected the file {path.name} in {path.parent}; there is none.{''.join(kinds)}")


def _is_other(path: Path, name: str) -> bool:
    """Say whether a folder has the named document in place of a document that is missing there."""
    return path.name in _KINDS and path.name != name and path.with_name(name).is_file()
