"""The ledger of a campaign: one SQLite file that holds every record with its parameters, data, fate and checksum.

Only one process writes, under a lock that its death releases. A batch of records is one transaction, so a kill leaves
all of it or nothing. SQLite's write-ahead log lets others read meanwhile.
"""

import contextlib
import fcntl
import hashlib
import json
import sqlite3
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import CampaignError
from .run import STATUSES

FILE, LOCK = "campaign.sqlite", "campaign.lock"
_SCHEMA, _VERSION = "fisherscore-campaign", 1
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (
    id INTEGER PRIMARY KEY, status INTEGER NOT NULL, theta BLOB NOT NULL, latent BLOB NOT NULL, x BLOB,
    message TEXT NOT NULL, checksum BLOB NOT NULL
);
CREATE INDEX by_status ON records (status);
CREATE TABLE sittings (id INTEGER PRIMARY KEY, started REAL, latest REAL, num_records INTEGER);
"""
# SQLite's codes for a file that is not what it should be: a missing table, a corrupt page, no database at all.
_DAMAGED = (1, 11, 26)
_HEADER = struct.Struct("<qq")


@dataclass(frozen=True)
class Row:
    """One record as it is kept: x is None where the record failed without data."""

    index: int
    status: str
    theta: np.ndarray
    latent: np.ndarray
    x: np.ndarray | None
    message: str


@dataclass(frozen=True)
class Table:
    """Many records as arrays; x is NaN where a record has no data."""

    indices: np.ndarray
    status: np.ndarray
    theta: np.ndarray
    latent: np.ndarray
    x: np.ndarray
    messages: dict[int, str]


class Ledger:
    """A campaign's folder, opened for reading or, by one process at a time, for writing."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: Any):
        self.folder = folder
        self._connection = connection
        self._lock = lock
        self._sitting: int | None = None

    @classmethod
    def create(cls, folder: Path, facts: dict[str, Any]) -> "Ledger":
        """Open a folder for writing; make the ledger if there is none yet."""
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(folder)
        try:
            path = folder / FILE
            if not path.exists():
                _initialise(path, facts)
            return cls(folder, _connect(path, read_only=False), lock)
        except BaseException:
            lock.close()
            raise

    @classmethod
    def open(cls, folder: Path) -> "Ledger":
        """Open a folder for reading."""
        path = folder / FILE
        if path.is_symlink() or not path.is_file():
            raise CampaignError(f"path: expected a campaign's folder with the file {FILE}; {folder} has none.")
        ledger = cls(folder, _connect(path, read_only=True), None)
        found = ledger.facts()
        if found.get("schema") != _SCHEMA or found.get("version") != _VERSION:
            raise CampaignError(
                f"{path} is of schema {found.get('schema')!r}, version {found.get('version')!r}; this fisherscore "
                f"reads {_SCHEMA!r}, version {_VERSION}."
            )
        return ledger

    def close(self) -> None:
        """Close the file and release the lock."""
        try:
            if self._lock is not None:
                # One plain file is left, which can be copied, and read where nothing may be written; unless somebody
                # is reading just now.
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("PRAGMA journal_mode = DELETE")
            self._connection.close()
        finally:
            if self._lock is not None:
                self._lock.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def facts(self) -> dict[str, Any]:
        """Return what is known of the campaign as a whole, checked against its own checksum."""
        with _clear_errors(self.folder):
            found = dict(self._connection.execute("SELECT name, value FROM facts"))
        try:
            if _digest_of_facts(found.get("facts", "")) != found.get("checksum"):
                raise ValueError("their checksum is wrong")
            return json.loads(found["facts"])
        except (KeyError, ValueError) as error:
            raise CampaignError(f"{self.folder / FILE}: its settings are damaged ({error}).") from None

    def set_facts(self, **changes: Any) -> None:
        """Change some facts."""
        with _clear_errors(self.folder), self._connection:
            _write_facts(self._connection, self.facts() | changes)

    def append(self, rows: Sequence[Row]) -> None:
        """Keep records, all of them or, if anything goes wrong, none."""
        values = [_packed(row) for row in rows]
        now = time.time()
        with _clear_errors(self.folder), self._connection as connection:
            connection.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            if self._sitting is None:
                self._sitting = connection.execute(
                    "INSERT INTO sittings (started, latest, num_records) VALUES (?, ?, 0)", (now, now)
                ).lastrowid
            connection.execute(
                "UPDATE sittings SET latest = ?, num_records = num_records + ? WHERE id = ?",
                (now, len(values), self._sitting),
            )

    def indices(self, status: str | None = None) -> np.ndarray:
        """List the records that are there, or those with a certain status."""
        chosen = "" if status is None else f"WHERE status = {STATUSES.index(status)}"
        with _clear_errors(self.folder):
            # The index on status holds every number, and nothing else: far quicker to read than the records.
            found = self._connection.execute(f"SELECT id FROM records INDEXED BY by_status {chosen}")  # noqa: S608
            return np.sort(np.fromiter((row[0] for row in found), np.int64))

    def latents(self, size: int) -> np.ndarray:
        """Read the latents of all records, in order, and nothing else."""
        with _clear_errors(self.folder):
            found = self._connection.execute("SELECT latent FROM records ORDER BY id")
            return np.frombuffer(b"".join(row[0] for row in found)).reshape(-1, size)

    def counts(self) -> dict[str, int]:
        """Count records by what became of them."""
        with _clear_errors(self.folder):
            found = self._connection.execute("SELECT status, count(*) FROM records GROUP BY status").fetchall()
        return {_status(code, self.folder): int(num) for code, num in found}

    def sittings(self) -> list[tuple[float, float, int]]:
        """Return start, latest sign of life and number of records of every sitting."""
        with _clear_errors(self.folder):
            return self._connection.execute("SELECT started, latest, num_records FROM sittings ORDER BY id").fetchall()

    def first_message(self) -> str:
        """Return the words of the first record that failed."""
        with _clear_errors(self.folder):
            found = self._connection.execute("SELECT message FROM records WHERE status > 0 ORDER BY id LIMIT 1")
            row = found.fetchone()
        return row[0] if row else ""

    def read(self, indices: Sequence[int] | np.ndarray | None = None) -> Table:
        """Read and check records: all, in order, or those named, in the order named."""
        facts = self.facts()
        p, q = int(facts["num_parameters"]), int(facts["num_latents"])
        shape = tuple(facts["x_shape"] or (0,))
        num = sum(self.counts().values()) if indices is None else len(indices)
        table = Table(
            indices=np.empty(num, np.int64),
            status=np.empty(num, f"U{max(map(len, STATUSES))}"),
            theta=np.empty((num, p)),
            latent=np.empty((num, q)),
            x=np.full((num, *shape), np.nan),
            messages={},
        )
        place = -1
        for place, row in enumerate(self._rows(indices)):
            if place >= num:
                break
            self._put(table, place, row)
        if place + 1 != num:
            raise CampaignError(f"{self.folder / FILE} holds {place + 1} of {num} records asked for: it is damaged.")
        return table

    def _rows(self, indices: Sequence[int] | np.ndarray | None) -> Iterator[tuple]:
        columns = "SELECT id, status, theta, latent, x, message, checksum FROM records"
        with _clear_errors(self.folder):
            if indices is None:
                yield from self._connection.execute(f"{columns} ORDER BY id")
                return
            for index in indices:
                yield from self._connection.execute(f"{columns} WHERE id = ?", (int(index),))

    def _put(self, table: Table, place: int, row: tuple) -> None:
        index, code, theta, latent, x, message, _ = row
        if not _agrees(row):
            raise CampaignError(
                f"{self.folder / FILE}: record {index} does not agree with its checksum: what is on the disk is not "
                "what was written. Restore the file from a copy, or delete the folder and simulate again."
            )
        table.indices[place], table.status[place] = index, _status(code, self.folder)
        table.theta[place] = np.frombuffer(theta)
        table.latent[place] = np.frombuffer(latent)
        if x is not None:
            table.x[place] = np.frombuffer(x).reshape(table.x.shape[1:])
        if code:
            table.messages[int(index)] = message


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


def _locked(folder: Path) -> Any:
    """Take the lock of a folder, which the system releases when this process ends, however it ends."""
    file = (folder / LOCK).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise CampaignError(
            f"out: another process is simulating into {folder}. Wait for it, or see how far it is with "
            f"`fisherscore status {folder}`."
        ) from None
    return file


def _initialise(path: Path, facts: dict[str, Any]) -> None:
    """Write an empty ledger beside its place and move it there, so that it is never half made."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with _clear_errors(path.parent), contextlib.closing(sqlite3.connect(fresh)) as connection, connection:
        connection.executescript(_TABLES)
        _write_facts(connection, {"schema": _SCHEMA, "version": _VERSION, **facts})
    fresh.replace(path)


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    with _clear_errors(path.parent):
        mode = "ro" if read_only else "rw"
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=30.0)
        if not read_only:
            # Where the file system cannot have it (some network ones), or somebody is reading just now, SQLite keeps
            # its older journal, and waits for readers.
            with contextlib.suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("SELECT count(*) FROM facts").fetchone()
        return connection


def _write_facts(connection: sqlite3.Connection, facts: dict[str, Any]) -> None:
    text = json.dumps(facts, sort_keys=True)
    values = [("facts", text), ("checksum", _digest_of_facts(text))]
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", values)


def _digest_of_facts(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _packed(row: Row) -> tuple:
    code = STATUSES.index(row.status)
    theta, latent = (np.ascontiguousarray(a, np.float64).tobytes() for a in (row.theta, row.latent))
    x = None if row.x is None else np.ascontiguousarray(row.x, np.float64).tobytes()
    return row.index, code, theta, latent, x, row.message, _digest(row.index, code, theta, latent, x, row.message)


def _digest(index: int, code: int, theta: bytes, latent: bytes, x: bytes | None, message: str) -> bytes:
    digest = hashlib.blake2b(_HEADER.pack(index, code), digest_size=8)
    for part in (theta, latent, b"-" if x is None else x, message.encode("utf-8", "surrogatepass")):
        digest.update(part)
    return digest.digest()


def _agrees(row: tuple) -> bool:
    *content, checksum = row
    try:
        return _digest(*content) == checksum
    except (AttributeError, TypeError, ValueError, OverflowError, struct.error):
        return False  # a column has become something else


def _status(code: int, folder: Path) -> str:
    if not 0 <= code < len(STATUSES):
        raise CampaignError(f"{folder / FILE}: a record has the unknown status {code}: it is damaged.")
    return STATUSES[code]


@contextlib.contextmanager
def _clear_errors(folder: Path) -> Iterator[None]:
    """Turn SQLite's errors into ones that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "full" in text:
            what = "the disk is full. What was written before is safe: make room, and run the same call again"
        elif "I/O" in text:
            what = "the disk could not be read or written. What was written before is safe"
        elif "locked" in text:
            what = "another process holds it"
        elif getattr(error, "sqlite_errorcode", 11) & 0xFF not in _DAMAGED:
            what = "it cannot be read or written"
        else:
            what = "the file is damaged. Restore it from a copy, or delete the folder and simulate again"
        raise CampaignError(f"{folder / FILE}: {what} (SQLite: {text}).") from error
    except (struct.error, OverflowError, TypeError, UnicodeDecodeError) as error:
        raise CampaignError(f"{folder / FILE}: the file is damaged ({error}).") from error
