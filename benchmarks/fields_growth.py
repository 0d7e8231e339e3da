"""Maps: information kept, time and memory against the number of pixels, for Gaussian fields of 16 to 256 a side.

The noise has the same power at all sizes, and k is in periods a side: larger maps add small scales, which hold little
information where noise covers them. Every size has a process of its own, so that memory is its own as well.

    python benchmarks/fields_growth.py
    python benchmarks/fields_growth.py --sides 256  # one size; others stay as they are in the results
    python benchmarks/fields_growth.py --quick      # 16 to 64 pixels, 1,000 simulations
"""

import argparse
import json
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import fisherscore as fs
from fisherscore._support.versions import versions, write_json
from fisherscore.accuracy import score_error

SIDES = (16, 32, 64, 128, 256)
NUM_FORECAST, NUM_PAIRS, SEED = 4_000, 2_000, 1_000


def largest_memory() -> float:
    """Return the largest memory of this process so far, in gigabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measured(side: int, num: int) -> dict[str, Any]:
    """Simulate and fit maps of one size, and compare with what is exact."""
    problem = fs.problems.gaussian_field(side)
    started = time.perf_counter()
    sims = fs.simulate(problem.simulator, problem.proposal, num, seed=SEED, progress=False)
    sims.x  # noqa: B018 - what is read late counts as simulated
    simulated = time.perf_counter()
    before = largest_memory()
    model = fs.fit(sims, embedding=None, progress=False)
    row = {
        "side": side,
        "num_simulations": num,
        "seconds_of_simulations": simulated - started,
        "seconds": time.perf_counter() - simulated,
        "gigabytes_before": before,
        "gigabytes": largest_memory(),
        "estimated_error": model.estimated_error,
    }
    theta0 = (problem.proposal.low + problem.proposal.high) / 2
    exact = problem.fisher(theta0)
    forecast = fs.forecast(model, theta0, problem.simulator, num_simulations=NUM_FORECAST, seed=SEED + 1)
    return row | {
        "error": score_error(model, problem, num_pairs=NUM_PAIRS).mean,
        "exact_determinant": float(np.linalg.det(exact)),
        "determinant_of_bound": float(np.linalg.det(forecast.fisher_bound) / np.linalg.det(exact)),
    }


def slope(rows: list[dict[str, Any]], key: str) -> float:
    """Fit the power of the number of pixels by which a cost grows, from the two largest sizes."""
    (first, last) = rows[-2:]
    return float(np.log(last[key] / first[key]) / np.log(last["side"] ** 2 / first["side"] ** 2))


def figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the error, the time and the memory against the number of pixels, beside lines of slope one."""
    figure, panels = plt.subplots(1, 3, figsize=(10.5, 3.2), layout="constrained")
    pixels = np.array([row["side"] ** 2 for row in rows])
    titles = (("error", "score error"), ("seconds", "fit [s]"), ("gigabytes", "largest memory [GB]"))
    for ax, (key, label) in zip(panels, titles, strict=True):
        values = np.array([row[key] for row in rows])
        ax.loglog(pixels, values, "o-")
        if key != "error":
            ax.loglog(pixels, values[-1] * pixels / pixels[-1], ":", color="grey", label="linear in pixels")
            ax.legend(frameon=False)
        ax.set(xlabel="pixels", ylabel=label)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sides", type=int, nargs="+", default=list(SIDES))
    parser.add_argument("--num-simulations", type=int, default=2_000)
    parser.add_argument("--quick", action="store_true", help="the three smallest, 1,000 simulations")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if options.quick:
        options.sides, options.num_simulations = list(SIDES[:3]), 1_000
    options.out.mkdir(parents=True, exist_ok=True)
    name = "fields_growth_quick" if options.quick else "fields_growth"
    path = options.out / f"{name}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    for side in options.sides:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            row = pool.submit(measured, side, options.num_simulations).result()
        print(json.dumps(row), flush=True)
        rows = sorted([*(r for r in rows if r["side"] != side), row], key=lambda r: r["side"])
        powers = {key: slope(rows, key) for key in ("seconds", "gigabytes")} if len(rows) > 1 else {}
        document = {"benchmark": "fields_growth", "rows": rows, "powers": powers, "versions": versions()}
        write_json(document, path)
    if powers:
        print(f"powers of the pixels: time {powers['seconds']:.2f}, memory {powers['gigabytes']:.2f}")
        figure(rows, options.out / f"{name}.png")


if __name__ == "__main__":
    main()
