"""Shrinkage of smooth functions by as much as the data ask for: empirical Bayes.

Coefficients c_e of Legendre polynomials (``_support.legendre``) have the Gaussian prior

    variance of c_e = a ρ^(|e| − 1) / e!,    e! = Π_j e_j!,

which falls with the degree as fast as for a smooth (squared-exponential) random function; a sets the size, ρ how fast
the function varies. Both are chosen by the marginal likelihood of the data, so that a high degree costs nothing where
it is not needed and there is no degree to choose. The constant has no prior.

All functions of the same points share one Gram matrix XᵀX: it is diagonalised once for every ρ, and after that each fit
is a few products. Fits whose rows have weights of their own are solved by conjugate gradients, for which the one matrix
is nearly the right one.

Functions take the array module, NumPy or ``jax.numpy``, so that many rows are fitted on the device.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from .._support.legendre import Basis

_DECAYS = (0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0)
_SIZES = np.logspace(-8, 6, 57)
# Sizes are first tried in steps this coarse, then around the best of them.
_COARSE = 4
# Logarithms of this many numbers are taken at once, as that of their product.
_PRODUCT = 8


class Spectra(NamedTuple):
    """The Gram matrix of all terms but the constant, which is projected out, diagonalised in units of every prior.

    ``count`` is the Gram matrix of the constant, ``onto`` (terms − 1,) the projection of the others on it. For every
    decay, ``eigenvalues`` (decays, terms − 1) and ``directions`` (decays, terms − 1, terms − 1), which include the
    prior's scale; ``priors`` are its variances for size one.
    """

    gram: Any
    onto: Any
    eigenvalues: Any
    directions: Any
    priors: Any

    @classmethod
    def of(cls, gram: np.ndarray, basis: Basis) -> "Spectra":
        """Diagonalise a Gram matrix (terms, terms) for every decay."""
        priors = np.stack([_prior(basis, decay) for decay in _DECAYS])
        onto = gram[0, 1:] / gram[0, 0]
        rest = gram[1:, 1:] - np.outer(gram[1:, 0], onto)
        scales = np.sqrt(priors)
        eigenvalues, vectors = np.linalg.eigh(scales[:, :, None] * rest * scales[:, None, :])
        return cls(gram, onto, np.maximum(eigenvalues, 0.0), scales[:, :, None] * vectors, priors)


class Shrunk(NamedTuple):
    """Fitted coefficients (terms, columns), and of each column the effective number of them and the prior's size.

    ``decay`` is the place of the decay ρ among those tried.
    """

    coefficients: Any
    freedom: Any
    sizes: Any
    decay: Any


def shrink(spectra: Spectra, products: Any, information: Any = None, *, shared: bool = False, xp: Any = np) -> Shrunk:
    """Solve XᵀX c = XᵀY, each column's matrix multiplied by its ``information``, by empirical Bayes.

    ``products`` are XᵀY (terms, columns), the noise of Y has variance one. All columns share the decay ρ; the size a is
    shared too, or each column's own.
    """
    information = xp.ones(products.shape[1]) if information is None else information
    centred = products[1:] - spectra.onto[:, None] * products[0]

    found = [_best_sizes(spectra, k, centred, information, shared, xp) for k in range(len(_DECAYS))]
    decay = xp.argmax(xp.stack([total for total, _ in found]))
    sizes = xp.stack([each for _, each in found])[decay]
    eigenvalues, directions = spectra.eigenvalues[decay], spectra.directions[decay]
    projected = directions.T @ centred
    scaled = eigenvalues[:, None] * (sizes * information)
    rest = directions @ (projected * sizes / (1.0 + scaled))
    first = products[0] / (information * spectra.gram[0, 0]) - spectra.onto @ rest
    coefficients = xp.concatenate([first[None], rest])
    return Shrunk(coefficients, 1.0 + (scaled / (1.0 + scaled)).sum(axis=0), sizes, decay)


def refine(
    operator: Any, precondition: Any, gradient: Any, start: Any, *, num_steps: int, xp: Any = np
) -> Any:
    """Solve A c = A c₀ + g by conjugate gradients from c₀, every column by itself.

    ``operator`` multiplies by A, ``precondition`` by what is nearly its inverse.
    """

    def step(_: int, carry: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        moved, residual, direction, size = carry
        image = operator(direction)
        curvature = (direction * image).sum(axis=0)
        length = xp.where(curvature > 0, size / xp.where(curvature > 0, curvature, 1.0), 0.0)
        moved, residual = moved + length * direction, residual - length * image
        solved = precondition(residual)
        new_size = (residual * solved).sum(axis=0)
        ratio = xp.where(size > 0, new_size / xp.where(size > 0, size, 1.0), 0.0)
        return moved, residual, solved + ratio * direction, new_size

    first = precondition(gradient)
    carry = (start, gradient, first, (gradient * first).sum(axis=0))
    return repeated(num_steps, step, carry, xp)[0]


def repeated(num_steps: int, step: Any, carry: Any, xp: Any = np) -> Any:
    """Repeat a step: a plain loop in NumPy, one on the device in JAX."""
    if xp is not np:
        import jax

        return jax.lax.fori_loop(0, num_steps, step, carry)
    for number in range(num_steps):
        carry = step(number, carry)
    return carry


def _best_sizes(
    spectra: Spectra, decay: int, centred: Any, information: Any, shared: bool, xp: Any
) -> tuple[Any, Any]:
    """Find the size of every column with the highest evidence, in coarse steps and then in fine ones around the best.

    Give the evidence of all columns together, and the sizes.
    """
    power = (spectra.directions[decay].T @ centred) ** 2
    all_sizes = xp.asarray(_SIZES)

    def evidence(sizes: Any) -> Any:
        each = _log_evidence(sizes, spectra.eigenvalues[decay], power, information, xp)
        return xp.broadcast_to(each.sum(axis=1, keepdims=True), each.shape) / each.shape[1] if shared else each

    coarse = _COARSE * xp.argmax(evidence(all_sizes[::_COARSE, None]), axis=0)
    near = xp.clip(coarse + np.arange(1 - _COARSE, _COARSE)[:, None], 0, len(_SIZES) - 1)
    fine = evidence(all_sizes[near])
    best = xp.argmax(fine, axis=0)
    return fine.max(axis=0).sum(), xp.take_along_axis(all_sizes[near], best[None], axis=0)[0]


def _log_evidence(sizes: Any, eigenvalues: Any, power: Any, information: Any, xp: Any) -> Any:
    """Give the log marginal likelihood for sizes (sizes, columns or 1) of the prior, from a diagonalised problem."""
    each = sizes[:, None, :]
    scaled = 1.0 + each * (eigenvalues[:, None] * information)
    # A logarithm costs as much as ten products: the determinant is taken in parts that do not overflow.
    missing = -scaled.shape[1] % _PRODUCT
    filled = xp.concatenate([scaled, xp.ones((len(sizes), missing, scaled.shape[2]))], axis=1) if missing else scaled
    parts = filled.reshape(len(sizes), -1, _PRODUCT, scaled.shape[2]).prod(axis=2)
    return 0.5 * ((each * power / scaled).sum(axis=1) - xp.log(parts).sum(axis=1))


def _prior(basis: Basis, decay: float) -> np.ndarray:
    """Give prior variances of all terms but the constant, for size one."""
    factorials = np.array([math.prod(math.factorial(k) for k in e) for e in basis.exponents[1:]], float)
    degree = np.array(basis.exponents[1:]).sum(axis=1)
    return decay ** np.maximum(degree - 1.0, 0.0) / factorials
