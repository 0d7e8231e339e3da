"""By what a campaign knows that it goes on with the same simulator: hashes of sources and of programs."""

import contextlib
import functools
import hashlib
import inspect
import io
import os
import sys
import textwrap
import tokenize
from collections.abc import Sequence
from typing import Any

from ..errors import SimulationError

_PLAIN = (int, float, complex, str, bytes, bool, tuple, type(None))
# What may change in a source without changing what it does. (Indents are kept.)
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER)


def file_digest(path: str) -> str | None:
    """Return a hash of a file of the user's own; interpreters and what the system brings may be updated."""
    system = path.startswith(("/usr/", "/bin/", "/opt/")) or os.path.realpath(path) == os.path.realpath(sys.executable)
    return None if system or not os.path.isfile(path) else any_file_digest(path)


def any_file_digest(path: str) -> str:
    """Return a hash of a file, whosever it is."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        raise SimulationError(f"arguments: the file {path} cannot be read ({error.strerror}).") from None


def current_identity(identity: dict[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """Return the identity of a program with hashes of its files as they are now, not as they were when it was named."""
    files = {word: file_digest(path) for word, path in zip(identity["arguments"], paths, strict=True)}
    return identity | {"files": files}


def source_digest(function: Any) -> str | None:
    """Return a hash of a function's source, without comments and blanks; None where there is no source.

    What a partial function or a closure holds counts where it is a plain value.
    """
    if isinstance(function, functools.partial):
        held = repr([v if isinstance(v, _PLAIN) else type(v) for v in (*function.args, *function.keywords.items())])
        return hashlib.sha256(f"{source_digest(function.func)}{held}".encode()).hexdigest()[:16]
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return None
    with contextlib.suppress(tokenize.TokenError, IndentationError):  # a lambda amid a call: its lines as they are
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        source = "\n".join(t.string for t in tokens if t.type not in _LAYOUT)
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # a cell that is not filled yet
            source += repr(cell.cell_contents) if isinstance(cell.cell_contents, _PLAIN) else ""
    return hashlib.sha256(source.encode()).hexdigest()[:16]
