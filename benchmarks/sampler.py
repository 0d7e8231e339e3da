"""Effective samples per second and accuracy: our sampler against that of the paper, on the same learned score.

The paper's sampler: Hamiltonian Monte Carlo with ten leapfrog steps, one chain, a call of the score from Python for
every half step, every proposal inside the prior accepted (unadjusted). Its step is given in posterior standard
deviations, and its best step is compared. Ours: NUTS, sixteen chains in one compiled call, corrected by the line
integral of the score for the paper's vector field and by the log-likelihood for the conservative network. The
posterior is known, so C2ST (0.5: the same) tells which is right. Compilation is stated apart; the effective number is
the smallest for the parameters and their squares.

    python benchmarks/sampler.py
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpyro.diagnostics import effective_sample_size

import fisherscore as fs
from fisherscore._support.versions import versions, write_json
from fisherscore.accuracy import c2st

HERE = Path(__file__).parent / "results"
COVARIANCE = 0.09 * np.array([[1.0, 0.5], [0.5, 1.0]])
X = np.array([0.5, -0.7])


def papers_sampler(model: fs.ScoreModel, step: float, num_samples: int) -> tuple[np.ndarray, float]:
    """Return draws and seconds of unadjusted HMC in Python, ten leapfrog steps a draw."""
    rng = np.random.default_rng(0)

    def score(theta: np.ndarray) -> np.ndarray:
        return np.asarray(model.score(theta, X))

    score(X)  # compile
    theta = X.copy()
    draws = np.empty((num_samples, 2))
    started = time.perf_counter()
    for i in range(num_samples):
        momentum = rng.normal(size=2)
        proposal = theta.copy()
        for _ in range(10):
            momentum = momentum + 0.5 * step * score(proposal)
            proposal = proposal + step * momentum
            momentum = momentum + 0.5 * step * score(proposal)
        if model.inside(proposal):
            theta = proposal
        draws[i] = theta
    return draws, time.perf_counter() - started


def row_of(name: str, draws: np.ndarray, seconds: float, compile_seconds: float, exact: np.ndarray) -> dict[str, Any]:
    chains = draws if draws.ndim == 3 else draws[None]
    # Of the parameters and of their squares: a trajectory of half a period flips the sign of every draw, which looks
    # perfect for the mean and learns nothing about the width.
    flat = chains.reshape(-1, 2)
    both = np.concatenate([chains, (chains - flat.mean(axis=0)) ** 2], axis=-1)
    effective = float(np.min(effective_sample_size(both)))
    thinned = flat[:: -(-len(flat) // min(len(flat), max(int(effective), 500), len(exact)))]
    row = {
        "sampler": name,
        "num_draws": len(flat),
        "effective": effective,
        "seconds": seconds,
        "compile_seconds": compile_seconds,
        "effective_per_second": effective / seconds,
        "c2st": c2st(thinned, exact[: len(thinned)]),
        "sd_over_exact": (flat.std(axis=0) / np.sqrt(np.diag(COVARIANCE))).tolist(),
    }
    print(
        f"{name:44s} {row['effective_per_second']:9.0f} effective/s  (compile {compile_seconds:5.1f} s)  "
        f"C2ST {row['c2st']:.3f}  sd/exact {row['sd_over_exact'][0]:.3f}, {row['sd_over_exact'][1]:.3f}",
        flush=True,
    )
    return row


def ours(name: str, model: fs.ScoreModel, exact: np.ndarray) -> dict[str, Any]:
    started = time.perf_counter()
    fs.sample(model, X, seed=1, num_chains=16)
    first = time.perf_counter() - started
    started = time.perf_counter()
    posterior = fs.sample(model, X, seed=2, num_chains=16)
    seconds = time.perf_counter() - started
    return row_of(name, posterior.chains, seconds, first - seconds, exact)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--num-simulations", type=int, default=50_000)
    parser.add_argument("--num-draws", type=int, default=3_000, help="draws of the paper's sampler")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    problem = fs.problems.linear_gaussian(covariance=COVARIANCE, latent_covariance=0.4 * COVARIANCE)
    sims = fs.simulate(
        problem.simulator_from_latent, problem.proposal, options.num_simulations, latent=problem.latent, seed=0
    )
    field, conservative = fs.fit(sims, recipe="paper"), fs.fit(sims)
    exact = np.random.default_rng(1).multivariate_normal(X, COVARIANCE, 10_000)
    rows = []
    for name, model in (("vector field", field), ("conservative network", conservative)):
        theirs = []
        for step in (0.2, 0.3, 0.6, 1.5):  # in posterior standard deviations
            draws, seconds = papers_sampler(model, step * 0.3 * np.sqrt(0.75), options.num_draws)
            theirs.append(row_of(f"paper's sampler, {name}, step {step} σ", draws, seconds, 0.0, exact))
        row = ours(f"NUTS, {name}", model, exact)
        row["ratio_to_best_of_paper"] = row["effective_per_second"] / max(r["effective_per_second"] for r in theirs)
        print(f"{row['sampler']}: {row['ratio_to_best_of_paper']:.0f} times the paper's best step")
        rows += [*theirs, row]
    result = {"benchmark": "sampler", "rows": rows, "versions": versions()}
    write_json(result, options.out / "sampler.json")


if __name__ == "__main__":
    main()
