"""What a reference problem is: a proposal, a simulator, and the truth about them."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from .._support.arguments import as_theta
from .._support.precision import in_single_precision
from .._support.rows import rows_in_turn
from ..errors import ArgumentError
from ..score.function import FunctionScore
from ..simulation.jax_simulator import from_jax
from ..simulation.latent import Latent
from ..simulation.proposal import Proposal
from ..simulation.simulator import Simulator


@dataclass(frozen=True, eq=False)
class Observed:
    """An observation whose posterior others have sampled.

    Attributes:
        x: The observation.
        truth: The parameters it was drawn at.
        prior: The prior of the posterior, by name, as :func:`fisherscore.sample` takes it.
        draws: Draws of the posterior, shape (n, p).

    >>> import fisherscore as fs
    >>> fs.problems.lensing_maps(num_pixels=64).observed.x.shape
    (64, 64, 5)
    """

    x: np.ndarray
    truth: np.ndarray
    prior: dict[str, Any]
    draws: np.ndarray


@dataclass(frozen=True, eq=False)
class Problem:
    """A simulator whose answers are known.

    Attributes:
        name: What it is called.
        proposal: Parameters and training region.
        draw_one: A JAX function of (key, theta) that draws one observation.
        x_shape: Shape of one observation.
        log_likelihood_one: A JAX function of one (theta, x): log p(x | θ) up to a term in x alone; or None.
        score_one: A JAX function of one (theta, x): the score; None where it is the gradient of the log-likelihood.
        fisher_one: A JAX function of one theta: the Fisher matrix; None where it is not known.
        latent: For decomposable problems, where x given θ is split into θ → z → x, the model of z given θ.
        draw_one_from_latent: For decomposable problems, a JAX function of (key, z) that draws one observation.
        batch_size: Largest number of rows evaluated side by side.
        observed: An observation with draws of its posterior, where there is one.

    >>> import fisherscore as fs
    >>> fs.problems.poisson_counts()
    Problem(poisson-counts: theta1, theta2; data of shape (8,))
    """

    name: str
    proposal: Proposal
    draw_one: Callable[..., Any]
    x_shape: tuple[int, ...]
    log_likelihood_one: Callable[..., Any] | None = None
    score_one: Callable[..., Any] | None = None
    fisher_one: Callable[..., Any] | None = None
    latent: Latent | None = None
    draw_one_from_latent: Callable[..., Any] | None = None
    batch_size: int = 256
    observed: Observed | None = None

    def __repr__(self) -> str:
        return f"Problem({self.name}: {', '.join(self.proposal.names)}; data of shape {self.x_shape})"

    @property
    def simulator(self) -> Simulator:
        """The simulator of x given θ."""
        return self._simulator(self.draw_one, self.name)

    @property
    def simulator_from_latent(self) -> Simulator:
        """The simulator of x given the latent z, for a decomposable problem."""
        if self.draw_one_from_latent is None:
            raise ArgumentError(f"The problem {self.name!r} is not decomposable: it has no latent.")
        return self._simulator(self.draw_one_from_latent, f"{self.name} from its latent")

    def _simulator(self, draw_one: Callable[..., Any], name: str) -> Simulator:
        return from_jax(draw_one, name=name, batch_size=self.batch_size, precision="single")

    def exact_model(self) -> FunctionScore:
        """Return the exact score as a model, to be used wherever a fitted one is.

        Returns:
            The model.
        """
        return FunctionScore(
            self.proposal,
            self.x_shape,
            score=self.score_one,
            log_likelihood=self.log_likelihood_one,
            fisher=self.fisher_one,
            batch_size=self.batch_size,
        )

    def score(self, theta: Any, x: Any) -> Any:
        """Compute the exact score.

        Args:
            theta: Parameters, shape (..., p), or a mapping by name.
            x: Data, shape (..., one observation). The leading axes of both broadcast.

        Returns:
            Scores, one number per parameter along the last axis.
        """
        return self.exact_model().score(theta, x)

    def log_likelihood(self, theta: Any, x: Any) -> Any:
        """Compute the exact log-likelihood up to a term in x alone.

        Args:
            theta: Parameters, shape (..., p), or a mapping by name.
            x: Data, shape (..., one observation).

        Returns:
            Log-likelihoods, shape (...).
        """
        return self.exact_model().log_likelihood(theta, x)

    def fisher(self, theta: Any) -> np.ndarray:
        """Compute the exact Fisher matrix.

        Args:
            theta: Parameters, shape (..., p), or a mapping by name.

        Returns:
            The matrices, shape (..., p, p).
        """
        if self.fisher_one is None:
            raise ArgumentError(f"The Fisher matrix of the problem {self.name!r} is not known.")
        theta = as_theta(theta, self.proposal.names)
        p = self.proposal.num_parameters
        matrices = rows_in_turn(_compiled(self.fisher_one), (theta.reshape(-1, p),), self.batch_size)
        return np.asarray(matrices, dtype=np.float64).reshape(*theta.shape[:-1], p, p)


@functools.lru_cache(maxsize=32)
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return in_single_precision(jax.jit(jax.vmap(function)))
