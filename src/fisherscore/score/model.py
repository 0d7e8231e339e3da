"""What a fit returns: scores in the user's units, and a log-likelihood where the model has one.

Subclasses write ``score_one`` and ``log_likelihood_one`` for a single θ and x, in JAX; the base class checks shapes,
broadcasts over leading axes and compiles. Score models are pytrees: they can be passed to jitted functions, and two
models of the same shape share compiled code.
"""

import abc
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.arguments import as_data, as_theta, is_traced
from .._support.compiling import quickly_compiled
from .._support.rows import rows_in_turn, rows_mapped
from .._support.text import html_table
from ..errors import ArgumentError, FisherScoreWarning
from .constraints import TRAINING_RANGE, Constraints, OwnError, precision_of_region
from .scales import Scales

# Rows evaluated at once unless a model says otherwise; more are done in turn, to bound the memory.
ROWS_AT_ONCE = 65_536


class ScoreModel(eqx.Module):
    """Base of all score models: ∇θ log p(x | θ) for named parameters over a training region.

    Attributes:
        names: Parameter names.
        units: Their units, empty where there are none.
        low: Lower ends of the training region, shape (p,).
        high: Upper ends of the training region, shape (p,).
        x_shape: Shape of one observation; for combined models, a tuple of shapes.

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
        """Give the score of one observation at one θ, in the user's units; a JAX function.

        Args:
            theta: Parameters, shape (p,).
            x: One observation.

        Returns:
            The score, shape (p,).
        """

    def log_likelihood_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, ""]:
        """Give log p(x | θ) up to a term in x alone; a JAX function.

        Args:
            theta: Parameters, shape (p,).
            x: One observation.

        Returns:
            The log-likelihood, a scalar.
        """
        raise NotImplementedError

    @property
    def rows_at_once(self) -> int:
        """How many rows may be evaluated side by side."""
        return ROWS_AT_ONCE

    @property
    def knows_fisher(self) -> bool:
        """Whether the model can give an approximate Fisher matrix without a simulator."""
        return False

    def fisher_one(self, theta: Float[Array, " params"]) -> Float[Array, "params params"]:
        """Give an approximate Fisher matrix at one θ, to set scales; a forecast measures it properly.

        Args:
            theta: Parameters, shape (p,).

        Returns:
            The matrix, shape (p, p).
        """
        raise NotImplementedError

    def rarity(self, x: Any) -> np.ndarray | None:
        """Return the fraction of training data farther from their mean than each x; 0 is beyond all.

        Args:
            x: One observation, or many along leading axes.

        Returns:
            The fractions, shape (...); None where the model knows nothing of its training data.
        """
        del x
        return None

    @property
    def own_error(self) -> OwnError | None:
        """What the model knows of its error by direction; None where it knows nothing, or is exact."""
        return None

    @property
    def constraints(self) -> Constraints | None:
        """Which combinations of parameters the data constrain and how well they were learned; None where not known.

        Under the training region; :func:`fisherscore.constraints` takes any prior.
        """
        known = self.own_error
        if known is None:
            return None
        return known.under(self.names, self.region_precision(), TRAINING_RANGE)

    @property
    def num_parameters(self) -> int:
        """How many parameters there are."""
        return len(self.names)

    def check_data(self, x: Any, argument: str = "x") -> Any:
        """Return data as arrays of the right shape, or raise an error that names the argument.

        Args:
            x: One observation, or many along leading axes.
            argument: What the error calls it.

        Returns:
            The data as an array; for combined models, a tuple of arrays.
        """
        return as_data(x, self.x_shape, argument)

    def own_scales(self) -> Scales | None:
        """Return scales in which the training region runs from −1 to 1; None where the user's own must do.

        Returns:
            The scales, or None.
        """
        return None

    def in_scales(self, scales: Scales) -> "ScoreModel":
        """Return the model as a function of u = (θ − centre) / scale, and of data as :meth:`data_in_scales` gives them.

        Args:
            scales: Centre and scale.

        Returns:
            A model whose scores are derivatives by u.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot be put into {scales}.")

    def data_in_scales(self, x: Any) -> Any:
        """Return data as the model in other scales takes them.

        Args:
            x: Data as :meth:`check_data` returns them.

        Returns:
            Data with the same leading axes.
        """
        return x

    def data_batch_shape(self, x: Any) -> tuple[int, ...]:
        """Return the leading axes of data.

        Args:
            x: Data as :meth:`check_data` returns them.

        Returns:
            The shape without that of one observation.
        """
        return x.shape[: x.ndim - len(self.x_shape)]

    def score(self, theta: Any, x: Any) -> Array:
        """Compute the score ∇θ log p(x | θ) in the user's units.

        Args:
            theta: Parameters, shape (..., p), or a mapping by name.
            x: Data, shape (..., one observation). The leading axes of both broadcast.

        Returns:
            The score, shape (..., p).

        >>> import fisherscore as fs
        >>> model = fs.problems.linear_gaussian().exact_model()
        >>> model.score([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]).shape
        (2, 2)
        """
        return self._broadcast(_scores, theta, x)

    def log_likelihood(self, theta: Any, x: Any) -> Array:
        """Compute log p(x | θ) up to a term in x alone, for models with a density.

        Args:
            theta: Parameters, shape (..., p), or a mapping by name.
            x: Data, shape (..., one observation). The leading axes of both broadcast.

        Returns:
            The log-likelihood, shape (...).
        """
        if not self.has_density:
            raise ArgumentError(
                "model: expected one with a density, got a plain vector field, which has scores but no log-likelihood. "
                'Fit with recipe="auto" for a model that has one.'
            )
        return self._broadcast(_log_likelihoods, theta, x)

    def inside(self, theta: Any) -> Any:
        """Say whether θ lies in the training region.

        Args:
            theta: Parameters, shape (..., p), or a mapping by name.

        Returns:
            Truth values, shape (...).
        """
        theta = as_theta(theta, self.names)
        within = ((theta >= self.low) & (theta <= self.high)).all(axis=-1)
        scales = self.own_scales()
        if scales is None or scales.turn is None:
            return within
        return within & (np.abs(scales.inner(theta)) <= 1 + 1e-9).all(axis=-1)

    def region_precision(self) -> np.ndarray:
        """Return the precision of the uniform distribution on the training region.

        Returns:
            The precision, shape (p, p).
        """
        scales = self.own_scales()
        if scales is None or scales.turn is None:
            return precision_of_region(self.low, self.high)
        return scales.matrices(3.0 * np.eye(self.num_parameters))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.names)}; data of shape {self.x_shape})"

    def _repr_html_(self) -> str:
        return html_table(repr(self), self._region())

    def _region(self) -> list[tuple[str, str]]:
        """Write down the training region, one interval a parameter."""
        ends = zip(self.names, self.low, self.high, self.units, strict=True)
        return [(name, f"[{low:g}, {high:g}] {unit}".strip()) for name, low, high, unit in ends]

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

        model, scales = self, None if traced else self.own_scales()
        batch_axes = len(self.data_batch_shape(x))
        if scales is not None:
            model, x = self.in_scales(scales), self.data_in_scales(x)

        def flat(array: Any, inner: tuple[int, ...]) -> Any:
            return array_module.broadcast_to(array, (*batch, *inner)).reshape(num, *inner)

        thetas = flat(theta, theta.shape[-1:])
        xs = jax.tree.map(lambda a: flat(a, a.shape[batch_axes:]), x)
        if traced:
            values = function(self, thetas, xs)
            return values.reshape(*batch, *values.shape[1:])
        if scales is not None:
            thetas = scales.inner(thetas)
        rows = rows_in_turn(lambda *rows: function(model, *rows), (thetas, xs), model.rows_at_once)
        if scales is not None and rows.ndim == 2:
            rows = scales.scores(rows)
        # Unlike jnp.asarray, which compiles something for every new shape.
        return jax.device_put(np.asarray(rows, np.float32).reshape((*batch, *rows.shape[1:])))


@quickly_compiled
def _scores(model: ScoreModel, theta: Any, x: Any) -> Array:
    return rows_mapped(model.score_one, (theta, x), model.rows_at_once)


@quickly_compiled
def _log_likelihoods(model: ScoreModel, theta: Any, x: Any) -> Array:
    return rows_mapped(model.log_likelihood_one, (theta, x), model.rows_at_once)
