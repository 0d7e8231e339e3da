"""How long a process has been running: the time during which it, or whoever looks at it, was stopped does not count.

Time is added up in short ticks. A tick that took much longer than planned means that nobody was looking, since the
looking process was stopped (Ctrl-Z, a debugger) or the machine slept; and in a tick in which the process was seen to be
stopped, it did not run.
"""

import os
import time
from contextlib import suppress

# A tick is a twentieth of the limit, within these bounds.
_TICKS_A_LIMIT, _SHORTEST_TICK, _LONGEST_TICK = 20, 0.05, 0.5
# A tick that takes longer than this, in ticks, or than a quarter of the limit, has been interrupted.
_MOST_TICKS, _MOST_OF_LIMIT, _MOST_SECONDS = 3, 0.25, 1.5
# What stays stopped for so long waits for nobody any more.
_MOST_SECONDS_STOPPED = 3600.0
# Children of children are looked at so far down.
_DEPTH = 6


class RunningTime:
    """Adds up the time a process has been running on what it does now."""

    def __init__(self, limit: float | None = None):
        tick = _LONGEST_TICK if limit is None else limit / _TICKS_A_LIMIT
        self.tick = min(max(tick, _SHORTEST_TICK), _LONGEST_TICK)
        longest = max(_MOST_TICKS * self.tick, _MOST_OF_LIMIT * (limit or 0.0))
        self._longest = min(longest, _MOST_SECONDS)
        self.limit = limit
        self.restart()

    def restart(self) -> None:
        """Begin again from zero."""
        self.seconds = self.seconds_stopped = 0.0
        self._was_stopped, self._latest = False, time.monotonic()

    def look(self, process: int | None = None) -> float:
        """Add the time since the last look; return the sum. Given a process, see once a tick whether it is stopped."""
        now = time.monotonic()
        elapsed = now - self._latest
        if process is not None and elapsed < self.tick / 2:
            return self.seconds
        self._latest = now
        stopped = process is not None and is_stopped(process)
        ran = elapsed if elapsed <= self._longest else self.tick
        if stopped or self._was_stopped:
            self.seconds_stopped += ran
        else:
            self.seconds += ran
        self._was_stopped = stopped
        return self.seconds

    @property
    def is_over(self) -> bool:
        """Whether the process has had its time."""
        return self.limit is not None and self.seconds > self.limit

    @property
    def is_forgotten(self) -> bool:
        """Whether a process with a limit has been stopped for so long that nobody will let it go on."""
        return self.limit is not None and self.seconds_stopped > _MOST_SECONDS_STOPPED


def is_stopped(process: int, depth: int = _DEPTH) -> bool:
    """Say whether a process, or one that it has started, is stopped: by a signal or by a debugger.

    Where the system has no /proc, only a stop of the process itself is seen, and only by the process that started it.
    """
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            state = file.read().rsplit(b")", 1)[1].split(None, 1)[0]
    except (OSError, IndexError):
        return not os.path.isdir("/proc") and _told_by_the_system(process)
    if state in (b"T", b"t"):
        return True
    with suppress(OSError), open(f"/proc/{process}/task/{process}/children", "rb") as file:
        return depth > 0 and any(is_stopped(int(child), depth - 1) for child in file.read().split())
    return False


# Children of this process that were last said to be stopped, where there is no /proc.
_STOPPED: set[int] = set()


def _told_by_the_system(process: int) -> bool:
    """Ask for news of a child's stops and continuations, leaving its end for others to ask for."""
    with suppress(OSError, AttributeError):
        news = os.waitid(os.P_PID, process, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
        if news is not None:
            (_STOPPED.add if news.si_code == os.CLD_STOPPED else _STOPPED.discard)(process)
    return process in _STOPPED
