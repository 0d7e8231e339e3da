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
from typing import Any

_PLAIN = (int, float, complex, str, bytes, bool, tuple, type(None))
# What may change in a source without changing what it does. (Indents are kept.)
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER)


def file_digest(path: str) -> str | None:
    """Return a hash of a file of the user's own; interpreters and what the system brings may be updated."""
    system = path.startswith(("/usr/", "/bin/", "/opt/")) or os.path.realpath(path) == os.path.realpath(sys.executable)
    if system or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


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
