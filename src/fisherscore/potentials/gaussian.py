"""The simplest closed form: a Gaussian whose mean moves with θ and whose covariance does not.

    x | θ ≈ N(μ(θ), C),    ℓ(θ, x) = −½ (x − μ(θ))ᵀ C⁻¹ (x − μ(θ)).

In data whitened by C the mean is rotated to the directions in which it moves most, and each is fitted as a smooth
function of θ (``potentials.shrinkage``), so that directions which carry little are shrunk on their own. C is the
covariance of the residuals, its correlations either shrunk towards zero (Ledoit and Wolf) or set to zero where they
are no larger than their errors, whichever gives held-out residuals the higher likelihood: the data of many experiments
are correlated with a few others only, and what is not estimated adds no noise.

It is a candidate, never an assumption: where data are far from Gaussian, or their variance moves with θ, it is wrong
and a held-out comparison says so.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.legendre import Basis
from .base import ClosedForm, register
from .shrinkage import NormalEquations, shrink

_MAX_TERMS = 300
_NUM_ROUNDS = 3
_NUM_FOLDS = 5
# The first directions get a smoothness of their own each; the others share one.
_NUM_DIRECTIONS = 5
# Correlations smaller than this number of their standard errors are candidates for being zero.
_THRESHOLDS = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0)
_FLOOR = 1e-8


@register("gaussian_baseline")
class Gaussian(ClosedForm):
    """A Gaussian whose mean moves with θ: ℓ = −½ |W (x − μ(θ))|²."""

    # Beyond this, a covariance is neither well estimated nor cheap: compress first.
    max_data: ClassVar[int] = 1000

    mean: Float[Array, "terms data"]
    whitening: Float[Array, "data data"]
    basis: Basis = eqx.field(static=True)

    def __init__(self, num_parameters: int, data_size: int, *, degree: int, key: Array | None = None):
        del key
        self.basis = Basis(num_parameters, degree)
        self.mean = jnp.zeros((len(self.basis), data_size))
        self.whitening = jnp.eye(data_size)

    @classmethod
    def fit(cls, u: np.ndarray, rows: np.ndarray) -> Self:
        """Fit mean and covariance to standardised rows (n, d) drawn at u in [−1, 1]^p."""
        fitted = fit_mean_and_covariance(u, rows)
        form = cls(u.shape[1], rows.shape[1], degree=fitted.basis.degree)
        return form._filled(mean=fitted.mean, whitening=fitted.whitening)

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give −½ |W (x − μ(θ))|²."""
        return -0.5 * jnp.sum((self.whitening @ (x.ravel() - self.basis(theta, jnp) @ self.mean)) ** 2)

    @property
    def settings(self) -> dict[str, Any]:
        """The degree of the polynomial."""
        return {"degree": self.basis.degree}


@dataclass(frozen=True, eq=False)
class MeanAndCovariance:
    """The fit in double precision: coefficients of the mean (terms, data), and a lower triangular whitening matrix."""

    basis: Basis
    mean: np.ndarray
    whitening: np.ndarray


def fit_mean_and_covariance(u: np.ndarray, rows: np.ndarray, max_terms: int = _MAX_TERMS) -> MeanAndCovariance:
    """Fit mean and covariance to standardised rows (n, d) drawn at u in [−1, 1]^p."""
    num, size = rows.shape
    p = u.shape[1]
    basis = Basis.affordable(p, num, max_terms)
    design = basis(u)
    gram = design.T @ design
    rough = Basis(p, 2 if num > 4 * len(Basis(p, 2)) else 1)(u)
    movement = np.linalg.lstsq(rough, rows, rcond=None)[0]
    covariance = sparse_covariance(rows - rough @ movement, rough.shape[1])
    num_own = min(rough.shape[1] - 1, size, _NUM_DIRECTIONS)
    columns = [[i] for i in range(num_own)] + ([list(range(num_own, size))] if num_own < size else [])
    for _ in range(_NUM_ROUNDS):
        lower = np.linalg.cholesky(covariance)
        whitened = np.linalg.solve(lower, rows.T).T
        rotation = np.linalg.svd(np.linalg.solve(lower, movement[1:].T), full_matrices=True)[0]
        products = design.T @ (whitened @ rotation)
        parts = [shrink(NormalEquations(gram, products[:, c]), basis, shared=True) for c in columns]
        mean = np.hstack([part.coefficients for part in parts]) @ rotation.T @ lower.T
        freedom = float(np.concatenate([part.freedom for part in parts]).mean())
        covariance = sparse_covariance(rows - design @ mean, freedom)
    return MeanAndCovariance(basis, mean, np.linalg.inv(np.linalg.cholesky(covariance)))


def sparse_covariance(residuals: np.ndarray, freedom: float) -> np.ndarray:
    """Estimate the covariance of residuals of a fit with ``freedom`` coefficients, regularised by cross-validation."""
    num, size = residuals.shape
    variance = np.sum(residuals**2, axis=0) / max(1.0, num - freedom)
    # A column that never varies must not be infinitely sure.
    scale = np.sqrt(variance + _FLOOR * max(float(variance.max()), 1e-30))
    rows = residuals / scale
    folds = np.arange(num) % _NUM_FOLDS
    candidates = [None, *_THRESHOLDS] if size > 1 else [None]
    values = [
        sum(_log_likelihood(_correlation(rows[folds != k], c), rows[folds == k]) for k in range(_NUM_FOLDS))
        for c in candidates
    ]
    correlation = _correlation(rows, candidates[int(np.argmax(values))])
    if not np.isfinite(_log_likelihood(correlation, rows[:1])):
        correlation = _correlation(rows, None)
    unit = np.sqrt(np.diagonal(correlation))
    return correlation / np.outer(unit, unit) * np.outer(scale, scale)


def _correlation(rows: np.ndarray, threshold: float | None) -> np.ndarray:
    """Correlate scaled rows; without a threshold shrink all correlations, with one drop the insignificant."""
    num, size = rows.shape
    raw = rows.T @ rows / num
    variance = np.maximum((rows**2).T @ (rows**2) / num - raw**2, 0.0) / num
    diagonal = np.eye(size, dtype=bool)
    if threshold is None:
        off = ~diagonal
        total = float(np.sum(raw[off] ** 2))
        keep = 1.0 - min(1.0, float(variance[off].sum()) / total) if total > 0 else 0.0
        raw = np.where(diagonal, raw, keep * raw)
    else:
        raw = np.where(diagonal | (np.abs(raw) > threshold * np.sqrt(variance)), raw, 0.0)
    return raw + _FLOOR * np.diag(np.maximum(np.diagonal(raw), 1e-30)) + 1e-30 * np.eye(size)


def _log_likelihood(correlation: np.ndarray, rows: np.ndarray) -> float:
    try:
        lower = np.linalg.cholesky(correlation)
    except np.linalg.LinAlgError:
        return -np.inf
    white = np.linalg.solve(lower, rows.T)
    return float(-0.5 * np.sum(white**2) - len(rows) * np.sum(np.log(np.diagonal(lower))))
