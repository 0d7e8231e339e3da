"""Smooth functions of θ: products of Legendre polynomials on the training region.

Everywhere a smooth function of the parameters is wanted (a mean, a log variance, a chance of success), it is a sum of
products of Legendre polynomials P_e(u), u = θ scaled to [−1, 1], normalised so that they are orthonormal under uniform
u. A :class:`Basis` is all products up to a total degree.
"""

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

_MAX_DEGREE = 10

Exponents = tuple[tuple[int, ...], ...]


@functools.lru_cache(maxsize=64)
def exponents_up_to(num_parameters: int, degree: int) -> Exponents:
    """List the exponents of all products of polynomials up to a total degree, the constant first."""
    chosen = itertools.chain.from_iterable(
        itertools.combinations_with_replacement(range(num_parameters), d) for d in range(degree + 1)
    )
    return tuple(tuple(c.count(i) for i in range(num_parameters)) for c in chosen)


def affordable_degree(num_parameters: int, num_rows: int, max_terms: int) -> int:
    """Return the largest degree that leaves two rows a term and no more than ``max_terms``; at least 1."""
    allowed = min(max_terms, num_rows / 2)
    degrees = range(1, _MAX_DEGREE + 1)
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


@functools.lru_cache(maxsize=64)
def _from_chebyshev(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Give the matrices that take Chebyshev polynomials to ours, and ours to their derivatives, in one variable."""
    values = np.zeros((degree + 1, degree + 1))
    for n in range(degree + 1):
        series: Any = np.polynomial.Legendre.basis(n).convert(kind=np.polynomial.Chebyshev).coef
        values[n, : n + 1] = math.sqrt(2 * n + 1) * series
    slopes = np.zeros_like(values)
    for n in range(degree + 1):
        for k in range(n - 1, -1, -2):
            slopes[n, k] = math.sqrt((2 * n + 1) * (2 * k + 1))
    return values.astype(np.float32), slopes.astype(np.float32)


@functools.lru_cache(maxsize=64)
def _factors(exponents: Exponents) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """List the factors of every term that are not constant: parameters and exponents (terms, factors), padded.

    Also give, one-hot, to which parameter a factor belongs (factors, parameters, terms), nowhere for padding.
    """
    num_parameters = len(exponents[0])
    num_factors = max([1, *(sum(n > 0 for n in e) for e in exponents)])
    parameters, powers = np.zeros((2, len(exponents), num_factors), int)
    owner = np.zeros((num_factors, num_parameters, len(exponents)), np.float32)
    for t, e in enumerate(exponents):
        for s, j in enumerate(j for j in range(num_parameters) if e[j]):
            parameters[t, s], powers[t, s] = j, e[j]
            owner[s, j, t] = 1.0
    return parameters, powers, owner


def legendre_jet(u: Any, exponents: Exponents) -> tuple[Any, Any]:
    """Evaluate all terms at one point u (p,) in JAX, and their gradient: (terms,) and (p, terms).

    Few operations, so that they are quickly compiled: Chebyshev polynomials by doubling, T_{m+n} = 2 T_m T_n − T_{m−n},
    and products over the factors of a term that are not constant.
    """
    import jax.numpy as jnp

    degree = max(max(e) for e in exponents)
    table = jnp.stack([jnp.ones_like(u), u])
    while len(table) <= degree:
        last = len(table) - 1
        table = jnp.concatenate([table, 2.0 * table[last] * table[1:] - table[:last][::-1]])
    to_values, to_slopes = _from_chebyshev(degree)
    values = jnp.matmul(to_values, table[: degree + 1], precision="highest")  # (degree + 1, p)
    slopes = jnp.matmul(to_slopes, values, precision="highest")
    parameters, powers, owner = _factors(exponents)
    value, slope = values[powers, parameters], slopes[powers, parameters]  # (terms, factors)
    gradient = jnp.zeros(owner.shape[1:])
    for s in range(owner.shape[0]):
        product = slope[:, s]
        for r in range(owner.shape[0]):
            product = product if r == s else product * value[:, r]
        gradient += owner[s] * product
    return functools.reduce(lambda a, b: a * b, [value[:, s] for s in range(owner.shape[0])]), gradient


@functools.lru_cache(maxsize=16)
def derivative_matrices(exponents: Exponents) -> np.ndarray:
    """Give D (p, terms, terms) with ∂_j Σ_t c_t B_t = Σ_t (D_j c)_t B_t: derivatives of polynomials are polynomials."""
    place = {e: t for t, e in enumerate(exponents)}
    num_parameters = len(exponents[0])
    matrices = np.zeros((num_parameters, len(exponents), len(exponents)))
    for t, e in enumerate(exponents):
        for j, n in enumerate(e):
            # P_n' = Σ (2k + 1) P_k over k = n − 1, n − 3, ...
            for k in range(n - 1, -1, -2):
                lower = (*e[:j], k, *e[j + 1 :])
                matrices[j, place[lower], t] = math.sqrt((2 * n + 1) * (2 * k + 1))
    matrices.setflags(write=False)
    return matrices


@dataclass(frozen=True)
class Basis:
    """All products of Legendre polynomials of p parameters up to a total degree, the constant first."""

    num_parameters: int
    degree: int

    @classmethod
    def affordable(cls, num_parameters: int, num_rows: int, max_terms: int) -> "Basis":
        """Choose the degree by :func:`affordable_degree`."""
        return cls(num_parameters, affordable_degree(num_parameters, num_rows, max_terms))

    @property
    def exponents(self) -> Exponents:
        """The exponents of every term."""
        return exponents_up_to(self.num_parameters, self.degree)

    def __len__(self) -> int:
        return len(self.exponents)

    def __call__(self, u: Any, array_module: Any = np) -> Any:
        """Evaluate all terms at u of shape (..., p), in NumPy or in JAX."""
        return legendre(u, self.exponents, array_module)

    def jet(self, u: Any) -> tuple[Any, Any]:
        """Evaluate all terms at one point u (p,) in JAX, and their gradient: (terms,) and (p, terms)."""
        return legendre_jet(u, self.exponents)

    @property
    def derivatives(self) -> np.ndarray:
        """The matrices that differentiate coefficients: see :func:`derivative_matrices`."""
        return derivative_matrices(self.exponents)

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Differentiate all terms at points (n, p); shape (n, terms, p)."""
        return legendre_gradient(u, self.exponents)
