"""Lay out text for people: columns, tables for notebooks, spans of time."""

from collections.abc import Iterable, Sequence
from html import escape


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one line per row, each column as wide as its longest cell."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def with_errors(values: Iterable[float], errors: Iterable[float] | None = None) -> list[str]:
    """Write numbers, with their errors where there are any.

    >>> with_errors([1.0, 2.5], [0.1, 0.25])
    ['1 ± 0.1', '2.5 ± 0.2']
    """
    if errors is None:
        return [f"{value:.4g}" for value in values]
    return [f"{value:.4g} ± {error:.1g}" for value, error in zip(values, errors, strict=True)]


def html_table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of names and values as HTML, for notebooks; all text is escaped.

    >>> html_table("Fit", [("error", "< 1 %")])
    '<table><caption>Fit</caption><tr><th>error</th><td>&lt; 1 %</td></tr></table>'
    """
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(title)}</caption>{cells}</table>"


def duration(seconds: float) -> str:
    """Write a span of time in the largest unit of which there are at least two.

    >>> duration(7_300)
    '2.0 hours'
    """
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2g} seconds"
