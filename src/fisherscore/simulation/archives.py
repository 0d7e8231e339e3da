"""Arrays and one text from .npz and HDF5 files of anybody's making: sizes first, then types; nothing outside the file.

Only the members asked for are read. What is wrong with a file is raised as one of ``UNREADABLE``.
"""

import hashlib
import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._support.npy import read_npy
from ..errors import MissingExtraError

# All that readers of damaged files raise; a ValueError here is ours, or NumPy's.
UNREADABLE = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    EOFError,
    RuntimeError,
    OverflowError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
)
ABOUT = "about"
_LARGEST_ABOUT = 256 * 2**20
# Compressed arrays may expand to so many bytes, or by such a factor if they are larger.
_LARGEST_EXPANSION, _LARGEST_FACTOR = 100 * 2**20, 50
_LARGEST_DIRECTORY = 2**20
# HDF5 files have a block in front that the format leaves to its users: here it holds the hash of all that follows.
USER_BLOCK = 512
_SEAL = b"fisherscore export, sha256 of what follows this block: "
# HDF5's codes of filters that are part of every build: deflate, shuffle, checksum, szip, n-bit, scale and offset, LZF.
_KNOWN_FILTERS = (1, 2, 3, 4, 5, 6, 32000)


def read_archive(path: Path, names: Sequence[str], texts: Sequence[str] = ()) -> tuple[dict[str, np.ndarray], Any]:
    """Read the arrays that are there of those named, ``texts`` among them as bytes; and the text ``about`` or None."""
    if path.suffix == ".npz":
        return _read_npz(path, {name: "S" if name in texts else "biuf" for name in names})
    return _read_hdf5(path, {name: "S" if name in texts else "biuf" for name in names})


def write_npz(path: Path, arrays: Mapping[str, np.ndarray], about: str) -> None:
    """Write arrays and a text to a .npz file."""
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays, about=np.array(about))


def write_hdf5(path: Path, arrays: Mapping[str, np.ndarray], about: str) -> None:
    """Write arrays and a text to an HDF5 file, and in front of it the hash of all it holds."""
    with h5py_module().File(path, "w", userblock_size=USER_BLOCK) as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
        file.attrs[ABOUT] = about
    with path.open("r+b") as file:
        block = _SEAL + _hash_behind_block(file).encode()
        file.seek(0)
        file.write(block)


def h5py_module() -> Any:
    """Return h5py, or say how to install it."""
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("HDF5 files need h5py: pip install 'fisherscore[hdf5]'") from None
    return h5py


# ---------------------------------------------------------------------- .npz


def _read_npz(path: Path, kinds: Mapping[str, str]) -> tuple[dict[str, np.ndarray], str | None]:
    _refuse_large_directory(path)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        by_name = {member.filename: member for member in members}
        if len(by_name) != len(members):
            raise ValueError("it holds two members of the same name")
        wanted = [name for name in (*kinds, ABOUT) if f"{name}.npy" in by_name]
        _check_sizes([by_name[f"{name}.npy"] for name in wanted], path.stat().st_size)
        arrays = {name: _member(archive, by_name[f"{name}.npy"], kinds.get(name, "U")) for name in wanted}
    about = arrays.pop(ABOUT, None)
    if about is not None and about.shape != ():
        raise ValueError(f"{ABOUT!r} is no single text")
    return arrays, None if about is None else str(about)


def _refuse_large_directory(path: Path) -> None:
    """Refuse an archive of absurdly many members before they are listed."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 2**16 - 22))
        end = file.read()
    place = end.rfind(b"PK\x05\x06")
    if place < 0 or len(end) < place + 22:
        raise ValueError("it is no archive, or its end is missing")
    if 0xFFFFFFFF > struct.unpack_from("<L", end, place + 12)[0] > _LARGEST_DIRECTORY:
        raise ValueError("it lists far too many members")


def _check_sizes(members: Sequence[zipfile.ZipInfo], size: int) -> None:
    expanded = sum(m.file_size for m in members)
    compressed = sum(m.compress_size for m in members)
    if compressed > size:
        raise ValueError(f"its members claim {compressed:,} bytes, it has {size:,}")
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{member.filename} is compressed in a way that .npz files never are")
        if member.compress_type == zipfile.ZIP_STORED and member.file_size != member.compress_size:
            raise ValueError(f"{member.filename} has two sizes")
    if expanded > max(_LARGEST_EXPANSION, _LARGEST_FACTOR * compressed):
        raise ValueError(f"{compressed:,} bytes claim to expand to {expanded:,}; write it without compression")


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, kinds: str) -> np.ndarray:
    with archive.open(member) as file:
        try:
            array = read_npy(file, member.file_size, kinds=kinds)  # type: ignore[arg-type]
        except ValueError as error:
            raise ValueError(f"{member.filename}: {error}") from None
        file.read(1)  # at its end the checksum of the archive is compared
    if kinds == "U" and array.nbytes > _LARGEST_ABOUT:
        raise ValueError(f"{member.filename} is too large")
    return array


# ---------------------------------------------------------------------- HDF5


def _read_hdf5(path: Path, kinds: Mapping[str, str]) -> tuple[dict[str, np.ndarray], str | None]:
    h5py = h5py_module()
    sealed = _check_seal(path)
    with h5py.File(path, "r") as file:
        arrays = {name: array for name in kinds if (array := _dataset(h5py, file, name, kinds[name])) is not None}
        about = _about(h5py, file)
    if about is not None and '"checksum"' in about and not sealed:
        raise ValueError("the block in front of it is damaged")
    return arrays, about


def _check_seal(path: Path) -> bool:
    """Say whether a file begins with its own hash; a wrong one is refused before HDF5's library sees the file."""
    with path.open("rb") as file:
        block = file.read(USER_BLOCK)
        if not block.startswith(_SEAL):
            return False
        if block[len(_SEAL) :].rstrip(b"\0") != _hash_behind_block(file).encode():
            raise ValueError("it does not agree with its checksum: it has been changed or damaged")
    return True


def _hash_behind_block(file: io.BufferedIOBase) -> str:
    digest = hashlib.sha256()
    file.seek(USER_BLOCK)
    while part := file.read(2**20):
        digest.update(part)
    return digest.hexdigest()


def _dataset(h5py: Any, file: Any, name: str, kinds: str) -> np.ndarray | None:
    """Read one dataset that lies in the file itself; None where there is none."""
    if not file.id.links.exists(name.encode()):
        return None
    if file.get(name, getclass=True, getlink=True) is not h5py.HardLink:
        raise ValueError(f"{name} is a link, perhaps to another file; links are never followed")
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset):
        raise ValueError(f"{name} is no dataset")
    if dataset.is_virtual or dataset.external:
        raise ValueError(f"{name} lies in another file; only what is in the file itself is read")
    if dataset.dtype.kind not in kinds or dataset.shape is None:
        raise ValueError(f"{name} holds {dataset.dtype} instead of {'texts' if kinds == 'S' else 'numbers'}")
    _check_storage(dataset, name, os.path.getsize(file.filename))
    return np.asarray(dataset[()])


def _check_storage(dataset: Any, name: str, size: int) -> None:
    """Compare what a dataset claims with what is stored."""
    settings = dataset.id.get_create_plist()
    filters = [settings.get_filter(i)[0] for i in range(settings.get_nfilters())]
    if not set(filters) <= set(_KNOWN_FILTERS):
        raise ValueError(f"{name} is compressed in a way that is not known here; write it without compression")
    claimed, stored = math.prod(dataset.shape) * dataset.dtype.itemsize, dataset.id.get_storage_size()
    chunk = math.prod(dataset.chunks or (0,)) * dataset.dtype.itemsize
    if stored > size or (stored < claimed and not filters):
        raise ValueError(f"{name} claims {claimed:,} bytes and has {min(stored, size):,}")
    if max(claimed, chunk) > max(_LARGEST_EXPANSION, _LARGEST_FACTOR * stored):
        raise ValueError(f"{name}: {stored:,} bytes claim to expand to {claimed:,}; write it without compression")


def _about(h5py: Any, file: Any) -> str | None:
    if ABOUT not in file.attrs:
        return None
    attribute = h5py.h5a.open(file.id, ABOUT.encode())
    if attribute.get_space().get_simple_extent_npoints() != 1 or attribute.get_type().get_class() != h5py.h5t.STRING:
        raise ValueError(f"{ABOUT!r} is no single text")
    about = file.attrs[ABOUT]
    return about.decode() if isinstance(about, bytes) else str(about)
