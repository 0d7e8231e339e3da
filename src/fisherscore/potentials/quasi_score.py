"""The best score linear in x: the quasi-score of Wedderburn (1974) and Godambe.

With mean μ(θ) and covariance Σ(θ) it is (∂μ/∂θ)ᵀ Σ⁻¹ (x − μ): exact for every exponential family in x itself, such as
Poisson counts, whatever the shape of its noise. Mean and covariance are fitted as in ``potentials.location_scale``
with Gaussian noise.

That score, K(θ)(x − μ(θ)), need not be the gradient of anything. The nearest gradient over the region is that of
ℓ(θ, x) = η(θ)·x − A(θ), with polynomials η and A fitted by least squares.
"""

from typing import Any, ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.legendre import Basis
from .base import ClosedForm, Evaluation, Frame, Jets, multiply, register
from .gaussian import fit_mean_and_covariance
from .location_scale import MAX_TERMS
from .location_scale_fit import LocationScaleFit, bounded_log_variance, fit_location_scale
from .points import Points

# The nearest gradient is found at this many points, or at fewer where matrices (data, data) at all of them would take
# more numbers than the second; the polynomials are known well at either.
_MAX_POINTS, _MIN_POINTS, _MAX_NUMBERS = 4_000, 500, 1e7
_RELATIVE_RIDGE = 1e-9


@register("polynomial_family")
class QuasiScore(ClosedForm):
    """ℓ(θ, x) = η(θ)·x − A(θ) with polynomials η and A: an exponential family in the data themselves."""

    max_data: ClassVar[int] = 100

    coefficients: Float[Array, "terms data+1"]  # the last column is −A
    basis: Basis = eqx.field(static=True)

    def __init__(self, num_parameters: int, data_size: int, *, degree: int, key: Array | None = None):
        del key
        self.basis = Basis(num_parameters, degree)
        self.coefficients = jnp.zeros((len(self.basis), data_size + 1))

    @classmethod
    def fit(cls, u: np.ndarray | Points, rows: np.ndarray) -> Self:
        """Fit mean and covariance as functions of θ, and from them the best score linear in x."""
        points = Points.of(u)
        gaussian = fit_mean_and_covariance(points, rows, MAX_TERMS)
        fitted = fit_location_scale(points, gaussian, rows, num_components=None, name="mean and covariance")
        at = points.u[: _num_points(rows.shape[1])]
        gradients = gaussian.basis.gradient(at)
        slopes, offsets, fishers = _linear_scores(fitted, at, gradients)
        scores = np.concatenate([slopes, offsets[:, :, None]], axis=2)  # (n, p, d + 1)
        coefficients = _nearest_gradient(scores, gradients, fishers.mean(axis=0))
        sizes, settings = (points.num_parameters, rows.shape[1]), {"degree": gaussian.basis.degree}
        return cls._filled(*sizes, settings=settings, coefficients=coefficients)

    def evaluate(self, points: Points, x: np.ndarray, frame: Frame) -> Evaluation:
        """Give scores and the trace of their Jacobians, both linear in x."""
        values = points.values(self.basis)
        _, slopes, curvature = frame.differentiated(self.basis, self.coefficients)
        data = np.concatenate([x, np.ones((len(x), 1))], axis=1)
        # The data come first: there are fewer numbers in a row than in all its derivatives.
        along = np.stack([np.sum((data @ slope.T) * values, axis=1) for slope in slopes], axis=1)
        return Evaluation(along, np.sum((data @ curvature.T) * values, axis=1))

    def value_and_score(
        self, theta: Float[Array, " params"], x: Float[Array, " ..."], jets: Jets | None = None
    ) -> tuple[Float[Array, ""], Float[Array, " params"]]:
        """Give η(θ)·x − A(θ) and its gradient."""
        terms, slopes = (jets or Jets(theta)).of(self.basis)
        weights = multiply(self.coefficients, jnp.append(x.ravel(), 1.0))
        return multiply(terms, weights), multiply(slopes, weights)

    @property
    def settings(self) -> dict[str, Any]:
        """The degree of the polynomials."""
        return {"degree": self.basis.degree}


def _num_points(data_size: int) -> int:
    return int(np.clip(_MAX_NUMBERS / data_size**2, _MIN_POINTS, _MAX_POINTS))


def _linear_scores(
    fitted: LocationScaleFit, points: np.ndarray, gradients: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give K = (∂μ/∂θ)ᵀ Σ⁻¹, −K μ and the Fisher matrix K ∂μ/∂θ at every point.

    With U = 1 − L(θ) the mean is μ = (U W)⁻¹ m and the precision Σ⁻¹ = (U W)ᵀ diag(e^−q) (U W).
    """
    basis, blocks = fitted.gaussian.basis, fitted.blocks
    terms = basis(points)
    moved_location = np.swapaxes(np.swapaxes(gradients, 1, 2) @ blocks.location, 1, 2)  # (n, data, p)
    if len(blocks.mixing) == 1:
        return _linear_scores_of_one_mixing(fitted, terms, moved_location)
    mixing_gradients = fitted.mixing_basis.gradient(points)
    mixing = np.tensordot(fitted.mixing_basis(points), blocks.mixing, 1)
    unmix = np.eye(mixing.shape[1]) - mixing
    shift = np.linalg.solve(unmix, (terms @ blocks.location)[:, :, None])
    earlier = np.stack([shift[:, :, 0] @ mixing.T for mixing in blocks.mixing], axis=2)  # (n, data, mixing terms)
    moved_shift = np.linalg.solve(unmix, moved_location + earlier @ mixing_gradients)
    back = np.linalg.inv(fitted.gaussian.whitening)
    mean = shift[:, :, 0] @ back.T
    movement = back @ moved_shift
    decorrelate = unmix @ fitted.gaussian.whitening
    inverse_variance = np.exp(-bounded_log_variance(terms @ blocks.log_variance))
    slope = np.swapaxes(decorrelate @ movement * inverse_variance[:, :, None], 1, 2) @ decorrelate
    return slope, -np.einsum("npd,nd->np", slope, mean), slope @ movement


def _linear_scores_of_one_mixing(
    fitted: LocationScaleFit, terms: np.ndarray, moved_location: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give the same where correlations do not move with θ: U W is one matrix for all points.

    With r = (∂m) e^−q the score K is r U W, and neither K μ = r m nor K ∂μ = r ∂m needs it.
    """
    blocks = fitted.blocks
    decorrelate = (np.eye(blocks.mixing.shape[1]) - blocks.mixing[0]) @ fitted.gaussian.whitening
    inverse_variance = np.exp(-bounded_log_variance(terms @ blocks.log_variance))
    moved = np.swapaxes(moved_location, 1, 2)  # (n, p, data)
    pull = moved * inverse_variance[:, None, :]
    slope = (pull.reshape(-1, len(decorrelate)) @ decorrelate).reshape(pull.shape)
    return slope, -np.einsum("npd,nd->np", pull, terms @ blocks.location), pull @ moved_location


def _nearest_gradient(scores: np.ndarray, gradients: np.ndarray, fisher: np.ndarray) -> np.ndarray:
    """Fit polynomials (terms, d + 1) whose gradients are nearest to scores (n, p, d + 1) linear in (x, 1).

    Errors of a score count relative to the Fisher matrix.
    """
    num_columns, num_terms = scores.shape[2], gradients.shape[1]
    half = np.linalg.cholesky(np.linalg.inv(fisher + _RELATIVE_RIDGE * np.trace(fisher) * np.eye(len(fisher))))
    design = np.einsum("njp,pq->nqj", gradients[:, 1:], half).reshape(-1, num_terms - 1)
    target = np.einsum("npi,pq->nqi", scores, half).reshape(-1, num_columns)
    gram = design.T @ design
    gram += _RELATIVE_RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
    return np.vstack([np.zeros(num_columns), np.linalg.solve(gram, design.T @ target)])
