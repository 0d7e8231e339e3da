"""JSON documents that carry their own checksum. Read with bounds on depth, digits and the number of lists."""

import hashlib
import json
import math
from typing import Any, NoReturn

# A list costs 60 bytes of memory for 3 of text; so many are more than any document of ours holds.
_MOST_BRACKETS = 500_000
# Seeds have 20 digits. Python itself refuses more than 4,300, with an error of its own.
_MOST_DIGITS = 40
_CHECKSUM = "checksum"


def parse(text: str) -> Any:
    """Read JSON, or raise ValueError: also for what Python's reader lets pass, or cannot bear."""
    if text.count("[") + text.count("{") > _MOST_BRACKETS:
        raise ValueError(f"it holds more than {_MOST_BRACKETS:,} lists")
    try:
        value = json.loads(
            text, parse_int=_integer, parse_float=_number, parse_constant=_refuse, object_pairs_hook=_object
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if "\\ud" in text.lower():
        _dumped(value).encode()  # half a character raises a UnicodeEncodeError, which is a ValueError
    return value


def checksum(document: dict[str, Any]) -> str:
    """Hash all entries of a document but its checksum, however it is laid out."""
    content = {name: value for name, value in document.items() if name != _CHECKSUM}
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


def signed(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with its checksum as its last entry."""
    content = {name: value for name, value in document.items() if name != _CHECKSUM}
    return {**content, _CHECKSUM: checksum(content)}


def agrees(document: dict[str, Any]) -> bool:
    """Say whether a document carries a checksum, and the right one."""
    return document.get(_CHECKSUM) == checksum(document)


def written(document: dict[str, Any]) -> str:
    """Write a document as readable JSON."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"it holds a whole number of {len(digits):,} digits")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"it holds the number {digits[:20]}, which is beyond all that can be computed with")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("it says something twice")
    return entries
