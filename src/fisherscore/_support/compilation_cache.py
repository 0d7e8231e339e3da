"""Compiled functions kept in a folder, so that the next process need not compile them again: JAX's own cache, tidied.

JAX bounds its cache only with another package (filelock), a lock taken at every look-up, and a list of times that one
killed process can break for all that come later. So it is told nothing of a bound: whoever uses the cache tidies the
folder when it begins and when it ends. Nothing is locked: files are only ever read, added or removed whole, and what
one process removes another compiles anew.
"""

import atexit
import contextlib
import functools
import hashlib
import importlib
import math
import os
import platform
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, FisherScoreWarning

_SWITCH = "FISHERSCORE_COMPILATION_CACHE"
_OFF, _ON = ("off", "0", "no", "false"), ("on", "1", "yes", "true")
_PREFIX = "jaxlib-"  # of the folders in which we may remove files
_ENTRY = "-cache"  # with which JAX ends the names of compiled functions
_STAMP = ".looked-through"
# A file this young may still be written by another process.
_SECONDS_OF_WRITING = 60.0
_ZSTANDARD = b"\x28\xb5\x2f\xfd"

# Folders this process has chosen; those to be tidied when it ends, and how many bytes each may hold.
_chosen: set[str] = set()
_tidied_at_exit: dict[Path, int] = {}


def use_compilation_cache(path: str | Path | None = None, *, max_gigabytes: float = 1.0) -> Path | None:
    """Keep compiled functions in a folder, so that the next process need not compile them again.

    Most of the time of a first fit and a first posterior is compilation. Call this once, before anything is computed;
    the command line does so by itself. Processes may share a folder, at the same time and on machines of different
    kinds: each kind of processor and each version of jaxlib has a folder of its own in it. What is in there is run, so
    nobody else should be able to write to it.

    Args:
        path: The folder; by default ``fisherscore`` in the user's cache folder. Where JAX was given one already, by
            the environment variable ``JAX_COMPILATION_CACHE_DIR`` for one, that is used as it is and never tidied. The
            environment variable ``FISHERSCORE_COMPILATION_CACHE`` names another default, or is ``off``: then nothing is
            kept, whatever is passed here.
        max_gigabytes: What the folder may hold when this process begins and ends. What was not used for longest goes
            first.

    Returns:
        Where compiled functions are kept, or None where nothing is: a folder that cannot be used is no error, but a
        warning.

    >>> import fisherscore as fs
    >>> folder = fs.use_compilation_cache()
    >>> folder is None or folder.is_absolute()
    True
    """
    settings = _settings()
    if not (isinstance(max_gigabytes, int | float) and 0 < max_gigabytes < math.inf):
        raise ArgumentError(f"max_gigabytes: expected a number above 0, got {max_gigabytes!r}.")
    switch = os.environ.get(_SWITCH, "").strip()
    if switch.lower() in _OFF:
        return None
    switch = "" if switch.lower() in _ON else switch
    if path is None and not switch and _is_the_users(settings.jax_compilation_cache_dir):
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            settings.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        return Path(settings.jax_compilation_cache_dir)
    try:
        root = Path(path or switch or _user_folder()).expanduser().absolute()
        folder = root / _kind_of_machine()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        list(folder.iterdir())
    except (OSError, RuntimeError) as error:  # no home, no right to write, or a file in the place of a folder
        _warn(f"Compiled functions are not kept: {error}. Pass a folder that can be written.")
        return None
    writable = _is_writable(folder)
    if writable:
        _tidy_now_and_at_exit(root, int(max_gigabytes * 1e9))
    else:
        _warn(f"{folder} cannot be written: compiled functions that are there are used, and no more are kept.")
    use_folder(folder, writable=writable)
    return folder


def use_folder(folder: Path, *, writable: bool = True) -> None:
    """Let JAX keep compiled functions in a folder, or only read those that are there."""
    from jax.experimental.compilation_cache import compilation_cache

    settings = _settings()
    if settings.jax_compilation_cache_dir not in (None, str(folder)):
        compilation_cache.reset_cache()  # or JAX would go on with the folder it has opened
    _chosen.add(str(folder))
    settings.update("jax_compilation_cache_dir", str(folder))
    # Even the smallest is read several times quicker than it is compiled. What takes for ever is never written.
    settings.update("jax_persistent_cache_min_compile_time_secs", 0.0 if writable else 1e9)


def folder_in_use() -> Path | None:
    """Return the folder this process keeps compiled functions in, where :func:`use_compilation_cache` chose it."""
    folder = _settings().jax_compilation_cache_dir if "jax" in sys.modules else None
    return None if not folder or _is_the_users(folder) else Path(folder)


def _settings() -> Any:
    """Return JAX's settings. JAX is imported only here: worker processes that do without it import this file too."""
    import jax

    return jax.config


def _is_the_users(folder: str | None) -> bool:
    """Say whether somebody else has told JAX where to keep compiled functions."""
    return bool(folder) and folder not in _chosen


def _user_folder() -> Path:
    """Return the folder for what programs may lose: by the rules of the system, which differ."""
    if sys.platform == "win32":
        base: str | Path = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        given = os.environ.get("XDG_CACHE_HOME", "")
        base = given if os.path.isabs(given) else Path.home() / ".cache"  # the standard: ignore relative ones
    return Path(base) / "fisherscore" / "compiled"


@functools.cache
def _kind_of_machine() -> str:
    """Name the version of the compiler and the processor, down to its instructions: code made for more would crash."""
    try:
        with open("/proc/cpuinfo") as file:
            first = file.read().split("\n\n")[0].splitlines()
        told = ("vendor_id", "model name", "flags", "Features", "CPU implementer", "CPU part", "cpu", "isa")
        processor = [line for line in first if line.split(":")[0].strip() in told]
    except OSError:  # not Linux: what the processor can do is not told, so a machine is of its own kind
        processor = [platform.processor(), platform.node()]
    try:
        compiler = version("jaxlib")
    except PackageNotFoundError:
        compiler = "unknown"
    digest = hashlib.sha256("\n".join(processor).encode()).hexdigest()[:12]
    return f"{_PREFIX}{compiler}-{platform.machine()}-{digest}"


def _is_writable(folder: Path) -> bool:
    """Say whether a file can be made in a folder; permissions alone do not tell on every file system."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".try-"):
            return True
    except OSError:
        return False


def _tidy_now_and_at_exit(root: Path, max_bytes: int) -> None:
    """Tidy a folder now, and again when this process has added what it compiles."""
    if not _tidied_at_exit:
        atexit.register(_tidy_all)
    _tidied_at_exit[root] = max_bytes
    tidy(root, max_bytes)


def _tidy_all() -> None:
    for root, max_bytes in _tidied_at_exit.items():
        tidy(root, max_bytes)


def tidy(root: Path, max_bytes: int) -> None:
    """Remove entries that were not written to their end, then those not used for longest, until the rest fits."""
    with contextlib.suppress(OSError):  # others may tidy at the same time, or the folder may be gone
        now = time.time()
        files = dict(_files(root))
        looked = _last_look(root)
        for path, status in list(files.items()):
            recent, finished = status.st_mtime > looked, now - status.st_mtime > _SECONDS_OF_WRITING
            if recent and finished and path.name.endswith(_ENTRY) and not _is_whole(path):
                _remove(path)
                del files[path]
        _set_last_look(root, now - _SECONDS_OF_WRITING)
        size = sum(status.st_size for status in files.values())
        # File systems note when a file was read at most daily, some never: then those written first go first.
        for path in sorted(files, key=lambda p: max(files[p].st_atime, files[p].st_mtime)):
            if size <= max_bytes:
                return
            _remove(path)
            size -= files[path].st_size


def _files(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files of all kinds of machines with their sizes and times."""
    for folder in root.glob(f"{_PREFIX}*"):
        for path in folder.rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file() and not path.is_symlink():
                    yield path, path.stat()


def _last_look(root: Path) -> float:
    try:
        return (root / _STAMP).stat().st_mtime
    except OSError:
        return 0.0


def _set_last_look(root: Path, when: float) -> None:
    (root / _STAMP).touch()
    os.utime(root / _STAMP, (when, when))


def _is_whole(path: Path) -> bool:
    """Say whether a compiled function can be unpacked; what a killed process wrote half of would stay for ever."""
    data = path.read_bytes()
    try:
        _zstandard().decompress(data) if data.startswith(_ZSTANDARD) else zlib.decompress(data)
    except ImportError:
        return True
    except Exception:  # noqa: BLE001  each of the packages has its own error
        return False
    return True


def _zstandard() -> Any:
    """Find the package JAX uses where there is one."""
    try:
        return importlib.import_module("compression.zstd")
    except ImportError:
        return importlib.import_module("zstandard")


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _warn(message: str) -> None:
    warnings.warn(message, FisherScoreWarning, stacklevel=3)
