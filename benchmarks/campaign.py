"""What a campaign costs: overhead of worker processes, a ledger of a million records, data larger than memory.

python benchmarks/campaign.py                # two minutes
"""

import argparse
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


# A process that may use so much memory more than it has after its imports and a first fit.
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
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        cost = overhead(scratch)
        print(f"overhead of {NUM_WORKERS} workers, 10 ms a record: {cost['overhead']:.1%}", flush=True)
        large = larger_than_memory(scratch, 256.0, 16_000, 8_192)
        print("  ".join(f"{k} {v if isinstance(v, str) else round(v)}" for k, v in large.items()), flush=True)
        rows = []
        for num in SIZES:
            rows.append(ledger(scratch, num))
            print("  ".join(f"{k} {v:,.3g}" for k, v in rows[-1].items()), flush=True)
    draw(rows, options.out / "campaign.png")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    document = {"overhead": cost, "ledger": rows, "larger_than_memory": large, "peak_megabytes": peak}
    write_json({"benchmark": "campaign", **document, "versions": versions()}, options.out / "campaign.json")


if __name__ == "__main__":
    main()
