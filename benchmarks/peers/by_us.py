"""This package: default fits and aimed inferences, the paper's recipe, and the exact score, each in its own process."""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from exchange import Fitted, Rows, serve

import fisherscore as fs

CHAINS = 4


def task_of(order: dict[str, Any]) -> Any:
    """Return a task of the public benchmark."""
    sys.path.insert(1, str(Path(__file__).parents[1]))
    from sbi_tasks import TASKS

    return TASKS[order["problem"]]()


def fit(given: dict[str, Rows], order: dict[str, Any]) -> Fitted:
    warnings.simplefilter("ignore", fs.FisherScoreWarning)
    if order.get("aimed"):
        return aimed(order)
    names = [f"theta{i + 1}" for i in range(len(given["low"]))]
    box = {n: (float(a), float(b)) for n, a, b in zip(names, given["low"], given["high"], strict=True)}
    proposal, more = fs.uniform(box), {}
    if order["comparison"] == "tasks":
        task = task_of(order)
        proposal, more = task.proposal, {"prior": task.sampling_prior}
    sims = fs.from_table(given["theta"], given["x"], proposal)
    if order["system"] == "exact":
        model: Any = getattr(fs.problems, order["problem"])(**order["settings"]).exact_model()
    elif order["system"] == "paper":  # it draws the noise it adds itself, around the θ at which data were simulated
        model = fs.fit(sims, recipe="paper", progress=False)
    else:
        model = fs.fit(sims, seed=order["seed"], progress=False)

    def draw(x: Rows, num: int) -> Rows:
        settings = {"num_samples": -(-num // CHAINS), "num_chains": CHAINS, "seed": order["seed"], "progress": False}
        return np.asarray(fs.sample(model, x, **settings, **more).samples)[:num]

    return Fitted(
        draw,
        lambda theta, x: np.asarray(model.log_likelihood(theta, x), float),
        lambda theta, x: np.asarray(model.score(theta, x), float),
    )


def aimed(order: dict[str, Any]) -> Fitted:
    """Infer from one observation; its draws come with it."""
    task = task_of(order)
    result = fs.infer(
        task.simulator,
        order["observation"],
        task.proposal,
        order["num_simulations"],
        prior=task.sampling_prior,
        num_samples=-(-order["num_draws"] // CHAINS),
        num_chains=CHAINS,
        seed=order["seed"],
        progress=False,
    )
    return Fitted(lambda x, num: np.asarray(result.posterior.samples)[:num])


if __name__ == "__main__":
    serve(fit, ("jax", "numpy"))
