"""Powers of Gaussian fields: each a gamma distribution whose mean moves with θ.

The mean power of ν modes of equal variance P is P times a χ² of ν degrees of freedom over ν. With z its logarithm and
κ = ν / 2,

    ℓ(θ, z) = Σ_b κ_b [ z_b − m_b(θ) − exp(z_b − m_b(θ)) ],    m_b = log P_b(θ),

which for fields that are Gaussian is the exact likelihood (Whittle 1953), with few simulations as with many, since only
the smooth functions m_b have to be found. A Gaussian of z would be wrong where a ring has few modes.

m is fitted by Fisher scoring, whose weights κ are constant for the logarithm: every step is a least-squares fit of the
working response m + exp(z − m) − 1. As in ``potentials.gaussian``, rings are rotated to the directions in which they
move most, each smoothed by as much as the data ask for. κ is what the scatter of the powers says, so that rings whose
powers scatter more than those of a Gaussian field count for less.
"""

from typing import Any, ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.legendre import Basis
from .base import ClosedForm, Evaluation, Frame, Jets, multiply, register
from .points import Points
from .shrinkage import shrink

_MAX_TERMS = 300
_NUM_ROUNDS = 6
_NUM_DIRECTIONS = 5
# A power of even a single mode is hardly ever exp(4) = 55 times its mean. Beyond, where only fields far from Gaussian
# go, the potential is continued by its tangent.
_LARGEST_EXPONENT = 4.0
# Means move by no more than this in one round.
_LARGEST_STEP = 1.0
_MOST_MODES = 1e8


@register("log_gamma")
class LogGamma(ClosedForm):
    """Logarithms of gamma variables with means exp(m(θ)) and shapes κ."""

    max_data: ClassVar[int] = 1_000

    mean: Float[Array, "terms data"]
    shape: Float[Array, " data"]
    basis: Basis = eqx.field(static=True)

    def __init__(self, num_parameters: int, data_size: int, *, degree: int, key: Array | None = None):
        del key
        self.basis = Basis(num_parameters, degree)
        self.mean = jnp.zeros((len(self.basis), data_size))
        self.shape = jnp.ones(data_size)

    @classmethod
    def fit(cls, u: np.ndarray | Points, rows: np.ndarray) -> Self:
        """Fit means and shapes to logarithms (n, d) drawn at u in [−1, 1]^p; the logarithms are not standardised."""
        points = Points.of(u)
        basis = Basis.affordable(points.num_parameters, len(rows), _MAX_TERMS)
        rough = points.values(Basis(points.num_parameters, 1))
        fitted = rough @ np.linalg.lstsq(rough, rows, rcond=None)[0]
        # The mean of a logarithm is below the logarithm of the mean.
        fitted += np.log(np.exp(np.minimum(rows - fitted, _LARGEST_EXPONENT)).mean(axis=0))
        mean, shape = _scored(points, basis, rows, fitted)
        sizes, settings = (points.num_parameters, rows.shape[1]), {"degree": basis.degree}
        return cls._filled(*sizes, settings=settings, mean=mean, shape=shape)

    def evaluate(self, points: Points, x: np.ndarray, frame: Frame) -> Evaluation:
        """Give scores Σ κ (e − 1) ∂m, and the trace of their Jacobians, Σ κ [(e − 1) ∂²m − e (∂m)²], e = exp(z − m)."""
        values, shape = points.values(self.basis), np.asarray(self.shape, np.float64)
        mean, slopes, curvature = frame.differentiated(self.basis, self.mean)
        difference = x - values @ mean
        ratio = np.exp(np.minimum(difference, _LARGEST_EXPONENT))
        excess, moved = shape * (ratio - 1.0), values @ slopes  # (n, data), (directions, n, data)
        bent = shape * np.where(difference < _LARGEST_EXPONENT, ratio, 0.0)
        trace = np.sum(excess * (values @ curvature), axis=1) - np.sum(bent * moved**2, axis=(0, 2))
        return Evaluation((moved * excess).sum(axis=2).T, trace)

    def value_and_score(
        self, theta: Float[Array, " params"], x: Float[Array, " ..."], jets: Jets | None = None
    ) -> tuple[Float[Array, ""], Float[Array, " params"]]:
        """Give Σ κ (z − m − exp(z − m)) and its gradient."""
        terms, slopes = (jets or Jets(theta)).of(self.basis)
        difference = x.ravel() - multiply(terms, self.mean)
        ratio = jnp.exp(jnp.minimum(difference, _LARGEST_EXPONENT))
        pull = multiply(self.mean, self.shape * (ratio - 1.0))
        beyond = jnp.maximum(difference - _LARGEST_EXPONENT, 0.0)
        return jnp.sum(self.shape * (difference - ratio * (1.0 + beyond))), multiply(slopes, pull)

    @property
    def settings(self) -> dict[str, Any]:
        """The degree of the polynomial."""
        return {"degree": self.basis.degree}


def _scored(points: Points, basis: Basis, rows: np.ndarray, fitted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit the coefficients of the means (terms, d) and the shapes (d,), starting from fitted means (n, d)."""
    design, spectra = points.values(basis), points.spectra(basis)
    groups = np.minimum(np.arange(rows.shape[1]), min(rows.shape[1], len(basis) - 1, _NUM_DIRECTIONS))
    rough = points.values(Basis(points.num_parameters, 2 if basis.degree > 2 else 1))
    mean = np.zeros((len(basis), rows.shape[1]))
    for _ in range(_NUM_ROUNDS):
        excess = np.exp(np.minimum(rows - fitted, _LARGEST_EXPONENT)) - 1.0
        shape = np.clip(1.0 / np.maximum((excess**2).mean(axis=0), 1.0 / _MOST_MODES), 1.0 / _MOST_MODES, _MOST_MODES)
        white = np.sqrt(shape) * (fitted + excess)
        movement = np.linalg.lstsq(rough, white, rcond=None)[0]
        rotation = np.linalg.svd(movement[1:].T, full_matrices=True)[0]
        shrunk = shrink(spectra, design.T @ (white @ rotation), groups=groups)
        mean = shrunk.coefficients @ rotation.T / np.sqrt(shape)
        fitted = fitted + np.clip(design @ mean - fitted, -_LARGEST_STEP, _LARGEST_STEP)
    return mean, shape
