"""Growing populations (msprime): the free combination, and the posterior under a prior beside rejection sampling.

The simulator is that of docs/tutorials/population_genetics.md: three parameters, 19 data, of which two combinations can
be told. The reference is rejection with a regression adjustment (Beaumont, Zhang & Balding 2002) of draws from the
prior, by summaries that are regressions of the parameters on the data (Fearnhead & Prangle 2012); nothing of it knows a
score. Needs the extra ``genetics``.

    python benchmarks/population_genetics.py
"""

import argparse
from pathlib import Path

import numpy as np
import numpyro.distributions as dist

import fisherscore as fs
from fisherscore._support.versions import versions, write_json

TRUTH = (4.5, -3.1, -8.0)
REGION = {"log_size": (4.0, 5.0), "log_growth": (-3.5, -2.7), "log_rate": (-8.3, -7.7)}
RATE, SPREAD = -8.0, 0.05
# Along it the mean spectrum does not change: N μ and N α stay what they are.
FREE = np.array([-1.0, 1.0, 1.0])
# Of the reference draws, the closest are kept.
KEPT = 0.05


def spectrum(theta, rng):
    import msprime

    size, growth, rate = 10.0**theta
    demography = msprime.Demography()
    demography.add_population(initial_size=size, growth_rate=growth)
    first, second = rng.integers(1, 2**31, 2)
    trees = msprime.sim_ancestry(
        {0: 20}, ploidy=1, sequence_length=3e6, recombination_rate=1e-8, demography=demography, random_seed=first
    )
    mutated = msprime.sim_mutations(trees, rate=rate, random_seed=second)
    return np.log1p(mutated.allele_frequency_spectrum(polarised=True, span_normalise=False)[1:-1])


def terms(x: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Give 1, x, x² and products of the first four data, standardised."""
    z = (x - like.mean(axis=0)) / like.std(axis=0)
    products = [z[:, i] * z[:, j] for i in range(4) for j in range(i)]
    return np.concatenate([np.ones((len(z), 1)), z, z**2, np.stack(products, axis=1)], axis=1)


def rejection(theta: np.ndarray, x: np.ndarray, x_obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of the posterior from draws of the prior and their data."""
    chosen = np.ones(len(x), bool)
    for _ in range(2):  # regressions from everywhere, then from the quarter that is closest
        slopes = np.linalg.lstsq(terms(x[chosen], x), theta[chosen], rcond=None)[0]
        summaries, observed = terms(x, x) @ slopes, (terms(x_obs[None], x) @ slopes)[0]
        distance = (((summaries - observed) / summaries.std(axis=0)) ** 2).sum(axis=1)
        chosen = distance <= np.quantile(distance, 0.25)
    near = np.argsort(distance)[: int(KEPT * len(x))]
    weights = 1 - distance[near] / distance[near].max()
    design = np.concatenate([np.ones((len(near), 1)), summaries[near] - observed], axis=1)
    root = np.sqrt(weights)[:, None]
    adjustment = np.linalg.lstsq(design * root, theta[near] * root, rcond=None)[0][1:]
    draws = theta[near] - (summaries[near] - observed) @ adjustment
    mean = np.average(draws, axis=0, weights=weights)
    return mean, np.sqrt(np.average((draws - mean) ** 2, axis=0, weights=weights))


def reference(simulator: fs.Simulator, posterior: fs.Posterior, num: int, workers: int) -> fs.Simulations:
    """Simulate at draws of the prior, in a box that holds all of the posterior."""
    ends = {}
    for i, name in enumerate(("log_size", "log_growth")):
        half = 6 * posterior.sigma[i]
        low, high = REGION[name]
        ends[name] = dist.Uniform(max(low, posterior.mean[i] - half), min(high, posterior.mean[i] + half))
    prior = fs.Proposal.of({**ends, "log_rate": dist.Normal(RATE, SPREAD)})
    return fs.simulate(simulator, prior, num, seed=11, workers=workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--num-simulations", type=int, default=3_000)
    parser.add_argument("--num-reference", type=int, default=16_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    simulator = fs.from_python(spectrum)
    model = fs.fit(fs.simulate(simulator, fs.uniform(REGION), options.num_simulations, workers=options.workers))
    known = fs.constraints(model)
    (free,) = known.unconstrained
    cosine = abs(free.direction @ FREE) / np.linalg.norm(free.direction) / np.linalg.norm(FREE)
    x_obs = simulator.draw(list(TRUTH), seed=1)
    posterior = fs.sample(model, x_obs, prior={"log_rate": dist.Normal(RATE, SPREAD)})
    draws = reference(simulator, posterior, options.num_reference, options.workers)
    mean, sigma = rejection(draws.theta, draws.x, x_obs)
    document = {
        "benchmark": "population_genetics",
        "num_simulations": options.num_simulations,
        "num_reference": options.num_reference,
        "free": free.text,
        "degrees_from_free": float(np.degrees(np.arccos(min(cosine, 1.0)))),
        "outcomes": [c.outcome for c in known.combinations],
        "shares": [c.share for c in known.combinations],
        "names": list(model.names),
        "mean": posterior.mean.tolist(),
        "sigma": posterior.sigma.tolist(),
        "reference_mean": mean.tolist(),
        "reference_sigma": sigma.tolist(),
        "off_by_sigma": ((posterior.mean - mean) / sigma).tolist(),
        "width_ratio": (posterior.sigma / sigma).tolist(),
        "problems": list(posterior.problems),
        "versions": versions(),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    write_json(document, options.out / "population_genetics.json")
    for key in ("free", "degrees_from_free", "outcomes", "off_by_sigma", "width_ratio", "problems"):
        print(f"{key:18s} {document[key]}")


if __name__ == "__main__":
    main()
