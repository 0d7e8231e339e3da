"""Posteriors under priors of every form, against exact ones: joint laws, draws, densities, regions of any shape.

The likelihood is that of the linear Gaussian problem, so exact draws are had by rejection: θ from the likelihood, kept
in proportion to the prior's density. Both samplers are compared with them by a classifier (C2ST: 0.5 cannot be told
apart, 1 always can). As a control that must fail, the same posterior under the uniform prior.

    python benchmarks/priors.py
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpyro.distributions as dist

import fisherscore as fs
from fisherscore._support.versions import versions, write_json
from fisherscore.accuracy import c2st

COVARIANCE = np.array([[0.09, 0.045], [0.045, 0.09]])
PROBLEM = fs.problems.linear_gaussian(covariance=COVARIANCE, latent_covariance=0.4 * COVARIANCE)
NAMES = PROBLEM.proposal.names
OBSERVED = ((0.5, -0.7), (0.0, 0.3))
MEAN, SPREAD = np.array([0.2, -0.3]), np.array([[0.04, -0.03], [-0.03, 0.04]])
NUM_DRAWS = 2_000


def normal(theta: np.ndarray) -> np.ndarray:
    return -0.5 * np.einsum("ni,ij,nj->n", theta - MEAN, np.linalg.inv(SPREAD), theta - MEAN)


def banana(theta: Any) -> Any:
    return -0.5 * (theta[..., 0] / 0.5) ** 2 - 0.5 * ((theta[..., 1] + 0.5 - theta[..., 0] ** 2) / 0.2) ** 2


def triangle(theta: np.ndarray) -> np.ndarray:
    inside = (theta[:, 0] >= 0) & (theta[:, 1] <= 0.1) & (theta[:, 0] - theta[:, 1] <= 1.2)
    return np.where(inside, 0.0, -np.inf)


def disc(theta: Any) -> Any:
    return (theta[..., 0] - 0.3) ** 2 + (theta[..., 1] + 0.2) ** 2 < 0.25


def banana_draws(num: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    first = 0.5 * rng.normal(size=num)
    return np.stack([first, first**2 - 0.5 + 0.2 * rng.normal(size=num)], axis=1)


# By form: the prior as it is given, and its log-density up to a constant.
FORMS: dict[str, tuple[Callable[[], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "joint, by names": (
        lambda: {(NAMES[1], NAMES[0]): dist.MultivariateNormal(MEAN[::-1].copy(), SPREAD[::-1, ::-1].copy())},
        normal,
    ),
    "joint, one for all": (lambda: dist.MultivariateNormal(MEAN, SPREAD), normal),
    "draws, normal": (
        lambda: fs.prior_from_samples(np.random.default_rng(0).multivariate_normal(MEAN, SPREAD, 20_000), NAMES),
        normal,
    ),
    "draws, curved": (lambda: fs.prior_from_samples(banana_draws(20_000), NAMES), banana),
    "log-density, curved": (lambda: fs.prior_from_density(banana, NAMES), banana),
    "triangle": (
        lambda: fs.restricted_prior(None, ["theta1 >= 0", "theta2 <= 0.1", "theta1 - theta2 <= 1.2"]),
        triangle,
    ),
    "joint, in a triangle": (
        lambda: fs.restricted_prior(
            dist.MultivariateNormal(MEAN, SPREAD), ["theta1 >= 0", "theta2 <= 0.1", "theta1 - theta2 <= 1.2"]
        ),
        lambda theta: normal(theta) + triangle(theta),
    ),
    "disc": (lambda: fs.restricted_prior(None, disc), lambda theta: np.where(disc(theta), 0.0, -np.inf)),
}


def exact(x: Any, log_prior: Callable[[np.ndarray], np.ndarray], num: int, seed: int) -> np.ndarray:
    """Draw from the posterior by rejection."""
    rng = np.random.default_rng(seed)
    parts: list[np.ndarray] = []
    while sum(map(len, parts)) < num:
        theta = rng.multivariate_normal(x, COVARIANCE, 200_000)
        height = log_prior(theta)
        parts.append(theta[np.log(rng.uniform(size=len(theta))) < height - height.max()])
    return np.concatenate(parts)[:num]


def told_apart(prior: Any, log_prior: Callable[[np.ndarray], np.ndarray], x: Any, method: str = "nuts") -> float:
    """Sample under a prior and tell the draws from exact ones under a log-density."""
    # Longer than is compared, and then thinned, so that draws of one chain are nearly independent.
    posterior = fs.sample(PROBLEM.exact_model(), x, prior=prior, method=method, num_samples=5_000, progress=False)
    chosen = np.linspace(0, len(posterior.samples) - 1, NUM_DRAWS).astype(int)
    return c2st(posterior.samples[chosen], exact(x, log_prior, NUM_DRAWS, seed=7))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--forms", nargs="+", choices=tuple(FORMS), default=tuple(FORMS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    rows = []
    print(f"{'prior':22s}  {'NUTS':>6s}  {'SMC':>6s}  {'control':>7s}   (largest C2ST; of the control the smallest)")
    for form in options.forms:
        make, log_prior = FORMS[form]
        started, prior = time.perf_counter(), make()
        values = {method: [told_apart(prior, log_prior, x, method) for x in OBSERVED] for method in ("nuts", "smc")}
        control = [told_apart(None, log_prior, x) for x in OBSERVED]
        rows.append({"prior": form, **values, "control": control, "seconds": time.perf_counter() - started})
        print(
            f"{form:22s}  {max(values['nuts']):6.3f}  {max(values['smc']):6.3f}  {min(control):7.3f}",
            flush=True,
        )
    document = {"benchmark": "priors", "num_draws": NUM_DRAWS, "observed": OBSERVED, "rows": rows}
    options.out.mkdir(parents=True, exist_ok=True)
    write_json({**document, "versions": versions()}, options.out / "priors.json")


if __name__ == "__main__":
    main()
