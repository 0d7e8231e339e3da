"""The damages of ``damage.py``: what disks, editors and people may do to a folder that was saved."""

import json
import os
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from safetensors.numpy import load_file, save_file

# What JSON is changed to.
VALUES = (None, True, 0, -1, 1, 2, 3.5, 1e300, 10**30, 1_000_000, "", "x", "../..", [], {}, [[]], [1, 2], ["a", "a"])

Rng = np.random.Generator
Damage = Callable[[Path, Path, Rng], None]


# ---------------------------------------------------------------------- damages of any file


def some_file(folder: Path, rng: Rng) -> Path:
    """Choose a file; larger ones more often."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix != ".lock")
    weights = np.sqrt([max(1, path.stat().st_size) for path in files])
    return files[rng.choice(len(files), p=weights / weights.sum())]


def span(content: bytearray, rng: Rng) -> slice:
    """Choose a part of a file, from a byte to all of it."""
    length = int(len(content) ** rng.uniform()) if content else 0
    begin = int(rng.integers(0, len(content) - length + 1))
    return slice(begin, begin + length)


def changed(change: Callable[[bytearray, Rng], Any]) -> Damage:
    """Make a damage of a change of the bytes of a file."""

    def damage(folder: Path, other: Path, rng: Rng) -> None:
        path = some_file(folder, rng)
        content = bytearray(path.read_bytes())
        result = change(content, rng)
        path.write_bytes(bytes(content if result is None else result))

    return damage


def flip(content: bytearray, rng: Rng) -> None:
    """Flip one bit, or some."""
    for _ in range(int(rng.choice([1, 1, 1, 8, 100]))):
        if content:
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))


def flip_in_front(content: bytearray, rng: Rng) -> None:
    """Flip bits in the first hundred bytes, where formats keep their headers."""
    for _ in range(int(rng.choice([1, 1, 3]))):
        content[int(rng.integers(min(100, len(content))))] ^= 1 << int(rng.integers(8))


def truncate(content: bytearray, rng: Rng) -> bytes:
    """Keep the beginning."""
    return bytes(content[: int(rng.choice([0, 1, rng.integers(len(content)), rng.integers(len(content))]))])


def zero(content: bytearray, rng: Rng) -> None:
    """Overwrite a part with zeros, or ones."""
    part = span(content, rng)
    content[part] = bytes([int(rng.choice([0, 0, 255]))]) * (part.stop - part.start)


def scramble(content: bytearray, rng: Rng) -> None:
    """Overwrite a part with anything."""
    part = span(content, rng)
    content[part] = rng.bytes(part.stop - part.start)


def repeat(content: bytearray, rng: Rng) -> bytes:
    """Write a part twice."""
    part = span(content, rng)
    return bytes(content[: part.stop] + content[part.start :])


def cut(content: bytearray, rng: Rng) -> bytes:
    """Leave out a part."""
    part = span(content, rng)
    return bytes(content[: part.start] + content[part.stop :])


def append(content: bytearray, rng: Rng) -> bytes:
    """Add something at the end: anything, or all of it again."""
    return bytes(content + (rng.bytes(int(rng.integers(1, 5_000))) if rng.uniform() < 0.7 else content))


def move(content: bytearray, rng: Rng) -> None:
    """Write a part over another."""
    part = span(content, rng)
    begin = int(rng.integers(0, len(content) - (part.stop - part.start) + 1))
    content[begin : begin + part.stop - part.start] = content[part]


def delete(folder: Path, other: Path, rng: Rng) -> None:
    """Delete a file."""
    some_file(folder, rng).unlink()


def exchange(folder: Path, other: Path, rng: Rng) -> None:
    """Put another's file in the place of one, or a file in the place of another."""
    path = some_file(folder, rng)
    alike = [p for p in sorted(other.iterdir()) if p.suffix == path.suffix]
    path.write_bytes((alike[0] if rng.uniform() < 0.7 else some_file(other, rng)).read_bytes())


def part_of_another(folder: Path, other: Path, rng: Rng) -> None:
    """Write a part of another's file over the same part of one."""
    path = some_file(folder, rng)
    source = next(p for p in sorted(other.iterdir()) if p.suffix == path.suffix)
    content, theirs = bytearray(path.read_bytes()), source.read_bytes()
    part = span(content[: len(content) // 2], rng)  # not all of it: that is no damage
    content[part] = theirs[part]
    path.write_bytes(bytes(content))


def not_a_file(folder: Path, other: Path, rng: Rng) -> None:
    """Put a folder, a link or a pipe in the place of a file."""
    path = some_file(folder, rng)
    content = path.read_bytes()
    path.unlink()
    kind = int(rng.integers(4))
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        (folder / "elsewhere").write_bytes(content)
        path.symlink_to("elsewhere")
    elif kind == 2:
        path.symlink_to("nowhere")
    else:
        os.mkfifo(path)


OF_ONE_FILE = (
    *map(changed, (flip, flip, flip, flip_in_front, truncate, zero, scramble, repeat, cut, append, move)),
    delete,
    part_of_another,
    not_a_file,
)


# ---------------------------------------------------------------------- damages of documents


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List every place of a JSON document."""
    if path:
        yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


def edit_document(document: Any, rng: Rng) -> None:
    """Change one place of a document: its value, its type, or that it is there at all."""
    chosen = list(places(document))
    *path, key = chosen[int(rng.integers(len(chosen)))]
    holder = document
    for step in path:
        holder = holder[step]
    kind, value = int(rng.integers(6)), holder[key]
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(value, int | float):
        holder[key] = value + float(rng.normal()) if isinstance(value, float) else value + int(rng.integers(-3, 4))
    elif kind == 2:
        *others, last = chosen[int(rng.integers(len(chosen)))]
        source = document
        for step in others:
            source = source[step]
        holder[key] = json.loads(json.dumps(source[last]))
    elif kind == 3 and isinstance(value, list) and value:
        rng.shuffle(value)
    elif kind == 4 and isinstance(holder, dict):
        holder[f"{key}2"] = holder.pop(key)
    else:
        holder[key] = VALUES[int(rng.integers(len(VALUES)))]


def edit_json(folder: Path, other: Path, rng: Rng) -> None:
    """Edit the document of a folder."""
    path = next(iter(sorted(folder.glob("*.json"))))
    document = json.loads(path.read_text())
    edit_document(document, rng)
    text = json.dumps(document)
    if rng.uniform() < 0.1:
        text = text.replace('": ', '": ' + "[" * int(rng.choice([1, 100_000])), 1)
    elif rng.uniform() < 0.1:
        text = text.replace("1", "1" * int(rng.choice([30, 5_000])), 1)
    path.write_text(text)


def edit_safetensors(folder: Path, other: Path, rng: Rng) -> None:
    """Change arrays of a folder: swap two, change a number, another's, or edit the header alone."""
    path = next(iter(folder.glob("*.safetensors")))
    if rng.uniform() < 0.4:
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        edit_document(header, rng)
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
        return
    arrays = load_file(path)
    first, second = rng.choice(sorted(arrays), 2)
    kind = int(rng.integers(4))
    if kind == 0:
        arrays[first], arrays[second] = arrays[second], arrays[first]
    elif kind == 1:
        arrays[first] = np.asarray(arrays[first] * 1.01 + 0.5)
    elif kind == 2:
        del arrays[first]
    else:
        arrays[first] = arrays[first].astype(np.float16)
    save_file(arrays, path)


# ---------------------------------------------------------------------- damages of exports and campaigns


def edit_npz(folder: Path, other: Path, rng: Rng) -> None:
    """Change arrays or the description, and write the archive again as anybody would."""
    path = folder / "sims.npz"
    with np.load(path) as archive:
        arrays = dict(archive)
    with np.load(other / "sims.npz") as archive:
        theirs = dict(archive)
    kind = int(rng.integers(7))
    if kind == 0:
        about = json.loads(str(arrays["about"]))
        edit_document(about, rng)
        arrays["about"] = np.array(json.dumps(about))
    else:
        edit_arrays(arrays, theirs, kind, rng)
    (np.savez if rng.uniform() < 0.7 else np.savez_compressed)(path, **arrays)


def edit_arrays(arrays: dict[str, np.ndarray], theirs: dict[str, np.ndarray], kind: int, rng: Rng) -> None:
    """Change arrays of an export."""
    name = str(rng.choice(["theta", "x", "status"]))
    array = arrays[name]
    if kind == 1:
        arrays[name] = np.roll(array, 1, axis=0)
    elif kind == 2:
        arrays[name] = array[:-1]
    elif kind == 3:
        arrays[name] = theirs[name]
    elif kind == 4:
        del arrays[name]
    elif kind == 5 and name != "status":
        arrays[name] = array.astype(rng.choice(["f4", "i8", "c16", "M8[s]", "U8"]))
    else:
        arrays["theta"], arrays["x"] = arrays["x"], arrays["theta"]


def edit_archive(folder: Path, other: Path, rng: Rng) -> None:
    """Change bytes within a member of the archive, whose own checksums are then right; or the list of members."""
    path = folder / "sims.npz"
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: bytearray(archive.read(info)) for info in archive.infolist()}
    name = str(rng.choice(sorted(members)))
    change = (flip, flip_in_front, truncate, zero, append)[int(rng.integers(5))]
    result = change(members[name], rng)
    members[name] = members[name] if result is None else bytearray(result)
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, bytes(content))


def edit_hdf5(folder: Path, other: Path, rng: Rng) -> None:
    """Change an HDF5 file with its own library."""
    path = folder / "sims.h5"
    seal = path.read_bytes()[:512]
    with h5py.File(path, "r+") as file:
        name = str(rng.choice(["theta", "x", "status"]))
        kind = int(rng.integers(4))
        if kind == 0:
            about = json.loads(file.attrs["about"])
            edit_document(about, rng)
            file.attrs["about"] = json.dumps(about)
        elif kind == 1:
            values = file[name][()]
            file[name][...] = np.roll(values, 1, axis=0)
        elif kind == 2:
            del file[name]
        else:
            del file[name]
            file.create_dataset(name, (200, 3), "f8", external=[("/proc/self/maps", 0, 4800)])
    if rng.uniform() < 0.5:
        content = path.read_bytes()
        path.write_bytes((bytes(512) if rng.uniform() < 0.5 else seal) + content[512:])


STATEMENTS = (
    "UPDATE records SET COLUMN = (SELECT COLUMN FROM records WHERE id = SECOND) WHERE id = FIRST",
    "UPDATE records SET COLUMN = VALUE WHERE id = FIRST",
    "UPDATE records SET COLUMN = VALUE WHERE id = FIRST",
    "UPDATE OR REPLACE records SET id = SECOND WHERE id = FIRST",
    "UPDATE records SET id = NUMBER WHERE id = FIRST",
    "INSERT INTO records SELECT id + 1000, status, theta, latent, x, message, checksum FROM records WHERE id = FIRST",
    "DELETE FROM records WHERE id = FIRST",
    "DROP TABLE TABLE",
    "DROP INDEX by_status",
    "CREATE VIEW more AS SELECT * FROM records",
    "UPDATE facts SET value = replace(value, '2', '3')",
    "UPDATE sittings SET started = NULL, num_records = 'x'",
    "DELETE FROM facts",
)


def edit_ledger(folder: Path, other: Path, rng: Rng) -> None:
    """Change a ledger by SQL, as somebody might who opens it."""
    path, (first, second) = folder / "campaign.sqlite", rng.choice(200, 2, replace=False)
    words = {
        "COLUMN": str(rng.choice(["status", "theta", "x", "message", "checksum"])),
        "VALUE": str(rng.choice(["NULL", "7", "-1", "'x'", "zeroblob(24)", "zeroblob(200000000)"])),
        "NUMBER": str(rng.choice([-1, 10**12, 2**62])),
        "TABLE": str(rng.choice(["records", "facts", "sittings"])),
        "FIRST": str(first),
        "SECOND": str(second),
    }
    statement = str(rng.choice(STATEMENTS))
    for word, value in words.items():
        statement = statement.replace(word, value)
    with sqlite3.connect(path) as connection:
        try:
            connection.execute(statement)
        except (sqlite3.Error, MemoryError):  # of a blob that is too large for this process
            connection.execute("UPDATE facts SET value = '{}'")
    connection.close()


def beside_ledger(folder: Path, other: Path, rng: Rng) -> None:
    """Put a journal or log beside the ledger that is none, or another's."""
    name = str(rng.choice(["campaign.sqlite-wal", "campaign.sqlite-shm", "campaign.sqlite-journal"]))
    source = (other / "campaign.sqlite").read_bytes()
    journal = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + rng.bytes(2_000)
    (folder / name).write_bytes([rng.bytes(4_096), source, journal, b""][int(rng.integers(4))])


FOLDERS = (*OF_ONE_FILE, exchange, edit_json, edit_json, edit_json, edit_safetensors, edit_safetensors)
DAMAGES: dict[str, tuple[Damage, ...]] = {
    "model": FOLDERS,
    "posterior": FOLDERS,
    "forecast": FOLDERS,
    "campaign": (*OF_ONE_FILE, *[edit_ledger] * 5, beside_ledger),
    "export.npz": (*OF_ONE_FILE, *[edit_npz] * 4, *[edit_archive] * 2),
    "export.h5": (*OF_ONE_FILE, *[edit_hdf5] * 4),
}


def name_of(damage: Damage) -> str:
    """Name a damage."""
    closure = getattr(damage, "__closure__", None)
    return damage.__name__ if closure is None else closure[0].cell_contents.__name__
