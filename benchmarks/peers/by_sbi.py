"""Neural likelihood and neural posterior of sbi, with its defaults and tuned; run by an interpreter that has sbi."""

from typing import Any

import numpy as np
import torch
from exchange import Fitted, Rows, serve
from sbi.inference import NLE, NPE
from sbi.neural_nets import likelihood_nn, posterior_nn
from sbi.utils import BoxUniform

# Splines of more hidden features, smaller batches and twice the patience of the defaults.
NETWORK = {"model": "nsf", "hidden_features": 64, "num_transforms": 5}
TRAINING = {"training_batch_size": 50, "stop_after_epochs": 40}


def fit(given: dict[str, Rows], order: dict[str, Any]) -> Fitted:
    torch.manual_seed(order["seed"])
    torch.set_num_threads(1)  # networks are small: more threads only wait for each other
    tuned, likelihood = order["system"].endswith("tuned"), "NLE" in order["system"]
    low, scale = given["low"], given["high"] - given["low"]

    def unit(rows: Rows) -> torch.Tensor:
        return torch.tensor((rows - low) / scale, dtype=torch.float32)

    def data(rows: Rows) -> torch.Tensor:
        return torch.tensor(rows, dtype=torch.float32)

    p = len(low)
    prior = BoxUniform(torch.zeros(p), torch.ones(p))
    kind, network = (NLE, likelihood_nn) if likelihood else (NPE, posterior_nn)
    options = {"density_estimator": network(**NETWORK)} if tuned else {}
    inference = kind(prior=prior, show_progress_bars=False, **options)
    estimator = inference.append_simulations(unit(given["theta"]), data(given["x"])).train(
        **(TRAINING if tuned else {})
    )
    posterior = inference.build_posterior()

    def log_prob(theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (estimator.log_prob(x[None], theta) if likelihood else estimator.log_prob(theta[None], x))[0]

    def log_density(theta: Rows, x: Rows) -> Rows:
        with torch.no_grad():
            return log_prob(unit(theta), data(x)).numpy().astype(float)

    def score(theta: Rows, x: Rows) -> Rows:
        parameters = unit(theta).requires_grad_()
        (gradient,) = torch.autograd.grad(log_prob(parameters, data(x)).sum(), parameters)
        return gradient.numpy().astype(float) / scale

    def draw(x: Rows, num: int) -> Rows:
        draws = posterior.sample((num,), x=data(x)[None], show_progress_bars=False)
        return low + scale * np.asarray(draws, float)

    return Fitted(log_density, score, draw)


if __name__ == "__main__":
    serve(fit, ("sbi", "torch"))
