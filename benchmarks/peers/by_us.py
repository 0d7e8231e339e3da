"""This package: the default fit, the paper's recipe, and the exact score, each in a process of its own."""

import warnings
from typing import Any

import numpy as np
from exchange import Fitted, Rows, serve

import fisherscore as fs


def fit(given: dict[str, Rows], order: dict[str, Any]) -> Fitted:
    warnings.simplefilter("ignore", fs.FisherScoreWarning)
    names = [f"theta{i + 1}" for i in range(len(given["low"]))]
    box = {n: (float(a), float(b)) for n, a, b in zip(names, given["low"], given["high"], strict=True)}
    if order["system"] == "exact":
        model: Any = getattr(fs.problems, order["problem"])().exact_model()
    elif order["system"] == "paper":
        # Its recipe draws the noise it adds itself, around the θ at which data were simulated.
        model = fs.fit(fs.from_table(given["theta"], given["x"], fs.uniform(box)), recipe="paper", progress=False)
    else:
        sims = fs.from_table(given["theta"], given["x"], fs.uniform(box))
        model = fs.fit(sims, seed=order["seed"], progress=False)

    def draw(x: Rows, num: int) -> Rows:
        posterior = fs.sample(model, x, num_samples=-(-num // 4), num_chains=4, seed=order["seed"], progress=False)
        return np.asarray(posterior.samples)[:num]

    return Fitted(
        lambda theta, x: np.asarray(model.log_likelihood(theta, x), float),
        lambda theta, x: np.asarray(model.score(theta, x), float),
        draw,
    )


if __name__ == "__main__":
    serve(fit, ("jax", "numpy"))
