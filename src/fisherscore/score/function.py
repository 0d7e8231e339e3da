"""A score written down by hand, used like a fitted model."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.arguments import as_count
from ..errors import ArgumentError
from ..simulation.proposal import Proposal
from .model import ROWS_AT_ONCE, ScoreModel
from .scales import is_far


def _check_shape(
    function: Callable[..., Any] | None, argument: str, expected: tuple[int, ...], p: int, x_shape: tuple[int, ...]
) -> None:
    """Try a user's function on shapes alone."""
    if function is None:
        return
    theta, x = (jax.eval_shape(lambda s=shape: jnp.zeros(s)) for shape in ((p,), x_shape))
    got = jnp.shape(jax.eval_shape(function, theta, x))
    if got != expected:
        raise ArgumentError(f"{argument}: expected a function that returns shape {expected}, got {got}.")


class FunctionScore(ScoreModel):
    """A score written down by hand: an exact problem, or another code's likelihood, used like a fitted model.

    Args:
        proposal: Names, units and training region.
        x_shape: Shape of one observation.
        score: A JAX function of one (theta, x) that gives the score; by default the gradient of ``log_likelihood``.
        log_likelihood: A JAX function of one (theta, x) that gives log p(x | θ) up to a term in x alone. Without
            it, the model is a vector field and has no density.
        fisher: A JAX function of one theta that gives the Fisher matrix.
        batch_size: Largest number of rows evaluated side by side.

    >>> import fisherscore as fs
    >>> model = fs.FunctionScore(fs.uniform(a=(-3, 3)), (1,), log_likelihood=lambda t, x: -0.5 * ((x - t) ** 2).sum())
    >>> float(model.score([0.0], [2.0])[0])
    2.0
    """

    score_function: Callable[..., Any] | None
    log_likelihood_function: Callable[..., Any] | None
    fisher_function: Callable[..., Any] | None
    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    x_shape: tuple[int, ...] = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)

    def __init__(
        self,
        proposal: Proposal,
        x_shape: tuple[int, ...],
        *,
        score: Callable[..., Any] | None = None,
        log_likelihood: Callable[..., Any] | None = None,
        fisher: Callable[..., Any] | None = None,
        batch_size: int = ROWS_AT_ONCE,
    ):
        if score is None and log_likelihood is None:
            raise ArgumentError("score, log_likelihood: expected at least one of the two, got neither.")
        self.score_function = score
        self.log_likelihood_function = log_likelihood
        self.fisher_function = fisher
        self.batch_size = as_count(batch_size, "batch_size")
        self.low, self.high = proposal.low, proposal.high
        if is_far(self.low, self.high, 1_000.0).any():
            raise ArgumentError(
                "proposal: this score is computed in single precision, which cannot tell apart parameters of "
                f"{proposal}. Measure them from a point inside the range, in units of its size."
            )
        self.names, self.units = proposal.names, proposal.units
        self.x_shape = tuple(x_shape)
        p = len(self.names)
        _check_shape(score, "score", (p,), p, self.x_shape)
        _check_shape(log_likelihood, "log_likelihood", (), p, self.x_shape)

    @property
    def rows_at_once(self) -> int:
        """How many rows may be evaluated side by side, as given."""
        return self.batch_size

    @property
    def has_density(self) -> bool:
        """Whether a log-likelihood was given."""
        return self.log_likelihood_function is not None

    def score_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, " params"]:
        """Give the user's score, or the gradient of the user's log-likelihood.

        Args:
            theta: One parameter vector.
            x: The data of one observation.

        Returns:
            One number per parameter.
        """
        if self.score_function is None:
            return jax.grad(self.log_likelihood_one)(theta, x)
        return self.score_function(theta, x)

    def log_likelihood_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, ""]:
        """Give the user's log-likelihood.

        Args:
            theta: One parameter vector.
            x: The data of one observation.

        Returns:
            One number.
        """
        assert self.log_likelihood_function is not None
        return self.log_likelihood_function(theta, x)

    @property
    def knows_fisher(self) -> bool:
        """Whether a Fisher matrix was given."""
        return self.fisher_function is not None

    def fisher_one(self, theta: Float[Array, " params"]) -> Float[Array, "params params"]:
        """Give the user's Fisher matrix.

        Args:
            theta: One parameter vector.

        Returns:
            The matrix, shape (p, p).
        """
        assert self.fisher_function is not None
        return self.fisher_function(theta)
