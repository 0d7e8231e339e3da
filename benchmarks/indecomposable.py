"""The indecomposable algorithm on the linear Gaussian model: what additive noise does to the score.

With z = θ + w and w ~ N(0, σ² 1), the paper's appendix B says that the fit converges to the score of the extended
model, (Σ_n + σ²)⁻¹ (x − θ), whose distance to the original score Σ_n⁻¹ (x − θ) shrinks with σ. For each σ several
independent fits are made (fresh simulations, fresh network). Reported, in the units of the score error:

    variance    of one fit, from the spread between fits
    to extended mean over fits of the distance to the exact extended score; about the variance if the fit is unbiased
    to original mean over fits of the distance to the exact original score
    expected    distance between the two exact scores, plus the variance: what appendix B says "to original" must be

    python benchmarks/indecomposable.py
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import fisherscore as fs
from fisherscore._support.versions import versions, write_json

HERE = Path(__file__).parent / "results"


def distance(first: np.ndarray, second: np.ndarray, fisher: np.ndarray) -> float:
    delta = first - second
    return float(np.einsum("ni,ni->", delta, np.linalg.solve(fisher, delta.T).T) / delta.size)


def measure(sigma: float, num_simulations: int, num_fits: int, recipe: fs.Recipe) -> dict[str, float]:
    problem = fs.problems.linear_gaussian()
    theta = problem.proposal.sample(10_000, seed=1_000)
    x = problem.simulator.draw(theta, seed=1_001)
    fisher = problem.fisher(np.zeros(2))
    covariance = np.linalg.inv(fisher)
    extended = (x - theta) @ np.linalg.inv(covariance + sigma**2 * np.eye(2))
    original = (x - theta) @ fisher
    latent = fs.GaussianLatent([sigma**2] * 2)
    fits = []
    for seed in range(num_fits):
        sims = fs.simulate(problem.simulator, problem.proposal, num_simulations, latent=latent, seed=seed)
        fits.append(np.asarray(fs.fit(sims, recipe=recipe, seed=seed).score(theta, x), np.float64))
    mean = np.mean(fits, axis=0)
    variance = np.mean([distance(f, mean, fisher) for f in fits]) * num_fits / (num_fits - 1)
    apart = distance(extended, original, fisher)
    row = {
        "sigma": sigma,
        "variance": float(variance),
        "to_extended": float(np.mean([distance(f, extended, fisher) for f in fits])),
        "to_original": float(np.mean([distance(f, original, fisher) for f in fits])),
        "expected_to_original": float(apart + variance),
        "exact_distance": apart,
    }
    print(
        f"{sigma:6.2f}  {row['variance']:9.5f}  {row['to_extended']:11.5f}  {row['to_original']:11.5f}  "
        f"{row['expected_to_original']:9.5f}",
        flush=True,
    )
    return row


def draw(rows: list[dict[str, float]], path: Path) -> None:
    ax = Figure(figsize=(6.2, 4.4), layout="constrained").subplots()
    sigma = np.array([r["sigma"] for r in rows])
    fine = np.geomspace(sigma.min() / 1.3, sigma.max() * 1.3, 100)
    fisher = fs.problems.linear_gaussian().fisher(np.zeros(2))
    # E over x ~ N(θ, Σ_n) of the distance between the exact scores, per eigenvalue λ of Σ_n⁻¹.
    eigenvalues = np.linalg.eigvalsh(fisher)
    shrink = 1 / (1 + np.outer(fine**2, eigenvalues))
    ax.plot(fine, np.mean((1 - shrink) ** 2, axis=1), color="#c8372d", label="exact distance, extended to original")
    ax.plot(sigma, [r["to_original"] for r in rows], "o", color="#1f5fa8", label="learned to original")
    ax.plot(sigma, [r["to_extended"] for r in rows], "s", color="#2b8a3e", label="learned to extended")
    ax.plot(sigma, [r["variance"] for r in rows], "_", ms=18, mew=2, color="#555555", label="variance of one fit")
    ax.set(xscale="log", yscale="log", xlabel="noise σ", ylabel="distance between scores (score error)")
    ax.legend(frameon=False)
    ax.figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sigmas", type=float, nargs="+", default=[1.0, 0.5, 0.25])
    parser.add_argument("--num-simulations", type=int, default=50_000)
    parser.add_argument("--num-fits", type=int, default=4)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    recipe = fs.PaperRecipe.toy()
    print(" sigma   variance  to extended  to original   expected")
    rows = [measure(s, options.num_simulations, options.num_fits, recipe) for s in options.sigmas]
    result = {
        "benchmark": "indecomposable",
        "recipe": "paper (toy network)",
        "num_simulations": options.num_simulations,
        "num_fits": options.num_fits,
        "rows": rows,
        "versions": versions(),
    }
    write_json(result, options.out / "indecomposable.json")
    draw(rows, options.out / "indecomposable.png")


if __name__ == "__main__":
    main()
