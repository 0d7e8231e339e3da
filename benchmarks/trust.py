"""Is what a fit says of itself right: its own error, and the sizes of its forecasts and posteriors?

For every problem with a known score: simulate, fit, and compare with the truth

* the own error under the training range with the true one, in the same units;
* σ of plug-in, slope and bound with the exact one, at points within the region (in expectation, from exact scores);
* widths of posteriors with exact ones, by quadrature for up to three parameters and by NUTS for more.

A fit passes where its own error is within a factor of two of the true one, and where the mean of |σ̂/σ − 1| over points
and parameters is at most 5 %. Fits run side by side, each in a process of its own with one thread.

    python benchmarks/trust.py --jobs 16
    python benchmarks/trust.py --quick                                   # three small fits
    python benchmarks/trust.py --problems student_t --num-simulations 500 2000 --seeds 0 1
    python benchmarks/trust.py --beside 0.1.0=PATH                       # and the sources of other versions beside it

Results are written as they come to results/trust.json.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import Any

HERE = Path(__file__).parent / "results"
PROBLEMS = (
    "poisson_counts",
    "student_t",
    "ten_parameters",
    "linear_gaussian",
    "gaussian_covariance",
    "waiting_times",
    "two_signs",
    "weak_lensing",
    "twenty_one_parameters",
)
NUMBERS = (500, 2_000, 10_000)
NUM_PAIRS, NUM_POINTS, NUM_AT_POINT, NUM_OBSERVED = 10_000, 5, 4_000, 8
# Points of a grid along each axis, by the number of parameters.
GRID = {2: 81, 3: 41}
# What a fit costs next to others, so that long ones are begun first.
COST = {"ten_parameters": 4, "twenty_one_parameters": 12, "weak_lensing": 2, "waiting_times": 1.5}


def twenty_one_parameters() -> Any:
    """Make a Gaussian problem of 21 parameters and 60 data, whose mean bends and whose width moves a little."""
    import jax
    import jax.numpy as jnp

    import fisherscore as fs

    p, size = 21, 60
    linear = 1.5 * jax.random.normal(jax.random.key(21), (size, p))
    bent = jax.random.normal(jax.random.key(22), (size, p)) / p**0.5

    def mean(theta: Any) -> Any:
        return linear @ theta + 0.3 * (bent @ theta) ** 2

    def width(theta: Any) -> Any:
        return jnp.exp(0.2 * theta[0])

    def draw_one(key: Any, theta: Any) -> Any:
        return mean(theta) + width(theta) * jax.random.normal(key, (size,))

    def log_likelihood_one(theta: Any, x: Any) -> Any:
        return -0.5 * jnp.sum(((x - mean(theta)) / width(theta)) ** 2) - size * jnp.log(width(theta))

    return type(fs.problems.poisson_counts())(
        name="twenty-one-parameters",
        proposal=fs.uniform({f"theta{i}": (-1.0, 1.0) for i in range(1, p + 1)}),
        x_shape=(size,),
        draw_one=draw_one,
        log_likelihood_one=log_likelihood_one,
    )


def measure(name: str, num: int, seed: int, *, long: bool) -> dict[str, Any]:
    """Fit once and compare with the truth."""
    import numpy as np

    import fisherscore as fs

    problem = twenty_one_parameters() if name == "twenty_one_parameters" else getattr(fs.problems, name)()
    sims = fs.simulate(problem.simulator, problem.proposal, num, seed=seed, progress=False)
    started = time.perf_counter()
    try:
        model = fs.fit(sims, seed=seed, progress=False)
    except fs.TrainingError:
        return {"refused": True, "seconds": round(time.perf_counter() - started, 1)}
    row: dict[str, Any] = {"refused": False, "seconds": round(time.perf_counter() - started, 1)}
    row["weights"] = weights_of(model)
    theta = problem.proposal.sample(NUM_PAIRS, seed=1001)
    x = problem.simulator.draw(theta, seed=1002)
    scores = np.asarray(model.score(theta, x), np.float64), np.asarray(problem.score(theta, x), np.float64)
    row |= errors(model, problem, *scores)
    row["sigma"] = sigmas(model, problem)
    if problem.proposal.num_parameters in GRID or long:
        row["widths"] = widths(model, problem, theta[:NUM_OBSERVED], x[:NUM_OBSERVED])
    return row


def weights_of(model: Any) -> dict[str, float]:
    weights = model.weights if hasattr(model, "weights") else model.record["weights"]
    return {n: round(float(w), 4) for n, w in weights.items() if w}


def errors(model: Any, problem: Any, estimate: Any, truth: Any) -> dict[str, float | None]:
    """Compare the own errors, in all and under the training range, with those of scores at test pairs."""
    import numpy as np

    num = len(truth)
    fisher, delta = truth.T @ truth / num, estimate - truth
    prior = np.diag(12 / (problem.proposal.high - problem.proposal.low) ** 2)
    totals = np.einsum("ni,ni->n", delta, np.linalg.solve(fisher, delta.T).T) / truth.shape[1]
    under = np.einsum("ni,ni->n", delta, np.linalg.solve(fisher + prior, delta.T).T) / truth.shape[1]
    known = getattr(model, "constraints", None)
    own = model.estimated_error if hasattr(model, "estimated_error") else model.record["estimated_error"]
    return {
        "score_error": float(totals.mean()),
        "own_score_error": own,
        "error_under_prior": float(under.mean()),
        "standard_error": float(under.std() / num**0.5),
        "own_error_under_prior": None if known is None else known.error,
        "scale": float(np.trace(np.linalg.solve(fisher, estimate.T @ truth / num))) / truth.shape[1],
    }


def sigmas(model: Any, problem: Any) -> dict[str, list[list[float]]]:
    """Give σ of plug-in, slope and bound over the exact one at a few points: (points, parameters) each."""
    import numpy as np

    low, high = problem.proposal.low, problem.proposal.high
    points = low + (high - low) * np.random.default_rng(7).uniform(0.1, 0.9, (NUM_POINTS, len(low)))
    found: dict[str, list[list[float]]] = {"plug_in": [], "slope": [], "bound": []}
    for place, point in enumerate(points):
        theta = np.tile(point, (NUM_AT_POINT, 1))
        x = problem.simulator.draw(theta, seed=2000 + place)
        estimate, truth = (np.asarray(m.score(theta, x), np.float64) for m in (model, problem))
        # The information of the same simulations, so that their noise is shared.
        exact, second, slope = (a.T @ b / len(x) for a, b in ((truth, truth), (estimate, estimate), (estimate, truth)))
        bound = slope.T @ np.linalg.pinv(second, hermitian=True) @ slope
        for kind, matrix in (("plug_in", second), ("slope", (slope + slope.T) / 2), ("bound", bound)):
            with np.errstate(invalid="ignore"):
                inverses = [np.sqrt(np.diagonal(np.linalg.pinv(m, hermitian=True))) for m in (matrix, exact)]
            found[kind].append((inverses[0] / inverses[1]).tolist())
    return found


def widths(model: Any, problem: Any, theta: Any, x: Any) -> list[list[float]]:
    """Give widths of posteriors under the training range over exact ones, (observations, parameters)."""
    import numpy as np

    import fisherscore as fs

    del theta
    if problem.proposal.num_parameters in GRID:
        return (_on_grid(model, problem, x) / _on_grid(problem, problem, x)).tolist()
    found = []
    for each in (model, problem.exact_model()):
        # Enough draws for 3 % of each width; of many parameters and observations, the mean is what counts.
        posteriors = fs.sample_many(each, x, num_samples=500, num_warmup=300, num_chains=2, progress=False)
        found.append(np.stack([p.samples.std(axis=0) for p in posteriors]))
    return (found[0] / found[1]).tolist()


def _on_grid(model: Any, problem: Any, x: Any) -> Any:
    """Give standard deviations of posteriors by quadrature on a grid that is refined once around each posterior."""
    import numpy as np

    low, high = np.asarray(problem.proposal.low), np.asarray(problem.proposal.high)
    p = len(low)
    found = []
    for observed in x:
        begin, end = low, high
        for _ in range(3):
            axes = np.linspace(begin, end, 2 * GRID[p] + 1)[1::2].T  # midpoints
            grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, p)
            height = np.asarray(model.log_likelihood(grid, observed), np.float64)
            mass = np.exp(height - np.nanmax(height))
            mass = np.nan_to_num(mass) / np.nansum(mass)
            mean = mass @ grid
            sd = np.sqrt(mass @ (grid - mean) ** 2)
            reach = 8 * np.maximum(sd, (end - begin) / GRID[p] / 8)
            begin, end = np.maximum(low, mean - reach), np.minimum(high, mean + reach)
        found.append(sd)
    return np.stack(found)


def one(arguments: str) -> None:
    """Measure one fit in this process and print the result as the last line."""
    task = json.loads(arguments)
    row = measure(task["problem"], task["num_simulations"], task["seed"], long=task["long"])
    print(json.dumps(row), flush=True)


def run(task: dict[str, Any], cores: "SimpleQueue[int]", deadline: float) -> dict[str, Any]:
    """Measure one fit in a process of its own, on one core and until a deadline, and give its row."""
    core = cores.get()
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "XLA_FLAGS": flags,
        "JAX_PLATFORMS": "cpu",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": task["source"],
    }
    command = [sys.executable, __file__, "--one", json.dumps(task)]
    if hasattr(os, "sched_setaffinity"):
        pin = f"import os, sys; os.sched_setaffinity(0, {{{core}}}); os.execv(sys.executable, sys.argv[1:])"
        command = [sys.executable, "-c", pin, *command]
    facts = {k: v for k, v in task.items() if k not in ("source", "long")}
    try:
        left = max(deadline - time.perf_counter(), 1.0)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=left)  # noqa: S603
    except subprocess.TimeoutExpired:
        return {**facts, "failed": "out of time"}
    finally:
        cores.put(core)
    if done.returncode:
        return {**facts, "failed": done.stderr[-1_000:]}
    return {**facts, **json.loads(done.stdout.strip().splitlines()[-1])}


def verdicts(row: dict[str, Any]) -> dict[str, float]:
    """Condense a row: own error over true one, and mean deviations of the sizes."""
    import numpy as np

    own = row["own_error_under_prior"]
    kinds = {kind: np.log(np.array(values)) for kind, values in row["sigma"].items()}
    found = {"own": np.nan if own is None else own / row["error_under_prior"]}
    for kind, logs in kinds.items():
        found[kind] = float(np.exp(np.mean(logs)) - 1)
        found[f"{kind}_deviation"] = float(np.mean(np.abs(np.exp(logs) - 1)))
    if "widths" in row:
        ratios = np.array(row["widths"])
        found["width"] = float(np.exp(np.mean(np.log(ratios))) - 1)
        found["width_deviation"] = float(np.mean(np.abs(ratios - 1)))
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """One line a fit, and the fractions that pass."""
    import numpy as np

    lines = []
    for version in sorted({r["version"] for r in rows}):
        mine = [r for r in rows if r["version"] == version]
        lines.append(f"{version:9s}{'problem':22s}{'number':>8s}{'seed':>6s}{'error':>9s}{'prior':>9s}{'own/true':>9s}")
        lines[-1] += "".join(f"{k:>15s}" for k in ("plug-in", "slope", "bound", "width")) + f"{'s':>6s}"
        found = []
        for r in sorted(mine, key=lambda r: (r["problem"], r["num_simulations"], r["seed"])):
            head = f"{version:9s}{r['problem']:22s}{r['num_simulations']:8,d}{r['seed']:6d}"
            if r.get("failed") or r.get("refused"):
                lines.append(f"{head}  {'failed' if r.get('failed') else 'refused'}")
                continue
            v = verdicts(r)
            found.append(v)
            line = f"{head}{r['score_error']:9.4f}{r['error_under_prior']:9.4f}{v['own']:9.2f}"
            for kind in ("plug_in", "slope", "bound", "width"):
                good = kind in v
                line += f"{v[kind]:+8.1%} ({v[kind + '_deviation']:4.1%})" if good else " " * 15
            lines.append(f"{line}{r['seconds']:6.0f}")
        own = np.array([v["own"] for v in found if np.isfinite(v["own"])])
        if len(own):
            within = np.mean((own >= 0.5) & (own <= 2))
            lines.append(f"own error within a factor of two: {within:.0%} of {len(own)}; lowest {own.min():.2f}")
        for kind in ("plug_in", "slope", "bound", "width"):
            values = np.array([v[f"{kind}_deviation"] for v in found if kind in v])
            if len(values):
                lines.append(f"{kind} within 5 %: {np.mean(values <= 0.05):.0%} of {len(values)}")
    return "\n".join(lines)


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    """List the fits, the longest first."""
    sources = {"new": str(Path(__file__).resolve().parents[1] / "src")} if not options.only_beside else {}
    sources |= dict(named.split("=", 1) for named in options.beside)
    made = [
        {"version": v, "problem": n, "num_simulations": k, "seed": s, "source": path, "long": options.long}
        for v, path in sources.items()
        for n in options.problems
        for k in options.num_simulations
        for s in options.seeds
    ]
    for v, path in sources.items():
        for name, number, seed in (case.split(":") for case in options.also):
            case = {"version": v, "problem": name, "num_simulations": int(number), "seed": int(seed)}
            made.append({**case, "source": path, "long": options.long})
    return sorted(made, key=lambda t: -COST.get(t["problem"], 1) * (500 + t["num_simulations"] ** 0.7))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=PROBLEMS)
    parser.add_argument("--num-simulations", type=int, nargs="+", default=list(NUMBERS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1000, 1001])
    parser.add_argument("--also", nargs="+", default=[], metavar="PROBLEM:NUMBER:SEED", help="further fits")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--beside", nargs="+", default=[], metavar="NAME=SOURCES", help="other versions to measure")
    parser.add_argument("--only-beside", action="store_true", help="measure only the other versions")
    parser.add_argument("--long", action="store_true", help="sample posteriors of more than three parameters too")
    parser.add_argument("--quick", action="store_true", help="three small fits")
    parser.add_argument("--limit", type=float, default=float("inf"), help="end after so many seconds")
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        one(options.one)
        return
    if options.quick:
        options.problems, options.num_simulations, options.seeds = [*PROBLEMS[:2], "linear_gaussian"], [500], [0]
    from fisherscore._support.versions import versions, write_json

    available = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(options.jobs))
    cores: SimpleQueue[int] = SimpleQueue()
    for k in range(options.jobs):
        cores.put(available[k % len(available)])
    rows: list[dict[str, Any]] = []
    started = time.perf_counter()

    def elapsed() -> float:
        return time.perf_counter() - started

    def begin(task: dict[str, Any]) -> dict[str, Any] | None:
        return run(task, cores, started + min(options.limit, 1e6)) if elapsed() < options.limit else None

    options.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        for future in as_completed([pool.submit(begin, task) for task in tasks(options)]):
            row = future.result()
            if row is None:
                continue
            rows.append(row)
            print(f"{elapsed():5.0f} s  {table([row]).splitlines()[1]}", flush=True)
            write_json({"benchmark": "trust", "rows": rows, "versions": versions()}, options.out / "trust.json")
    print(table(rows))


if __name__ == "__main__":
    main()
