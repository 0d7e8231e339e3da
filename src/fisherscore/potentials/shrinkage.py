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
# In NumPy, decays are gone through one by one where all together would take more numbers than this.
_MAX_NUMBERS = 5e6


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
        return cls._with_priors(gram, np.stack([_prior(basis, decay) for decay in _DECAYS]))

    def with_learned_prior(self, shrunk: "Shrunk") -> "Spectra":
        """Learn one prior from coefficients of many columns, fitted by these spectra: a variance for every term.

        A step of expectation maximisation: the variance of a term is the mean over all columns, in units of their
        sizes, of what its coefficients are expected to be squared. Terms that no column needs fade away.
        """
        sizes = np.maximum(shrunk.sizes, 1e-30)
        prior = self.priors[shrunk.decay].T * sizes
        known = np.diagonal(self.gram)[1:, None]
        expected = shrunk.coefficients[1:] ** 2 + prior / (1.0 + known * prior)
        variances = np.maximum((expected / sizes).mean(axis=1), 1e-30)
        return self._with_priors(self.gram, (variances / variances.max())[None])

    @classmethod
    def _with_priors(cls, gram: np.ndarray, priors: np.ndarray) -> "Spectra":
        """Diagonalise a Gram matrix for priors (choices, terms − 1)."""
        onto = gram[0, 1:] / gram[0, 0]
        rest = gram[1:, 1:] - np.outer(gram[1:, 0], onto)
        scales = np.sqrt(priors)
        eigenvalues, vectors = np.linalg.eigh(scales[:, :, None] * rest * scales[:, None, :])
        return cls(gram, onto, np.maximum(eigenvalues, 0.0), scales[:, :, None] * vectors, priors)


class Shrunk(NamedTuple):
    """Fitted coefficients (terms, columns), and of each column the effective number of them and the prior's size.

    ``decay`` is the place of its decay ρ among those tried.
    """

    coefficients: Any
    freedom: Any
    sizes: Any
    decay: Any


def shrink(
    spectra: Spectra, products: Any, information: Any = None, *, groups: np.ndarray | None = None, xp: Any = np
) -> Shrunk:
    """Solve XᵀX c = XᵀY, each column's matrix multiplied by its ``information``, by empirical Bayes.

    ``products`` are XᵀY (terms, columns), the noise of Y has variance one. All columns share the decay ρ, and each has
    a size a of its own; columns of one group, where ``groups`` numbers them, share both.
    """
    information = xp.ones(products.shape[1]) if information is None else information
    centred = products[1:] - spectra.onto[:, None] * products[0]
    projected = xp.swapaxes(spectra.directions, 1, 2) @ centred  # (decays, terms − 1, columns)
    evidence, sizes = _best_sizes(spectra, projected**2, information, groups, xp)
    decay = xp.argmax(evidence if groups is not None else evidence.sum(axis=1, keepdims=True), axis=0)
    decay = xp.broadcast_to(decay, information.shape)
    scaled = spectra.eigenvalues[:, :, None] * (sizes * information)[:, None, :]
    rest = _chosen(spectra.directions @ (projected * sizes[:, None, :] / (1.0 + scaled)), decay, xp)
    first = products[0] / (information * spectra.gram[0, 0]) - spectra.onto @ rest
    freedom = 1.0 + _chosen(scaled / (1.0 + scaled), decay, xp).sum(axis=0)
    sizes = xp.take_along_axis(sizes, decay[None], axis=0)[0]
    return Shrunk(xp.concatenate([first[None], rest]), freedom, sizes, decay)


def _chosen(values: Any, decay: Any, xp: Any) -> Any:
    """Take of values (decays, terms, columns) those of every column's own decay."""
    return xp.take_along_axis(values, decay[None, None, :], axis=0)[0]


def refine(operator: Any, precondition: Any, gradient: Any, start: Any, *, num_steps: int, xp: Any = np) -> Any:
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


def _best_sizes(spectra: Spectra, power: Any, information: Any, groups: np.ndarray | None, xp: Any) -> tuple[Any, Any]:
    """Find the size of every column with the highest evidence, in coarse steps and then in fine ones around the best.

    Give evidence and size for every decay and column, (decays, columns); those of a group are the same.
    """
    all_sizes = xp.asarray(_SIZES)
    together = None if groups is None else (groups[:, None] == groups).astype(float)

    def evidence(sizes: Any) -> Any:
        each = _log_evidence(sizes, spectra.eigenvalues, power, information, xp)
        return each if together is None else each @ together

    coarse = xp.broadcast_to(all_sizes[::_COARSE, None], (len(spectra.eigenvalues), len(_SIZES[::_COARSE]), 1))
    best = _COARSE * xp.argmax(evidence(coarse), axis=1)
    near = xp.clip(best[:, None, :] + np.arange(1 - _COARSE, _COARSE)[:, None], 0, len(_SIZES) - 1)
    fine = evidence(all_sizes[near])
    place = xp.argmax(fine, axis=1)[:, None, :]
    return fine.max(axis=1), xp.take_along_axis(all_sizes[near], place, axis=1)[:, 0]


def _log_evidence(sizes: Any, eigenvalues: Any, power: Any, information: Any, xp: Any) -> Any:
    """Give the log marginal likelihood for sizes (decays, sizes, columns or 1) of the prior: (decays, sizes, columns).

    The problem is diagonalised: eigenvalues (decays, terms), and the power of every column (decays, terms, columns).
    """
    if xp is np and len(sizes) > 1 and sizes.shape[1] * power.size > _MAX_NUMBERS:
        parts = [_log_evidence(sizes[[k]], eigenvalues[[k]], power[[k]], information, xp) for k in range(len(sizes))]
        return np.concatenate(parts)
    each = sizes[:, :, None, :]
    scaled = 1.0 + each * (eigenvalues[:, :, None] * information)[:, None]
    # A logarithm costs as much as ten products: the determinant is taken in parts that do not overflow.
    decays, num_sizes, terms, columns = scaled.shape
    missing = -terms % _PRODUCT
    ones = xp.ones((decays, num_sizes, missing, columns))
    grouped = (xp.concatenate([scaled, ones], axis=2) if missing else scaled).reshape(
        decays, num_sizes, -1, _PRODUCT, columns
    )
    return 0.5 * ((each * power[:, None] / scaled).sum(axis=2) - xp.log(grouped.prod(axis=3)).sum(axis=2))


def _prior(basis: Basis, decay: float) -> np.ndarray:
    """Give prior variances of all terms but the constant, for size one."""
    factorials = np.array([math.prod(math.factorial(k) for k in e) for e in basis.exponents[1:]], float)
    degree = np.array(basis.exponents[1:]).sum(axis=1)
    return decay ** np.maximum(degree - 1.0, 0.0) / factorials
