"""Side by side with what a user would pick instead: other packages, exact gradients, the paper's recipe.

Every system runs in an environment of its own, made once in the user's cache with pinned versions, and each fit in a
process of its own. All are given the same simulations, but those that choose where to simulate, which get as many.

problems    problems whose score is known: the score error, posteriors of 40 mock observations against exact ones on a
            grid (C2ST of the best possible classifier, means, widths, calibration), seconds of a fit and of one
            posterior by the system's own sampler, and peak memory
scores      the score error alone, for many numbers of simulations
fields      maps of 32 × 32 pixels, compared as problems are
many        21 parameters: the score error, and σ of a forecast
tasks       tasks of the public benchmark: draws against its reference posteriors by its classifier

    python benchmarks/side_by_side.py                                       # everything
    python benchmarks/side_by_side.py problems --problems weak_lensing --systems ours "sbi NLE" --num-simulations 1000
    python benchmarks/side_by_side.py scores --num-simulations 500 2000 10000
    python benchmarks/side_by_side.py tasks --tasks two_moons --observations 2 --missing
    python benchmarks/side_by_side.py --sbi ../sbi/bin/python --flowjax ../flowjax/bin/python
    python benchmarks/side_by_side.py --quick --out /tmp/side_by_side

Rows are added to those of earlier runs in results/side_by_side.json as they come, also those of systems that fail or
take longer than --limit; a figure of calibration is drawn beside it. --missing measures only what is not there yet.
"""

import argparse
import json
import os
import platform
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from fisherscore._support.versions import versions, write_json
from peers.comparisons import COMPARISONS, KEY, SYSTEMS, USUAL, Row, done
from sbi_tasks import TASKS
from simulation_efficiency import PROBLEMS

HERE = Path(__file__).parent / "results"
SHOWN_TASKS = ("two_moons", "gaussian_mixture", "slcp", "sir", "gaussian_linear")
NUMBERS = {"fields": [2_000], "many": [5_000], "scores": [500, 2_000, 10_000]}
USUAL_NUMBERS = [1_000, 10_000]
PANELS_ACROSS = 4
COLOURS = [f"C{k}" for k in range(10) if k != 7]  # C7 is grey


def table(rows: list[Row]) -> str:
    keys = ("score_error", "c2st", "mean_error", "width_error", "calibration", "sigma_off")
    head = ("score error", "C2ST", "mean", "width", "calibration", "σ off", "fit s", "posterior s", "MB")
    start = f"{'':10s}{'problem':20s}{'simulations':>12s}{'seed':>5s}  {'system':14s}"
    lines = [start + "".join(f"{name:>12s}" for name in head)]
    for row in rows:
        seconds = row.get("seconds", {})
        cells = [*(row.get(key) for key in keys), seconds.get("fit"), seconds.get("one_posterior"), row.get("peak_mb")]
        text = "".join(f"{'':12s}" if cell is None else f"{cell:12.4g}" for cell in cells)
        told = row.get("unfinished") or " ".join(row.get("failed", "").split())[-100:]
        start = f"{row['comparison']:10s}{row['problem']:20s}{row['num_simulations']:12,d}{row['seed']:5d}"
        lines.append(f"{start}  {row['system']:14s}{told or text}")
    return "\n".join(lines)


def draw(rows: list[Row], path: Path) -> None:
    """Draw calibration: how much mass lies above the density of the truth, against what it should be."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = [row for row in rows if "levels" in row]
    names = list(dict.fromkeys(row["problem"] for row in found))
    if not names:
        return
    across = min(len(names), PANELS_ACROSS)
    down = -(-len(names) // across)
    shape = {"figsize": (2.9 * across + 2, 3.2 * down), "layout": "constrained", "squeeze": False}
    figure, panels = plt.subplots(down, across, sharex=True, sharey=True, **shape)
    for axes in panels.ravel()[len(names) :]:
        axes.set_axis_off()
    for axes, name in zip(panels.ravel(), names, strict=False):
        panel(axes, [row for row in found if row["problem"] == name])
        axes.set_xlabel("posterior mass above the truth")
        axes.xaxis.set_tick_params(labelbottom=True)
    for axes in panels[:, 0]:
        axes.set_ylabel("fraction of mocks")
    lines = {line.get_label(): line for axes in panels.ravel() for line in axes.lines if line.get_label() in SYSTEMS}
    lines = {system: lines[system] for system in SYSTEMS if system in lines}
    figure.legend(lines.values(), lines.keys(), fontsize=8, loc="outside right upper")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def panel(axes: Any, rows: list[Row]) -> None:
    """Draw one problem, with the least number of simulations there is; seeds are taken together."""
    least = min(row["num_simulations"] for row in rows)
    for index, system in enumerate(SYSTEMS):
        mine = [r["levels"] for r in rows if (r["system"], r["num_simulations"]) == (system, least)]
        if mine:
            values = np.sort(np.concatenate(mine))
            style: Row = {"color": COLOURS[index % len(COLOURS)], "linewidth": 1.3}
            if system in ("exact", "ours"):
                style = {"color": "darkgrey" if system == "exact" else "black", "linewidth": 2.4}
            axes.step(values, np.arange(1, len(values) + 1) / len(values), where="post", label=system, **style)
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":", linewidth=1)
    axes.set_title(f"{rows[0]['problem'].replace('_', ' ')}, {least:,}", fontsize=10)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("comparisons", nargs="*", default=list(COMPARISONS), help=f"of {', '.join(COMPARISONS)}")
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--tasks", nargs="+", default=list(SHOWN_TASKS), choices=list(TASKS))
    parser.add_argument("--systems", nargs="+", default=list(USUAL), choices=list(SYSTEMS))
    parser.add_argument("--num-simulations", type=int, nargs="+", help="by default some of each comparison's own")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--observations", type=int, default=10, help="of each task")
    parser.add_argument("--missing", action="store_true", help="measure only rows that are not there yet")
    parser.add_argument("--limit", type=float, default=7_200, help="seconds after which a system is ended")
    parser.add_argument("--sbi", type=Path, help="an interpreter that has sbi")
    parser.add_argument("--flowjax", type=Path, help="an interpreter that has FlowJAX")
    parser.add_argument("--sbibm", type=Path, help="a wheel of sbibm, its unpacked folder, or a packed file")
    parser.add_argument("--jobs", type=int, default=1, help="systems that run at the same time")
    parser.add_argument("--quick", action="store_true", help="one problem, one seed, two systems")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    if wrong := set(options.comparisons) - COMPARISONS.keys():
        parser.error(f"expected {', '.join(COMPARISONS)}, or some of them, got {', '.join(sorted(wrong))}")
    if options.quick:
        options.comparisons, options.problems, options.seeds = ["problems"], ["poisson_counts"], 1
        options.num_simulations, options.systems = [300], ["exact", "ours"]
    options.interpreters = {"sbi": options.sbi, "flowjax": options.flowjax}
    return options


def jobs_of(options: argparse.Namespace) -> Iterator[tuple[Row, Callable[[], Row]]]:
    """List all jobs; what they are given is drawn when the first of a group is taken."""
    for name in options.comparisons:
        numbers = options.num_simulations or NUMBERS.get(name, USUAL_NUMBERS)
        yield from COMPARISONS[name](argparse.Namespace(**{**vars(options), "num_simulations": numbers}))


def measure(options: argparse.Namespace, path: Path) -> list[Row]:
    """Do all jobs, and write rows as they come."""
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    kept = {tuple(row[k] for k in KEY): row for row in rows}
    options.there = set(kept) if options.missing else set()
    hardware = f"{platform.machine()}, {os.cpu_count()} cores, {options.jobs} at a time"
    lock, jobs = threading.Lock(), jobs_of(options)

    def work() -> None:
        while True:
            with lock:
                job = next(jobs, None)
            if job is None:
                return
            row = done(*job)
            with lock:
                kept[tuple(row[k] for k in KEY)] = row | {"hardware": hardware}
                print(table([row]).splitlines()[-1], flush=True)
                document = {"benchmark": "side_by_side", "rows": [kept[k] for k in sorted(kept)]}
                write_json({**document, "versions": versions()}, path)

    # Each system runs in a process of its own; threads only wait for them.
    with ThreadPoolExecutor(options.jobs) as pool:
        for future in [pool.submit(work) for _ in range(options.jobs)]:
            future.result()
    return [kept[k] for k in sorted(kept)]


def main() -> None:
    options = read_options()
    path = options.out / "side_by_side.json"
    print(table([]), flush=True)
    rows = measure(options, path)
    print(table(rows))
    draw(rows, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
