"""The weak lensing experiment by numbers: the paper's recipe with 100,000 simulations beside the default with 5,000.

For each: score error, median field error of one observation, worst forecast error over a 3×3 grid, and posteriors of 20
mock observations (θ from the region, uniform prior) against exact ones from a fine grid of spectra: mean C2ST, and how
often the truth lies in the 68 % region (the innermost samples by Mahalanobis distance).

The paper's recipe takes 10,000 full-batch epochs: seconds on a GPU, half an hour on two cores. A model fitted elsewhere
can be given instead:

    fisherscore run weak-lensing --recipe paper --num-simulations 100000 --out runs/paper
    python benchmarks/weak_lensing.py --paper-model runs/paper/model
    python benchmarks/weak_lensing.py --paper-model                      # the default alone

Rows replace those of the same name in results/weak_lensing.json.
"""

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fisherscore as fs
from fisherscore._support.versions import versions, write_json
from fisherscore.accuracy import c2st, field_error, forecast_error, region_grid, score_error
from fisherscore.problems import Problem
from fisherscore.problems.lensing_spectra import FIDUCIAL, fiducial_covariance, spectra
from fisherscore.problems.weak_lensing import UNIT

HERE = Path(__file__).parent / "results"
MULTIPOLES, REDSHIFTS = np.logspace(1, 3, 5), (1.0, 0.5)


class ExactPosterior:
    """Exact posteriors under the uniform prior: the likelihood on a fine grid of cosmologies, computed once."""

    def __init__(self, problem: Problem, num_per_axis: int):
        self.grid = region_grid(problem, num_per_axis, margin=0.5 / num_per_axis)
        self.cell = (problem.proposal.high - problem.proposal.low) / num_per_axis
        covariance = UNIT**2 * fiducial_covariance(MULTIPOLES, REDSHIFTS)
        self.whiten = np.linalg.inv(np.linalg.cholesky(covariance))
        means = jax.lax.map(
            lambda t: UNIT * spectra(t, MULTIPOLES, REDSHIFTS).reshape(-1), self.grid.astype(np.float32), batch_size=64
        )
        self.means = np.asarray(means, np.float64) @ self.whiten.T

    def sample(self, x: np.ndarray, num: int, seed: int) -> np.ndarray:
        """Draw cells by their posterior mass, and points within them."""
        rng = np.random.default_rng(seed)
        log_density = -0.5 * np.sum((self.means - self.whiten @ x) ** 2, axis=1)
        weight = np.exp(log_density - log_density.max())
        cells = rng.choice(len(weight), size=num, p=weight / weight.sum())
        return self.grid[cells] + self.cell * (rng.uniform(size=(num, 2)) - 0.5)


def inside_68(samples: np.ndarray, truth: np.ndarray) -> bool:
    centre, precision = samples.mean(axis=0), np.linalg.inv(np.cov(samples.T))

    def distance(rows: np.ndarray) -> np.ndarray:
        return np.einsum("...i,ij,...j->...", rows - centre, precision, rows - centre)

    return bool(distance(truth) < np.quantile(distance(samples), 0.68))


def measure(problem: Problem, name: str, model: Any, exact: ExactPosterior, num_mocks: int) -> dict[str, Any]:
    simulator = problem.simulator
    x_obs = simulator.draw(list(FIDUCIAL.values()), seed=1)
    error = score_error(model, problem, num_pairs=4_000, seed=2)
    field = field_error(model, problem, x_obs)
    grid = region_grid(problem, 3, margin=0.2)
    truths = problem.proposal.sample(num_mocks, seed=3)
    mocks = simulator.draw(truths, seed=4)
    distances, learned_inside, exact_inside = [], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.FisherScoreWarning)
        forecasts = fs.forecast_grid(model, grid, simulator, num_simulations=20_000, seed=5)
        for i, (theta, x) in enumerate(zip(truths, mocks, strict=True)):
            learned = fs.sample(model, x, seed=i).samples
            reference = exact.sample(x, len(learned), seed=i)
            distances.append(c2st(learned, reference))
            learned_inside.append(inside_68(learned, theta))
            exact_inside.append(inside_68(reference, theta))
    row = {
        "recipe": name,
        "score_error": error.mean,
        "score_error_standard_error": error.standard_error,
        "field_error_median": field.median,
        "forecast_error_worst": forecast_error(forecasts, problem.fisher(grid)),
        "num_mocks": num_mocks,
        "c2st_mean": float(np.mean(distances)),
        "c2st_worst": float(np.max(distances)),
        "truth_inside_68": int(np.sum(learned_inside)),
        "truth_inside_68_exact": int(np.sum(exact_inside)),
    }
    print(
        f"{name:34s} score error {error.mean:7.4f} ± {error.standard_error:.4f}  field {field.median:6.1%}  "
        f"forecast {row['forecast_error_worst']:6.1%}  C2ST {row['c2st_mean']:.3f} (worst {row['c2st_worst']:.3f})  "
        f"in 68 %: {row['truth_inside_68']} of {num_mocks} (exact posterior {row['truth_inside_68_exact']})",
        flush=True,
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--paper-model", type=Path, nargs="*", help="folders of the paper's fits; none: do without")
    parser.add_argument("--num-simulations", type=int, nargs="+", default=[5_000], help="for the default recipe")
    parser.add_argument("--num-mocks", type=int, default=20)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    problem = fs.problems.weak_lensing()
    exact = ExactPosterior(problem, 300)
    for name, model in fits(problem, options):
        store(measure(problem, name, model, exact, options.num_mocks), options.out / "weak_lensing.json")


def fits(problem: Problem, options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Fit or load what is to be compared, with its name."""
    for num in options.num_simulations:
        sims = fs.simulate(problem.simulator, problem.proposal, num, seed=0)
        yield f"default, {num:,} simulations", fs.fit(sims)
    if options.paper_model is None:
        sims = fs.simulate(problem.simulator, problem.proposal, 100_000, latent="additive", seed=0)
        papers = [fs.fit(sims, recipe="paper")]
    else:
        papers = [fs.load(path) for path in options.paper_model]
    for model in papers:
        yield f"paper, {model.provenance['num_simulations']:,} simulations, seed {model.provenance['seed']}", model


def store(row: dict[str, Any], path: Path) -> None:
    """Let a row replace the earlier one of its name."""
    earlier = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = {r["recipe"]: r for r in [*earlier, row]}
    write_json({"benchmark": "weak_lensing", "rows": [rows[k] for k in sorted(rows)], "versions": versions()}, path)


if __name__ == "__main__":
    main()
