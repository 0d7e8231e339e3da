"""Side by side with what a user would pick instead: other packages, exact gradients, the paper's recipe.

Every system runs in an environment of its own, made once in the user's cache with pinned versions, and each fit in a
process of its own. On problems whose score is known all are given the same simulations; compared are the score error,
posteriors of 40 mock observations with exact ones on a grid (C2ST of the best possible classifier, means, widths,
calibration), seconds of a fit and of one posterior by the system's own sampler, and peak memory. On tasks of the public
benchmark draws are compared with its reference posteriors by its classifier.

    python benchmarks/side_by_side.py                                       # everything
    python benchmarks/side_by_side.py problems --problems weak_lensing --systems ours "sbi NLE" --num-simulations 1000
    python benchmarks/side_by_side.py tasks --tasks two_moons
    python benchmarks/side_by_side.py --sbi ../sbi/bin/python --flowjax ../flowjax/bin/python
    python benchmarks/side_by_side.py --quick --out /tmp/side_by_side

Rows are added to those of earlier runs in results/side_by_side.json; a figure of calibration is drawn beside it.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import fisherscore as fs
from fisherscore._support.versions import versions, write_json
from fisherscore.accuracy import c2st, score_error_of
from peers.environments import ask, interpreter
from peers.measures import calibration, compare, grid_of
from sbi_tasks import TASKS, References
from simulation_efficiency import NUM_PAIRS, PROBLEMS

HERE = Path(__file__).parent / "results"
# Which script fits a system, and in which environment; ours run by this interpreter.
SYSTEMS = {
    "exact": ("by_us.py", None),  # NUTS with exact gradients: the ceiling
    "ours": ("by_us.py", None),
    "paper": ("by_us.py", None),
    "sbi NLE": ("by_sbi.py", "sbi"),
    "sbi NLE tuned": ("by_sbi.py", "sbi"),
    "sbi NPE": ("by_sbi.py", "sbi"),
    "sbi NPE tuned": ("by_sbi.py", "sbi"),
    "FlowJAX NLE": ("by_flowjax.py", "flowjax"),
}
USUAL = tuple(name for name in SYSTEMS if name != "paper")  # the paper's recipe takes hours without a GPU
SHOWN_TASKS = ("two_moons", "gaussian_mixture")
KEY = ("comparison", "problem", "system", "num_simulations", "seed")
NUM_DRAWS = 1_000
NUM_MOCKS = 40
Row = dict[str, Any]
Arrays = dict[str, np.ndarray]


def run(system: str, given: Arrays, order: Row, options: argparse.Namespace) -> tuple[Arrays, Row]:
    """Let a system fit and answer in a process of its own."""
    script, environment = SYSTEMS[system]
    python = Path(sys.executable) if environment is None else interpreter(environment, getattr(options, environment))
    with tempfile.TemporaryDirectory() as folder:
        places = {"given": f"{folder}/given.npz", "found": f"{folder}/found.npz"}
        np.savez(places["given"], **given)
        told = ask(python, script, {**order, **places, "system": system})
        with np.load(places["found"]) as file:
            return {name: file[name] for name in file.files}, told


def simulated(problem: Any, num: int, seed: int) -> Arrays:
    """Draw what all systems are given: simulations, test pairs, and mock observations with a grid where it can be."""
    proposal, simulator = problem.proposal, problem.simulator
    sims = fs.simulate(simulator, proposal, num, seed=seed, progress=False)
    theta, truths = proposal.sample(NUM_PAIRS, seed=1001), proposal.sample(NUM_MOCKS, seed=2001)
    mocks = simulator.draw(truths, seed=2002)
    given = {"theta": sims.theta, "x": sims.x, "low": proposal.low, "high": proposal.high, "observations": mocks[:1]}
    given |= {"test_theta": theta, "test_x": simulator.draw(theta, seed=1002)}
    grid = grid_of(proposal.low, proposal.high)
    if grid is not None:
        given |= {"grid": grid, "mocks": mocks, "truths": truths}
    return {name: np.asarray(value, np.float64) for name, value in given.items()}


def problems(options: argparse.Namespace) -> Iterator[Callable[[], Row]]:
    """List comparisons on problems whose score is known; what all systems are given is drawn here, once."""
    for name in options.problems:
        problem = getattr(fs.problems, name)()
        for num in options.num_simulations:
            for seed in range(options.seeds):
                given = simulated(problem, num, seed)
                exact = exact_answers(problem, given)
                for system in options.systems:
                    key = dict(zip(KEY, ("problems", name, system, num, seed), strict=True))
                    yield partial(on_problem, key, given, exact, options)


def on_problem(row: Row, given: Arrays, exact: Arrays, options: argparse.Namespace) -> Row:
    """Compare one system with what is exact."""
    order = {"problem": row["problem"], "seed": row["seed"], "num_draws": NUM_DRAWS}
    found, told = run(row["system"], given, order, options)
    good = np.isfinite(found["scores"]).all(axis=1)  # gradients of some networks overflow
    error = score_error_of(found["scores"][good], exact["scores"][good])
    row |= {"score_error": error.mean, "median": error.median, "not_finite": float(np.mean(~good)), **told}
    if "grid" in given:
        row |= compare(given["grid"], exact["on_grid"], found)
        row["calibration"] = calibration(row["levels"])
    return row


def exact_answers(problem: Any, given: Arrays) -> Arrays:
    """Return exact scores of the test pairs, and exact log-likelihoods of the mocks on the grid."""
    answers = {"scores": np.asarray(problem.score(given["test_theta"], given["test_x"]), np.float64)}
    if "grid" in given:
        model = problem.exact_model()
        rows = [np.asarray(model.log_likelihood(given["grid"], x), np.float64) for x in given["mocks"]]
        answers["on_grid"] = np.stack(rows)
    return answers


def tasks(options: argparse.Namespace) -> Iterator[Callable[[], Row]]:
    """List comparisons on tasks of the public benchmark, all from the same simulations over the prior."""
    references = References.found(options.sbibm, Path(tempfile.gettempdir()) / "sbibm")
    for name in options.tasks:
        task, numbers = TASKS[name](), range(1, options.observations + 1)
        observations = np.stack([references.observation(task, number) for number in numbers])
        posteriors = [references.posterior(task, number) for number in numbers]
        for num in options.num_simulations:
            theta = task.sample_prior(num, seed=num)
            given = {"theta": theta, "x": task.simulator.draw(theta, seed=num), "observations": observations}
            given |= {"low": task.proposal.low, "high": task.proposal.high}
            for system in (s for s in options.systems if s != "exact"):
                key = dict(zip(KEY, ("tasks", name, system, num, 0), strict=True))
                yield partial(on_task, key, given, posteriors, options)


def on_task(row: Row, given: Arrays, posteriors: list[np.ndarray], options: argparse.Namespace) -> Row:
    """Compare draws of one system with those of the reference posteriors."""
    order = {"problem": row["problem"], "seed": 0, "num_draws": NUM_DRAWS}
    found, told = run(row["system"], given, order, options)
    rng, values = np.random.default_rng(0), []
    for reference, draws in zip(posteriors, found["draws"], strict=True):
        values.append(c2st(reference[rng.permutation(len(reference))[: len(draws)]], draws))
    return row | {"c2st_of_observations": values, "c2st": float(np.mean(values)), **told}


def table(rows: list[Row]) -> str:
    head = ("score error", "C2ST", "mean", "width", "calibration", "fit s", "posterior s", "MB")
    lines = [f"{'problem':20s}{'simulations':>12s}  {'system':16s}" + "".join(f"{name:>13s}" for name in head)]
    for row in rows:
        cells = [row.get(name) for name in ("score_error", "c2st", "mean_error", "width_error", "calibration")]
        cells += [row["seconds"]["fit"], row["seconds"].get("one_posterior"), row["peak_mb"]]
        text = "".join(f"{'':13s}" if cell is None else f"{cell:13.4g}" for cell in cells)
        lines.append(f"{row['problem']:20s}{row['num_simulations']:12,d}  {row['system']:16s}{text}")
    return "\n".join(lines)


def draw(rows: list[Row], path: Path) -> None:
    """Draw calibration: how much mass lies above the density of the truth, against what it should be."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = [row for row in rows if "levels" in row]
    names = [name for name in PROBLEMS if any(row["problem"] == name for row in found)]
    if not names:
        return
    figure, panels = plt.subplots(
        1, len(names), figsize=(2.9 * len(names) + 2, 3.2), layout="constrained", squeeze=False
    )
    for axes, name in zip(panels[0], names, strict=True):
        least = min(row["num_simulations"] for row in found if row["problem"] == name)
        for index, system in enumerate(SYSTEMS):
            mine = [
                r["levels"] for r in found if (r["problem"], r["system"], r["num_simulations"]) == (name, system, least)
            ]
            if mine:
                values = np.sort(np.concatenate(mine))
                style: Row = {"color": f"C{index + index // 7}", "linewidth": 1.3}  # C7 is grey
                if system in ("exact", "ours"):
                    style = {"color": "darkgrey" if system == "exact" else "black", "linewidth": 2.4}
                axes.step(values, np.arange(1, len(values) + 1) / len(values), where="post", label=system, **style)
        axes.plot([0, 1], [0, 1], color="grey", linestyle=":", linewidth=1)
        axes.set_title(f"{name.replace('_', ' ')}, {least:,}", fontsize=10)
        axes.set_xlabel("posterior mass above the truth")
    panels[0, 0].set_ylabel("fraction of mocks")
    lines = {line.get_label(): line for axes in panels[0] for line in axes.lines if line.get_label() in SYSTEMS}
    figure.legend(lines.values(), lines.keys(), fontsize=8, loc="outside right upper")
    figure.savefig(path, dpi=130)
    plt.close(figure)


COMPARISONS = {"problems": problems, "tasks": tasks}


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("comparisons", nargs="*", default=["problems", "tasks"], help="problems, tasks, or both")
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--tasks", nargs="+", default=list(SHOWN_TASKS), choices=list(TASKS))
    parser.add_argument("--systems", nargs="+", default=list(USUAL), choices=list(SYSTEMS))
    parser.add_argument("--num-simulations", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--observations", type=int, default=10, help="of each task")
    parser.add_argument("--sbi", type=Path, help="an interpreter that has sbi")
    parser.add_argument("--flowjax", type=Path, help="an interpreter that has FlowJAX")
    parser.add_argument("--sbibm", type=Path, help="a wheel of sbibm, its unpacked folder, or a packed file")
    parser.add_argument("--jobs", type=int, default=1, help="systems that run at the same time")
    parser.add_argument("--quick", action="store_true", help="one problem, one seed, two systems")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    if wrong := set(options.comparisons) - COMPARISONS.keys():
        parser.error(f"expected problems, tasks, or both, got {', '.join(sorted(wrong))}")
    if options.quick:
        options.comparisons, options.problems, options.seeds = ["problems"], ["poisson_counts"], 1
        options.num_simulations, options.systems = [300], ["exact", "ours"]
    return options


def main() -> None:
    options = read_options()
    path = options.out / "side_by_side.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    kept = {tuple(row[k] for k in KEY): row for row in rows}
    hardware = f"{platform.machine()}, {os.cpu_count()} cores, {options.jobs} at a time"

    def keep(row: Row) -> None:
        kept[tuple(row[k] for k in KEY)] = row | {"hardware": hardware}
        print(table([row]).splitlines()[-1], flush=True)
        document = {"benchmark": "side_by_side", "rows": [kept[k] for k in sorted(kept)], "versions": versions()}
        write_json(document, path)

    # Each system runs in a process of its own; threads only wait for them.
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(job) for name in options.comparisons for job in COMPARISONS[name](options)]
        for job in as_completed(jobs):
            keep(job.result())
    rows = [kept[k] for k in sorted(kept)]
    print(table(rows))
    draw(rows, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
