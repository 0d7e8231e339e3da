"""The simplest closed form: a Gaussian whose mean moves with θ and whose covariance does not.

    x | θ ≈ N(μ(θ), C),    ℓ(θ, x) = −½ (x − μ(θ))ᵀ C⁻¹ (x − μ(θ)).

In data whitened by C the mean is rotated to the directions in which it moves most, and each is fitted as a smooth
function of θ (``potentials.shrinkage``), so that directions which carry little are shrunk on their own, and where
parameters are too many for more than their products in pairs, so is every such product. C is the
covariance of the residuals, its correlations either shrunk towards zero (Ledoit and Wolf) or set to zero where they
are no larger than their errors, whichever gives held-out residuals the higher likelihood: the data of many experiments
are correlated with a few others only, and what is not estimated adds no noise.

It is a candidate, never an assumption: where data are far from Gaussian, or their variance moves with θ, it is wrong
and a held-out comparison says so.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg.lapack import dpotrf, dpotri

from .._support.legendre import Basis
from .base import ClosedForm, Evaluation, Frame, Jets, multiply, register
from .points import Points
from .shrinkage import shrink

_MAX_TERMS = 300
_NUM_ROUNDS = 3
_NUM_FOLDS = 5
# With many parameters most pairs of them do not interact. From so many data on, the prior of every term is learned,
# in so many steps a round; and interactions are affordable with more terms than powers would be, of four rows each.
_MIN_DATA_OF_LEARNED_PRIOR, _NUM_STEPS_OF_PRIOR = 50, 3
_MAX_INTERACTIONS = 1_000
# The first directions get a smoothness of their own each; the others share one.
_NUM_DIRECTIONS = 5
# Correlations smaller than this number of their standard errors are candidates for being zero.
_THRESHOLDS = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0)
_FLOOR = 1e-8
# Up to this many data, matrices are factorised by NumPy: SciPy's LAPACK wakes all its threads for them, which wait for
# one another a hundred times as long as the work takes where other processes run as well.
_SMALL_MATRIX = 128
# Ratio of the extreme eigenvalues of a Gram matrix from which its inverse is trusted.
_WELL_CONDITIONED = 1e-6


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
    def fit(cls, u: np.ndarray | Points, rows: np.ndarray) -> Self:
        """Fit mean and covariance to standardised rows (n, d) drawn at u in [−1, 1]^p."""
        points = Points.of(u)
        fitted = fit_mean_and_covariance(points, rows)
        sizes, settings = (points.num_parameters, rows.shape[1]), {"degree": fitted.basis.degree}
        return cls._filled(*sizes, settings=settings, mean=fitted.mean, whitening=fitted.whitening)

    def evaluate(self, points: Points, x: np.ndarray, frame: Frame) -> Evaluation:
        """Give scores and the trace of their Jacobians; with v = Wr and w = W∂μ these are w·v and W∂²μ·v − w·w."""
        values, whitening = points.values(self.basis), np.asarray(self.whitening, np.float64)
        mean, slopes, curvature = (c @ whitening.T for c in frame.differentiated(self.basis, self.mean))
        white = x @ whitening.T - values @ mean
        # Derivatives have a lower degree, and terms are in the order of theirs: of many parameters, few are left.
        num = len(Basis(self.basis.num_parameters, max(self.basis.degree - 1, 1)))
        moved = values[:, :num] @ slopes[:, :num]  # (directions, n, data)
        trace = np.sum((values[:, :num] @ curvature[:num]) * white, axis=1) - np.sum(moved**2, axis=(0, 2))
        return Evaluation((moved * white).sum(axis=2).T, trace)

    def value_and_score(
        self, theta: Float[Array, " params"], x: Float[Array, " ..."], jets: Jets | None = None
    ) -> tuple[Float[Array, ""], Float[Array, " params"]]:
        """Give −½ |v|² with v = W (x − μ(θ)), and W ∂μ · v."""
        terms, slopes = (jets or Jets(theta)).of(self.basis)
        white = multiply(self.whitening, x.ravel() - multiply(terms, self.mean))
        pull = multiply(self.mean, multiply(white, self.whitening))
        return -0.5 * jnp.sum(white**2), multiply(slopes, pull)

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

    @cached_property
    def white_mean(self) -> np.ndarray:
        """Coefficients of the mean of whitened data."""
        return self.mean @ self.whitening.T


def fit_mean_and_covariance(
    points: Points, rows: np.ndarray, max_terms: int = _MAX_TERMS, name: str = "data"
) -> MeanAndCovariance:
    """Fit mean and covariance to standardised rows (n, d) drawn at points; closed forms of the same data share it."""
    basis = Basis.affordable(points.num_parameters, len(rows), max_terms)
    second = Basis(points.num_parameters, 2)
    if max_terms == _MAX_TERMS and basis.degree == 1 and len(second) <= min(_MAX_INTERACTIONS, len(rows) / 4):
        basis = second
    return points.once(("gaussian", basis, name), lambda: _mean_and_covariance(points, rows, basis))


def _mean_and_covariance(points: Points, rows: np.ndarray, basis: Basis) -> MeanAndCovariance:
    num, size = rows.shape
    p = points.num_parameters
    design, spectra = points.values(basis), points.spectra(basis)
    rough_basis = Basis(p, 2 if num > 4 * len(Basis(p, 2)) else 1)
    rough = points.values(rough_basis)
    movement = _least_squares(points, rough_basis, rows)
    covariance = sparse_covariance(rows - rough @ movement, rough.shape[1])
    num_own = min(rough.shape[1] - 1, size, _NUM_DIRECTIONS)
    groups = np.minimum(np.arange(size), num_own)
    raw = design.T @ rows
    for _ in range(_NUM_ROUNDS):
        lower = np.linalg.cholesky(covariance)
        rotation = np.linalg.svd(np.linalg.solve(lower, movement[1:].T), full_matrices=True)[0]
        products = np.linalg.solve(lower, raw.T).T @ rotation
        shrunk = shrink(spectra, products, groups=groups)
        if basis.degree == 2 and size >= _MIN_DATA_OF_LEARNED_PRIOR:
            for _ in range(_NUM_STEPS_OF_PRIOR):
                spectra = spectra.with_learned_prior(shrunk)
                shrunk = shrink(spectra, products, groups=groups)
        mean = shrunk.coefficients @ rotation.T @ lower.T
        covariance = sparse_covariance(rows - design @ mean, float(shrunk.freedom.mean()))
    return MeanAndCovariance(basis, mean, np.linalg.inv(np.linalg.cholesky(covariance)))


def _least_squares(points: Points, basis: Basis, rows: np.ndarray) -> np.ndarray:
    """Fit polynomials to rows, by normal equations where these lose no more than half of the digits."""
    design = points.values(basis)
    gram = points.once(("gram", basis), lambda: design.T @ design)
    eigenvalues = points.once(("eigenvalues", basis), lambda: np.linalg.eigvalsh(gram))
    if eigenvalues[0] > _WELL_CONDITIONED * eigenvalues[-1]:
        return np.linalg.solve(gram, design.T @ rows)
    return np.linalg.lstsq(design, rows, rcond=None)[0]


def sparse_covariance(residuals: np.ndarray, freedom: float) -> np.ndarray:
    """Estimate the covariance of residuals of a fit with ``freedom`` coefficients, regularised by cross-validation."""
    num, size = residuals.shape
    variance = np.sum(residuals**2, axis=0) / max(1.0, num - freedom)
    # A column that never varies must not be infinitely sure.
    scale = np.sqrt(variance + _FLOOR * max(float(variance.max()), 1e-30))
    rows = residuals / scale
    parts = [_Moments.of(rows[k::_NUM_FOLDS]) for k in range(_NUM_FOLDS)]
    whole = _Moments.total(parts)
    candidates = [None, *_THRESHOLDS] if size > 1 else [None]
    values = np.zeros(len(candidates))
    for part in parts:
        rest = whole.without(part)
        correlations = np.stack([rest.correlation(c) for c in candidates])
        values += part.log_likelihoods(correlations)
    correlation = whole.correlation(candidates[int(np.argmax(values))])
    if not np.isfinite(whole.log_likelihoods(correlation[None])[0]):
        correlation = whole.correlation(None)
    unit = np.sqrt(np.diagonal(correlation))
    return correlation / np.outer(unit, unit) * np.outer(scale, scale)


@dataclass(frozen=True, eq=False)
class _Moments:
    """Sums of products of the columns of scaled rows, and of the products of their squares."""

    num: int
    products: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> "_Moments":
        squares = rows**2  # one array, so that its product with itself costs half
        return cls(len(rows), rows.T @ rows, squares.T @ squares)

    @classmethod
    def total(cls, parts: "list[_Moments]") -> "_Moments":
        return cls(
            sum(part.num for part in parts),
            np.sum([part.products for part in parts], axis=0),
            np.sum([part.squares for part in parts], axis=0),
        )

    def without(self, part: "_Moments") -> "_Moments":
        return _Moments(self.num - part.num, self.products - part.products, self.squares - part.squares)

    def correlation(self, threshold: float | None) -> np.ndarray:
        """Correlate the columns; without a threshold shrink all correlations, with one drop the insignificant."""
        raw = self.products / self.num
        variance = np.maximum(self.squares / self.num - raw**2, 0.0) / self.num
        diagonal = np.eye(len(raw), dtype=bool)
        if threshold is None:
            off = ~diagonal
            total = float(np.sum(raw[off] ** 2))
            keep = 1.0 - min(1.0, float(variance[off].sum()) / total) if total > 0 else 0.0
            raw = np.where(diagonal, raw, keep * raw)
        else:
            raw = np.where(diagonal | (np.abs(raw) > threshold * np.sqrt(variance)), raw, 0.0)
        return raw + _FLOOR * np.diag(np.maximum(np.diagonal(raw), 1e-30)) + 1e-30 * np.eye(len(raw))

    def log_likelihoods(self, correlations: np.ndarray) -> np.ndarray:
        """Give the log-likelihood of the rows for several correlations (choices, d, d); −inf where one is singular."""
        return np.array([self._log_likelihood(correlation) for correlation in correlations])

    def _log_likelihood(self, correlation: np.ndarray) -> float:
        """Give that for one: −½ tr(C⁻¹ P) − ½ n log det C, with P the sums of products."""
        trace_and_log = _trace_and_log_small if len(correlation) <= _SMALL_MATRIX else _trace_and_log_large
        trace, half_log = trace_and_log(correlation, self.products)
        return -0.5 * trace - self.num * half_log


def _trace_and_log_small(matrix: np.ndarray, products: np.ndarray) -> tuple[float, float]:
    """Give tr(C⁻¹ P) and ½ log det C; both infinite where C is singular."""
    try:
        lower = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.inf, np.inf
    return float(np.vdot(np.linalg.inv(matrix), products)), float(np.log(np.diagonal(lower)).sum())


def _trace_and_log_large(matrix: np.ndarray, products: np.ndarray) -> tuple[float, float]:
    """Give the same from one Cholesky factor: the inverse of a large matrix from its factor costs least."""
    lower, failed = dpotrf(matrix, lower=1)
    if failed:
        return np.inf, np.inf
    inverse = dpotri(lower, lower=1)[0]  # the lower triangle alone
    trace = 2.0 * np.sum(np.tril(inverse, -1) * products) + np.sum(np.diagonal(inverse * products))
    return float(trace), float(np.log(np.diagonal(lower)).sum())
