"""Ends workers whose coordinator is gone. Run as a script: reads session numbers until its input is closed.

It imports nothing but the standard library, so that it starts in a few milliseconds, and outlives a kill of the
coordinator, whose death closes its input.
"""

import os
import signal
import sys
from contextlib import suppress


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


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watched: set[int] = set()
    for line in sys.stdin:  # +number: watch a session, -number: it is gone, and its number may serve another
        (watched.add if line[0] == "+" else watched.discard)(int(line[1:]))
    kill_sessions(watched)
