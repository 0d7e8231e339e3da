"""Smooth functions of θ: Legendre polynomials on the training region, shrunk by as much as the data ask for.

Everywhere a smooth function of the parameters is wanted (a mean, a log variance), it is a sum of products of Legendre
polynomials P_e(u), u = θ scaled to [−1, 1], normalised so that they are orthonormal under uniform u. Coefficients have
the Gaussian prior

    variance of c_e = a ρ^(|e| − 1) / e!,    e! = Π_j e_j!,

which falls with the degree as fast as for a smooth (squared-exponential) random function; a sets the size, ρ how fast
the function varies. Both are found by the marginal likelihood of the data (empirical Bayes), so that a high degree
costs nothing where it is not needed and there is no degree to choose. The constant has no prior.
"""

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

_DECAYS = (0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0)
SIZES = np.logspace(-8, 6, 57)
_LARGEST_DEGREE = 10

Exponents = tuple[tuple[int, ...], ...]


@functools.lru_cache(maxsize=64)
def exponents_up_to(num_parameters: int, degree: int) -> Exponents:
    """List the exponents of all products of polynomials up to a total degree, the constant first."""
    chosen = itertools.chain.from_iterable(
        itertools.combinations_with_replacement(range(num_parameters), d) for d in range(degree + 1)
    )
    return tuple(tuple(c.count(i) for i in range(num_parameters)) for c in chosen)


def affordable_degree(num_parameters: int, num_rows: int, most_terms: int) -> int:
    """Return the largest degree that leaves two rows a term and no more than ``most_terms``; at least 1."""
    allowed = min(most_terms, num_rows / 2)
    degrees = range(1, _LARGEST_DEGREE + 1)
    return max([1, *(d for d in degrees if math.comb(num_parameters + d, num_parameters) <= allowed)])


def legendre(u: Any, exponents: Exponents, array_module: Any = np) -> Any:
    """Evaluate all terms at u of shape (..., p); shape (..., terms). Works in NumPy and in JAX."""
    degree = max(max(e) for e in exponents)
    table = [array_module.ones_like(u), u]
    for n in range(1, degree):
        table.append(((2 * n + 1) * u * table[n] - n * table[n - 1]) / (n + 1))
    powers = array_module.stack([math.sqrt(2 * n + 1) * v for n, v in enumerate(table[: degree + 1])], axis=-1)
    index = np.array(exponents)
    terms = powers[..., 0, :][..., index[:, 0]]
    for j in range(1, index.shape[1]):
        terms = terms * powers[..., j, :][..., index[:, j]]
    return terms


def legendre_gradient(u: np.ndarray, exponents: Exponents) -> np.ndarray:
    """Differentiate all terms at points (n, p); shape (n, terms, p)."""
    degree = max(max(e) for e in exponents)
    values = [np.ones_like(u), u]
    slopes = [np.zeros_like(u), np.ones_like(u)]
    for n in range(1, degree):
        values.append(((2 * n + 1) * u * values[n] - n * values[n - 1]) / (n + 1))
        slopes.append(slopes[n - 1] + (2 * n + 1) * values[n])
    scale = np.sqrt(2 * np.arange(degree + 1) + 1)
    value, slope = (np.stack(t[: degree + 1], axis=-1) * scale for t in (values, slopes))  # (n, p, degree + 1)
    index = np.array(exponents)
    parameters = range(index.shape[1])
    each = [value[:, j, index[:, j]] for j in parameters]
    return np.stack(
        [np.prod([slope[:, j, index[:, j]] if j == k else each[j] for j in parameters], axis=0) for k in parameters],
        axis=-1,
    )


@dataclass(frozen=True)
class Shrunk:
    """Fitted coefficients (terms, columns), the effective number of coefficients of each column, and the decay ρ."""

    coefficients: np.ndarray
    freedom: np.ndarray
    decay: float


def shrink(
    grams: np.ndarray,
    products: np.ndarray,
    exponents: Exponents,
    *,
    shared: bool,
    information: np.ndarray | None = None,
    decays: tuple[float, ...] | None = None,
) -> Shrunk:
    """Fit columns by empirical Bayes from the normal equations XᵀX c = XᵀY, the noise having variance one.

    ``grams`` holds XᵀX, one (terms, terms) matrix a column, or a single one for all, to be multiplied by each column's
    ``information``; ``products`` is XᵀY, (terms, columns). All columns share the decay ρ, the best of ``decays``; the
    size a is shared too, or each column's own.
    """
    num_columns = products.shape[1]
    one_gram = grams.ndim == 2
    information = np.ones(num_columns) if information is None else information
    best: tuple[float, float, list[float]] | None = None
    for decay in decays or _DECAYS:
        prior = _prior(exponents, decay)
        evidence = np.zeros((num_columns, len(SIZES)))
        for column in range(num_columns):
            if column == 0 or not one_gram:
                eigenvalues, project = _whitened(grams if one_gram else grams[column], prior)
            power = (project.T @ products[:, column]) ** 2
            scaled = np.outer(SIZES, information[column] * eigenvalues)
            evidence[column] = 0.5 * ((SIZES[:, None] * power) / (1 + scaled) - np.log1p(scaled)).sum(axis=1)
        if shared:
            evidence = np.broadcast_to(evidence.sum(axis=0), evidence.shape) / num_columns
        total = evidence.max(axis=1).sum()
        if best is None or total > best[0]:
            best = (total, decay, [SIZES[i] for i in evidence.argmax(axis=1)])
    assert best is not None
    _, decay, sizes = best
    coefficients, freedom = np.empty_like(products), np.empty(num_columns)
    for column in range(num_columns):
        gram = information[column] * (grams if one_gram else grams[column])
        penalised = gram + np.diag(1.0 / (sizes[column] * _prior(exponents, decay)))
        solved = np.linalg.solve(penalised, np.column_stack([products[:, column], gram]))
        coefficients[:, column], freedom[column] = solved[:, 0], np.trace(solved[:, 1:])
    return Shrunk(coefficients, freedom, decay)


def _prior(exponents: Exponents, decay: float) -> np.ndarray:
    """Prior variances for size one; so large for the constant that it is free."""
    index = np.array(exponents)
    factorials = np.array([math.prod(math.factorial(k) for k in e) for e in exponents], float)
    degree = index.sum(axis=1)
    return np.where(degree > 0, decay ** np.maximum(degree - 1.0, 0.0) / factorials, 1e12)


def _whitened(gram: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Diagonalise the Gram matrix of all terms but the constant, which is projected out, in units of the prior."""
    scale = np.sqrt(prior[1:])
    onto_constant = gram[0, 1:] / gram[0, 0]
    rest = gram[1:, 1:] - np.outer(gram[1:, 0], onto_constant)
    eigenvalues, vectors = np.linalg.eigh(scale[:, None] * rest * scale)
    project = scale[:, None] * vectors
    return np.maximum(eigenvalues, 0.0), np.vstack([-onto_constant @ project, project])
