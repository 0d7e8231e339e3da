"""Seconds from a question to its answer: every public step, in new processes and again, with how much is compilation.

Each step runs in a process of its own, of the older version and of this one in turn, so that ratios are fair on a busy
machine. The calls: the first in a new process without a compilation cache; the first in a new process with a warm one;
a second in the same process; with other input (another observation, point or set of simulations); and with another
model of the same shape.

    git worktree add ../old 5506085          # 0.1.0
    python benchmarks/time_to_answer.py --old ../old/src --run
    python benchmarks/time_to_answer.py --problems two_moons --steps fit sample_smc --num-simulations 10000
    python benchmarks/time_to_answer.py --steps fit sample --sbi ../peers/bin/python    # and sbi's NLE, all problems
    python benchmarks/time_to_answer.py --devices cpu gpu
    python benchmarks/time_to_answer.py --quick                                         # two minutes

Written to results/time_to_answer.json, and time_to_answer.png beside it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from fisherscore._support.versions import versions, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).resolve()
CHILD = HERE.with_name("time_to_answer_steps.py")
STEPS = (
    "simulate",
    "fit_closed_forms",
    "fit",
    "maximum_likelihood",
    "sample",
    "sample_smc",
    "forecast",
    "compress",
    "diagnose",
    "save_and_load",
)
# All problems of the table of score errors.
PROBLEMS = (
    "weak_lensing",
    "poisson_counts",
    "student_t",
    "two_signs",
    "gaussian_covariance",
    "waiting_times",
    "ten_parameters",
    "linear_gaussian",
)
PLATFORMS = {"cpu": "cpu", "gpu": "cuda"}
# What is drawn, in this order: version, call, label, colour.
BARS = (
    ("old", "first", "0.1.0, new process", "#9e9e9e"),
    ("old", "second", "0.1.0, again", "#d0d0d0"),
    ("new", "first", "new process, no cache", "#1f4e9e"),
    ("new", "cached", "new process, warm cache", "#2e8b57"),
    ("new", "second", "again", "#e08a1e"),
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """Where versions are found and what is measured with them."""

    sources: dict[str, Path]
    folder: Path
    options: argparse.Namespace

    def child(self, version: str, device: str, order: Row) -> Row:
        """Run one step in a process of its own."""
        return run_json([sys.executable, str(CHILD), json.dumps(order)], self.environment(version, device))

    def environment(self, version: str, device: str) -> dict[str, str]:
        """Return an environment in which one version is found, one device is used, and no cache is set."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_COMPILATION", "JAX_PERSISTENT"))}
        path = os.pathsep.join([str(self.sources[version]), os.environ.get("PYTHONPATH", "")])
        return kept | {"PYTHONPATH": path, "JAX_PLATFORMS": PLATFORMS[device], "FISHERSCORE_COMPILATION_CACHE": ""}

    def measure(self, problem: str, step: str, device: str) -> Iterator[Row]:
        """Time one step with both versions in turn, and once more with this one and a warm cache."""
        for repeat in range(self.options.repeats):
            for version in self.sources:
                folder = self.folder / device / version / problem
                folder.mkdir(parents=True, exist_ok=True)
                order = {
                    "problem": problem,
                    "step": step,
                    "num_simulations": self.options.num_simulations,
                    "num_posteriors": self.options.num_posteriors,
                    "models": [str(folder / name) for name in ("model", "other")],
                }
                told = {"problem": problem, "step": step, "version": version, "device": device, "repeat": repeat}
                plain = self.child(version, device, order)
                yield from ({**told, "call": call, **times} for call, times in plain["calls"].items())
                yield {**told, "step": "import", "call": "first", **_import_time(plain)}
                if version == "new":
                    # A folder for every step: what one step leaves there must not help another.
                    cached = order | {"cache": str(folder / f"cache-{step}-{repeat}"), "calls": ["first"]}
                    filling = self.child(version, device, cached)["calls"]["first"]
                    yield {**told, "call": "filling", **filling}
                    yield {**told, "call": "cached", **self.child(version, device, cached)["calls"]["first"]}

    def peer(self, problem: str) -> Iterator[Row]:
        """Time fit and first posterior of sbi's neural likelihood on the same simulations."""
        file = self.folder / f"{problem}.npz"
        order = {"step": "export", "problem": problem, "num_simulations": self.options.num_simulations}
        self.child("new", "cpu", order | {"file": str(file)})
        order = {"step": "neural_likelihood", "file": str(file), "num_draws": self.options.sbi_draws}
        plain = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        seconds = run_json([str(self.options.sbi.absolute()), str(CHILD), json.dumps(order)], plain, self.folder)
        told = {"problem": problem, "version": "sbi", "device": "cpu", "call": "first", "repeat": 0}
        yield from ({**told, "step": step, "seconds": value} for step, value in seconds.items())

    def whole_run(self) -> Iterator[Row]:
        """Time what ``make run`` does, with both versions, and once more with a warm cache."""
        calls = [("old", "first")] * ("old" in self.sources) + [("new", "filling"), ("new", "cached")]
        for version, call in calls:
            out = self.folder / f"run-{version}-{call}"
            arguments = ["run", "weak-lensing", "--out", str(out), *(["--quick"] if self.options.quick else [])]
            environment = self.environment(version, "cpu") | {"XDG_CACHE_HOME": str(self.folder / "run-cache")}
            started = time.perf_counter()
            command = [sys.executable, "-m", "fisherscore.cli", *arguments]
            subprocess.run(command, env=environment, check=True, capture_output=True)  # noqa: S603
            seconds = time.perf_counter() - started
            told = {"problem": "weak_lensing", "step": "run", "version": version, "device": "cpu", "repeat": 0}
            yield {**told, "call": "first" if call == "filling" else call, "seconds": seconds, "parts": _parts(out)}


def _import_time(plain: Row) -> Row:
    return {"seconds": plain["import"], "compile_seconds": 0.0, "num_compiled": 0, "num_loaded": 0}


def _parts(out: Path) -> Row:
    return json.loads((out / "results.json").read_text())["seconds"]


def run_json(command: list[str], environment: dict[str, str], folder: Path | None = None) -> Row:
    """Run a command, in a folder that it may litter, and read the last line it writes."""
    done = subprocess.run(  # noqa: S603
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def present(device: str) -> bool:
    """Say whether JAX finds a device."""
    code = f"import jax; jax.config.update('jax_platforms', '{PLATFORMS[device]}'); jax.devices()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0  # noqa: S603


def median(rows: list[Row], key: str = "seconds", **wanted: Any) -> float | None:
    """Return the median over repeats of what was measured of a case."""
    found = [row[key] for row in rows if wanted.items() <= row.items() and key in row]
    return float(np.median(found)) if found else None


def steps_of(rows: list[Row]) -> list[str]:
    there = {row["step"] for row in rows}
    return [step for step in ("import", *STEPS, "run") if step in there]


def table(rows: list[Row]) -> str:
    """Write seconds (of which compilation), and ratios to the older version, one line a step."""
    lines = []
    for device, problem in sorted({(row["device"], row["problem"]) for row in rows}):
        here = [row for row in rows if (row["device"], row["problem"]) == (device, problem)]
        lines += ["", f"{problem} on {device}: seconds (of which compilation); compiled functions of another model"]
        heads = ("old first", "first", "cached", "second", "other input", "other model", "compiled", "×", "× cached")
        lines.append(f"{'step':20s}" + "".join(f"{head:>15s}" for head in (*heads, "sbi")))
        for step in steps_of(here):
            mine = [row for row in here if row["step"] == step]
            calls = [("old", "first"), *(("new", c) for c in ("first", "cached", "second", "other_input"))]
            cells = [_cell(mine, version, call) for version, call in [*calls, ("new", "other_model")]]
            count = median(mine, "num_compiled", version="new", call="other_model")
            cells.append("" if count is None else f"{count:.0f}")
            cells += [_ratio(mine, "first"), _ratio(mine, "cached"), _cell(mine, "sbi", "first")]
            lines.append(f"{step:20s}" + "".join(f"{cell:>15s}" for cell in cells))
    return "\n".join(lines)


def _cell(rows: list[Row], version: str, call: str) -> str:
    seconds = median(rows, version=version, call=call)
    compilation = median(rows, "compile_seconds", version=version, call=call)
    if seconds is None:
        return ""
    return f"{seconds:.3g}" if compilation is None else f"{seconds:.3g} ({compilation:.2g})"


def _ratio(rows: list[Row], call: str) -> str:
    old, new = median(rows, version="old", call="first"), median(rows, version="new", call=call)
    return "" if old is None or new is None else f"{old / new:.1f}"


def draw(rows: list[Row], path: Path) -> None:
    """Draw bars of log seconds: full colour is run, the lighter part on top of it compilation."""
    cases = sorted({(row["device"], row["problem"]) for row in rows})
    figure, grid = plt.subplots(len(cases), 1, figsize=(13, 3.6 * len(cases)), layout="constrained", squeeze=False)
    floor = 1e-3
    for axes, (device, problem) in zip(grid[:, 0], cases, strict=True):
        here = [row for row in rows if (row["device"], row["problem"]) == (device, problem)]
        steps = steps_of(here)
        for position, (version, call, label, colour) in enumerate(BARS):
            places, runs, totals = [], [], []
            for number, step in enumerate(steps):
                wanted = {"step": step, "version": version, "call": call}
                seconds = median(here, **wanted)
                if seconds is not None:
                    compilation = median(here, "compile_seconds", **wanted) or 0.0
                    places.append(number + (position - 2) * 0.16)
                    runs.append(max(seconds - compilation, floor))
                    totals.append(max(seconds, floor))
            axes.bar(places, totals, 0.15, bottom=0, color=colour, alpha=0.4)
            axes.bar(places, runs, 0.15, bottom=0, color=colour, label=label if places else None)
        axes.set_yscale("log")
        axes.set_ylim(bottom=floor)
        axes.set_xticks(range(len(steps)), [step.replace("_", "\n") for step in steps], fontsize=9)
        axes.set_ylabel("seconds")
        axes.set_title(f"{problem.replace('_', ' ')}, {device} (light: compilation)", fontsize=11)
        axes.grid(axis="y", alpha=0.3)
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, help="source folder of the older version")
    parser.add_argument("--sbi", type=Path, help="an interpreter that has sbi: fit and sample on every problem")
    parser.add_argument("--sbi-draws", type=int, default=1_000, help="draws of sbi's posterior; ours are 4,000")
    parser.add_argument("--problems", nargs="+", choices=(*PROBLEMS, "two_moons"))
    parser.add_argument("--steps", nargs="+", default=list(STEPS), choices=STEPS)
    parser.add_argument("--devices", nargs="+", default=["cpu"], choices=list(PLATFORMS))
    parser.add_argument("--num-simulations", type=int, default=2_000)
    parser.add_argument("--num-posteriors", type=int, default=50, help="posteriors of diagnose")
    parser.add_argument("--repeats", type=int, default=1, help="medians over so many rounds")
    parser.add_argument("--run", action="store_true", help="also what make run does")
    parser.add_argument("--quick", action="store_true", help="a small problem and few steps")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results")
    options = parser.parse_args()
    if options.quick:
        options.steps, options.num_simulations = ["simulate", "fit", "sample", "save_and_load"], 200
    if options.problems is None:
        options.problems = list(PROBLEMS) if options.sbi else ["linear_gaussian" if options.quick else "weak_lensing"]
    # Everything after a fit needs the models it leaves.
    if "fit" not in options.steps and set(options.steps) - {"simulate", "fit_closed_forms"}:
        options.steps = ["fit", *options.steps]
    options.steps.sort(key=STEPS.index)
    return options


def main() -> None:
    options = read_options()
    sources = {"old": options.old.resolve()} if options.old else {}
    sources["new"] = HERE.parents[1] / "src"
    rows: list[Row] = []
    settings = {name: getattr(options, name) for name in ("num_simulations", "num_posteriors", "sbi_draws", "repeats")}
    document = {"benchmark": "time_to_answer", "settings": settings, "versions": versions()}

    def keep(new: Iterator[Row]) -> None:
        for row in new:
            rows.append(row)
            print(f"{row['problem']:20s}{row['step']:20s}{row['version']:5s}{row['call']:13s}{row['seconds']:9.3f} s")
        write_json({**document, "rows": rows}, options.out / "time_to_answer.json")  # all there is so far

    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(sources, Path(folder), options)
        for device in filter(present, options.devices):
            for problem in options.problems:
                for step in options.steps:
                    keep(bench.measure(problem, step, device))
                if options.sbi and device == "cpu":
                    keep(bench.peer(problem))
        if options.run:
            keep(bench.whole_run())
    print(table(rows))
    draw(rows, options.out / "time_to_answer.png")


if __name__ == "__main__":
    main()
