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


def make_folder(folder: Path) -> None:
    """Make a folder unless it is there, or say why it cannot be one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise CampaignError(f"out: {folder} is a file, or lies in one. Choose another folder.") from None
    except (OSError, RecursionError) as error:
        why = getattr(error, "strerror", None) or "its path is too deep"
        raise CampaignError(f"out: {_brief(folder)} can be no folder ({why}). Choose another.") from None


def is_there(path: Path) -> bool:
    """Say whether a plain file is there, which is no link."""
    try:
        return not path.is_symlink() and path.is_file()
    except OSError as error:
        raise CampaignError(f"path: {_brief(path)} cannot be read ({error.strerror}).") from None


def _brief(path: Path) -> str:
    text = str(path)
    return text if len(text) <= 200 else f"{text[:197]}..."


def refuse_link(path: Path) -> None:
    """Refuse to write to a file through a link, or to one that has another name as well."""
    try:
        path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise CampaignError(f"out: {_brief(path)} cannot be read ({error.strerror}). Choose another folder.") from None
    if path.is_symlink() or not path.is_file():
        raise CampaignError(
            f"out: {path} is a link, or no plain file. A campaign's folder may be a link, the file in it may not: "
            "move the file itself here, or choose another folder."
        )
    if path.stat().st_nlink > 1:
        raise CampaignError(
            f"out: {path} has more than one name (hard links, such as cp -al or a backup makes them), so that writing "
            "to it would change the others too. Put a copy in its place (cp without -l), or choose another folder."
        )


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
