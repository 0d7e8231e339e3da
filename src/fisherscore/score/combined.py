"""Scores add: independent probes that share parameters, and independent draws from one of them.

    ∇θ log p(x_a, x_b | θ) = ∇θ log p(x_a | θ) + ∇θ log p(x_b | θ)

so models trained apart are combined without retraining, and a model trained on one observation serves any number.
"""

import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.arguments import as_theta
from ..errors import ArgumentError
from .constraints import OwnError
from .model import ScoreModel
from .scales import Scales


class CombinedScore(ScoreModel):
    """Independent probes: data are a tuple with one entry per model; parameters are matched by name.

    Its training region is where those of all models overlap.

    Args:
        models: The models of the probes.

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> isinstance(fs.combine(model, model), fs.CombinedScore)
    True
    """

    models: tuple[ScoreModel, ...]
    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    x_shape: tuple[Any, ...] = eqx.field(static=True)

    def __init__(self, models: tuple[ScoreModel, ...]):
        self.models = models
        units: dict[str, str] = {}
        limits: dict[str, tuple[float, float]] = {}
        for model in models:
            for i, name in enumerate(model.names):
                if units.setdefault(name, model.units[i]) != model.units[i]:
                    raise ArgumentError(
                        f"models: parameter {name!r} has unit {units[name]!r} in one and {model.units[i]!r} in another."
                    )
                low, high = limits.get(name, (-math.inf, math.inf))
                limits[name] = max(low, float(model.low[i])), min(high, float(model.high[i]))
        empty = [n for n, (low, high) in limits.items() if low >= high]
        if empty:
            raise ArgumentError(f"models: their training regions do not overlap in {empty}.")
        self.names, self.units = tuple(units), tuple(units.values())
        self.low, self.high = (np.array(side) for side in zip(*limits.values(), strict=True))
        self.x_shape = tuple(m.x_shape for m in models)

    @property
    def has_density(self) -> bool:
        """Whether all parts have one."""
        return all(m.has_density for m in self.models)

    @property
    def rows_at_once(self) -> int:
        """How many rows may be evaluated side by side: the fewest of any part."""
        return min(m.rows_at_once for m in self.models)

    @property
    def knows_fisher(self) -> bool:
        """Whether all parts do."""
        return all(m.knows_fisher for m in self.models)

    def check_data(self, x: Any, argument: str = "x") -> Any:
        """Return one checked entry per model.

        Args:
            x: A tuple with the data of each model.
            argument: What errors call it.

        Returns:
            A tuple of arrays.
        """
        if not isinstance(x, tuple | list) or len(x) != len(self.models):
            raise ArgumentError(
                f"{argument}: expected a tuple of {len(self.models)} entries, one per combined model, got "
                f"{type(x).__name__}{f' of length {len(x)}' if isinstance(x, tuple | list) else ''}."
            )
        return tuple(m.check_data(v, f"{argument}[{i}]") for i, (m, v) in enumerate(zip(self.models, x, strict=True)))

    def inside(self, theta: Any) -> Any:
        """Say whether θ lies in the training regions of all models, which may have axes of their own.

        Args:
            theta: Parameters, shape (..., p), or a mapping by name.

        Returns:
            Truth values, shape (...).
        """
        theta = as_theta(theta, self.names)
        places = ([self.names.index(name) for name in model.names] for model in self.models)
        return np.all([m.inside(theta[..., own]) for m, own in zip(self.models, places, strict=True)], axis=0)

    def own_scales(self) -> Scales | None:
        """Return scales in which the training region runs from −1 to 1, if all parts can be put into them."""
        if any(model.own_scales() is None for model in self.models):
            return None
        return Scales.of_region(self.low, self.high)

    def in_scales(self, scales: Scales) -> "CombinedScore":
        """Put all parts into the same scales.

        Args:
            scales: Centre and scale.

        Returns:
            A model whose scores are derivatives by u = (θ − centre) / scale.
        """
        return CombinedScore(tuple(model.in_scales(scales.of(self._places(model))) for model in self.models))

    def data_in_scales(self, x: Any) -> Any:
        """Return the data of each part as it takes them.

        Args:
            x: Data as :meth:`check_data` returns them.

        Returns:
            A tuple with one entry per model.
        """
        return tuple(model.data_in_scales(data) for model, data in zip(self.models, x, strict=True))

    def data_batch_shape(self, x: Any) -> tuple[int, ...]:
        """Return the leading axes, which all entries must share.

        Args:
            x: Data as :meth:`check_data` returns them.

        Returns:
            The shape without that of one observation.
        """
        shapes = [m.data_batch_shape(v) for m, v in zip(self.models, x, strict=True)]
        if len(set(shapes)) > 1:
            raise ArgumentError(f"x: expected the same leading axes in every entry, got {shapes}.")
        return shapes[0]

    def score_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, " params"]:
        """Add the scores of the parts, each in its own parameters.

        Args:
            theta: Parameters of all models.
            x: A tuple with one observation per model.

        Returns:
            The sum, shape (p,).
        """
        total = jnp.zeros(len(self.names))
        for model, data in zip(self.models, x, strict=True):
            own = self._places(model)
            total = total.at[own].add(model.score_one(theta[own], data))
        return total

    def log_likelihood_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, ""]:
        """Add the log-likelihoods of the parts.

        Args:
            theta: Parameters of all models.
            x: A tuple with one observation per model.

        Returns:
            The sum, a scalar.
        """
        parts = zip(self.models, x, strict=True)
        return sum((m.log_likelihood_one(theta[self._places(m)], v) for m, v in parts), jnp.zeros(()))

    def fisher_one(self, theta: Float[Array, " params"]) -> Float[Array, "params params"]:
        """Add the Fisher matrices of the parts.

        Args:
            theta: Parameters of all models.

        Returns:
            The sum, zero where no model knows a pair of parameters.
        """
        total = jnp.zeros((len(self.names),) * 2)
        for model in self.models:
            own = self._places(model)
            total = total.at[jnp.ix_(own, own)].add(model.fisher_one(theta[own]))
        return total

    @property
    def own_error(self) -> OwnError | None:
        """The sum of what the parts know; None where one of them, which may be exact, does not say."""
        parts = [
            part.embedded(self._places(model), len(self.names)) for model in self.models if (part := model.own_error)
        ]
        return None if len(parts) < len(self.models) else functools.reduce(OwnError.plus, parts)

    def rarity(self, x: Any) -> np.ndarray | None:
        """Return the rarity of the rarest part.

        Args:
            x: A tuple with the data of each model.

        Returns:
            Fractions of training data farther from their mean, shape (...); None where no model knows.
        """
        parts = [m.rarity(v) for m, v in zip(self.models, self.check_data(x), strict=True)]
        known = [r for r in parts if r is not None]
        return np.min(known, axis=0) if known else None

    def _places(self, model: ScoreModel) -> Any:
        return np.array([self.names.index(n) for n in model.names])


class IndependentDraws(ScoreModel):
    """Any number of independent observations of one model at the same θ: data have one more leading axis."""

    model: ScoreModel
    num_draws: int = eqx.field(static=True)
    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    x_shape: Any = eqx.field(static=True)

    def __init__(self, model: ScoreModel, num_draws: int):
        if isinstance(model, CombinedScore):
            raise ArgumentError("model: independent draws of combined models: combine the models of the draws instead.")
        self.model, self.num_draws = model, num_draws
        self.low, self.high, self.names, self.units = model.low, model.high, model.names, model.units
        self.x_shape = (num_draws, *model.x_shape)

    @property
    def has_density(self) -> bool:
        """As the model's."""
        return self.model.has_density

    @property
    def rows_at_once(self) -> int:
        """How many rows may be evaluated side by side, each with all its draws."""
        return max(1, self.model.rows_at_once // self.num_draws)

    def own_scales(self) -> Scales | None:
        """As the model."""
        return self.model.own_scales()

    def in_scales(self, scales: Scales) -> "IndependentDraws":
        """Put the model into other scales."""
        return IndependentDraws(self.model.in_scales(scales), self.num_draws)

    def data_in_scales(self, x: Any) -> Any:
        """Return the draws as the model takes them."""
        return self.model.data_in_scales(x)

    @property
    def knows_fisher(self) -> bool:
        """As the model."""
        return self.model.knows_fisher

    @property
    def own_error(self) -> OwnError | None:
        """That of one draw, which is made again with every draw."""
        known = self.model.own_error
        return None if known is None else known.of_draws(self.num_draws)

    def score_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, " params"]:
        """Add the scores of the draws."""
        return jax.vmap(self.model.score_one, (None, 0))(theta, x).sum(axis=0)

    def log_likelihood_one(self, theta: Float[Array, " params"], x: Any) -> Float[Array, ""]:
        """Add the log-likelihoods of the draws."""
        return jax.vmap(self.model.log_likelihood_one, (None, 0))(theta, x).sum()

    def fisher_one(self, theta: Float[Array, " params"]) -> Float[Array, "params params"]:
        """Give n times the Fisher matrix of one draw."""
        return self.num_draws * self.model.fisher_one(theta)

    def rarity(self, x: Any) -> np.ndarray | None:
        """Return the chance of at least this number of rare draws, rare being one in a hundred of training data."""
        each = self.model.rarity(x)
        if each is None:
            return None
        from scipy.stats import binom  # half a second to import, and rarely needed

        return np.asarray(binom.sf((each < 0.01).sum(axis=-1) - 1, self.num_draws, 0.01))


def combine(*models: ScoreModel) -> CombinedScore:
    """Add independent probes into one model; parameters of the same name are the same parameter.

    Args:
        models: One or more score models, whose data are independent given the parameters.

    Returns:
        A model whose data are a tuple with one entry per model.

    >>> import fisherscore as fs, jax.numpy as jnp
    >>> a = fs.FunctionScore(
    ...     fs.uniform(m=(-3, 3), shift=(-1, 1)), (1,), score=lambda t, x: (x[0] - t.sum()) * jnp.ones(2)
    ... )
    >>> b = fs.FunctionScore(fs.uniform(m=(-2, 4)), (1,), score=lambda t, x: (x - t) / 4)
    >>> both = fs.combine(a, b)
    >>> both.names, both.score([0.0, 0.0], ([1.0], [2.0])).tolist()
    (('m', 'shift'), [1.5, 1.0])
    """
    if not models or not all(isinstance(m, ScoreModel) for m in models):
        raise ArgumentError(f"models: expected one or more score models, got {[type(m).__name__ for m in models]}.")
    return CombinedScore(models)


def observed(model: Any, x_obs: Any, iid: bool) -> tuple[ScoreModel, Any]:
    """Return the model of what was observed and the checked data; with ``iid``, of independent draws."""
    if not isinstance(model, ScoreModel):
        raise ArgumentError(f"model: expected a score model, got {type(model).__name__}.")
    if not iid:
        x = model.check_data(x_obs, "x_obs")
        if not all(a.size for a in jax.tree.leaves(x)):
            raise ArgumentError("x_obs: expected at least one observation, got none.")
        return model, x
    if isinstance(model, CombinedScore):
        raise ArgumentError("iid: not for combined models; combine the models of the draws instead.")
    draws = model.check_data(x_obs, "x_obs")
    if not draws.size:
        raise ArgumentError(f"x_obs: expected at least one observation, got shape {draws.shape}.")
    if draws.ndim == len(model.x_shape):
        raise ArgumentError(
            f"x_obs: with iid=True expected one more leading axis than one observation, {model.x_shape}; got "
            f"{draws.shape}."
        )
    return IndependentDraws(model, draws.shape[-1 - len(model.x_shape)]), draws
