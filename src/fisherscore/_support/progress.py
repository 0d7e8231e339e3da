"""Progress bars for long work: one place that decides whether and how to draw them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[..., None]


@contextmanager
def progress_bar(title: str, total: int, show: bool | None = None) -> Iterator[Advance]:
    """Yield ``advance(count, note="")``. ``show=None`` draws the bar only on a terminal."""
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda count, note="": None
        return
    # Rich costs 100 ms to import and is not needed for quiet runs.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, note="")

        def advance(count: int, note: str = "") -> None:
            bar.update(task, advance=count, note=note)

        yield advance
