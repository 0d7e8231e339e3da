"""Arrays read from .npy files, plain or in archives: what a file says of its size is checked before it is believed."""

import math
from pathlib import Path
from tokenize import TokenError
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

_MOST_AXES = 32
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# What arrays hold instead of numbers, by NumPy's code of their kind.
_OTHER_KINDS = {
    "O": "Python objects, which are never read, since that would run what the file says",
    "M": "dates: convert them to numbers first",
    "m": "spans of time: convert them to numbers first",
    "c": "complex numbers: save real and imaginary parts as separate data",
    "U": "texts instead of numbers",
    "S": "texts instead of numbers",
    "V": "records of several fields: save each as an array of numbers",
}


def read_npy_file(path: Path) -> np.ndarray:
    """Read an array of real numbers from a .npy file, or raise ValueError or OSError."""
    with path.open("rb") as file:
        return read_npy(file, path.stat().st_size)


def read_npy(file: BinaryIO, size: int, *, kinds: str = "biuf") -> np.ndarray:
    """Read an array from an open file of ``size`` bytes, or raise ValueError; nothing is made before sizes agree."""
    shape, in_columns, dtype = _header(file)
    if dtype.kind not in kinds:
        raise ValueError(f"it holds {_OTHER_KINDS.get(dtype.kind, f'values of type {dtype}')}")
    if len(shape) > _MOST_AXES or any(length < 0 for length in shape):
        raise ValueError("it claims an impossible shape")
    num_bytes, left = math.prod(shape) * dtype.itemsize, size - file.tell()
    if num_bytes != left:
        raise ValueError(f"it claims the shape {_short(shape)}, of {num_bytes:,} bytes, and has {left:,}")
    content = file.read(num_bytes)
    if len(content) != num_bytes:
        raise ValueError(f"it has {len(content):,} bytes of {num_bytes:,}")
    if dtype.kind == "U":
        content.decode(
            "utf-32-be" if dtype.byteorder == ">" else "utf-32-le"
        )  # NumPy does not look whether they can be
    # Bytes of the other order are turned to this machine's.
    array = np.frombuffer(content, dtype) if num_bytes else np.zeros(math.prod(shape), dtype)
    return array.astype(dtype.newbyteorder("="), copy=False).reshape(shape, order="F" if in_columns else "C")


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read what an array says of itself: NumPy takes it for Python's literals, and raises what those raise."""
    try:
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"it is a .npy file of version {version}, which arrays of numbers do not need")
        return _HEADERS[version](file)
    except (SyntaxError, TokenError, TypeError, KeyError, AttributeError, RecursionError, MemoryError) as error:
        raise ValueError(f"its header is damaged: {error}") from None


def _short(shape: tuple[int, ...]) -> str:
    text = str(shape)
    return text if len(text) <= 60 else text[:57] + "..."
