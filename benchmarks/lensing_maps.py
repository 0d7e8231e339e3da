"""Lensing maps of the LSST-Y10 survey: posteriors of six parameters against full-field Hamiltonian Monte Carlo.

All simulations count, from the first one over the prior on. Draws are told from those of HMC by the classifier of the
public benchmark (C2ST: 0.5 cannot be told apart, 1 always can); two halves of HMC against each other are the control.

* ``statistics``: ``fs.infer`` from 16 statistics of each map, of spectra and third moments.
* ``maps``: the same with two fifths of the simulations, then ``fs.fit`` of maps around the posterior found, by these
  statistics and a learned summary, which takes an accelerator.

    python benchmarks/lensing_maps.py --budgets 2000                 # statistics, on two cores
    python benchmarks/lensing_maps.py --methods statistics maps --batched    # on a GPU

``--mock SEED`` takes a map drawn at the same parameters in place of the observed one: settings are chosen on such maps.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np

import fisherscore as fs
from fisherscore._support.versions import versions, write_json
from fisherscore.problems.lensing_maps import condensed
from sbi_tasks.classifier import c2st, c2st_of_many

KEY = ("method", "num_simulations", "seed", "mock")
NUM_CHAINS, FIRST_SHARE = 4, 0.4
NETWORK = fs.LearnedSummary(channels=16, num_networks=2, num_steps=1_500, batch_size=32)
OF_INTEREST = ("omega_c", "sigma8", "w0")
# C2ST against the same draws of HMC, Zeghal et al. (2024), arXiv 2409.17975: best of each number of simulations. The
# simulations that trained their summary are not counted.
PUBLISHED = {
    "neural posterior": {"1000": 0.624, "2000": 0.603},
    "sequential neural likelihood": {"1000": 0.612, "2000": 0.586},
    "flow matching": {"1000": 0.810, "2000": 0.754},
}


def by_statistics(x: np.ndarray, num: int, options: argparse.Namespace, seed: int) -> tuple[fs.Posterior, Any]:
    """Infer from statistics alone."""
    problem = fs.problems.lensing_maps(statistics=True)
    found = fs.infer(
        problem.simulator,
        condensed(x),
        problem.proposal,
        num,
        prior=problem.observed.prior,
        num_rounds=options.rounds,
        num_samples=options.draws // NUM_CHAINS,
        num_chains=NUM_CHAINS,
        seed=seed,
    )
    print(found.rounds, flush=True)
    return found.posterior, {"own_error": found.model.estimated_error, "num_run": len(found.sims)}


def by_maps(x: np.ndarray, num: int, options: argparse.Namespace, seed: int) -> tuple[fs.Posterior, Any]:
    """Infer where the posterior is from statistics, and fit the maps that are simulated there."""
    first = int(FIRST_SHARE * num)
    begun, known = by_statistics(x, first, options, seed)
    problem = fs.problems.lensing_maps()
    region = problem.proposal.around(begun)
    sims = fs.simulate(problem.simulator, region, num - known["num_run"], seed=seed + 1)
    # Statistics of fields in general would be thousands of five channels, and hold less than these.
    recipe = fs.AutoRecipe(statistics=False)
    model = fs.fit(sims, features=condensed, embedding=NETWORK, recipe=recipe, seed=seed)
    size = {"num_samples": options.draws // NUM_CHAINS, "num_chains": NUM_CHAINS}
    posterior = fs.sample(model, x, prior=problem.observed.prior, seed=seed, **size)
    return posterior, {
        "own_error": model.estimated_error,
        "num_run": known["num_run"] + len(sims),
        "learned_summary_used": model.provenance.get("learned_summary_used", True),
    }


METHODS = {"statistics": by_statistics, "maps": by_maps}


def measured(method: str, num: int, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Infer once, and compare with HMC; a mock has no draws of its own to be compared with but in their widths."""
    problem = fs.problems.lensing_maps()
    observed, names = problem.observed, problem.proposal.names
    x = observed.x if options.mock is None else problem.simulator.draw(observed.truth, seed=options.mock)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.FisherScoreWarning)
        posterior, known = METHODS[method](x, num, options, seed)
    seconds = time.perf_counter() - started
    hmc = np.random.default_rng(0).permutation(observed.draws)[: 2 * options.draws].astype(np.float64)
    row = {"method": method, "num_simulations": num, "seed": seed, "mock": options.mock, "seconds": seconds, **known}
    row |= {
        "widths_over_hmc": dict(zip(names, (posterior.sigma / hmc.std(axis=0)).tolist(), strict=True)),
        "truth_in_widths": dict(
            zip(names, ((observed.truth - posterior.mean) / posterior.sigma).tolist(), strict=True)
        ),
        "problems": list(posterior.problems),
    }
    if options.mock is None:
        half, other = hmc[: options.draws], hmc[options.draws :]
        rng = np.random.default_rng(1)
        pairs = [(half, rng.permutation(posterior.samples)[: options.draws]), (half, other)]
        values = c2st_of_many(pairs) if options.batched else [c2st(*pair) for pair in pairs]
        row |= {"c2st": values[0], "c2st_of_halves": values[1]}
        row["offsets_in_hmc_widths"] = dict(
            zip(names, ((posterior.mean - hmc.mean(axis=0)) / hmc.std(axis=0)).tolist(), strict=True)
        )
    return row


def told(row: dict[str, Any]) -> str:
    """Write down one row."""
    widths = ", ".join(f"{name} {row['widths_over_hmc'][name]:.2f}" for name in OF_INTEREST)
    said = f"C2ST {row['c2st']:.3f} (halves of HMC {row['c2st_of_halves']:.3f})" if "c2st" in row else "a mock"
    return (
        f"{row['method']:11s} {row['num_simulations']:6,} simulations  {said}  widths over HMC's: {widths}  "
        f"own error {row['own_error']:.2f}  {row['seconds']:.0f} s"
    )


def figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the accuracy of the classifier against the number of simulations, beside what others published."""
    figure, axes = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
    for method in METHODS:
        mine = [row for row in rows if row["method"] == method and "c2st" in row]
        if mine:
            axes.plot(
                [r["num_simulations"] for r in mine], [r["c2st"] for r in mine], "o", label=f"{method}, all counted"
            )
    for name, figures in PUBLISHED.items():
        axes.plot([int(n) for n in figures], list(figures.values()), "--", lw=1, marker="_", ms=10, label=name)
    axes.axhline(0.5, color="grey", lw=0.7, ls=":")
    axes.set(xscale="log", xlabel="simulations", ylabel="C2ST against full-field HMC")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--budgets", type=int, nargs="+", default=[2_000, 10_000])
    parser.add_argument("--methods", nargs="+", default=["statistics"], choices=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, help="rounds of the aimed inference at most")
    parser.add_argument("--mock", type=int, help="seed of a map to take in place of the observed one")
    parser.add_argument("--draws", type=int, default=10_000, help="draws told from as many of HMC")
    parser.add_argument("--batched", action="store_true", help="train the classifiers on the device")
    parser.add_argument("--quick", action="store_true", help="600 simulations and 2,000 draws, in a file of their own")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if options.quick:
        options.budgets, options.draws = [600], 2_000
    name = "lensing_maps_quick" if options.quick else "lensing_maps"
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{name}.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    for num in options.budgets:
        for method in options.methods:
            for seed in options.seeds:
                row = measured(method, num, seed, options)
                print(told(row), flush=True)
                if options.mock is None:
                    rows = [r for r in rows if any(r[k] != row[k] for k in KEY)] + [row]
                    document = {"benchmark": "lensing_maps", "published": PUBLISHED, "rows": rows}
                    write_json({**document, "versions": versions()}, path)
                    figure(rows, options.out / f"{name}.png")
                jax.clear_caches()  # maps take the memory


if __name__ == "__main__":
    main()
