"""Shrinkage of smooth functions by as much as the data ask for: empirical Bayes.

Coefficients c_e of Legendre polynomials (``_support.legendre``) have the Gaussian prior

    variance of c_e = a ρ^(|e| − 1) / e!,    e! = Π_j e_j!,

which falls with the degree as fast as for a smooth (squared-exponential) random function; a sets the size, ρ how fast
the function varies. Both are chosen by the marginal likelihood of the data, so that a high degree costs nothing where
it is not needed and there is no degree to choose. The constant has no prior.
"""

import math
from dataclasses import dataclass

import numpy as np

from .._support.legendre import Basis

_DECAYS = (0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0)
_RIDGE_DECAYS = (1e-3, 0.03, 1.0)
_SIZES = np.logspace(-8, 6, 57)


@dataclass(frozen=True, eq=False)
class Shrunk:
    """Fitted coefficients (terms, columns), the effective number of coefficients of each column, and the decay ρ."""

    coefficients: np.ndarray
    freedom: np.ndarray
    decay: float


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """XᵀX c = XᵀY with noise of variance one, for several columns of Y.

    ``grams`` holds XᵀX, one (terms, terms) matrix a column, or a single one for all, to be multiplied by each column's
    ``information``; ``products`` is XᵀY, (terms, columns).
    """

    grams: np.ndarray
    products: np.ndarray
    information: np.ndarray | None = None

    @property
    def num_columns(self) -> int:
        """How many columns are fitted."""
        return self.products.shape[1]

    @property
    def one_gram(self) -> bool:
        """Whether all columns share one matrix."""
        return self.grams.ndim == 2

    def gram(self, column: int) -> np.ndarray:
        """Return the matrix of a column, without its information."""
        return self.grams if self.one_gram else self.grams[column]

    def column_information(self, column: int) -> float:
        """Return the factor of a column's matrix."""
        return 1.0 if self.information is None else float(self.information[column])

    def log_evidence(self, prior: np.ndarray) -> np.ndarray:
        """Return the log marginal likelihood of every column for every size of the prior (columns, sizes)."""
        evidence = np.zeros((self.num_columns, len(_SIZES)))
        for column in range(self.num_columns):
            if column == 0 or not self.one_gram:
                eigenvalues, project = _whitened(self.gram(column), prior)
            power = (project.T @ self.products[:, column]) ** 2
            evidence[column] = _log_evidence(self.column_information(column) * eigenvalues, power)
        return evidence


def shrink(
    equations: NormalEquations, basis: Basis, *, shared: bool, decays: tuple[float, ...] | None = None
) -> Shrunk:
    """Fit columns by empirical Bayes.

    All columns share the decay ρ, the best of ``decays``; the size a is shared too, or each column's own.
    """
    best: tuple[float, float, list[float]] | None = None
    for decay in decays or _DECAYS:
        evidence = equations.log_evidence(_prior(basis, decay))
        if shared:
            evidence = np.broadcast_to(evidence.sum(axis=0), evidence.shape) / len(evidence)
        total = evidence.max(axis=1).sum()
        if best is None or total > best[0]:
            best = (total, decay, [_SIZES[i] for i in evidence.argmax(axis=1)])
    assert best is not None
    _, decay, sizes = best
    coefficients, freedom = np.empty_like(equations.products), np.empty(equations.num_columns)
    for column, size in enumerate(sizes):
        gram = equations.column_information(column) * equations.gram(column)
        penalised = gram + np.diag(1.0 / (size * _prior(basis, decay)))
        solved = np.linalg.solve(penalised, np.column_stack([equations.products[:, column], gram]))
        coefficients[:, column], freedom[column] = solved[:, 0], np.trace(solved[:, 1:])
    return Shrunk(coefficients, freedom, decay)


def ridge(gram: np.ndarray, target: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Shrink all coefficients of one column towards zero, with prior variances a ρ^degree and no free constant."""
    best = (-np.inf, np.zeros_like(target))
    for decay in _RIDGE_DECAYS:
        scale = np.sqrt(decay**degrees)
        eigenvalues, vectors = np.linalg.eigh(scale[:, None] * gram * scale)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        projected = vectors.T @ (scale * target)
        evidence = _log_evidence(eigenvalues, projected**2)
        size = _SIZES[int(evidence.argmax())]
        if evidence.max() > best[0]:
            best = (float(evidence.max()), scale * (vectors @ (projected * size / (1 + size * eigenvalues))))
    return best[1]


def _log_evidence(eigenvalues: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Give the log marginal likelihood for every size of the prior, from a diagonalised problem."""
    scaled = np.outer(_SIZES, eigenvalues)
    return 0.5 * ((_SIZES[:, None] * power) / (1 + scaled) - np.log1p(scaled)).sum(axis=1)


def _prior(basis: Basis, decay: float) -> np.ndarray:
    """Give prior variances for size one; so large for the constant that it is free."""
    factorials = np.array([math.prod(math.factorial(k) for k in e) for e in basis.exponents], float)
    degree = np.array(basis.exponents).sum(axis=1)
    return np.where(degree > 0, decay ** np.maximum(degree - 1.0, 0.0) / factorials, 1e12)


def _whitened(gram: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Diagonalise the Gram matrix of all terms but the constant, which is projected out, in units of the prior."""
    scale = np.sqrt(prior[1:])
    onto_constant = gram[0, 1:] / gram[0, 0]
    rest = gram[1:, 1:] - np.outer(gram[1:, 0], onto_constant)
    eigenvalues, vectors = np.linalg.eigh(scale[:, None] * rest * scale)
    project = scale[:, None] * vectors
    return np.maximum(eigenvalues, 0.0), np.vstack([-onto_constant @ project, project])
