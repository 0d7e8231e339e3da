"""The first grade of closed-form scores: a Gaussian whose mean moves with θ and whose covariance does not.

    x | θ ≈ N(μ(θ), C),    ℓ(θ, x) = −½ (x − μ(θ))ᵀ C⁻¹ (x − μ(θ)).

In data whitened by C the mean is rotated to the directions in which it moves most, and each is fitted as a smooth
function of θ (``_support.legendre``), so that directions which carry little are shrunk on their own. C is the
covariance of the residuals, its correlations either shrunk towards zero (Ledoit and Wolf) or set to zero where they
are no larger than their errors, whichever gives held-out residuals the higher likelihood: the data of many experiments
are correlated with a few others only, and what is not estimated adds no noise.

It is a candidate, never an assumption: where data are far from Gaussian, or their variance moves with θ, it is wrong
and a held-out comparison says so.
"""

from dataclasses import dataclass

import numpy as np

from .._support.legendre import Exponents, affordable_degree, exponents_up_to, legendre, shrink

_MOST_TERMS = 300
_NUM_ROUNDS = 3
_NUM_FOLDS = 5
# So many directions get a smoothness of their own; the others share one.
_NUM_DIRECTIONS = 5
# Correlations smaller than so many of their standard errors are candidates for being zero.
_THRESHOLDS = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0)
_FLOOR = 1e-8
# Beyond so many data a covariance is neither well estimated nor cheap: compress first.
LARGEST_DATA = 1000


@dataclass(frozen=True)
class Gaussian:
    """A fitted mean (terms, data) in Legendre polynomials and a lower triangular whitening matrix."""

    exponents: Exponents
    coefficients: np.ndarray
    whitening: np.ndarray


def fit_gaussian(u: np.ndarray, rows: np.ndarray, most_terms: int = _MOST_TERMS) -> Gaussian:
    """Fit mean and covariance to standardised rows (n, d) drawn at u in [−1, 1]^p."""
    num, size = rows.shape
    p = u.shape[1]
    exponents = exponents_up_to(p, affordable_degree(p, num, most_terms))
    design = legendre(u, exponents)
    gram = design.T @ design
    rough = legendre(u, exponents_up_to(p, 2 if num > 4 * len(exponents_up_to(p, 2)) else 1))
    movement = np.linalg.lstsq(rough, rows, rcond=None)[0]
    covariance = sparse_covariance(rows - rough @ movement, rough.shape[1])
    num_own = min(rough.shape[1] - 1, size, _NUM_DIRECTIONS)
    for _ in range(_NUM_ROUNDS):
        lower = np.linalg.cholesky(covariance)
        whitened = np.linalg.solve(lower, rows.T).T
        turn = np.linalg.svd(np.linalg.solve(lower, movement[1:].T), full_matrices=True)[0]
        products = design.T @ (whitened @ turn)
        parts = [shrink(gram, products[:, [i]], exponents, shared=True) for i in range(num_own)]
        if num_own < size:
            parts.append(shrink(gram, products[:, num_own:], exponents, shared=True))
        coefficients = np.hstack([part.coefficients for part in parts]) @ turn.T @ lower.T
        freedom = float(np.concatenate([part.freedom for part in parts]).mean())
        covariance = sparse_covariance(rows - design @ coefficients, freedom)
    return Gaussian(exponents, coefficients, np.linalg.inv(np.linalg.cholesky(covariance)))


def sparse_covariance(residuals: np.ndarray, freedom: float) -> np.ndarray:
    """Estimate the covariance of residuals after a fit with so many coefficients, regularised by cross-validation."""
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
