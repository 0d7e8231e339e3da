"""Compare what a page says its code prints with what the code prints.

A ``text`` block that follows a block of code with nothing but blank lines between them shows what the code prints.
Lines and words must agree. Spaces do not count, and numbers may differ a little, since rounding differs from machine to
machine and samplers amplify it:

* whole numbers below ten, and the names of things with digits in them, must agree exactly;
* other numbers may differ by ``RELATIVE`` of the larger (under the headings in ``LOOSER``: by more), by one and a half
  units of the last digit shown, or by ``SHARE_OF_ERROR`` of the error shown beside them: the one that follows as
  ``± error``, or the one in the same row of a table under a heading in ``ERROR_COLUMNS``;
* durations (numbers followed by a unit of time) and absolute paths may be any.

A block that must not be compared has a title, which readers see and which says why: ``text title="yours will differ"``.
"""

import re
from collections.abc import Iterator
from itertools import zip_longest

RELATIVE = 0.25
SHARE_OF_ERROR = 0.5
LOOSER = {"ESS": 0.6}
ERROR_COLUMNS = ("sd", "± error")

NUMBER = re.compile(r"(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w])")
DURATION = re.compile(rf"{NUMBER.pattern}\s?(?:s|ms|µs|seconds?|minutes?|min|hours?|h|days?)\b")
ABSOLUTE_PATH = re.compile(r"(?<![\w.])/[\w.-]+(?:/[\w.-]*)*")
COLUMN_GAP = re.compile(r"\s{2,}")


def differences(shown: str, printed: str) -> list[str]:
    """Return what is wrong, line by line, with the line that is shown and the one that is printed."""
    wrong = []
    header: list[str] = []
    for expected, got in zip_longest(_lines(shown), _lines(printed)):
        if expected is None or got is None:
            wrong.append(f"shown: {expected!r}, printed: {got!r}")
            continue
        header = _columns(expected) if not NUMBER.search(_headings(expected)) else header
        if not _agree(expected, got, header):
            wrong.append(f"shown: {expected!r}, printed: {got!r}")
    return wrong


def _lines(text: str) -> Iterator[str]:
    """Return lines without durations, absolute paths and blank lines."""
    for line in text.splitlines():
        if line.strip():
            yield ABSOLUTE_PATH.sub("<path>", DURATION.sub("<duration>", line.strip()))


def _headings(line: str) -> str:
    """Return a line without numbers that are part of the heading of a percentile."""
    return re.sub(r"\d+ %", "", line)


def _columns(line: str) -> list[str]:
    return COLUMN_GAP.split(line)


def _words(line: str) -> list[str]:
    """Return what stands between numbers, without the spaces that align columns."""
    return [re.sub(r"\s+", "", part) for part in NUMBER.split(line)]


def _agree(expected: str, got: str, header: list[str]) -> bool:
    if _words(expected) != _words(got):
        return False
    pairs = zip(NUMBER.finditer(expected), NUMBER.finditer(got), strict=True)
    return all(_close(mine, other.group(), expected, header) for mine, other in pairs)


def _close(shown: re.Match[str], printed: str, line: str, header: list[str]) -> bool:
    expected, got = _value(shown.group()), _value(printed)
    if _is_small_integer(shown.group()):
        return expected == got
    relative = LOOSER.get(_heading_of(shown, line, header), RELATIVE)
    rounding, error = 1.5 * _last_digit(shown.group()), SHARE_OF_ERROR * _error(shown, line, header)
    return abs(got - expected) <= max(relative * max(abs(expected), abs(got)), rounding, error)


def _value(number: str) -> float:
    return float(number.replace(",", "").replace("−", "-"))


def _is_small_integer(number: str) -> bool:
    return re.fullmatch(r"[-+−]?\d", number) is not None


def _last_digit(number: str) -> float:
    """Return the size of one unit of the last digit shown: 0.01 for 1.25, nothing for whole numbers."""
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals) if decimals or exponent else 0.0


def _heading_of(shown: re.Match[str], line: str, header: list[str]) -> str:
    """Return the heading of the column that a number stands in, or an empty string."""
    columns = _columns(line)
    position = len(_columns(line[: shown.start()] + "|")) - 1
    return header[position] if len(columns) == len(header) else ""


def _error(shown: re.Match[str], line: str, header: list[str]) -> float:
    """Return the error shown beside a number, or zero."""
    if follows := re.match(rf"\s*±\s*({NUMBER.pattern})", line[shown.end() :]):
        return abs(_value(follows[1]))
    columns = _columns(line)
    if len(columns) == len(header):
        for heading, cell in zip(header, columns, strict=True):
            if heading in ERROR_COLUMNS and NUMBER.fullmatch(cell):
                return abs(_value(cell))
    return 0.0
