"""Compression to one number per parameter: the locally sufficient summary at θ₀, and the one-step estimator.

    t(x) = θ₀ + F⁻¹ ŝ(θ₀, x)

keeps all the information about θ near θ₀ and is itself an estimate of θ. With nuisance parameters ν the summaries of
the others are (in block form)  s_θ − F_θν F_νν⁻¹ s_ν, scaled likewise: a shift in ν does not move them. Unscaled, that
is the score hardened against ν. Its mean is zero at θ₀, to first order it stays zero wherever ν moves, and its
covariance is the marginal Fisher matrix F_θθ − F_θν F_νν⁻¹ F_νθ, the inverse of the marginal covariance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np

from .._support.arguments import as_finite, as_indices, as_theta, refuse_outside
from .._support.precision import in_single_precision
from .._support.text import html_table
from ..errors import ArgumentError
from ..score.model import ScoreModel
from .fisher_matrix import FisherMatrix
from .forecast_result import Forecast, displaced


@dataclass(frozen=True, eq=False)
class Summary:
    """A function of data: ``summary(x)`` has one number per kept parameter, in that parameter's units.

    Attributes:
        names: The kept parameters.
        theta0: The parameters at which the score is taken, shape (p,).
        model: The score model.
        weights: The matrix by which the score is multiplied, shape (kept, p).
        kept: Positions of the kept parameters among all of the model's.

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> summary = fs.compress(model, [0.0, 0.0])
    >>> isinstance(summary, fs.Summary), summary([[0.5, 0.5], [1.0, 0.0]]).shape
    (True, (2, 2))
    """

    names: tuple[str, ...]
    theta0: np.ndarray
    model: ScoreModel
    weights: np.ndarray
    kept: tuple[int, ...]

    def __call__(self, x: Any) -> np.ndarray:
        """Compress data.

        Args:
            x: One observation, or many along leading axes.

        Returns:
            The summaries, shape (..., number of kept parameters).
        """
        score = np.asarray(self.model.score(self.theta0, x), np.float64)
        return self.theta0[list(self.kept)] + score @ self.weights.T

    def score(self, x: Any) -> np.ndarray:
        """Compute the score of the kept parameters that does not see the others: s_θ − F_θν F_νν⁻¹ s_ν.

        With no nuisance parameters it is the whole score at θ₀.

        Args:
            x: One observation, or many along leading axes.

        Returns:
            The hardened scores, shape (..., number of kept parameters), in the inverse units of these.

        >>> import fisherscore as fs
        >>> model = fs.problems.linear_gaussian().exact_model()
        >>> fs.compress(model, [0.0, 0.0], interest="theta1").score([[0.5, 0.5], [1.0, 0.0]]).shape
        (2, 1)
        """
        marginal = np.linalg.inv(self.weights[:, list(self.kept)])
        return np.asarray(self.model.score(self.theta0, x), np.float64) @ (marginal @ self.weights).T

    def __repr__(self) -> str:
        return f"Summary({', '.join(self.names)}; at {self._place()})"

    def _repr_html_(self) -> str:
        rows = [("numbers per observation", ", ".join(self.names)), ("locally sufficient at", self._place())]
        return html_table("Summary of data", rows)

    def _place(self) -> str:
        return ", ".join(f"{n}={v:.4g}" for n, v in zip(self.model.names, self.theta0, strict=True))


def compress(
    model: ScoreModel,
    theta0: Any,
    *,
    fisher: Forecast | FisherMatrix | Any | None = None,
    nuisance: Sequence[str] | str = (),
    interest: Sequence[str] | str | None = None,
) -> Summary:
    """Make the summary t(x) = θ₀ + F⁻¹ ŝ(θ₀, x).

    Args:
        model: A score model.
        theta0: Parameters inside the training region, shape (p,), or a mapping by name.
        fisher: Where F comes from: a forecast at ``theta0``, which is best where there are nuisance parameters, or a
            matrix; by default what the model remembers of its training simulations.
        nuisance: Parameters, one or several, that are projected out and dropped.
        interest: In place of ``nuisance``: the parameters to keep, all others being projected out and dropped.

    Returns:
        A function of data.

    >>> import fisherscore as fs
    >>> t = fs.compress(fs.problems.linear_gaussian().exact_model(), [0.0, 0.0])
    >>> t([0.5, -0.25]).round(3).tolist()
    [0.5, -0.25]
    """
    if not isinstance(model, ScoreModel):
        raise ArgumentError(f"model: expected a score model, got {type(model).__name__}.")
    theta = np.asarray(as_theta(theta0, model.names, "theta0"))
    if theta.ndim != 1:
        raise ArgumentError(f"theta0: expected one parameter vector of shape ({len(model.names)},), got {theta.shape}.")
    refuse_outside(theta, model, "theta0")
    if interest is not None:
        if nuisance:
            raise ArgumentError("nuisance, interest: expected one of the two, got both.")
        chosen = as_indices(interest, model.names, "interest")
        if not chosen:
            raise ArgumentError("interest: expected at least one parameter to keep, got none.")
        nuisance = [name for i, name in enumerate(model.names) if i not in chosen]
    dropped = as_indices(nuisance, model.names, "nuisance")
    kept = [i for i in range(len(model.names)) if i not in dropped]
    if not kept:
        raise ArgumentError("nuisance: expected to keep at least one parameter, but all are named.")
    covariance = _matrix(model, theta, fisher).covariance
    return Summary(tuple(model.names[i] for i in kept), theta, model, covariance[kept], tuple(kept))


def _matrix(model: ScoreModel, theta: np.ndarray, fisher: Any) -> FisherMatrix:
    if isinstance(fisher, Forecast):
        name = displaced(fisher, dict(zip(model.names, theta, strict=True)))
        if name is not None:
            raise ArgumentError(
                f"fisher: this forecast was made at {fisher.theta0.tolist()}, not at theta0 = {theta.tolist()}: "
                f"{name!r} differs. Forecast at theta0."
            )
        # The slope: how the mean of ŝ really moves with θ, so that t(x) moves one for one even if ŝ is imperfect.
        fisher = fisher.slope
    if isinstance(fisher, FisherMatrix):
        if fisher.names != model.names:
            raise ArgumentError(f"fisher: expected parameters {model.names}, got {fisher.names}.")
        return fisher
    if fisher is not None:
        return FisherMatrix(model.names, as_finite(fisher, "fisher"))
    if not model.knows_fisher:
        raise ArgumentError("fisher: this model knows no Fisher matrix; give one, for instance a forecast at theta0.")
    scales = model.own_scales()
    if scales is None:
        return FisherMatrix(model.names, np.asarray(_fisher(model, theta.astype(np.float32)), np.float64))
    inner = _fisher(model.in_scales(scales), scales.inner(theta).astype(np.float32))
    matrix = scales.matrices(inner)
    return FisherMatrix(model.names, (matrix + matrix.T) / 2)


@in_single_precision
@eqx.filter_jit
def _fisher(model: ScoreModel, theta: Any) -> Any:
    return model.fisher_one(theta)
