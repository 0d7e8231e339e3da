"""Forecasts with many nuisance parameters: three-by-two spectra of 21 and of 40 parameters, against exact answers.

The default fit learns the score of ``fs.problems.three_by_two`` from a few thousand simulations all over the training
region. Its forecast at the fiducial parameters is compared with the exact Fisher matrix there: σ of every parameter
over the exact one, with all others free, by plug-in, slope and bound, and the standard error of each ratio. Parameters
of interest are those of cosmology. Reported besides: the fit's own estimate of its error and the exact score error, and
the seconds of the simulations, the fit and the forecast. The control forecasts with the exact score. What the default
does was chosen on the seeds 0 and 1; reported are others. Runs are added to those of earlier calls.

    python benchmarks/many_parameters.py             21 and 40 parameters, the seeds 2, 3 and 4
    python benchmarks/many_parameters.py --quick     a small case, one seed; nothing is written
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fisherscore as fs
from fisherscore._support.versions import versions, write_json
from fisherscore.problems import Problem

HERE = Path(__file__).parent / "results"
CASES: dict[str, dict[str, Any]] = {
    "21 parameters": {},
    "40 parameters": {"num_sources": 6, "num_lenses": 10, "lens_shifts": True},
}
QUICK: dict[str, dict[str, Any]] = {"15 parameters": {"num_sources": 2, "num_lenses": 3}}
INTEREST = ("omega_c", "omega_b", "sigma8", "h", "n_s", "w")
NUM_PAIRS = 4_000  # of the score error: exact scores are what takes longest here
KINDS = ("plug_in", "slope", "bound")


def timed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, float]:
    """Call a function, and say how many seconds it took."""
    begin = time.perf_counter()
    result = function(*args, **kwargs)
    return result, time.perf_counter() - begin


def ratios(estimate: fs.FisherMatrix, sigma: np.ndarray) -> dict[str, Any] | None:
    """Divide the σ of an estimate by the exact one, and so its standard error; None if it leaves a direction free."""
    try:
        parts = {"sigma_over_exact": estimate.sigma / sigma, "standard_error": estimate.sigma_error / sigma}
    except fs.ArgumentError:  # a singular matrix has no σ
        return None
    return {what: dict(zip(estimate.names, part.tolist(), strict=True)) for what, part in parts.items()}


def exact_at(problem: Problem, theta: np.ndarray) -> fs.FunctionScore:
    """Return the exact score at one θ: in Gaussian noise it is linear in x, so that spectra are computed only once."""
    assert problem.score_one is not None
    x = jnp.asarray(problem.simulator.draw(theta, seed=0), jnp.float32)
    at = jnp.asarray(theta, jnp.float32)
    score, slope = problem.score_one(at, x), jax.jacfwd(problem.score_one, argnums=1)(at, x)
    return fs.FunctionScore(problem.proposal, problem.x_shape, score=lambda _, other: score + slope @ (other - x))


def measure(problem: Problem, num_simulations: int, num_forecast: int, seed: int) -> dict[str, Any]:
    """Fit once, and forecast with the fit and with the exact score."""
    theta = 0.5 * (problem.proposal.low + problem.proposal.high)
    sigma = np.sqrt(np.diag(np.linalg.inv(problem.fisher(theta))))
    sims, simulated = timed(fs.simulate, problem.simulator, problem.proposal, num_simulations, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.FisherScoreWarning)
        model, fitted = timed(fs.fit, sims, seed=seed)
        options = {"num_simulations": num_forecast, "seed": 1000 + seed}
        learned, forecasted = timed(fs.forecast, model, theta, problem.simulator, **options)
        exact = fs.forecast(exact_at(problem, theta), theta, problem.simulator, **options)
    error = fs.accuracy.score_error(model, problem, num_pairs=NUM_PAIRS)
    return {
        "seed": seed,
        "estimated_error": model.estimated_error,
        "score_error": error.mean,
        "score_error_standard_error": error.standard_error,
        "seconds": {"simulations": simulated, "fit": fitted, "forecast": forecasted},
        "learned": {kind: ratios(getattr(learned, kind), sigma) for kind in KINDS},
        "exact score (control)": {kind: ratios(getattr(exact, kind), sigma) for kind in KINDS},
    }


def largest(found: dict[str, Any], names: Any) -> float:
    """Return the largest departure from one among some parameters."""
    return max((found["sigma_over_exact"][name] - 1.0 for name in names), key=abs)


def told(name: str, problem: Problem, row: dict[str, Any]) -> None:
    """Print what was found for one seed."""
    seconds = ", ".join(f"{what} {spent:.0f} s" for what, spent in row["seconds"].items())
    own = "not known" if row["estimated_error"] is None else f"{row['estimated_error']:.3g}"
    print(f"{name}, seed {row['seed']}: score error {row['score_error']:.3g}, own estimate {own}; {seconds}")
    for score in ("learned", "exact score (control)"):
        for kind in KINDS:
            found = row[score][kind]
            if found is None:
                print(f"  {score:22s} {kind:8s} singular: it leaves a direction free", flush=True)
                continue
            of_interest, of_all = largest(found, INTEREST), largest(found, problem.proposal.names)
            print(
                f"  {score:22s} {kind:8s} σ/exact − 1: {of_interest:+7.1%} of interest, {of_all:+7.1%} of all",
                flush=True,
            )


def main() -> None:
    """Measure all cases."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--num-simulations", type=int, default=5000, help="training simulations")
    parser.add_argument("--num-forecast", type=int, default=40_000, help="simulations of each forecast")
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--quick", action="store_true", help="a small case, one seed; nothing is written")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    if options.quick:
        options.num_simulations, options.num_forecast, options.seeds = 200, 1240, [2]
    path = options.out / "many_parameters.json"
    results = {} if options.quick or not path.exists() else json.loads(path.read_text())["cases"]
    for name, bins in (QUICK if options.quick else {case: CASES[case] for case in options.cases}).items():
        problem = fs.problems.three_by_two(**bins)
        case = results.setdefault(
            name, {"num_parameters": problem.proposal.num_parameters, "num_data": problem.x_shape[0], "runs": []}
        )
        for seed in options.seeds:
            row = measure(problem, options.num_simulations, options.num_forecast, seed)
            case["runs"] = sorted([*(r for r in case["runs"] if r["seed"] != seed), row], key=lambda r: r["seed"])
            told(name, problem, row)
            if not options.quick:
                result = {
                    "benchmark": "many_parameters",
                    "num_training_simulations": options.num_simulations,
                    "num_forecast_simulations": options.num_forecast,
                    "num_pairs": NUM_PAIRS,
                    "of_interest": INTEREST,
                    "cases": results,
                    "versions": versions(),
                }
                write_json(result, path)


if __name__ == "__main__":
    main()
