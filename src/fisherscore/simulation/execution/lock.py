"""The lock of a campaign's folder: one process writes, and whoever asks can see whether one does."""

import fcntl
import os
import weakref
from pathlib import Path
from typing import Any

from ...errors import CampaignError

LOCK = "campaign.lock"

# Locks this process holds. A copy of it, forked by a simulator, shares them until it closes them: one that stays behind
# (a daemon) would hold the campaign for as long as it runs.
_HELD: weakref.WeakSet[Any] = weakref.WeakSet()


def _let_go() -> None:
    for file in list(_HELD):
        file.close()


os.register_at_fork(after_in_child=_let_go)


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return by what the file system knows a file; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_running(folder: Path) -> bool:
    """Say whether some process is writing to a campaign."""
    try:
        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def locked(folder: Path) -> Any:
    """Take the lock of a folder, which the system releases when this process ends, however it ends."""
    try:
        # Not through a link, which would make a file elsewhere.
        file = os.fdopen(os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "rb+")
    except OSError as error:
        raise CampaignError(
            f"out: {folder / LOCK} cannot be written ({error.strerror}). Make the folder writable, or choose another."
        ) from None
    _HELD.add(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise CampaignError(
            f"out: another process is simulating into {folder}. Wait for it, or see how far it is with "
            f"`fisherscore status {folder}`."
        ) from None
    return file
