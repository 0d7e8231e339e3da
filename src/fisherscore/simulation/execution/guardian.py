"""Ends workers whose coordinator is gone. Run as a script: reads session numbers until its input is closed.

It imports nothing but the standard library, so that it starts in a few milliseconds, and outlives a kill of the
coordinator, whose death closes its input. Where a copy of the coordinator holds that input open (a daemon, forked from
it), the number of its own parent says that the coordinator is gone.
"""

import os
import select
import signal
import sys
from contextlib import suppress

_SECONDS_A_LOOK = 1.0


def kill_sessions(leaders: set[int]) -> None:
    """Kill every process of the named sessions, twice, since one may start another in between."""
    for _ in range(2):
        for leader in leaders:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, signal.SIGKILL)
        for process in _members(leaders):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)


def _members(leaders: set[int]) -> list[int]:
    """List processes of the sessions, where the system has /proc."""
    members = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                # After the command in parentheses: state, parent, group, session.
                if int(file.read().rsplit(b")", 1)[1].split()[3]) in leaders:
                    members.append(int(name))
    return members


def guard(coordinator: int) -> None:
    """Read +number (watch a session) and -number (it is gone, its number may serve another); kill in the end."""
    watched: set[int] = set()
    arrived = b""
    while True:
        if not select.select([0], [], [], _SECONDS_A_LOOK)[0]:
            if os.getppid() == coordinator:
                continue
            break
        part = os.read(0, 1 << 12)
        if not part:
            break
        *lines, arrived = (arrived + part).split(b"\n")
        for line in lines:
            (watched.add if line[:1] == b"+" else watched.discard)(int(line[1:]))
    kill_sessions(watched)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    guard(int(sys.argv[1]))
