"""Lay out text for people: columns, spans of time, and small tables for notebooks."""

from collections.abc import Sequence
from html import escape


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one line per row, each column as wide as its longest cell."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def duration(seconds: float) -> str:
    """Write a span of time in the largest unit of which there are at least two.

    >>> duration(7_300)
    '2.0 hours'
    """
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2g} seconds"


def html_table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a small table of names and values for notebooks.

    >>> html_table("Two", [("a", "1 < 2")])
    '<table><caption>Two</caption><tr><th>a</th><td>1 &lt; 2</td></tr></table>'
    """
    lines = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(title)}</caption>{lines}</table>"
