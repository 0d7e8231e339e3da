"""Posteriors with two thin modes, against exact ones: two moons, 10,000 simulations, ten observations.

The likelihood is a half ring that moves with θ, which no closed form describes. The default fit is sampled by tempered
sequential Monte Carlo and compared with exact draws by a classifier (C2ST: 0.5 cannot be told apart, 1 always can).
As a control that must fail, the same for the location-scale closed form alone.

    python benchmarks/two_moons.py
"""

import argparse
import time
from pathlib import Path

import numpy as np

import fisherscore as fs
from fisherscore._support.versions import versions, write_json
from fisherscore.accuracy import c2st, score_error
from fisherscore.problems.two_moons import two_moons_posterior

NUM_DRAWS = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--num-simulations", type=int, default=10_000)
    parser.add_argument("--num-observations", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    problem = fs.problems.two_moons()
    sims = fs.simulate(problem.simulator, problem.proposal, options.num_simulations, seed=0, progress=False)
    theta = problem.proposal.sample(options.num_observations, seed=77)
    observed = problem.simulator.draw(theta, seed=78)
    rows = []
    for method, recipe, num in (
        ("auto", fs.AutoRecipe(), options.num_observations),
        ("location_scale", fs.ClosedFormRecipe("location_scale"), 2),
    ):
        started = time.perf_counter()
        model = fs.fit(sims, recipe=recipe, progress=False)
        seconds = time.perf_counter() - started
        values = [compared(model, x) for x in observed[:num]]
        error = score_error(model, problem, num_pairs=4_000)
        row = {"method": method, "c2st": values, "mean_c2st": float(np.mean(values)), "score_error": error.mean}
        print(
            f"{method:15s} C2ST mean {np.mean(values):.3f}, worst {max(values):.3f} of {num}   score error "
            f"{error.mean:.3f}   fitted in {seconds:.0f} s",
            flush=True,
        )
        rows.append({**row, "fit_seconds": seconds})
    document = {"benchmark": "two_moons", "num_simulations": options.num_simulations, "rows": rows}
    options.out.mkdir(parents=True, exist_ok=True)
    write_json({**document, "versions": versions()}, options.out / "two_moons.json")


def compared(model: fs.ScoreModel, x: np.ndarray) -> float:
    """Sample one posterior and tell it from exact draws."""
    drawn = fs.sample(model, x, method="smc", seed=0, progress=False).samples
    chosen = np.random.default_rng(0).choice(len(drawn), NUM_DRAWS, replace=False)
    return c2st(drawn[chosen], two_moons_posterior(x, NUM_DRAWS, seed=1))


if __name__ == "__main__":
    main()
