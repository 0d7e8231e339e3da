"""Fisher forecasts and best fits against exact answers, over many seeds, with a noisy score as the control.

For each problem and score model, forecasts with fresh simulations at one θ are repeated over seeds. Reported for
plug-in, slope and bound: the mean over seeds of σ̂/σ − 1 for the worse parameter; and of plug-in and bound the
largest claim beyond the exact matrix over all directions and seeds, in standard errors of that forecast (its own
bootstrap). The noisy model is the exact score plus a wild function of x. Then the best fits of 1,000 observations are
compared with the Cramér-Rao bound.

    python benchmarks/forecast.py
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import fisherscore as fs
from fisherscore._support.versions import versions, write_json
from fisherscore.problems import Problem

HERE = Path(__file__).parent / "results"
AT = {"linear-gaussian": (0.5, -1.0), "poisson-counts": (1.2, 0.3)}


def noisy(problem: Problem) -> fs.ScoreModel:
    exact = problem.exact_model()
    root = np.linalg.cholesky(problem.fisher(AT[problem.name])).astype(np.float32)

    def score(theta: Any, x: Any) -> Any:
        wild = jnp.sin(1e3 * jnp.stack([x[0] - 2.1 * x[1], x[1] + 1.7 * x[0]]))
        return exact.score_one(theta, x) + root @ wild

    return fs.FunctionScore(problem.proposal, problem.x_shape, score=score)


def learned(problem: Problem, num_simulations: int) -> fs.ScoreModel:
    if problem.latent is not None:
        sims = fs.simulate(
            problem.simulator_from_latent, problem.proposal, num_simulations, latent=problem.latent, seed=1
        )
    else:
        # Additive noise of a fifth of each parameter's error at the point of interest.
        sigma = np.sqrt(np.diag(np.linalg.inv(problem.fisher(AT[problem.name]))))
        latent = fs.GaussianLatent((0.2 * sigma) ** 2)
        sims = fs.simulate(problem.simulator, problem.proposal, num_simulations, latent=latent, seed=1)
    return fs.fit(sims, seed=1)


def beyond(estimate: fs.FisherMatrix, truth: np.ndarray) -> float:
    """Return the largest claim beyond the truth over all directions, in standard errors."""
    half = np.linalg.inv(np.linalg.cholesky(truth))
    values, vectors = np.linalg.eigh(half @ (estimate.matrix - truth) @ half.T)
    draws = half @ (estimate.draws - truth) @ half.T
    return float(values[-1] / np.std(np.einsum("i,nij,j->n", vectors[:, -1], draws, vectors[:, -1])))


def measure(problem: Problem, name: str, model: fs.ScoreModel, num_seeds: int) -> list[dict[str, Any]]:
    theta = np.array(AT[problem.name])
    truth = problem.fisher(theta)
    sigma = np.sqrt(np.diag(np.linalg.inv(truth)))
    simulator = problem.simulator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.FisherScoreWarning)
        forecasts = [fs.forecast(model, theta, simulator, num_simulations=20_000, seed=s) for s in range(num_seeds)]
    rows = []
    for kind in ("plug_in", "slope", "bound"):
        estimates = [getattr(f, kind) for f in forecasts]
        ratios = np.array([e.sigma for e in estimates]) / sigma - 1
        worst = int(np.argmax(np.abs(ratios.mean(axis=0))))
        # The slope's error is that of paired differences alone, which for a smooth simulator is next to nothing.
        claims = [beyond(e, truth) for e in estimates] if kind != "slope" else []
        row = {
            "problem": problem.name,
            "score": name,
            "estimate": kind,
            "sigma_ratio_minus_1": float(ratios.mean(axis=0)[worst]),
            "spread_over_seeds": float(ratios.std(axis=0, ddof=1)[worst]),
            "largest_claim_in_standard_errors": max(claims, default=None),
            "mean_trace_ratio": float(np.mean([np.trace(np.linalg.solve(truth, e.matrix)) / 2 for e in estimates])),
            "num_seeds": num_seeds,
        }
        rows.append(row)
        print(
            f"{problem.name:16s} {name:22s} {kind:8s} σ̂/σ−1 {row['sigma_ratio_minus_1']:+7.2%} ± "
            f"{row['spread_over_seeds']:5.2%}  information {row['mean_trace_ratio']:5.2f} of exact"
            + (f"  largest claim {max(claims):+7.1f} standard errors" if claims else ""),
            flush=True,
        )
    return rows


def best_fits(problem: Problem, name: str, model: fs.ScoreModel, num: int = 1000) -> dict[str, Any]:
    """Compare best fits with the Cramér-Rao bound, away from the edges of the region."""
    theta = np.zeros(2)
    best = fs.maximum_likelihood(model, problem.simulator.draw(np.tile(theta, (num, 1)), seed=5))
    bound = np.linalg.inv(problem.fisher(theta))
    bias = (best.theta.mean(axis=0) - theta) / np.sqrt(np.diag(bound))
    half = np.linalg.inv(np.linalg.cholesky(bound))
    ratio = np.linalg.eigvalsh(half @ np.cov(best.theta.T) @ half.T)
    row = {
        "problem": problem.name,
        "score": name,
        "num": num,
        "converged": float(np.mean(best.converged)),
        "bias_in_sigma": bias.tolist(),
        "bias_standard_error": 1 / np.sqrt(num),
        "variance_over_bound": ratio.tolist(),
        "variance_standard_error": float(np.sqrt(2 / num)),
    }
    print(
        f"{problem.name:16s} {name:22s} {num} best fits, {row['converged']:.1%} converged: bias "
        f"{bias[0]:+.3f}, {bias[1]:+.3f} σ (± {row['bias_standard_error']:.3f}); variance / Cramér-Rao "
        f"{ratio[0]:.3f}, {ratio[1]:.3f} (± {row['variance_standard_error']:.3f})"
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--num-seeds", type=int, default=20)
    parser.add_argument(
        "--num-simulations", type=int, default=50_000, help="training simulations of the learned models"
    )
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    # A linear Gaussian problem whose errors are small against the box, so that best fits stay inside it.
    covariance = 0.09 * np.array([[1.0, 0.5], [0.5, 1.0]])
    narrow = fs.problems.linear_gaussian(covariance=covariance, latent_covariance=0.4 * covariance)
    rows, fits = [], []
    for problem in (narrow, fs.problems.poisson_counts()):
        fitted = learned(problem, options.num_simulations)
        for name, model in (("exact", problem.exact_model()), ("learned", fitted), ("noisy (control)", noisy(problem))):
            rows += measure(problem, name, model, options.num_seeds)
        if problem is narrow:
            fits = [best_fits(problem, n, m) for n, m in (("exact", problem.exact_model()), ("learned", fitted))]
    result = {
        "benchmark": "forecast",
        "num_training_simulations": options.num_simulations,
        "forecasts": rows,
        "best_fits": fits,
        "versions": versions(),
    }
    write_json(result, options.out / "forecast.json")


if __name__ == "__main__":
    main()
