"""Forecasts at equal numbers of simulations: finite differences, CompressedFisher, DerivKit, and the learned score.

Every estimator is given the same number of runs of the simulator, and none a gradient. The others share them evenly
among θ₀ and two points beside it for each parameter, with the same random numbers at all points (paired seeds); ours
spends three tenths on a fit in a box around θ₀ (a share chosen on other seeds) and the rest on ``fs.forecast``, which
uses such points too. All are told the step, 0.4 σ, and CompressedFisher is told the family of the data where it has it
(Poisson; Gaussian whose covariance moves). Errors are those of σ of each parameter relative to the exact one.

    python benchmarks/forecast_face_off.py                     # the others' environment is made in the user's cache
    python benchmarks/forecast_face_off.py --python ../peers/bin/python --problems weak_lensing
    python benchmarks/forecast_face_off.py --of ours --jobs 16
    python benchmarks/forecast_face_off.py --quick --out /tmp/face_off

Rows are added to those of earlier runs in results/forecast_face_off.json; a figure is drawn beside it.
"""

import argparse
import functools
import json
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from peers.environments import ask, interpreter

HERE = Path(__file__).parent / "results"
STEP = 0.4  # in units of σ, as fs.forecast chooses it
SHARE = 0.3  # of the simulations, spent on a fit
BOX = 5.0  # half-width of the box of a fit in units of σ, cut where the problem's range ends
# Where forecasts are made, and of which family the data are.
PROBLEMS = {
    "weak_lensing": ((0.3, 0.8), "gaussian"),
    "poisson_counts": ((1.2, 0.3), "poisson"),
    "gaussian_covariance": ((0.0, 0.7), "gaussian, covariance moves"),
    "waiting_times": (
        (0.2, -0.1, 0.3),
        "gaussian",
    ),  # its mean says all, and counting its covariance too would claim more than there is
    "student_t": ((0.2, -0.1), "gaussian, covariance moves"),  # neither family is its own
}
NUMBERS = (500, 1_000, 2_000, 5_000)
KEY = ("problem", "estimator", "num_simulations", "seed")
PLAIN = "finite differences"
OURS = ("ours, bound", "ours, slope", "ours, plug-in")
THEIRS = tuple(f"CompressedFisher, {kind}" for kind in ("standard", "compressed", "combined"))
ESTIMATORS = (PLAIN, *THEIRS, "DerivKit", *OURS)
CLAIM = 0.05  # a σ below the exact one by more than this is called a claim
Row = dict[str, Any]
Case = tuple[str, int, int]


@functools.cache
def place(name: str) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """Return a problem, θ₀, the exact Fisher matrix and the exact σ."""
    import fisherscore as fs

    problem, theta = getattr(fs.problems, name)(), np.array(PROBLEMS[name][0])
    fisher = problem.fisher(theta)
    return problem, theta, fisher, np.sqrt(np.diag(np.linalg.inv(fisher)))


def row_of(case: Case, estimator: str, matrix: np.ndarray, truth: np.ndarray) -> Row:
    """Compare a matrix with the exact one: σ, and the largest claim of information over all directions."""
    half = np.linalg.inv(np.linalg.cholesky(truth))
    claimed = np.linalg.eigvalsh(half @ (matrix + matrix.T) @ half.T / 2)
    row: Row = dict(zip(KEY, (case[0], estimator, *case[1:]), strict=True))
    row["largest_claim"] = float(claimed[-1] - 1)
    if claimed[0] > 0:
        exact = np.diag(np.linalg.inv(truth))
        row["sigma_over_exact"] = np.sqrt(np.diag(np.linalg.inv(matrix)) / exact).tolist()
    return row


def ours(order: tuple[Case, str]) -> list[Row]:
    """Fit with a part of the simulations and forecast with the others."""
    import fisherscore as fs

    case, recipe = order
    name, number, seed = case
    recipes = {"auto": fs.AutoRecipe(), "closed_forms": fs.AutoRecipe(density=None, network=None)}
    problem, theta, truth, sigma = place(name)
    low = np.maximum(theta - BOX * sigma, problem.proposal.low)
    high = np.minimum(theta + BOX * sigma, problem.proposal.high)
    box = fs.uniform({n: (a, b) for n, a, b in zip(problem.proposal.names, low.tolist(), high.tolist(), strict=True)})
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", fs.FisherScoreWarning
        )  # what is learned from few simulations is known to be rough
        training = round(SHARE * number)
        sims = fs.simulate(problem.simulator, box, training, seed=seed, progress=False)
        model = fs.fit(sims, recipe=recipes[recipe], progress=False)
        settings = {"num_simulations": number - training, "seed": seed + 1_000, "progress": False}
        forecast = fs.forecast(model, theta, problem.simulator, **settings)
    seconds = time.perf_counter() - started
    rows = []
    for estimator, estimate in zip(OURS, (forecast.bound, forecast.slope, forecast.plug_in), strict=True):
        row = row_of(case, estimator, estimate.matrix, truth)
        # The error of the slope is that of paired differences alone, and a matrix that is not positive has no σ.
        if estimate is not forecast.slope and "sigma_over_exact" in row:
            row["claim_in_standard_errors"] = float(np.max((sigma - estimate.sigma) / estimate.sigma_error))
        rows.append(row | {"recipe": recipe, "seconds": round(seconds, 1)})
    return rows


def drawn(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Simulate at θ₀ and at both ends of each step, with the same random numbers."""
    name, number, seed = case
    problem, theta, _, sigma = place(name)
    num = number // (2 * len(theta) + 1)

    def at(point: np.ndarray) -> np.ndarray:
        return np.asarray(problem.simulator.draw(np.tile(point, (num, 1)), seed=seed), np.float64)

    steps = np.diag(STEP * sigma)
    return at(theta), np.stack([[at(theta - step), at(theta + step)] for step in steps])


def plain(centre: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Make the matrix of a forecaster's first script: slopes of means, one covariance, its inverse unbiased."""
    slopes = (ends[:, 1] - ends[:, 0]).mean(axis=1) / 2
    num, size = centre.shape
    return (num - size - 2) / (num - 1) * slopes @ np.linalg.solve(np.cov(centre.T), slopes.T)


def others(cases: list[Case], python: Path) -> tuple[list[Row], Row]:
    """Give the same simulations to the others, in one process of their environment."""
    rows, orders = [], []
    with tempfile.TemporaryDirectory() as folder:
        for index, case in enumerate(cases):
            centre, ends = drawn(case)
            file = Path(folder) / f"{index}.npz"
            np.savez(file, centre=centre, ends=ends)
            orders.append({"file": str(file), "family": PROBLEMS[case[0]][1], "seed": case[2]})
            rows.append((case, {PLAIN: plain(centre, ends)}))
        answer = ask(python, "forecasts_of_others.py", {"cases": orders})
    found = []
    for (case, mine), theirs in zip(rows, answer["results"], strict=True):
        _, _, truth, sigma = place(case[0])
        scale = np.diag(1 / (STEP * sigma))
        for estimator, matrix in (mine | theirs).items():
            found.append(row_of(case, estimator, scale @ np.asarray(matrix) @ scale, truth))
    return found, answer["versions"]


def summary(rows: list[Row]) -> Iterator[Row]:
    """Return, for each problem, number and estimator, the error of σ, how often it claims too much, and by how much."""
    for name in PROBLEMS:
        for number in sorted({row["num_simulations"] for row in rows if row["problem"] == name}):
            for estimator in ESTIMATORS:
                wanted = dict(zip(KEY, (name, estimator, number), strict=False))
                mine = [row for row in rows if wanted.items() <= row.items()]
                good = np.array([row["sigma_over_exact"] for row in mine if "sigma_over_exact" in row])
                if mine and len(good):
                    yield {
                        **wanted,
                        "error": float(np.sqrt(np.mean((good - 1) ** 2))),
                        "bias": float(np.mean(good - 1)),
                        "claims": int(np.sum((good < 1 - CLAIM).any(axis=1))),
                        "num_seeds": len(mine),
                        "failed": len(mine) - len(good),
                        "recipe": mine[0].get("recipe"),
                        "claim_in_standard_errors": max(
                            (row["claim_in_standard_errors"] for row in mine if "claim_in_standard_errors" in row),
                            default=None,
                        ),
                    }


def table(lines: list[Row]) -> str:
    text = [f"{'problem':20s} {'simulations':>11s} {'estimator':30s} {'error of σ':>10s} {'bias':>8s}  claims"]
    for line in lines:
        own = line["claim_in_standard_errors"]
        told = "" if own is None else f"  at most {own:+.1f} own standard errors"
        text.append(
            f"{line['problem']:20s} {line['num_simulations']:11,d} {line['estimator']:30s} {line['error']:10.2%} "
            f"{line['bias']:+8.2%}  {line['claims']} of {line['num_seeds']}{told}"
        )
    return "\n".join(text)


def draw(lines: list[Row], path: Path) -> None:
    """Draw the error of σ against the number of simulations, one panel a problem."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(2, 3, figsize=(11, 6.2), layout="constrained")
    *panels, last = grid.flat
    for axes, name in zip(panels, PROBLEMS, strict=True):
        for index, estimator in enumerate(ESTIMATORS):
            mine = [line for line in lines if (line["problem"], line["estimator"]) == (name, estimator)]
            style: Row = {"color": f"C{index}", "linewidth": 1.2, "marker": "o", "markersize": 4}
            if estimator in OURS:
                which = OURS.index(estimator)
                style |= {"color": "black", "linewidth": 2, "linestyle": ("-", "--", ":")[which], "markersize": 6}
                style |= {"marker": ("s", "D", "^")[which]}
            numbers, errors = [line["num_simulations"] for line in mine], [line["error"] for line in mine]
            axes.loglog(numbers, errors, label=estimator, **style)
        axes.set_title(name.replace("_", " "), fontsize=11)
        axes.set_xticks(NUMBERS, [f"{number:,}" for number in NUMBERS])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("simulations")
    for axes in grid[:, 0]:
        axes.set_ylabel("error of σ, relative")
    last.axis("off")
    last.legend(*panels[0].get_legend_handles_labels(), fontsize=9, loc="center")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--num-simulations", type=int, nargs="+", default=list(NUMBERS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--of", nargs="*", default=["ours", "others"], choices=("ours", "others"))
    parser.add_argument("--python", type=Path, help="an interpreter that has CompressedFisher and DerivKit")
    parser.add_argument("--recipe", default="auto", choices=("auto", "closed_forms"), help="of our fits")
    parser.add_argument("--jobs", type=int, default=2, help="processes of our fits")
    parser.add_argument("--quick", action="store_true", help="one problem, one number, two seeds")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    if options.quick:
        options.problems, options.num_simulations, options.seeds = ["poisson_counts"], [1_000], 2
    return options


def main() -> None:
    from fisherscore._support.versions import versions, write_json

    options = read_options()
    path = options.out / "forecast_face_off.json"
    earlier = json.loads(path.read_text()) if path.exists() else {"rows": [], "versions_of_others": {}}
    kept = {tuple(row[k] for k in KEY): row for row in earlier["rows"]}
    theirs = earlier["versions_of_others"]
    cases = [(p, n, 100 + s) for n in options.num_simulations for p in options.problems for s in range(options.seeds)]

    def keep(rows: list[Row]) -> None:
        kept.update({tuple(row[k] for k in KEY): row for row in rows})
        settings: Row = {"step": STEP, "box": BOX, "share": SHARE, "claim": CLAIM}
        settings["at"] = {name: at for name, (at, _) in PROBLEMS.items()}
        document = {"benchmark": "forecast_face_off", "settings": settings, "rows": [kept[k] for k in sorted(kept)]}
        document |= {"summary": list(summary(document["rows"])), "versions_of_others": theirs, "versions": versions()}
        write_json(document, path)

    if "others" in options.of:
        rows, theirs = others(cases, interpreter("forecasts", options.python))
        keep(rows)
    if "ours" in options.of:
        with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            for case, rows in zip(cases, pool.map(ours, [(case, options.recipe) for case in cases]), strict=True):
                print(*case, f"{rows[0]['seconds']:.0f} s", flush=True)
                keep(rows)
    lines = list(summary(list(kept.values())))
    print(table(lines))
    draw(lines, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
