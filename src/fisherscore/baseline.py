"""A closed-form Gaussian score: polynomial mean, pooled covariance. Milliseconds to fit, often hard to beat.

    x | θ ≈ N(μ(θ), C),   μ a polynomial fitted by least squares,   C the covariance of the residuals,

so ℓ(θ, x) = −½ (x − μ(θ))ᵀ C⁻¹ (x − μ(θ)) and its gradient is the score. The degree of μ and how far C is shrunk to
its diagonal are chosen by the likelihood of held-out simulations. It is a candidate, never an assumption: where data
are far from Gaussian, or their variance moves with θ, it is wrong and a held-out comparison says so.
"""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .network import GaussianBaseline, polynomial_exponents

_LARGEST_DEGREE = 6
_MOST_MONOMIALS = 500
_SHRINKAGES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_HELD_OUT = 0.2
# Beyond so many data a covariance is neither well estimated nor cheap: compress first.
LARGEST_DATA = 1000


def fit_baseline(theta: np.ndarray, x: np.ndarray, *, seed: int) -> GaussianBaseline:
    """Fit degree, mean and covariance to standardised rows, x drawn at θ."""
    rows = x.reshape(len(x), -1)
    order = np.random.default_rng(seed).permutation(len(rows))
    num_held_out = max(1, round(_HELD_OUT * len(rows)))
    held_out, training = order[:num_held_out], order[num_held_out:]
    degree, shrinkage = _choose(theta, rows, training, held_out)
    exponents = polynomial_exponents(theta.shape[1], degree)
    coefficients, covariance = _mean_and_covariance(_design(theta, exponents), rows)
    baseline = GaussianBaseline(theta.shape[1], rows.shape[1], degree=degree, key=jax.random.key(0))
    return eqx.tree_at(
        lambda b: (b.coefficients, b.whitening),
        baseline,
        (
            jnp.asarray(coefficients, jnp.float32),
            jnp.asarray(np.linalg.inv(np.linalg.cholesky(_shrunk(covariance, shrinkage))), jnp.float32),
        ),
    )


def _choose(theta: np.ndarray, rows: np.ndarray, training: np.ndarray, held_out: np.ndarray) -> tuple[int, float]:
    """Return the degree and shrinkage with the highest held-out likelihood."""
    best = (-math.inf, 1, 1.0)
    for degree in range(1, _LARGEST_DEGREE + 1):
        exponents = polynomial_exponents(theta.shape[1], degree)
        if degree > 1 and len(exponents) > min(_MOST_MONOMIALS, len(training) / 3):
            break
        design = _design(theta, exponents)
        coefficients, covariance = _mean_and_covariance(design[training], rows[training])
        values = _log_likelihoods(rows[held_out] - design[held_out] @ coefficients, covariance)
        best = max([best, *((value, degree, shrinkage) for value, shrinkage in zip(values, _SHRINKAGES, strict=True))])
    return best[1], best[2]


def _mean_and_covariance(design: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    coefficients = np.linalg.lstsq(design, rows, rcond=None)[0]
    residuals = rows - design @ coefficients
    return coefficients, residuals.T @ residuals / max(1, len(rows) - design.shape[1])


def _shrunk(covariance: np.ndarray, shrinkage: float) -> np.ndarray:
    """Move off-diagonal entries towards zero; the floor keeps columns that never vary from being infinitely sure."""
    diagonal = np.diagonal(covariance)
    floor = 1e-8 * max(float(diagonal.max()), 1e-30)
    return (1 - shrinkage) * covariance + np.diag(shrinkage * diagonal + floor)


def _log_likelihoods(residuals: np.ndarray, covariance: np.ndarray) -> list[float]:
    """Compute the mean log-likelihood of residuals for every shrinkage, from one eigendecomposition.

    With a unit diagonal, shrinking the matrix is shrinking its eigenvalues towards one.
    """
    scale = np.sqrt(np.diagonal(_shrunk(covariance, 0.0)))
    values, vectors = np.linalg.eigh(_shrunk(covariance, 0.0) / np.outer(scale, scale))
    power = np.mean(((residuals / scale) @ vectors) ** 2, axis=0)
    shrunk = [np.maximum((1 - s) * values + s, 1e-12) for s in _SHRINKAGES]
    return [float(-0.5 * np.sum(power / v + np.log(v)) - np.sum(np.log(scale))) for v in shrunk]


def _design(theta: np.ndarray, exponents: Sequence[tuple[int, ...]]) -> np.ndarray:
    return np.prod(theta[:, None, :] ** np.array(exponents), axis=2)
