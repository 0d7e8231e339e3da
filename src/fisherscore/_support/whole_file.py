"""Files that are written whole or not at all: beside their place under another name, and renamed when complete."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}\.unfinished")


@contextlib.contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Give another name to write to; when all is well the file takes its place, else nothing is left of it.

    It is on the disk before it takes its place, so that a machine that stops leaves the old file or the new one.
    """
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.unfinished")
    try:
        yield partial
        _synchronise(partial)
        os.replace(partial, target)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # not every file system can do it with folders
        _synchronise(target.parent)


def write_whole(target: Path, content: bytes | str) -> None:
    """Write bytes, or text, to a file; or leave what is there."""
    with whole_file(target) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def _synchronise(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
