"""Write folders of plain data: one JSON document, and one file of arrays as safetensors. Nothing is ever pickled.

The file of arrays is called after its content, ``weights-<hash>.safetensors``, and the document, which names the hash,
is replaced last and in one step: a kill at any moment leaves the old result or the new one, at its place. Nothing is
deleted but files that are known to have been written here: by the document, by their hash or by their unfinished name.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..errors import ArgumentError, ModelFolderError
from .documents import parse, signed, written
from .whole_file import UNFINISHED, write_whole

# No document of ours comes near this; a larger one is refused before it is read.
LARGEST_JSON = 16 * 2**20
# The document's name for the hash of the file of arrays.
ARRAYS_HASH = "arrays_sha256"
_SECONDS_TO_WAIT = 10.0


@dataclass(frozen=True)
class FolderKind:
    """How one kind of result is kept.

    Attributes:
        schema: By which a document knows what it is.
        version: The version that is written.
        document: Name of the document.
        arrays: What the name of the file of arrays begins with.
        unchecked: The version that had no checksums, where there was one; its arrays have a fixed name.
        unchecked_marker: An array that is in each of its files.
        unchecked_others: What else that version wrote into the folder: documents by name, with their schema.
    """

    schema: str
    version: int
    document: str
    arrays: str
    unchecked: int | None = None
    unchecked_marker: str = ""
    unchecked_others: tuple[tuple[str, str], ...] = ()

    @property
    def unchecked_arrays(self) -> str:
        """Name of the file of arrays in the version that had no checksums."""
        return f"{self.arrays}.safetensors"

    def arrays_file(self, sha256: str) -> str:
        """Name of the file of arrays with a certain hash."""
        return f"{self.arrays}-{sha256[:16]}.safetensors"

    def hash_in(self, name: str) -> str | None:
        """Return the beginning of the hash that a file of arrays is called after; None for another file."""
        match = re.fullmatch(rf"{self.arrays}-([0-9a-f]{{16}})\.safetensors", name)
        return match and match[1]


def as_folder(path: Any, argument: str = "path") -> Path:
    """Return the path of a folder, which need not exist."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str) or "\0" in os.fspath(path):
        raise ArgumentError(f"{argument}: expected a folder as text or Path, got {path!r}.")
    return Path(path)


def write_folder(
    path: str | Path, kind: FolderKind, fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write a result of a kind, replacing one that is there. A folder that holds anything else is left alone."""
    target = as_folder(path)
    content = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    sha256 = hashlib.sha256(content).hexdigest()
    document = signed({"schema": kind.schema, "version": kind.version, **fields, ARRAYS_HASH: sha256})
    with _explained(target, "written"):
        _refuse_links(target)
        made = [folder for folder in (target, *target.parents) if not folder.exists()]
        target.mkdir(parents=True, exist_ok=True)
    try:
        with _locked(target):
            replaceable = _replaceable(target, kind)
            with _explained(target, "replaced" if replaceable else "written"):
                _write(target, kind, document, content)
                for entry in replaceable - {kind.document, kind.arrays_file(sha256)}:
                    (target / entry).unlink(missing_ok=True)
    except BaseException:
        with contextlib.suppress(OSError):
            for folder in made:
                folder.rmdir()  # empty, since nothing was written
        raise


def _write(target: Path, kind: FolderKind, document: dict[str, Any], content: bytes) -> None:
    arrays = target / kind.arrays_file(document[ARRAYS_HASH])
    was_there = arrays.exists()
    write_whole(arrays, content)
    try:
        write_whole(target / kind.document, written(document))
    except BaseException:
        if not was_there:
            arrays.unlink(missing_ok=True)
        raise


def _refuse_links(target: Path) -> None:
    if target.is_symlink():
        raise ModelFolderError(
            f"path: {target} is a link to {target.readlink()}, so it is left alone. Save to the folder that it points "
            "to, or choose another."
        )
    if target.resolve() == Path.cwd():
        raise ModelFolderError(
            f"path: {target.absolute()} is the current folder, which is left as it is. Give a folder inside it, for "
            f"instance {str(target / 'result')!r}."
        )


def _replaceable(target: Path, kind: FolderKind) -> set[str]:
    """Name the files of a folder that may be replaced; refuse a folder with any that was not written here."""
    document = _document_there(target, kind)
    known = set()
    if document is not None:
        known = {kind.document, kind.arrays_file(str(document.get(ARRAYS_HASH)))}
        if document.get("version") == kind.unchecked:
            known = {kind.document, kind.unchecked_arrays}
    for entry in target.iterdir():
        if not entry.is_file() or entry.is_symlink() or not (entry.name in known or _is_ours(entry, kind)):
            raise ModelFolderError(
                f"path: {target} exists and holds {entry.name}, which was not written by fisherscore as a part of "
                f"{kind.schema!r}, so it is left alone. Choose another folder."
            )
    return {entry.name for entry in target.iterdir()}


def _document_there(target: Path, kind: FolderKind) -> dict[str, Any] | None:
    """Return the document of a folder if there is one; refuse a file of that name which is something else."""
    path = target / kind.document
    if not path.exists() and not path.is_symlink():
        return None
    if not _is_document(path, kind.schema):
        raise ModelFolderError(
            f"path: {target} holds a {kind.document} that fisherscore did not write as {kind.schema!r}, or that is "
            "damaged, so it is left alone. Choose another folder."
        )
    return parse(path.read_text(encoding="utf-8"))


def _is_document(path: Path, schema: str) -> bool:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST_JSON:
            return False
        document = parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and document.get("schema") == schema


def _is_ours(entry: Path, kind: FolderKind) -> bool:
    """Say whether a file that no document names was written here: by a call that was killed, or an older version."""
    if UNFINISHED.fullmatch(entry.name):
        return True
    if any(entry.name == name and _is_document(entry, schema) for name, schema in kind.unchecked_others):
        return True
    if kind.unchecked is not None and entry.name == kind.unchecked_arrays:
        return _holds_array(entry, kind.unchecked_marker)
    named = kind.hash_in(entry.name)
    return named is not None and hashlib.sha256(entry.read_bytes()).hexdigest().startswith(named)


def _holds_array(path: Path, name: str) -> bool:
    try:
        with safe_open(path, "numpy") as file:
            return name in file.keys()  # noqa: SIM118  it is no mapping
    except (SafetensorError, OSError, ValueError):
        return False


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Let one process at a time write to a folder; its death releases the lock."""
    with _explained(target, "written"):
        handle = os.open(target, os.O_RDONLY)
    try:
        deadline = time.monotonic() + _SECONDS_TO_WAIT
        while not _try_to_lock(handle):
            if time.monotonic() > deadline:
                raise ModelFolderError(f"path: another process is writing to {target}. Wait for it, and save again.")
            time.sleep(0.02)
        yield
    finally:
        os.close(handle)


def _try_to_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks: then nothing keeps two writers apart, but each file is still whole
    return True


@contextlib.contextmanager
def _explained(target: Path, action: str) -> Iterator[None]:
    """Turn errors of the file system into ones that say what to do."""
    try:
        yield
    except OSError as error:
        raise ModelFolderError(
            f"path: {target} cannot be {action}: {error.strerror or error}. Choose another folder, inside one that can "
            "be written to."
        ) from None
