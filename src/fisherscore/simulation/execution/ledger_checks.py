"""What a ledger must be before anything in it is believed: its tables, its facts, and the sizes they claim."""

import contextlib
import functools
import math
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..._support import fields as read
from ..._support.documents import parse
from ...errors import CampaignError
from .run import STATUSES

_REMEDY = "Restore the file from a copy, or delete the folder and simulate again"
# SQLite's codes for a damaged file: a missing table, a corrupt page, no database at all.
_DAMAGED = (1, 11, 26)
_MOST_PARAMETERS, _MOST_AXES, _LARGEST_VALUE = 100_000, 32, 10**9
_FIRST_WITH_KEY = 3
_FACTS: dict[str, read.Reader] = {
    "plan": read.dictionary_of(lambda value: value),
    "num_parameters": read.count,
    "num_latents": read.count,
    "x_shape": read.optional(read.tuple_of(read.count)),
    "num_simulations": read.count,
}
# What campaigns begun with earlier versions do not hold.
_LATER: dict[str, read.Reader] = {
    "reads": read.dictionary_of(read.dictionary_of(read.text)),
    "unchecked": read.tuple_of(read.count),
    "num_planned": read.count,
}
_PLAN: dict[str, read.Reader] = {
    "simulator": read.dictionary_of(lambda value: value),
    "proposal": read.dictionary_of(lambda value: value),
    "seed": read.count,
}


def bound_values(connection: sqlite3.Connection, path: Path, *, read_only: bool) -> None:
    """Let no value be larger than the file and its log, and let the file's own tables run no code.

    What is yet to be written may be larger than the file.
    """
    size = 0 if read_only else _LARGEST_VALUE
    size += sum(part.stat().st_size for part in (path, path.with_name(f"{path.name}-wal")) if part.is_file())
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(max(size, 10**6), _LARGEST_VALUE))
    connection.execute("PRAGMA trusted_schema = OFF")


def check_tables(connection: sqlite3.Connection, path: Path, statements: Sequence[str]) -> None:
    """Refuse a ledger with other tables than these statements make: views, triggers and computed columns run code."""
    known = _made_by(tuple(statements))
    for kind, name, statement in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        if statement is not None and known.get(name) != (kind, statement):
            raise CampaignError(
                f"{path}: it holds a {kind} {str(name)[:60]!r} that fisherscore did not make. {_REMEDY}."
            )


@functools.lru_cache
def _made_by(statements: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements:
            connection.executescript(statement)
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return {name: (kind, statement) for kind, name, statement in rows}


def facts_of(text: Any) -> dict[str, Any]:
    """Read the facts of a campaign, or raise ValueError or TypeError."""
    if not isinstance(text, str):
        raise TypeError("they are no text")
    facts = parse(text)
    if not isinstance(facts, dict):
        raise ValueError("they are no list of facts")
    return facts


def check_facts(facts: dict[str, Any], path: Path) -> bytes:
    """Refuse facts of another kind, or of sizes that the file cannot hold; return the key of the checksums."""
    try:
        values = {name: reader(facts[name]) for name, reader in _FACTS.items()}
        for name in _LATER.keys() & facts.keys():
            _LATER[name](facts[name])
        for name, reader in _PLAN.items():
            reader(values["plan"][name])
        shape = values["x_shape"]
        sizes = max(values["num_parameters"], values["num_latents"]) <= _MOST_PARAMETERS
        if not sizes or not values["num_parameters"]:
            raise ValueError
        if shape is not None and not (0 < len(shape) <= _MOST_AXES and 0 < 8 * math.prod(shape) <= _LARGEST_VALUE):
            raise ValueError
        return bytes.fromhex(read.text(facts["key"])) if facts["version"] >= _FIRST_WITH_KEY else b""
    except (KeyError, TypeError, ValueError):
        raise CampaignError(f"{path}: its settings are damaged. {_REMEDY}.") from None


def check_complete(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a ledger with fewer records than were written: all that were, less those that took another's place.

    One question, so that what somebody writes meanwhile is in all of its answers or in none.
    """
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'earlier'").fetchone():
        return  # made before it was kept which records were replaced
    counts = ("total(num_records) FROM sittings", "count(*) FROM earlier", "count(*) FROM records")
    question = ", ".join(f"(SELECT {count})" for count in counts)
    written, replaced, there = connection.execute(f"SELECT {question}").fetchone()
    if there < written - replaced:
        raise CampaignError(
            f"{path}: {int(written - replaced - there):,} records that were written are gone. {_REMEDY}; to leave out "
            "records on purpose, pass arrays to fisherscore.from_table."
        )


def status_of(code: Any, path: Path) -> str:
    """Return what a number in the file says became of a record."""
    if not isinstance(code, int) or not 0 <= code < len(STATUSES):
        raise CampaignError(f"{path}: a record has the unknown status {str(code)[:20]}: it is damaged. {_REMEDY}.")
    return STATUSES[code]


def checked_runs(rows: Sequence[tuple[Any, ...]], path: Path) -> list[tuple[float, float, int]]:
    """Return start, end and number of records of every run."""
    try:
        return [(read.number(started), read.number(latest), read.count(num)) for started, latest, num in rows]
    except TypeError:
        raise CampaignError(f"{path}: its list of runs is damaged. {_REMEDY}.") from None


@contextlib.contextmanager
def explained_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors, and those of reading what is damaged, into ones that say what to do."""
    try:
        yield
    except CampaignError:
        raise
    except sqlite3.Error as error:
        text = str(error)
        if "full" in text:
            problem = "the disk is full. What was written before is safe: make room, and run the same call again"
        elif "I/O" in text:
            problem = "the disk could not be read or written. What was written before is safe"
        elif "readonly" in text:
            problem = (
                "the run that wrote it was killed, and what it left must be put in order by somebody who may write "
                "here: let the owner call fisherscore status on the folder once, or copy it to a place of your own"
            )
        elif "locked" in text:
            problem = "another process holds it"
        elif getattr(error, "sqlite_errorcode", 11) & 0xFF not in _DAMAGED:
            problem = "it cannot be read or written"
        else:
            problem = f"the file is damaged. {_REMEDY}"
        raise CampaignError(f"{path}: {problem} (SQLite: {text}).") from error
    except MemoryError as error:  # a damaged file may claim any size
        raise CampaignError(f"{path}: there is not enough memory, or the file is damaged. {_REMEDY}.") from error
    except (struct.error, OverflowError, TypeError, ValueError) as error:
        raise CampaignError(f"{path}: the file is damaged ({error}). {_REMEDY}.") from error
