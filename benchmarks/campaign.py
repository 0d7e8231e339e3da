"""What a campaign costs: overhead of worker processes, going on, a ledger of a million records, data beyond memory.

python benchmarks/campaign.py                               # two minutes
python benchmarks/campaign.py --resume --before other/src     # going on alone, compared with another version
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import fisherscore as fs
from fisherscore._support.versions import versions, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

NUM_WORKERS = 2
SECONDS = 0.01
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)


def sleeping(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Take 10 ms, without using the processor, so that the machine's other work does not count."""
    time.sleep(SECONDS)
    return theta + rng.normal(size=10)


def overhead(scratch: Path) -> dict[str, float]:
    """Compare the time of a campaign with what its simulations take; starting the workers counts once."""
    proposal = fs.uniform(a=(0.0, 1.0))
    simulator = fs.from_python(sleeping)
    times = {}
    for num in (200, 2_200):
        started = time.perf_counter()
        fs.simulate(simulator, proposal, num, out=scratch / f"overhead{num}", workers=NUM_WORKERS, progress=False)
        times[num] = time.perf_counter() - started
    each = (times[2_200] - times[200]) / 2_000
    # What a sleep really takes is a little more than asked for.
    started = time.perf_counter()
    for index in range(100):
        sleeping(np.zeros(1), np.random.default_rng(index))
    alone = (time.perf_counter() - started) / 100 / NUM_WORKERS
    return {"seconds_a_record": each, "ideal": alone, "overhead": each / alone - 1, "start_up": times[200] - 200 * each}


def resume(scratch: Path, num: int = 100_000, repeats: int = 9) -> dict[str, Any]:
    """Go on with a campaign of many records, in this process and in workers: the quickest of some."""
    proposal, folder = fs.uniform(a=(0.0, 1.0)), scratch / "resume"
    fs.simulate(fs.from_python(quick), proposal, num, out=folder, progress=False)
    started = time.perf_counter()
    for index in range(1_000):
        quick(np.zeros(1), np.random.default_rng(index))
    rows: dict[str, Any] = {"records": num, "seconds_a_run": (time.perf_counter() - started) / 1_000}
    for name, engine in (("here", {}), ("workers", {"workers": NUM_WORKERS})):
        times = []
        for _ in range(repeats):
            started = time.perf_counter()
            fs.simulate(fs.from_python(quick), proposal, num, out=folder, progress=False, **engine)
            times.append(time.perf_counter() - started)
        rows[f"nothing_to_do_{name}"] = min(times)
        times = []
        for k in range(1, repeats + 1):
            started = time.perf_counter()
            total = num + 10 * k + (10 * repeats if engine else 0)
            fs.simulate(fs.from_python(quick), proposal, total, out=folder, progress=False, **engine)
            times.append(time.perf_counter() - started)
        rows[f"ten_more_{name}"] = min(times)
    return rows


def measured_elsewhere(source: Path) -> dict[str, Any]:
    """Measure another version by the same script."""
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, __file__, "--resume", "--out", name]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        return json.loads((Path(name) / "campaign_resume.json").read_text())["now"]


def quick(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=10)


def noise(key: Any, theta: Any) -> Any:
    import jax

    return theta + jax.random.normal(key, (10,))


def ledger(scratch: Path, num: int) -> dict[str, float]:
    """Write, open and read a ledger of ``num`` records of ten data."""
    folder, proposal = scratch / f"ledger{num}", fs.uniform(a=(0.0, 1.0))
    simulator = fs.from_jax(noise)
    started = time.perf_counter()
    fs.simulate(simulator, proposal, num, out=folder, progress=False)
    written = time.perf_counter()
    sims = fs.open_campaign(folder)
    status = fs.campaign_status(folder)
    opened = time.perf_counter()
    num_read = sum(len(part) for part in sims.batches(20_000))
    read = time.perf_counter()
    assert num_read == num == status.num_done
    return {
        "records": num,
        "write_seconds": written - started,
        "open_seconds": opened - written,
        "read_a_second": num / (read - opened),
        "megabytes": (folder / "campaign.sqlite").stat().st_size / 1e6,
    }


# A process whose memory may grow by a given amount after its imports and a first fit.
LIMITED = """
import resource, sys, warnings
import numpy as np
import fisherscore as fs

folder, megabytes = sys.argv[1], float(sys.argv[2])
recipe = fs.NetworkRecipe("vector_field", {"hidden": (16,)}, num_steps=int(sys.argv[3]))

def used(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))

if megabytes:
    small = fs.simulate(fs.from_jax(lambda key, t: t), fs.uniform(a=(0.0, 1.0)), 100, latent="additive")
    fs.fit(small, recipe=recipe, progress=False)
    limit = used("VmData") + int(megabytes * 2**20)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
sims = fs.open_campaign(folder)
before = used("VmRSS")
try:
    if sys.argv[4] == "whole":
        sims.ok()
    model = fs.fit(sims, recipe=recipe, progress=False, memory=megabytes / 1024)
except MemoryError:
    print("MemoryError")
    sys.exit(3)
print(f"{used('VmHWM') - before} {sims.num_bytes} {model.provenance['num_epochs']}")
"""


def larger_than_memory(scratch: Path, megabytes: float, num: int, size: int, steps: int = 500) -> dict[str, Any]:
    """Train on data four times a limit on the process's memory; as a control, try to load them whole."""
    import jax

    folder = scratch / "large"
    simulator = fs.from_jax(lambda key, theta: theta + jax.random.normal(key, (size,)), name="large")
    fs.simulate(simulator, fs.uniform(a=(0.0, 1.0)), num, latent="additive", out=folder, progress=False)

    def run(how: str) -> subprocess.CompletedProcess:
        arguments = [sys.executable, "-c", LIMITED, str(folder), str(megabytes), str(steps), how]
        return subprocess.run(arguments, capture_output=True, text=True, check=False)  # noqa: S603

    whole, parts = run("whole"), run("parts")
    if parts.returncode:
        raise SystemExit(f"training in parts failed:\n{parts.stdout}{parts.stderr}")
    grown, data, _ = map(int, parts.stdout.split())
    return {
        "limit_megabytes": megabytes,
        "data_megabytes": data / 2**20,
        "grown_by_megabytes": grown / 2**20,
        "loading_it_whole": "fails" if whole.returncode else "works",
    }


def draw(rows: list[dict[str, float]], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
    numbers = [r["records"] for r in rows]
    axes.loglog(numbers, [r["write_seconds"] for r in rows], "o-", label="simulate and write")
    axes.loglog(numbers, [r["records"] / r["read_a_second"] for r in rows], "s-", label="read in random order, checked")
    axes.loglog(numbers, [r["open_seconds"] for r in rows], "^-", label="open")
    scale = rows[-1]["write_seconds"] / numbers[-1]
    axes.loglog(numbers, [scale * n for n in numbers], "k:", label="proportional")
    axes.set_xlabel("records of ten data")
    axes.set_ylabel("seconds")
    axes.legend()
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="folder of the results; what --resume measures is else only shown")
    parser.add_argument("--resume", action="store_true", help="measure going on, and the overhead, alone")
    parser.add_argument("--before", type=Path, help="the folder src of another version, to be measured likewise")
    options = parser.parse_args()
    out = options.out or Path(__file__).parent / "results"
    out.mkdir(parents=True, exist_ok=True)
    if options.resume:
        with tempfile.TemporaryDirectory() as name:
            rows = {"now": {"resume": resume(Path(name)), "overhead": overhead(Path(name))}}
        if options.before:
            rows["before"] = measured_elsewhere(options.before)
        print(json.dumps(rows, indent=2))
        if options.out:
            write_json({"benchmark": "campaign_resume", **rows, "versions": versions()}, out / "campaign_resume.json")
        return
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        cost = overhead(scratch)
        print(f"overhead of {NUM_WORKERS} workers, 10 ms a record: {cost['overhead']:.1%}", flush=True)
        going_on = resume(scratch)
        print("  ".join(f"{k} {v:,.3g}" for k, v in going_on.items()), flush=True)
        large = larger_than_memory(scratch, 256.0, 16_000, 8_192)
        print("  ".join(f"{k} {v if isinstance(v, str) else round(v)}" for k, v in large.items()), flush=True)
        rows = []
        for num in SIZES:
            rows.append(ledger(scratch, num))
            print("  ".join(f"{k} {v:,.3g}" for k, v in rows[-1].items()), flush=True)
    draw(rows, out / "campaign.png")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    document = {
        "overhead": cost,
        "resume": going_on,
        "ledger": rows,
        "larger_than_memory": large,
        "peak_megabytes": peak,
    }
    write_json({"benchmark": "campaign", **document, "versions": versions()}, out / "campaign.json")


if __name__ == "__main__":
    main()
