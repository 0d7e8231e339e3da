"""What a fit returns: scores in the user's units, and a log-likelihood where the model has one.

Subclasses write ``score_one`` and ``log_likelihood_one`` for a single θ and x, in JAX; the base class checks shapes,
broadcasts over leading axes and compiles. Score models are pytrees: they can be passed to jitted functions, and two
models of the same shape share compiled code.
"""

import abc
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.arguments import as_count, as_data, as_theta, is_traced
from .._support.rows import rows_in_turn, rows_mapped
from ..errors import ArgumentError, FisherScoreWarning
from ..simulation.proposal import Proposal

# Rows evaluated at once unless a model says otherwise; more are done in turn, to bound the memory.
_ROWS_AT_ONCE = 65_536


class Provenance(Mapping[str, Any]):
    """Facts about a model that no computation depends on: provenance and the loss curve.

    All records compare equal, so that models which differ in nothing else share compiled code.
    """

    def __init__(self, facts: Mapping[str, Any] | None = None):
        self._facts = dict(facts or {})

    def __getitem__(self, name: str) -> Any:
        return self._facts[name]

    def __iter__(self) -> Any:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Provenance)

    def __hash__(self) -> int:
        return hash(Provenance)

    def __repr__(self) -> str:
        return f"Provenance({', '.join(self._facts)})"


class ScoreModel(eqx.Module):
    """Base of all score models: ∇θ log p(x | θ) for named parameters over a training region.

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> isinstance(model, fs.ScoreModel), model.score([0.0, 0.0], [[0.5, 0.5], [1.0, 0.0]]).shape
    (True, (2, 2))
    """

    names: eqx.AbstractVar[tuple[str, ...]]
    units: eqx.AbstractVar[tuple[str, ...]]
    low: eqx.AbstractVar[np.ndarray]
    high: eqx.AbstractVar[np.ndarray]
    x_shape: eqx.AbstractVar[Any]

    @property
    @abc.abstractmethod
    def has_density(self) -> bool:
        """Whether the score is the gradient of a log-likelihood the model can give."""

    @abc.abstractmethod
    def score_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, " params"]:
        """Give the score of one observation at one θ, in the user's units."""

    def log_likelihood_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, ""]:
        """Give log p(x | θ) up to a term in x alone."""
        raise NotImplementedError

    @property
    def rows_at_once(self) -> int:
        """How many rows may be evaluated side by side."""
        return _ROWS_AT_ONCE

    @property
    def knows_fisher(self) -> bool:
        """Whether the model can give an approximate Fisher matrix without a simulator."""
        return False

    def fisher_one(self, theta: Float[Array, " params"]) -> Float[Array, "params params"]:
        """Give an approximate Fisher matrix at one θ, to set scales; a forecast measures it properly."""
        raise NotImplementedError

    def rarity(self, x: Any) -> np.ndarray | None:
        """Return, for each observation, the fraction of training data farther from their mean; 0 is beyond all.

        None where the model knows nothing of its training data.
        """
        del x
        return None

    @property
    def num_parameters(self) -> int:
        """How many parameters there are."""
        return len(self.names)

    def check_data(self, x: Any, argument: str = "x") -> Any:
        """Return x as arrays of the right shape, or raise an error that names the argument."""
        return as_data(x, self.x_shape, argument)

    def data_batch_shape(self, x: Any) -> tuple[int, ...]:
        """Return the leading axes of checked data."""
        return x.shape[: x.ndim - len(self.x_shape)]

    def score(self, theta: Any, x: Any) -> Array:
        """Compute the score ∇θ log p(x | θ), shape (..., p), broadcasting over the leading axes of both arguments.

        >>> import fisherscore as fs
        >>> model = fs.problems.linear_gaussian().exact_model()
        >>> model.score([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]).shape
        (2, 2)
        """
        return self._broadcast(_scores, theta, x)

    def log_likelihood(self, theta: Any, x: Any) -> Array:
        """Compute log p(x | θ) up to a term in x alone, shape (...); for models with a density only."""
        if not self.has_density:
            raise ArgumentError(
                "model: expected one with a density, got a plain vector field, which has scores but no log-likelihood. "
                'Fit with recipe="auto" for a model that has one.'
            )
        return self._broadcast(_log_likelihoods, theta, x)

    def inside(self, theta: Any) -> Any:
        """Say whether θ lies in the training region, broadcast over leading axes."""
        theta = as_theta(theta, self.names)
        return ((theta >= self.low) & (theta <= self.high)).all(axis=-1)

    def _broadcast(self, function: Callable[..., Array], theta: Any, x: Any) -> Array:
        theta = as_theta(theta, self.names)
        x = self.check_data(x)
        try:
            batch = np.broadcast_shapes(theta.shape[:-1], self.data_batch_shape(x))
        except ValueError:
            raise ArgumentError(
                f"theta, x: expected leading axes that broadcast, got {theta.shape[:-1]} and "
                f"{self.data_batch_shape(x)}. Add an axis, such as theta[:, None], for all pairs."
            ) from None
        if not is_traced(theta) and not np.all(self.inside(theta)):
            warnings.warn(
                "theta: some parameters lie outside the training region, where a score is an extrapolation.",
                FisherScoreWarning,
                stacklevel=4,
            )
        num = int(np.prod(batch))
        traced = is_traced(theta) or any(map(is_traced, jax.tree.leaves(x)))
        array_module: Any = jnp if traced else np

        def flat(array: Any, inner: tuple[int, ...]) -> Any:
            return array_module.broadcast_to(array, (*batch, *inner)).reshape(num, *inner)

        thetas = flat(theta, theta.shape[-1:])
        xs = jax.tree.map(lambda a: flat(a, a.shape[len(self.data_batch_shape(x)) :]), x)
        if traced:
            values = function(self, thetas, xs)
        else:
            values = rows_in_turn(lambda *rows: function(self, *rows), (thetas, xs), self.rows_at_once)
        return values.reshape(*batch, *values.shape[1:])


@eqx.filter_jit
def _scores(model: ScoreModel, theta: Any, x: Any) -> Array:
    return rows_mapped(model.score_one, (theta, x), model.rows_at_once)


@eqx.filter_jit
def _log_likelihoods(model: ScoreModel, theta: Any, x: Any) -> Array:
    return rows_mapped(model.log_likelihood_one, (theta, x), model.rows_at_once)


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

    ``score`` and ``log_likelihood`` are JAX functions of one (theta, x), either of which may be left out; ``fisher`` is
    one of theta alone. At most ``batch_size`` rows are evaluated side by side.

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
        batch_size: int = _ROWS_AT_ONCE,
    ):
        if score is None and log_likelihood is None:
            raise ArgumentError("score, log_likelihood: expected at least one of the two, got neither.")
        self.score_function = score
        self.log_likelihood_function = log_likelihood
        self.fisher_function = fisher
        self.batch_size = as_count(batch_size, "batch_size")
        self.low, self.high = proposal.low, proposal.high
        self.names, self.units = proposal.names, proposal.units
        self.x_shape = tuple(x_shape)
        p = len(self.names)
        _check_shape(score, "score", (p,), p, self.x_shape)
        _check_shape(log_likelihood, "log_likelihood", (), p, self.x_shape)

    @property
    def rows_at_once(self) -> int:
        """As given: fewer where one evaluation takes much memory."""
        return self.batch_size

    @property
    def has_density(self) -> bool:
        """Whether a log-likelihood was given."""
        return self.log_likelihood_function is not None

    def score_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, " params"]:
        """Give the user's score, or the gradient of the user's log-likelihood."""
        if self.score_function is None:
            return jax.grad(self.log_likelihood_one)(theta, x)
        return self.score_function(theta, x)

    def log_likelihood_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, ""]:
        """Give the user's log-likelihood."""
        assert self.log_likelihood_function is not None
        return self.log_likelihood_function(theta, x)

    @property
    def knows_fisher(self) -> bool:
        """Whether a Fisher matrix was given."""
        return self.fisher_function is not None

    def fisher_one(self, theta: Float[Array, " params"]) -> Float[Array, "params params"]:
        """Give the user's Fisher matrix."""
        assert self.fisher_function is not None
        return self.fisher_function(theta)
