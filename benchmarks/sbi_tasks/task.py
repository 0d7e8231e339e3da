"""What a task of the benchmark is: names, prior, simulator, and the exact density where there is one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import fisherscore as fs


@dataclass(frozen=True)
class Task:
    """One task of the public benchmark of simulation-based inference (Lueckmann et al. 2021, arXiv 2101.04653).

    Attributes:
        name: Its name in the benchmark.
        proposal: The prior's marginal laws, from which simulations are drawn.
        draw_one: (key, theta) -> x, in JAX.
        log_likelihood_one: (theta, x) -> log p(x | theta) up to a term in x, in JAX; None where it is not written down.
        prior: The joint prior where its parameters are not independent; None where the proposal is the prior.
        folder: Which folder of the benchmark's files it shares, if not that of its name.
        observation_file: The name of the files with its observations.
    """

    name: str
    proposal: fs.Proposal
    draw_one: Callable[[Any, Any], Any]
    log_likelihood_one: Callable[[Any, Any], Any] | None = None
    prior: Any = None
    folder: str = ""
    observation_file: str = "observation.csv"

    @property
    def files(self) -> str:
        """The folder of the benchmark's files."""
        return self.folder or self.name

    @property
    def simulator(self) -> fs.Simulator:
        """The simulator as the package takes it."""
        return fs.from_jax(self.draw_one, name=self.name)

    @property
    def sampling_prior(self) -> Any:
        """The prior as :func:`fisherscore.sample` takes it: always given, since without one it is uniform."""
        if self.prior is not None:
            return self.prior
        return dict(zip(self.proposal.names, self.proposal.distributions, strict=True))

    def sample_prior(self, num: int, *, seed: int) -> np.ndarray:
        """Draw parameters from the prior.

        Args:
            num: How many.
            seed: Seed of the draws.

        Returns:
            Parameters, shape (num, p).
        """
        if self.prior is None:
            return self.proposal.sample(num, seed=seed)
        mean, covariance = np.asarray(self.prior.mean, float), np.asarray(self.prior.covariance_matrix, float)
        return np.random.default_rng(seed).multivariate_normal(mean, covariance, size=num)
