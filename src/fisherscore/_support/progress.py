"""What long work shows while it runs: one place that decides whether, where and how.

Work is a stack of steps, each with a title, how far it is and a note; the innermost is what is going on. A thread of
its own shows it, so that it goes on while a function is compiled: in a terminal as a bar, in a notebook as a line that
changes, elsewhere, as in the log of a batch job, as a new line every few seconds, on standard error.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

Advance = Callable[..., None]

# In a log, work of less than so many seconds is not mentioned, and longer work every so many seconds.
_FIRST_AFTER, _THEN_EVERY = 2.0, 8.0
_TICK = 0.25


class _Step:
    """One step of work: its title, how far it is of how much (None: not known), and a note."""

    def __init__(self, title: str, total: int | None, note: str):
        self.title, self.total, self.note = title, total, note
        self.done, self.started = 0, time.monotonic()

    def advance(self, count: int, note: str = "") -> None:
        """Count what has been done."""
        self.done, self.note = self.done + count, note

    @property
    def amount(self) -> str:
        """How far it is, in words; nothing where that is not known."""
        return "" if self.total is None else f"{self.done:,}/{self.total:,}"

    def line(self, now: float) -> str:
        """Say what is going on, in one line."""
        return ", ".join(part for part in (self.title, self.amount, self.note, f"{now - self.started:.0f} s") if part)


class _View(Protocol):
    """Where steps are shown."""

    def tick(self, steps: list[_Step], now: float) -> None:
        """Show where things stand."""

    def close(self, steps: list[_Step], now: float) -> None:
        """Show nothing any more; ``steps`` are all there were."""


class _Log:
    """Lines on standard error: one when work has taken a moment, and then one every few seconds."""

    def __init__(self, now: float, *, at_once: bool):
        self.at_once = at_once
        self.due = now + _FIRST_AFTER

    def tick(self, steps: list[_Step], now: float) -> None:
        """Write a line if it is time for one."""
        if now >= self.due:
            self.due = now + _THEN_EVERY
            self.write(steps[-1], now)

    def close(self, steps: list[_Step], now: float) -> None:
        """Write down how the last step ended, if it was asked for."""
        if self.at_once:
            self.write(steps[-1], now)

    @staticmethod
    def write(step: _Step, now: float) -> None:
        """Write a line; a stream that is closed or full is no reason to stop working."""
        with suppress(OSError, ValueError):
            print(step.line(now), file=sys.stderr, flush=True)


class _Notebook:
    """A line under the cell that changes as work goes on, and stays when it is done."""

    def __init__(self, now: float):
        self.due, self.handle = now + _FIRST_AFTER, None

    def tick(self, steps: list[_Step], now: float) -> None:
        """Change the line."""
        if now >= self.due:
            self.due = now + 1.0
            self._show(steps[-1].line(now))

    def close(self, steps: list[_Step], now: float) -> None:
        """Leave a last word, if there was a first."""
        if self.handle is not None:
            self._show(f"{steps[0].title}: done in {now - steps[0].started:.0f} s")

    def _show(self, text: str) -> None:
        from IPython.display import Pretty, display

        data: Any = Pretty(text)
        if self.handle is None:
            self.handle = display(data, display_id=True)
        else:
            self.handle.update(data)


class _Terminal:
    """Bars, one below the other; short steps leave none behind."""

    def __init__(self) -> None:
        # Rich costs 100 ms to import and is not needed for quiet runs.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[amount]}"),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        # Lines that are printed meanwhile go above the bars, unless they go to a file.
        self.bars = Progress(*columns, console=Console(stderr=True), redirect_stdout=sys.stdout.isatty())
        self.tasks: dict[_Step, Any] = {}
        self.bars.start()

    def tick(self, steps: list[_Step], now: float) -> None:
        """Move the bars."""
        for step in [step for step in self.tasks if step not in steps]:
            task = self.tasks.pop(step)
            whole = step.total or 1
            shown = now - step.started > _FIRST_AFTER
            done = step.done if step.total else whole
            self.bars.update(task, total=whole, completed=done, amount=step.amount, note=step.note, visible=shown)
            self.bars.stop_task(task)
        for step in steps:
            if step not in self.tasks:
                self.tasks[step] = self.bars.add_task(step.title, total=step.total, amount="", note="")
            self.bars.update(self.tasks[step], completed=step.done, amount=step.amount, note=step.note)

    def close(self, steps: list[_Step], now: float) -> None:
        """Leave the last state of the bars where it is."""
        self.tick(steps, now)
        self.tick([], now)
        self.bars.stop()


class _Display:
    """The steps of this process that are shown, and the thread that shows them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.steps: list[_Step] = []
        self.view: _View | None = None
        self.wake = threading.Event()

    def begin(self, step: _Step, *, at_once: bool) -> None:
        """Show a step inside those that are shown already, or open a view for it."""
        with self.lock:
            self.steps.append(step)
            if self.view is None:
                self.view = _view(at_once=at_once)
                self.wake = threading.Event()
                threading.Thread(target=self._run, args=(self.wake,), daemon=True).start()

    def end(self, step: _Step) -> None:
        """Show a step no more; with the last one the view is closed."""
        with self.lock:
            if len(self.steps) == 1 and self.view is not None:
                self.wake.set()
                view, self.view = self.view, None
                view.close(self.steps, time.monotonic())
            self.steps.remove(step)

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(_TICK):
            with self.lock:
                if self.view is not None and not ended.is_set():
                    self.view.tick(self.steps, time.monotonic())


_DISPLAY = _Display()


def _view(*, at_once: bool) -> _View:
    """Choose where steps are shown."""
    if sys.stderr.isatty():
        return _Terminal()
    if _in_notebook():
        return _Notebook(time.monotonic())
    return _Log(time.monotonic(), at_once=at_once)


def _in_notebook() -> bool:
    """Say whether this is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def progress_bar(title: str, total: int | None, show: bool | None = None, note: str = "") -> Iterator[Advance]:
    """Yield ``advance(count, note="")``; ``note`` stands there until it is called first.

    ``show=None`` shows what takes longer than a moment, ``True`` everything, ``False`` nothing. A step within a step
    that is shown need not say so again.
    """
    step = _Step(title, total, note)
    if show is False:
        yield step.advance
        return
    _DISPLAY.begin(step, at_once=bool(show))
    try:
        yield step.advance
    finally:
        _DISPLAY.end(step)


def noted(text: str) -> None:
    """Say what the innermost step is at, if any is shown."""
    with _DISPLAY.lock:
        if _DISPLAY.steps:
            _DISPLAY.steps[-1].note = text


@contextmanager
def working(title: str, show: bool | None = None, note: str = "") -> Iterator[None]:
    """Show that something goes on of which it is not known how long it takes."""
    with progress_bar(title, None, show, note):
        yield
