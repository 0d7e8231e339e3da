"""Neural likelihood and posterior of sbi, with its defaults, tuned, and in rounds; run by an interpreter that has it.

In rounds means: a neural likelihood that simulates at draws of its posterior so far (SNLE), or a neural posterior whose
prior is cut off where it is improbable (TSNPE), as many simulations in each round.
"""

from typing import Any

import numpy as np
import torch
from exchange import Coordinates, Fitted, Rows, serve, simulate
from sbi.inference import NLE, NPE
from sbi.neural_nets import likelihood_nn, posterior_nn
from sbi.neural_nets.embedding_nets import CNNEmbedding
from sbi.utils import BoxUniform, RestrictedPrior, get_density_thresholder

# Splines of more hidden features, smaller batches and twice the patience of the defaults.
NETWORK = {"model": "nsf", "hidden_features": 64, "num_transforms": 5}
TRAINING = {"training_batch_size": 50, "stop_after_epochs": 40}
ROUNDS = 5
IMPROBABLE = 1e-4  # of draws are outside the region to which TSNPE cuts the prior, as in sbi's guide


def numbers(rows: Rows) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def prior_of(coordinates: Coordinates) -> Any:
    p = len(coordinates.centre)
    if coordinates.box:
        return BoxUniform(torch.zeros(p), torch.ones(p))
    return torch.distributions.MultivariateNormal(torch.zeros(p), torch.eye(p))


def options_of(system: str, x_shape: tuple[int, ...]) -> dict[str, Any]:
    """Return what differs from the defaults: networks for maps, or larger ones."""
    if system.endswith("CNN"):
        return {"density_estimator": posterior_nn("maf", embedding_net=CNNEmbedding(x_shape))}
    if system.endswith("tuned"):
        network = likelihood_nn if "NLE" in system else posterior_nn
        return {"density_estimator": network(**NETWORK)}
    return {}


def fit(given: dict[str, Rows], order: dict[str, Any]) -> Fitted:
    torch.manual_seed(order["seed"])
    torch.set_num_threads(1)  # networks are small: more threads only wait for each other
    system, coordinates = order["system"], Coordinates.of(order)
    likelihood = "NLE" in system
    prior = prior_of(coordinates)
    kind = NLE if likelihood else NPE
    inference = kind(prior=prior, show_progress_bars=False, **options_of(system, given["x"].shape[1:]))
    if order.get("aimed"):
        posterior = (in_rounds if likelihood else truncated)(inference, prior, coordinates, order)
        return Fitted(draws_of(posterior, coordinates))
    training = TRAINING if system.endswith("tuned") else {}
    estimator = inference.append_simulations(numbers(coordinates.to(given["theta"])), numbers(given["x"])).train(
        **training
    )

    def log_prob(theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (estimator.log_prob(x[None], theta) if likelihood else estimator.log_prob(theta[None], x))[0]

    def log_density(theta: Rows, x: Rows) -> Rows:
        with torch.no_grad():
            return log_prob(numbers(coordinates.to(theta)), numbers(x)).numpy().astype(float)

    def score(theta: Rows, x: Rows) -> Rows:
        parameters = numbers(coordinates.to(theta)).requires_grad_()
        (gradient,) = torch.autograd.grad(log_prob(parameters, numbers(x)).sum(), parameters)
        return gradient.numpy().astype(float) @ np.linalg.inv(coordinates.factor)

    return Fitted(draws_of(inference.build_posterior(), coordinates), log_density, score)


def draws_of(posterior: Any, coordinates: Coordinates) -> Any:
    def draw(x: Rows, num: int) -> Rows:
        draws = posterior.sample((num,), x=numbers(x)[None], show_progress_bars=False)
        return coordinates.back(np.asarray(draws, float))

    return draw


def in_rounds(inference: NLE, prior: Any, coordinates: Coordinates, order: dict[str, Any]) -> Any:
    """Simulate at draws of the posterior so far, and train on all."""
    proposal = prior
    for count in shares(order["num_simulations"]):
        theta = proposal.sample((count,), **({} if proposal is prior else {"show_progress_bars": False}))
        x = simulate(coordinates.back(np.asarray(theta, float)))
        inference.append_simulations(theta, numbers(x)).train()
        proposal = inference.build_posterior().set_default_x(numbers(order["observation"])[None])
    return proposal


def truncated(inference: NPE, prior: Any, coordinates: Coordinates, order: dict[str, Any]) -> Any:
    """Simulate at draws of the prior where the posterior so far is not negligible, and train on all."""
    proposal, posterior = prior, None
    for count in shares(order["num_simulations"]):
        options = {} if proposal is prior else {"show_progress_bars": False}
        theta = proposal.sample((count,), **options)
        x = simulate(coordinates.back(np.asarray(theta, float)))
        inference.append_simulations(theta, numbers(x)).train(force_first_round_loss=True)
        posterior = inference.build_posterior().set_default_x(numbers(order["observation"])[None])
        inside = get_density_thresholder(posterior, quantile=IMPROBABLE)
        proposal = RestrictedPrior(prior, inside, sample_with="rejection")
    return posterior


def shares(num: int) -> list[int]:
    """Split simulations evenly among rounds."""
    return [len(part) for part in np.array_split(np.arange(num), ROUNDS)]


if __name__ == "__main__":
    serve(fit, ("sbi", "torch"))
