"""Damage saved models, campaigns, exports and results at random; what is loaded must be right, or be refused by name.

Each damage is done to a fresh copy. What is then loaded is compared with the original: another answer, an error that
is not of this package, more than 5 seconds or more than 500 MB count as faults.

    python benchmarks/damage.py                   # 2,000 of each kind: some ten minutes
"""

import argparse
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from safetensors.numpy import load_file, save_file

import fisherscore as fs
from fisherscore._support.versions import print_table, versions, write_json

MOST_SECONDS, MOST_BYTES = 5.0, 500 * 2**20
THETA, X = np.array([0.4, 2.6]), np.random.default_rng(5).normal(size=(4, 3))
BOX = fs.uniform({"a": (0.0, 1.0), "b": (2.0, 3.0)}, units={"b": "km/s"})
# What JSON is changed to.
VALUES = (None, True, 0, -1, 1, 2, 3.5, 1e300, 10**30, 1_000_000, "", "x", "../..", [], {}, [[]], [1, 2], ["a", "a"])

Rng = np.random.Generator
Damage = Callable[[Path, Path, Rng], None]


def noise(theta: np.ndarray, rng: Rng) -> np.ndarray:
    """Simulate three data, and fail now and then."""
    if rng.uniform() < 0.05:
        raise ValueError("now and then")
    return theta[0] + theta[1] * rng.normal(size=3)


# ---------------------------------------------------------------------- originals


def prepare(folder: Path) -> None:
    """Make two originals of each kind: the second is what files are swapped with."""
    for number in (1, 2):
        here = folder / str(number)
        simulator = fs.from_python(noise)
        sims = fs.simulate(simulator, BOX, 200, seed=number, out=here / "campaign")
        for suffix in (".npz", ".h5"):
            (here / f"export{suffix}").mkdir()
            fs.export_simulations(sims, here / f"export{suffix}" / f"sims{suffix}")
        recipe = "auto" if number == 1 else fs.ClosedFormRecipe("location_scale")
        model = fs.fit(sims, recipe=recipe, seed=number, allow_failures=True)
        model.save(here / "model")
        fs.sample(model, X[number], num_samples=50, num_warmup=50, seed=number).save(here / "posterior")
        fs.forecast(model, THETA, fs.from_python(lambda t, rng: noise_alone(t, rng)), num_simulations=500).save(
            here / "forecast"
        )


def noise_alone(theta: np.ndarray, rng: Rng) -> np.ndarray:
    """Simulate without failures."""
    return theta[0] + theta[1] * rng.normal(size=3)


# ---------------------------------------------------------------------- what is loaded


def load_model(folder: Path) -> dict[str, Any]:
    """Load a model and evaluate it."""
    model = fs.load(folder)
    values = {
        "score": model.score(THETA, X),
        "log_likelihood": model.log_likelihood(THETA, X),
        "rarity": model.rarity(X),
        "fisher": model.fisher_one(THETA),
        "region": np.stack([model.low, model.high]),
    }
    about = (model.names, model.units, model.x_shape, model.weights, model.estimated_error, dict(model.provenance))
    return {name: np.asarray(value) for name, value in values.items()} | {"about": repr(about)}


def load_simulations(sims: fs.Simulations) -> dict[str, Any]:
    """Read all of some simulations."""
    records = sims.store.records
    about = (sims.proposal.names, sims.proposal.units, repr(sims.proposal), repr(sims.latent_model))
    origin = (sims.origin.simulator, sims.origin.seed)
    return {
        "indices": records.indices,
        "theta": sims.theta,
        "x": sims.x,
        "status": sims.status,
        "messages": sims.messages,
        "about": repr((*about, *origin)),
    }


def load_campaign(folder: Path) -> dict[str, Any]:
    """Read a campaign, and say how far it is."""
    fs.campaign_status(folder)
    sims = fs.open_campaign(folder)
    loaded = load_simulations(sims)
    sims.store.successes()
    return loaded


def load_export(folder: Path) -> dict[str, Any]:
    """Import the one file of a folder."""
    suffix = folder.name.removeprefix("export")
    return load_simulations(fs.import_simulations(folder / f"sims{suffix}"))


def load_posterior(folder: Path) -> dict[str, Any]:
    """Load a posterior."""
    posterior = fs.Posterior.load(folder)
    return {"chains": posterior.chains, "log_density": posterior.log_density, "about": str(posterior)}


def load_forecast(folder: Path) -> dict[str, Any]:
    """Load a forecast."""
    forecast = fs.Forecast.load(folder)
    return {"fisher": forecast.fisher, "error": forecast.fisher_error, "about": str(forecast)}


LOADERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "model": load_model,
    "campaign": load_campaign,
    "export.npz": load_export,
    "export.h5": load_export,
    "posterior": load_posterior,
    "forecast": load_forecast,
}


def same(loaded: dict[str, Any], original: dict[str, Any]) -> bool:
    """Say whether all that is loaded is as it was; records of a campaign may be fewer, as of one that is unfinished."""
    rows: Any = slice(None)
    if "indices" in original and len(loaded["indices"]) < len(original["indices"]):
        rows = np.isin(original["indices"], loaded["indices"])
        known = set(loaded["indices"].tolist())
        original = original | {"messages": {k: v for k, v in original["messages"].items() if k in known}}
    for name, value in original.items():
        if isinstance(value, np.ndarray):
            equal_nan = value.dtype.kind == "f"
            if not np.array_equal(loaded[name], value[rows], equal_nan=equal_nan):
                return False
        elif loaded[name] != value:
            return False
    return True


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
    if rng.uniform() < 0.7 and folder.name not in ("campaign", "export.npz", "export.h5"):
        source = next(p for p in sorted(other.iterdir()) if p.suffix == path.suffix)
    else:
        source = some_file(other if folder.name in ("model", "posterior", "forecast") else folder, rng)
    content = source.read_bytes()
    path.write_bytes(content)


def part_of_another(folder: Path, other: Path, rng: Rng) -> None:
    """Write a part of another's file over the same part of one."""
    path = some_file(folder, rng)
    source = next(p for p in sorted(other.iterdir()) if p.suffix == path.suffix)
    content, theirs = bytearray(path.read_bytes()), source.read_bytes()
    part = span(content, rng)
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


ANY_FILE = (
    *map(changed, (flip, flip, flip, flip_in_front, truncate, zero, scramble, repeat, cut, append, move)),
    delete,
    exchange,
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
        arrays[first] = arrays[first] * 1.01 + 0.5
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


def edit_ledger(folder: Path, other: Path, rng: Rng) -> None:
    """Change a ledger by SQL, as somebody might who opens it."""
    path = folder / "campaign.sqlite"
    columns = ("id", "status", "theta", "x", "message", "checksum")
    with sqlite3.connect(path) as connection:
        first, second = (int(i) for i in rng.choice(200, 2, replace=False))
        column = str(rng.choice(columns))
        statements = (
            f"UPDATE OR REPLACE records SET {column} = (SELECT {column} FROM records WHERE id = {second}) WHERE id = "
            f"{first}",
            f"UPDATE records SET {rng.choice(columns[1:])} = {rng.choice(['NULL', '7', '-1', repr('x'), 'zeroblob(24)'])} "
            f"WHERE id = {first}",
            f"UPDATE records SET x = zeroblob(200000000) WHERE id = {first}",
            f"DELETE FROM records WHERE id = {first}",
            f"DROP TABLE {rng.choice(['records', 'facts', 'sittings'])}",
            "DROP INDEX by_status",
            "UPDATE facts SET value = replace(value, '2', '3')",
            "DELETE FROM facts",
            f"UPDATE records SET id = {rng.choice([-1, 10**12, 2**62])} WHERE id = {first}",
            f"INSERT INTO records SELECT id + 1000, status, theta, latent, x, message, checksum FROM records WHERE id = "
            f"{first}",
        )
        try:
            connection.execute(str(rng.choice(statements)))
        except sqlite3.Error:
            connection.execute("UPDATE facts SET value = '{}'")
    connection.close()


def beside_ledger(folder: Path, other: Path, rng: Rng) -> None:
    """Put a journal or log beside the ledger that is none, or another's."""
    name = str(rng.choice(["campaign.sqlite-wal", "campaign.sqlite-shm", "campaign.sqlite-journal"]))
    source = (other / "campaign.sqlite").read_bytes()
    journal = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + rng.bytes(2_000)
    (folder / name).write_bytes([rng.bytes(4_096), source, journal, b""][int(rng.integers(4))])


FOLDERS = (*ANY_FILE, edit_json, edit_json, edit_json, edit_safetensors, edit_safetensors)
DAMAGES: dict[str, tuple[Damage, ...]] = {
    "model": FOLDERS,
    "posterior": FOLDERS,
    "forecast": FOLDERS,
    "campaign": (*ANY_FILE, *[edit_ledger] * 5, beside_ledger),
    "export.npz": (*ANY_FILE, *[edit_npz] * 4, *[edit_archive] * 2),
    "export.h5": (*ANY_FILE, *[edit_hdf5] * 4),
}


# ---------------------------------------------------------------------- trials


class Hang(BaseException):
    """Loading did not end."""


def give_up(*_: Any) -> None:
    raise Hang


def outcome_of(kind: str, folder: Path, original: dict[str, Any]) -> tuple[str, str]:
    """Load a damaged folder, and say what came of it."""
    signal.alarm(30)
    try:
        loaded = LOADERS[kind](folder)
    except fs.FisherScoreError as error:
        return "refused", type(error).__name__
    except Hang:
        return "hang", ""
    except BaseException as error:  # noqa: BLE001  anything else is a fault, which is what is looked for
        return "foreign error", f"{type(error).__name__}: {error}\n{traceback.format_exc()[-1500:]}"
    finally:
        signal.alarm(0)
    if not same(loaded, original):
        return "another answer", ""
    return ("loaded in part" if len(loaded.get("x", ())) < len(original.get("x", ())) else "loaded"), ""


def name_of(damage: Damage) -> str:
    """Name a damage."""
    closure = getattr(damage, "__closure__", None)
    return damage.__name__ if closure is None else closure[0].cell_contents.__name__


def trial(kind: str, seed: int, originals: Path, scratch: Path, original: dict[str, Any]) -> dict[str, Any]:
    """Do one damage to a fresh copy and load it."""
    rng = np.random.default_rng([seed, sorted(LOADERS).index(kind)])
    folder = scratch / kind
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(originals / "1" / kind, folder)
    damage = DAMAGES[kind][int(rng.integers(len(DAMAGES[kind])))]
    damage(folder, originals / "2" / kind, rng)
    started = time.perf_counter()
    outcome, detail = outcome_of(kind, folder, original)
    seconds = time.perf_counter() - started
    return {"seed": seed, "damage": name_of(damage), "outcome": outcome, "detail": detail, "seconds": seconds}


def work(kind: str, originals: Path, first: int, num: int) -> None:
    """Do many damages in this process, within its memory, and print a line for each."""
    signal.signal(signal.SIGALRM, give_up)
    original = LOADERS[kind](originals / "1" / kind)
    with open("/proc/self/statm") as file:
        in_use = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MOST_BYTES, in_use + MOST_BYTES))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(first, first + num):
            row = trial(kind, seed, originals, Path(scratch), original)
            row["megabytes"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            print(json.dumps(row), flush=True)


def run(kind: str, originals: Path, num: int) -> list[dict[str, Any]]:
    """Do the damages of one kind in a process of their own; a new one goes on where one has died."""
    rows: list[dict[str, Any]] = []
    while len(rows) < num:
        call = [sys.executable, __file__, "--work", kind, str(originals), str(len(rows)), str(num - len(rows))]
        done = subprocess.run(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
        rows += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode:
            said = done.stderr[-1_000:]
            rows.append({"seed": len(rows), "damage": "?", "outcome": "crash", "detail": said, "seconds": 0.0})
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Count what came of the damages of one kind."""
    outcomes = Counter(row["outcome"] for row in rows)
    slow = sum(row["seconds"] > MOST_SECONDS for row in rows)
    faults = sum(outcomes[name] for name in ("foreign error", "another answer", "hang", "crash")) + slow
    return {
        "damages": len(rows),
        **{name: outcomes[name] for name in ("refused", "loaded", "loaded in part")},
        "another answer": outcomes["another answer"],
        "foreign error": outcomes["foreign error"],
        "hang or crash": outcomes["hang"] + outcomes["crash"],
        "slow": slow,
        "faults": faults,
        "most seconds": round(max(row["seconds"] for row in rows), 2),
        "most megabytes": round(max(row.get("megabytes", 0.0) for row in rows)),
        "by damage": {
            name: dict(Counter(row["outcome"] for row in rows if row["damage"] == name))
            for name in sorted({row["damage"] for row in rows})
        },
    }


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--num", type=int, default=2_000, help="Damages of models, campaigns and exports each.")
    parser.add_argument("--kinds", nargs="*", default=list(LOADERS), choices=list(LOADERS))
    parser.add_argument("--show", action="store_true", help="Show every fault.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    # HDF5 and the smaller results are fewer.
    numbers = {kind: options.num if kind in ("model", "campaign", "export.npz") else options.num // 4 for kind in LOADERS}
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        rows = {kind: run(kind, Path(name), numbers[kind]) for kind in options.kinds}
    results = {kind: summary(each) for kind, each in rows.items()}
    for kind, result in results.items():
        print_table(kind, [(key, str(value)) for key, value in result.items() if key != "by damage"])
    if options.show:
        for kind, each in rows.items():
            for row in each:
                if row["outcome"] not in ("refused", "loaded", "loaded in part") or row["seconds"] > MOST_SECONDS:
                    print(kind, row["seed"], row["damage"], row["outcome"], f"{row['seconds']:.1f} s", row["detail"])
    write_json({"benchmark": "damage", "rows": results, "versions": versions()}, options.out / "damage.json")


if __name__ == "__main__":
    main()
