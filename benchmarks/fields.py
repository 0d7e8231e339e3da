"""Maps: the error of the learned score and the information of its forecasts, against exact ones.

Gaussian and log-normal fields, a field a part of whose information is in correlations between scales, and a Gaussian
field a quarter of whose pixels are missing. Beside the default fit stands an analysis by the power spectrum alone: 16
rings and a Gaussian whose mean and covariance move with the parameters. Errors are means over seeds. The default fit
is the one on a processor, by statistics alone; with --network a network alone and both together stand beside it.

    python benchmarks/fields.py                 # an hour or two on two cores
    python benchmarks/fields.py --workers 16    # cases and seeds side by side
    python benchmarks/fields.py --quick         # one seed, the smaller ones
    python benchmarks/fields.py --most 2000     # those of 2,000 simulations; other rows stay as they are in the results
    python benchmarks/fields.py --network --only multiscale   # on a GPU; other rows stay as they are in the results
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fisherscore as fs
from fisherscore._support.versions import versions, write_json
from fisherscore.accuracy import score_error
from fisherscore.summaries.modes import rings

FIRST_SEED = 1_000
NUM_SPECTRUM_RINGS = 16
NUM_FORECAST = 10_000
NETWORK = fs.LearnedSummary(num_steps=4_000)
QUICK_NETWORK = fs.LearnedSummary(channels=8, num_networks=2, num_steps=100)


@dataclass(frozen=True)
class Case:
    """A field, a number of simulations, what the error should stay below, and where it is forecast."""

    name: str
    make: Callable[[int], fs.problems.Problem]
    side: int
    num_simulations: int
    target: float | None
    quick: bool = False
    missing: float = 0.0


CASES = (
    Case("gaussian", fs.problems.gaussian_field, 32, 2_000, 0.06, quick=True),
    Case("gaussian", fs.problems.gaussian_field, 32, 10_000, 0.03),
    Case("gaussian", fs.problems.gaussian_field, 128, 10_000, None),
    Case("lognormal", fs.problems.lognormal_field, 32, 2_000, None, quick=True),
    Case("lognormal", fs.problems.lognormal_field, 64, 10_000, 0.08),
    Case("multiscale", fs.problems.multiscale_field, 32, 2_000, None, quick=True),
    Case("multiscale", fs.problems.multiscale_field, 32, 10_000, 0.3),
    Case("masked gaussian", fs.problems.gaussian_field, 16, 2_000, 0.05, quick=True, missing=0.25),
)


def spectrum(side: int) -> Callable[[Any], Any]:
    """Give a function of a map that returns the logarithm of its power in 16 rings."""
    weights = rings((side, side), NUM_SPECTRUM_RINGS).weights

    def powers(x: Any) -> Any:
        return jnp.log(jnp.matmul((jnp.abs(jnp.fft.rfft2(x)) ** 2).ravel(), weights, precision="highest"))

    return powers


def mask_of(case: Case) -> np.ndarray | None:
    """Choose the missing pixels at random."""
    if not case.missing:
        return None
    mask = np.ones(case.side**2, bool)
    mask[np.random.default_rng(0).permutation(mask.size)[: int(case.missing * mask.size)]] = False
    return mask.reshape(case.side, case.side)


def masked_score(theta: np.ndarray, x: np.ndarray, mask: np.ndarray, noise: float = 0.1) -> np.ndarray:
    """Give the exact score of the observed pixels of a Gaussian field, by their covariance matrix."""
    side = len(mask)
    each = np.fft.fftfreq(side, 1 / side)
    wave = np.hypot(each[:, None], each)
    logs = np.log(np.where(wave > 0, wave, 4.0) / 4.0)
    places = np.argwhere(mask)
    lag = tuple(((places[:, None] - places) % side).transpose(2, 0, 1))
    scores = []
    for (a, slope), field in zip(theta, x, strict=True):
        signal = np.where(wave > 0, np.exp(a - slope * logs), 0.0)
        covariance, *moved = (np.fft.ifft2(p).real[lag] for p in (signal + noise, signal, -logs * signal))
        inverse = np.linalg.inv(covariance)
        z = inverse @ field[mask]
        scores.append([0.5 * (z @ m @ z - np.sum(inverse * m)) for m in moved])
    return np.array(scores)


def masked_error(model: fs.ScoreModel, problem: fs.problems.Problem, mask: np.ndarray, seed: int) -> float:
    """Compare scores of masked maps with exact ones."""
    test = fs.simulate(problem.simulator, problem.proposal, 1_000, seed=seed + 500, progress=False)
    exact = masked_score(test.theta, test.x, mask)
    missed = np.asarray(model.score(test.theta, np.where(mask, test.x, np.nan)), np.float64) - exact
    precision = np.linalg.inv(exact.T @ exact / len(exact))
    return float(np.einsum("ni,ij,nj->n", missed, precision, missed).mean() / exact.shape[1])


def with_network(
    case: Case, sims: fs.Simulations, mask: np.ndarray | None, seed: int, network: fs.LearnedSummary
) -> dict[str, Any]:
    """Fit by a network alone, and by a network and statistics."""
    problem, found = case.make(case.side), {}
    for name, recipe in (("network", fs.AutoRecipe(statistics=False)), ("both", fs.AutoRecipe())):
        started = time.perf_counter()
        model = fs.fit(sims, embedding=network, recipe=recipe, mask=mask, progress=False)
        found[f"{name}_seconds"] = time.perf_counter() - started
        found[f"{name}_estimated_error"] = model.estimated_error
        found[f"{name}_weights"] = model.weights
        if mask is None:
            found[f"{name}_error"] = score_error(model, problem, num_pairs=4_000).mean
        else:
            found[f"{name}_error"] = masked_error(model, problem, mask, seed)
    return found


def measured(case: Case, seed: int, network: fs.LearnedSummary | None) -> dict[str, Any]:
    """Fit one field with one seed, and compare it with what is exact."""
    problem, mask = case.make(case.side), mask_of(case)
    sims = fs.simulate(problem.simulator, problem.proposal, case.num_simulations, seed=seed, progress=False)
    if mask is not None:
        sims = fs.from_table(sims.theta, np.where(mask, sims.x, 0.0), problem.proposal)
    started = time.perf_counter()
    model = fs.fit(sims, mask=mask, embedding=None, progress=False)
    row: dict[str, Any] = {"seed": seed, "seconds": time.perf_counter() - started}
    row |= {"estimated_error": model.estimated_error, "weights": model.weights}
    row |= with_network(case, sims, mask, seed, network) if network else {}
    if mask is not None:
        return row | {"error": masked_error(model, problem, mask, seed)}
    error = score_error(model, problem, num_pairs=4_000)
    row |= {"error": error.mean, "standard_error": error.standard_error}
    alone = fs.fit(sims, features=spectrum(case.side), recipe=fs.ClosedFormRecipe("location_scale"), progress=False)
    row["spectrum_error"] = score_error(alone, problem, num_pairs=4_000).mean
    if problem.fisher_one is not None:
        theta0 = (problem.proposal.low + problem.proposal.high) / 2
        forecast = fs.forecast(model, theta0, problem.simulator, num_simulations=NUM_FORECAST, seed=seed + 700)
        exact = np.linalg.det(problem.fisher(theta0))
        row |= {
            "determinant_of_bound": float(np.linalg.det(forecast.fisher_bound) / exact),
            "determinant_of_plug_in": float(np.linalg.det(forecast.fisher) / exact),
        }
    return row


def all_runs(
    cases: list[Case], seeds: list[int], num_workers: int, network: fs.LearnedSummary | None
) -> Iterator[list[dict[str, Any]]]:
    """Measure every case with every seed, the longest first where there are several processes."""
    if num_workers == 1:
        for case in cases:
            yield [measured(case, seed, network) for seed in seeds]
        return
    order = sorted(cases, key=lambda case: -case.num_simulations * case.side**2)
    with ProcessPoolExecutor(num_workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {case: [pool.submit(measured, case, seed, network) for seed in seeds] for case in order}
        for case in cases:
            yield [future.result() for future in running[case]]


def figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the errors of the default fit and of the power spectrum alone."""
    figure, axes = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
    labels = [f"{r['field']}\n{r['side']}², {r['num_simulations']:,}" for r in rows]
    places = np.arange(len(rows))
    for key, name, offset in (("error", "default fit", -0.2), ("spectrum_error", "16 rings alone", 0.2)):
        values = [np.mean([run.get(key, np.nan) for run in r["runs"]]) for r in rows]
        axes.bar(places + offset, values, 0.38, label=name)
    targets = [(place, r["target"]) for place, r in zip(places, rows, strict=True) if r["target"]]
    axes.plot(*zip(*targets, strict=True), "k_", markersize=22, label="aim")
    axes.set(yscale="log", ylabel="score error", xticks=places)
    axes.set_xticklabels(labels, fontsize=7)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def kept(path: Path, new: dict[str, Any]) -> list[dict[str, Any]]:
    """Put a row in the place of that of the same case in a file, which keeps its others."""
    known = json.loads(path.read_text())["rows"] if path.exists() else []
    named = {(case.name, case.side, case.num_simulations): None for case in CASES}
    for row in [*known, new]:
        named[row["field"], row["side"], row["num_simulations"]] = row
    return [row for row in named.values() if row is not None]


def averaged(runs: list[dict[str, Any]], key: str) -> float:
    """Average over seeds; NaN where nothing was measured."""
    return float(np.mean([run.get(key, np.nan) for run in runs]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one seed, and the smaller cases")
    parser.add_argument("--num-seeds", type=int, default=3)
    parser.add_argument("--network", action="store_true", help="also fit by a network, alone and beside statistics")
    parser.add_argument("--only", nargs="*", metavar="FIELD", help="these fields alone, such as multiscale")
    parser.add_argument("--most", type=int, metavar="N", help="cases of no more simulations than this")
    parser.add_argument("--workers", type=int, default=1, help="processes; times are those of a shared machine then")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    cases = [case for case in CASES if case.quick or not options.quick]
    cases = [case for case in cases if options.only is None or case.name in options.only]
    cases = [case for case in cases if options.most is None or case.num_simulations <= options.most]
    seeds = [FIRST_SEED + k for k in range(1 if options.quick else options.num_seeds)]
    network = (QUICK_NETWORK if options.quick else NETWORK) if options.network else None
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / ("fields_quick.json" if options.quick else "fields.json")
    for case, runs in zip(cases, all_runs(cases, seeds, options.workers, network), strict=True):
        print(
            f"{case.name:16s} {case.side:4d}²  {case.num_simulations:6,} simulations   "
            f"error {averaged(runs, 'error'):.4f}   its own estimate {averaged(runs, 'estimated_error'):.4f}   "
            f"16 rings alone {averaged(runs, 'spectrum_error'):.3f}   "
            f"det of bound {averaged(runs, 'determinant_of_bound'):.3f}   fitted in {averaged(runs, 'seconds'):.0f} s",
            flush=True,
        )
        for name in ("network", "both") if network else ():
            error, estimate = averaged(runs, f"{name}_error"), averaged(runs, f"{name}_estimated_error")
            print(
                f"{name:>26s}   error {error:.4f}   its own estimate {estimate:.4f}   "
                f"fitted in {averaged(runs, f'{name}_seconds'):.0f} s",
                flush=True,
            )
        facts = {"field": case.name, "side": case.side, "num_simulations": case.num_simulations}
        known = {"missing": case.missing, "target": case.target, "version": versions()["fisherscore"]}
        rows = kept(path, {**facts, **known, "runs": runs})
        write_json({"benchmark": "fields", "rows": rows, "versions": versions()}, path)
        figure(rows, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
