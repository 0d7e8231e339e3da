"""The ledger of a campaign: one SQLite file that holds every record with its parameters, data, status and checksum.

Only one process writes, under a lock that its death releases. A batch of records is one transaction, so a kill leaves
all of it or nothing. SQLite's write-ahead log lets others read meanwhile.
"""

import contextlib
import hashlib
import json
import math
import sqlite3
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import CampaignError
from ..records import Record, Records, kept_kind
from .ledger_checks import (
    bound_values,
    check_complete,
    check_facts,
    check_tables,
    checked_runs,
    explained_errors,
    facts_of,
    status_of,
)
from .lock import identity_of, is_there, locked, make_folder, refuse_link
from .run import STATUSES

FILE = "campaign.sqlite"
_SCHEMA = "fisherscore-campaign"
# Version 1 always has a latent; from version 2 on there may be none, and its column is then empty. From version 3 on
# checksums depend on the campaign as well, so that a record of another is told from its own.
_VERSIONS, _VERSION = (1, 2, 3), 3
_FIXED = ("schema", "version", "key")
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (
    id INTEGER PRIMARY KEY, status INTEGER NOT NULL, theta BLOB NOT NULL, latent BLOB NOT NULL, x BLOB,
    message TEXT NOT NULL, checksum BLOB NOT NULL
);
CREATE INDEX by_status ON records (status);
CREATE TABLE sittings (id INTEGER PRIMARY KEY, started REAL, latest REAL, num_records INTEGER);
"""
# What became of records before they were run again. Ledgers made before this was kept are given the table when they are
# gone on with, and stay of the version they were made in.
_EARLIER = "CREATE TABLE IF NOT EXISTS earlier (id INTEGER, status INTEGER NOT NULL, message TEXT NOT NULL, at REAL)"
# Everything that is ever asked of a ledger, so that one laid out in another way is found before it is written to.
_LAYOUT = (
    "SELECT id, status, theta, latent, x, message, checksum FROM records INDEXED BY by_status WHERE status = -1",
    "SELECT id, started, latest, num_records FROM sittings LIMIT 0",
)
_HEADER = struct.Struct("<qq")
# Records whose checksums stand for those of a whole campaign.
_MARKED = 10


class Ledger:
    """A campaign's folder, opened for reading or, by one process at a time, for writing."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: Any):
        self.folder = folder.absolute()  # a simulator may change the current folder
        self._connection = connection
        self._lock = lock
        self._run_id: int | None = None
        self._file = identity_of(folder / FILE)
        self._key = b""

    @classmethod
    def create(cls, folder: Path, metadata: dict[str, Any]) -> "Ledger":
        """Open a folder for writing; make the ledger if there is none yet."""
        make_folder(folder)
        path = folder / FILE
        refuse_link(path)
        lock = locked(folder)
        try:
            if not path.exists():
                _initialise(path, metadata)
            ledger = cls(folder, _connect(path, read_only=False), lock)
            ledger._prepare_writing()
            return ledger
        except BaseException:
            lock.close()
            raise

    def _prepare_writing(self) -> None:
        """See that what is there can be gone on with, before anything is simulated for it."""
        self._refuse_other_schema()
        with explained_errors(self.folder / FILE), self._connection as connection:
            for query in _LAYOUT:
                connection.execute(query).fetchall()
            connection.execute(_EARLIER)

    def _refuse_other_schema(self) -> None:
        metadata = self.metadata()
        if metadata.get("schema") != _SCHEMA or metadata.get("version") not in _VERSIONS:
            raise CampaignError(
                f"{self.folder / FILE} is of schema {metadata.get('schema')!r}, version {metadata.get('version')!r}; "
                f"this fisherscore reads {_SCHEMA!r}, versions up to {_VERSION}. Use the version of fisherscore that "
                "wrote it, or choose another folder."
            )
        self._key = check_facts(metadata, self.folder / FILE)
        with explained_errors(self.folder / FILE):
            check_tables(self._connection, self.folder / FILE, (_TABLES, _EARLIER))
            if self._key:
                check_complete(self._connection, self.folder / FILE)

    @classmethod
    def open(cls, folder: Path) -> "Ledger":
        """Open a folder for reading."""
        path = folder / FILE
        if not is_there(path):
            raise CampaignError(f"path: expected a campaign's folder with the file {FILE}; {folder} has none.")
        ledger = cls(folder, _connect(path, read_only=True), None)
        ledger._refuse_other_schema()
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

    def metadata(self) -> dict[str, Any]:
        """Return what is known of the campaign as a whole, checked against its own checksum."""
        with explained_errors(self.folder / FILE):
            entries = dict(self._connection.execute("SELECT name, value FROM facts"))
        try:
            if _text_digest(entries.get("facts", "")) != entries.get("checksum"):
                raise ValueError("their checksum is wrong")
            return facts_of(entries["facts"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CampaignError(f"{self.folder / FILE}: its settings are damaged ({error}).") from None

    def set_metadata(self, **changes: Any) -> None:
        """Change some of what is known of the campaign as a whole; how its records are written stays as it is."""
        self.refuse_removed()
        with explained_errors(self.folder / FILE), self._connection:
            known = self.metadata()
            fixed = {name: known[name] for name in _FIXED if name in known}
            _write_metadata(self._connection, known | changes | fixed)

    def append(self, records: Sequence[Record]) -> None:
        """Keep records, all of them or, if anything goes wrong, none.

        Of records that are there already, which are replaced, it is kept what became of them before.
        """
        self.refuse_removed()
        values = [_packed(record, self._key) for record in records]
        now = time.time()
        with explained_errors(self.folder / FILE), self._connection as connection:
            connection.executemany(
                "INSERT INTO earlier SELECT id, status, message, ? FROM records WHERE id = ?",
                [(now, record.index) for record in records],
            )
            connection.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            if self._run_id is None:
                self._run_id = connection.execute(
                    "INSERT INTO sittings (started, latest, num_records) VALUES (?, ?, 0)", (now, now)
                ).lastrowid
            connection.execute(
                "UPDATE sittings SET latest = ?, num_records = num_records + ? WHERE id = ?",
                (now, len(values), self._run_id),
            )

    def refuse_removed(self) -> None:
        """Stop where the file that is written to is no longer in its folder: nobody would ever find what is written."""
        if identity_of(self.folder / FILE) != self._file:
            raise CampaignError(
                f"{self.folder / FILE} was removed, moved or replaced while a campaign was being simulated into it, so "
                "the simulation was stopped. Put it back, if there is a copy, and run the same call again."
            )

    def mark(self, numbers: np.ndarray) -> str:
        """Return a digest of the checksums of some of these records, by which campaigns are told apart."""
        positions = np.linspace(0, len(numbers) - 1, _MARKED if len(numbers) else 0)
        chosen = np.unique(positions.round().astype(np.int64))
        digest = hashlib.blake2b(digest_size=8)
        with explained_errors(self.folder / FILE):
            for index in (int(numbers[position]) for position in chosen):
                row = self._connection.execute("SELECT checksum FROM records WHERE id = ?", (index,)).fetchone()
                digest.update(row[0] if row and isinstance(row[0], bytes) else b"-")
        return digest.hexdigest()

    def earlier(self) -> list[tuple[int, str, str]]:
        """Return what became of records before they were run again: number, status and message, oldest first."""
        with explained_errors(self.folder / FILE):
            if not self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'earlier'").fetchone():
                return []
            rows = self._connection.execute("SELECT id, status, message FROM earlier ORDER BY rowid").fetchall()
        return [(int(index), status_of(code, self.folder / FILE), str(message)) for index, code, message in rows]

    def add_earlier(self, outcomes: Sequence[tuple[int, str, str]]) -> None:
        """Keep what became of records before they were run again, as another ledger has it."""
        values = [(index, STATUSES.index(status), message, time.time()) for index, status, message in outcomes]
        with explained_errors(self.folder / FILE), self._connection as connection:
            connection.executemany("INSERT INTO earlier VALUES (?, ?, ?, ?)", values)

    def indices(self, status: str | None = None) -> np.ndarray:
        """List the records that are there, or those with a certain status."""
        chosen = "" if status is None else f"WHERE status = {STATUSES.index(status)}"
        with explained_errors(self.folder / FILE):
            # The index on status holds every number, and nothing else: far quicker to read than the records.
            rows = self._connection.execute(f"SELECT id FROM records INDEXED BY by_status {chosen}")  # noqa: S608
            return np.sort(np.fromiter((row[0] for row in rows), np.int64))

    def ends(self, status: str) -> np.ndarray:
        """Return the first and the last record with a certain status, without listing those between."""
        code = STATUSES.index(status)
        with explained_errors(self.folder / FILE):
            query = "SELECT id FROM records INDEXED BY by_status WHERE status = ? ORDER BY id"
            rows = [self._connection.execute(f"{query} {way} LIMIT 1", (code,)).fetchone() for way in ("ASC", "DESC")]
        return np.unique(np.array([row[0] for row in rows if row is not None], np.int64))

    def simulator_inputs(self) -> np.ndarray:
        """Read the latents of all records, or θ where there is none, in order, and nothing else."""
        metadata = self.metadata()
        num_latents, num_parameters = metadata["num_latents"], metadata["num_parameters"]
        column, size = ("latent", num_latents) if num_latents else ("theta", num_parameters)
        with explained_errors(self.folder / FILE):
            rows = self._connection.execute(f"SELECT {column} FROM records ORDER BY id")  # noqa: S608
            values = [row[0] for row in rows]
            if any(len(value) != 8 * size for value in values):
                raise ValueError("a record has parameters of another number")
            return np.frombuffer(b"".join(values)).reshape(-1, size)

    def counts(self) -> dict[str, int]:
        """Count records by what became of them."""
        with explained_errors(self.folder / FILE):
            rows = self._connection.execute("SELECT status, count(*) FROM records GROUP BY status").fetchall()
        return {status_of(code, self.folder / FILE): int(num) for code, num in rows}

    def runs(self) -> list[tuple[float, float, int]]:
        """Return start, time of the latest batch and number of records of every call that simulated."""
        with explained_errors(self.folder / FILE):
            rows = self._connection.execute("SELECT started, latest, num_records FROM sittings ORDER BY id").fetchall()
        return checked_runs(rows, self.folder / FILE)

    def kind_of_x(self) -> type:
        """Say in which precision data are read: in single if all were kept in it."""
        num_numbers = math.prod(self.metadata()["x_shape"] or (0,))
        if kept_kind(np.float32, num_numbers) is np.float64:
            return np.float64
        with explained_errors(self.folder / FILE):
            query = "SELECT max(length(x)) FROM records INDEXED BY by_status WHERE status = 0"
            longest = self._connection.execute(query).fetchone()[0]
        return np.float32 if longest == 4 * num_numbers else np.float64

    def first_message(self) -> str:
        """Return the message of the first record that failed."""
        with explained_errors(self.folder / FILE):
            rows = self._connection.execute("SELECT message FROM records WHERE status > 0 ORDER BY id LIMIT 1")
            row = rows.fetchone()
        return str(row[0]) if row else ""

    def read(self, indices: Sequence[int] | np.ndarray | None = None) -> Records:
        """Read and check records: all, in order, or those with the given numbers, in the order given."""
        metadata = self.metadata()
        num = sum(self.counts().values()) if indices is None else len(indices)
        num_latents = int(metadata["num_latents"])
        records = Records(
            indices=np.empty(num, np.int64),
            status=np.empty(num, f"U{max(map(len, STATUSES))}"),
            theta=np.empty((num, int(metadata["num_parameters"]))),
            latent=np.empty((num, num_latents)) if num_latents else None,
            x=np.full((num, *(metadata["x_shape"] or (0,))), np.nan, self.kind_of_x()),
        )
        num_read = 0
        with explained_errors(self.folder / FILE):
            for columns in self._select(indices):
                if num_read < num:
                    self._unpack(columns, records, num_read)
                num_read += 1
        # The numbers come from the index on status, the records do not: where one of the two is damaged they differ.
        if num_read != num or (indices is not None and not np.array_equal(records.indices, indices)):
            raise CampaignError(f"{self.folder / FILE} holds {num_read} of {num} records asked for: it is damaged.")
        return records

    def _select(self, indices: Sequence[int] | np.ndarray | None) -> Iterator[tuple]:
        query = "SELECT id, status, theta, latent, x, message, checksum FROM records"
        if indices is None:
            yield from self._connection.execute(f"{query} ORDER BY id")
            return
        for index in indices:
            yield from self._connection.execute(f"{query} WHERE id = ?", (int(index),))

    def _unpack(self, columns: tuple, records: Records, row: int) -> None:
        """Put one record, as it is in the file, into arrays."""
        index, code, theta, latent, x, message, _ = columns
        if not _agrees(columns, self._key):
            raise CampaignError(
                f"{self.folder / FILE}: record {index} does not agree with its checksum: what is on the disk is not "
                "what was written. Restore the file from a copy, or delete the folder and simulate again."
            )
        records.indices[row], records.status[row] = index, status_of(code, self.folder / FILE)
        num_latents = 0 if records.latent is None else records.latent.shape[1]
        if (len(theta), len(latent)) != (8 * records.theta.shape[1], 8 * num_latents):
            raise ValueError(f"record {index} has parameters of another number")
        records.theta[row] = np.frombuffer(theta)
        if records.latent is not None:
            records.latent[row] = np.frombuffer(latent)
        if x is not None:
            in_single = len(x) == 4 * math.prod(records.x.shape[1:])
            records.x[row] = np.frombuffer(x, np.float32 if in_single else np.float64).reshape(records.x.shape[1:])
        if code:
            records.messages[int(index)] = message


def _initialise(path: Path, metadata: dict[str, Any]) -> None:
    """Write an empty ledger under another name and rename it, so that it is never half made."""
    partial = path.with_name(f".{FILE}.new")
    partial.unlink(missing_ok=True)
    with explained_errors(path), contextlib.closing(sqlite3.connect(partial)) as connection, connection:
        connection.executescript(_TABLES)
        connection.execute(_EARLIER)
        key = _text_digest(json.dumps(metadata["plan"], sort_keys=True))
        _write_metadata(connection, {"schema": _SCHEMA, "version": _VERSION, "key": key, **metadata})
    partial.replace(path)


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    with explained_errors(path):
        mode = "ro" if read_only else "rw"
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=30.0)
        if not read_only:
            # Where the file system cannot have it (some network ones), or somebody is reading just now, SQLite keeps
            # its older journal, and waits for readers.
            with contextlib.suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        bound_values(connection, path, read_only=read_only)
        connection.execute("SELECT count(*) FROM facts").fetchone()
        return connection


def _write_metadata(connection: sqlite3.Connection, metadata: dict[str, Any]) -> None:
    text = json.dumps(metadata, sort_keys=True)
    values = [("facts", text), ("checksum", _text_digest(text))]
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", values)


def _text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _packed(record: Record, key: bytes) -> tuple:
    """Turn a record into the columns of the file, the checksum last; no latent is written as no bytes."""
    code = STATUSES.index(record.status)
    latent = b"" if record.latent is None else _as_bytes(record.latent)
    x = None if record.x is None else _as_bytes(record.x, kept_kind(record.x.dtype, record.x.size))
    content = (record.index, code, _as_bytes(record.theta), latent, x, record.message)
    return *content, _digest(content, key)


def _as_bytes(array: np.ndarray, kind: type = np.float64) -> bytes:
    return np.ascontiguousarray(array, kind).tobytes()


def _digest(content: tuple, key: bytes) -> bytes:
    """Compute the checksum of the columns of a record of the campaign with a certain key."""
    index, code, theta, latent, x, message = content
    digest = hashlib.blake2b(_HEADER.pack(index, code), digest_size=8, key=key)
    for part in (theta, latent, b"-" if x is None else x, message.encode("utf-8", "surrogatepass")):
        digest.update(part)
    return digest.digest()


def _agrees(columns: tuple, key: bytes) -> bool:
    *content, checksum = columns
    try:
        return _digest(tuple(content), key) == checksum
    except (AttributeError, TypeError, ValueError, OverflowError, struct.error):
        return False  # a column has become something else
