"""Damage saved models, campaigns, exports and results at random; what is loaded must be right, or be refused by name.

Each damage is done to a fresh copy. What is then loaded is compared with the original: another answer, an error that
is not of this package, more than 5 seconds or more than 500 MB count as faults.

    python benchmarks/damage.py                   # 2,000 of each kind: some ten minutes
"""

import argparse
import json
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fisherscore as fs
from damage_kinds import DAMAGES, name_of
from fisherscore._support.versions import print_table, versions, write_json

MOST_SECONDS, MOST_BYTES = 5.0, 500 * 2**20
THETA, X = np.array([0.4, 2.6]), np.random.default_rng(5).normal(size=(4, 3))
BOX = fs.uniform({"a": (0.0, 1.0), "b": (2.0, 3.0)}, units={"b": "km/s"})
Rng = np.random.Generator


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
        fs.forecast(model, THETA, fs.from_python(noise_alone), num_simulations=500).save(here / "forecast")


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
        done = subprocess.run(call, capture_output=True, text=True, check=False)  # noqa: S603
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
    numbers = {
        kind: options.num if kind in ("model", "campaign", "export.npz") else options.num // 4 for kind in LOADERS
    }
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
                    where = f"{kind} {row['seed']} {row['damage']}"
                    print(f"{where}: {row['outcome']}, {row['seconds']:.1f} s {row['detail']}")
    write_json({"benchmark": "damage", "rows": results, "versions": versions()}, options.out / "damage.json")


if __name__ == "__main__":
    main()
