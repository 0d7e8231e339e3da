"""How time and memory grow: with simulations (10³ to 10⁶), data (3 to 1,000) and parameters (1 to 30).

The problem has any size: independent Gaussian data whose mean and logarithm of the standard deviation move smoothly
with all parameters. Each point runs in a process of its own, which tells the seconds of every step, how much of them
was compilation, and its peak memory. Slopes are fitted to the run time alone, in double logarithms: 1 is linear.

    python benchmarks/growth.py
    python benchmarks/growth.py --old ../old/src            # the point of 21 parameters with the older version, too
    python benchmarks/growth.py --axes simulations --largest 100000
    python benchmarks/growth.py --quick                     # two small points an axis

Written to results/growth.json, and growth.png beside it.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).resolve()
STEPS = ("simulate", "fit", "maximum_likelihood", "sample", "forecast")
# One of the three sizes grows, the others stay: simulations, data, parameters.
MIDDLE = {"simulations": 5_000, "data": 10, "parameters": 3}
AXES = {
    "simulations": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    "data": (3, 10, 30, 100, 300, 1_000),
    "parameters": (1, 2, 5, 10, 20, 30),
}
LARGE = {"simulations": 5_000, "data": 100, "parameters": 21}
Row = dict[str, Any]


def problem_of(num_parameters: int, num_data: int) -> tuple[Any, Any]:
    """Return a simulator and a proposal: x_j ~ N(m_j(θ), s_j(θ)²), both smooth functions of all parameters."""
    import jax
    import jax.numpy as jnp

    import fisherscore as fs

    rng = np.random.default_rng(5)
    linear, bent, width = (
        rng.normal(size=(num_data, num_parameters)).astype(np.float32) / num_parameters**0.5 for _ in range(3)
    )

    def draw(key: Any, theta: Any) -> Any:
        mean = 2.0 * linear @ theta + 0.5 * jnp.sin(bent @ theta)
        return mean + jnp.exp(0.3 * width @ theta) * jax.random.normal(key, mean.shape)

    names = [(f"theta{i + 1}", (-1.0, 1.0)) for i in range(num_parameters)]
    return fs.from_jax(draw), fs.uniform(names)


def measure(order: Row) -> Row:
    """Run all steps at one size, with the version that is importable here."""
    import fisherscore as fs
    from time_to_answer_steps import CompileClock

    clock, made = CompileClock(), {}
    simulator, proposal = problem_of(order["parameters"], order["data"])
    centre = np.zeros(order["parameters"])
    num_forecast = max(10_000, 100 * (2 * order["parameters"] + 1))

    def kept(name: str, value: Any) -> Any:
        made[name] = value
        return value

    calls = {
        "simulate": lambda: kept("sims", fs.simulate(simulator, proposal, order["simulations"], progress=False)),
        "fit": lambda: kept("model", fs.fit(made["sims"], progress=False)),
        "maximum_likelihood": lambda: fs.maximum_likelihood(made["model"], made["x"]),
        "sample": lambda: fs.sample(made["model"], made["x"], progress=False),
        "forecast": lambda: fs.forecast(made["model"], centre, simulator, num_simulations=num_forecast),
    }
    times, peaks = {}, {}
    for step in order["steps"]:
        if step == "maximum_likelihood" or "x" not in made:
            made["x"] = simulator.draw(centre, seed=3)
        times[step] = clock.time(calls[step])
        # Peaks only ever rise: that of a step counts those before it.
        peaks[step] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"version": fs.__version__, "times": times, "peak_megabytes": peaks}


def measured_with(source: Path, size: Row, options: argparse.Namespace) -> list[Row]:
    """Measure one size in a process of its own; a size that takes too long, or too much memory, is noted as such."""
    path = os.pathsep.join([str(source), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION")} | {"PYTHONPATH": path}
    command = [sys.executable, str(HERE), "--case", json.dumps(size | {"steps": options.steps})]
    started = time.perf_counter()
    try:
        done = subprocess.run(  # noqa: S603
            command, env=environment, capture_output=True, text=True, check=False, timeout=options.timeout
        )
    except subprocess.TimeoutExpired:
        return [{**size, "step": "all", "failed": f"over {options.timeout:.0f} s"}]
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return [{**size, "step": "all", "failed": reason[-300:], "seconds": time.perf_counter() - started}]
    result = json.loads(done.stdout.splitlines()[-1])
    return [
        {**size, "step": step, **times, "peak_megabytes": result["peak_megabytes"][step]}
        for step, times in result["times"].items()
    ]


def run_seconds(row: Row) -> float:
    return max(row["seconds"] - row["compile_seconds"], 1e-3)


def series(rows: list[Row], axis: str, step: str, value: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return sizes along an axis and a value measured there."""
    mine = [row for row in rows if row.get("axis") == axis and row["step"] == step and "failed" not in row]
    mine.sort(key=lambda row: row[axis])
    return np.array([row[axis] for row in mine], float), np.array([value(row) for row in mine], float)


def slope(sizes: np.ndarray, values: np.ndarray) -> float | None:
    """Fit the exponent of growth to the larger half of the sizes: small ones cost what they cost."""
    chosen = slice(len(sizes) // 2 - (len(sizes) < 4), None)
    if len(sizes[chosen]) < 2:
        return None
    return float(np.polyfit(np.log(sizes[chosen]), np.log(values[chosen]), 1)[0])


def slopes(rows: list[Row]) -> list[Row]:
    """Return exponents of run time and peak memory, one line an axis and step."""
    lines = []
    for axis in AXES:
        for step in STEPS:
            time_slope = slope(*series(rows, axis, step, run_seconds))
            if time_slope is not None:
                memory = slope(*series(rows, axis, step, lambda row: row["peak_megabytes"]))
                lines.append({"axis": axis, "step": step, "time": time_slope, "memory": memory})
    return lines


def report(rows: list[Row], exponents: list[Row]) -> None:
    print(f"{'axis':13s}{'size':>10s}  {'step':20s}{'seconds':>10s}{'compiling':>10s}{'peak MB':>10s}")
    for row in rows:
        size = row.get(row.get("axis", ""), "large")
        if "failed" in row:
            print(f"{row.get('axis', row.get('version')):13s}{size:>10}  {row['failed']}")
            continue
        numbers = f"{row['seconds']:10.2f}{row['compile_seconds']:10.2f}{row['peak_megabytes']:10.0f}"
        print(f"{row.get('axis', row.get('version')):13s}{size:>10}  {row['step']:20s}{numbers}")
    for line in exponents:
        too_fast = line["axis"] == "simulations" and line["time"] > 1.1
        verdict = "  FASTER THAN LINEARLY" if too_fast else ""
        print(f"{line['step']:20s} grows with {line['axis']:12s} as the power {line['time']:.2f}{verdict}")


def draw(rows: list[Row], exponents: list[Row], path: Path) -> None:
    figure, grid = plt.subplots(2, len(AXES), figsize=(13, 7), layout="constrained", sharey="row")
    powers = {(line["axis"], line["step"]): line["time"] for line in exponents}
    values = {"run time (s)": run_seconds, "peak memory (MB)": lambda row: row["peak_megabytes"]}
    for axes_row, (label, value) in zip(grid, values.items(), strict=True):
        for axes, axis in zip(axes_row, AXES, strict=True):
            for number, step in enumerate(STEPS):
                sizes, measured = series(rows, axis, step, value)
                power = powers.get((axis, step))
                name = step.replace("_", " ") + ("" if power is None else f" ({power:.2f})")
                if len(sizes):
                    axes.loglog(sizes, measured, "o-", color=f"C{number}", label=name)
            axes.set_xlabel(f"number of {axis}")
            axes.set_ylabel(label)
            axes.grid(alpha=0.3)
            if axes.lines and label.startswith("run"):
                axes.legend(fontsize=8, title="power of growth", title_fontsize=8, loc="upper left", ncols=2)
    grid[0, 0].set_ylim(top=30 * grid[0, 0].get_ylim()[1])  # room for the legends
    figure.savefig(path, dpi=130)
    plt.close(figure)


def sizes_of(options: argparse.Namespace) -> list[Row]:
    """List the sizes to be measured along the axes."""
    sizes = []
    for axis in options.axes:
        numbers = [n for n in AXES[axis] if axis != "simulations" or n <= options.largest]
        numbers = numbers[:2] if options.quick else numbers
        middle = MIDDLE | ({"simulations": 500} if options.quick else {})
        sizes += [{**middle, axis: number, "axis": axis} for number in numbers]
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, help="source folder of the older version, for the large point")
    parser.add_argument("--axes", nargs="*", default=list(AXES), choices=list(AXES))
    parser.add_argument("--steps", nargs="+", default=list(STEPS), choices=STEPS)
    parser.add_argument("--largest", type=int, default=1_000_000, help="most simulations")
    parser.add_argument("--large", action="store_true", help="also 21 parameters, 100 data, 5,000 simulations")
    parser.add_argument("--timeout", type=float, default=3_600.0, help="seconds after which a point is given up")
    parser.add_argument("--quick", action="store_true", help="two small points an axis")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            print("\n" + json.dumps(measure(json.loads(options.case))))
        return
    from fisherscore._support.versions import versions, write_json

    sources = {"new": HERE.parents[1] / "src"} | ({"old": options.old.resolve()} if options.old else {})
    orders = [(sources["new"], size) for size in sizes_of(options)]
    if options.large or options.old:
        orders += [(source, LARGE | {"version": version}) for version, source in sources.items()]
    rows: list[Row] = []
    for source, size in orders:
        rows += measured_with(source, size, options)
        print(size, {row["step"]: round(row.get("seconds", 0), 2) for row in rows if size.items() <= row.items()})
        document = {"benchmark": "growth", "rows": rows, "slopes": slopes(rows), "versions": versions()}
        write_json(document, options.out / "growth.json")
    report(rows, slopes(rows))
    draw(rows, slopes(rows), options.out / "growth.png")


if __name__ == "__main__":
    main()
