"""Correlations that move with θ: the regression of every datum on those before it.

Datum i is predicted by Σ_{j<i} L_ij(θ) e_j with L_ij a polynomial in θ of low degree, its coefficients shrunk towards
zero by a prior of variance a ρ^degree; a and ρ are each datum's own, chosen by the marginal likelihood. The regressors
of datum i are the first of those of all later ones, so that one Cholesky factor of the Gram matrix of all of them, for
every λ = 1/a, serves all data: the factor of a leading block is the leading block of the factor.
"""

from typing import Any, NamedTuple

import numpy as np

from .._support.legendre import Basis
from .shrinkage import refine

_DECAYS = (1e-3, 0.03, 1.0)
_PENALTIES = np.logspace(-3, 7, 21)
_NUM_STEPS = 4
_BLOCK = 8_192
# Factors of all data together hold no more numbers than this.
_MAX_NUMBERS = 3e6


class Step(NamedTuple):
    """What asks for a step of Fisher scoring: weights of rows (n, data), their mean (data,), the gradient in L e."""

    weights: Any
    mean: Any
    pull: Any


class Regression(NamedTuple):
    """What a fit of correlations needs: polynomials (n, terms), whitened data (n, data), and for every choice of prior

    ``inverses`` (choices, all, all) of the Cholesky factors, ``log_determinants`` (choices, data) of data's matrices
    relative to their priors, and ``precisions`` (choices, all), with all = data × terms.
    """

    terms: Any
    white: Any
    inverses: Any
    log_determinants: Any
    precisions: Any

    @classmethod
    def of(cls, terms: np.ndarray, white: np.ndarray, basis: Basis) -> "Regression":
        """Factorise the Gram matrix of all regressors for every prior."""
        size, num_terms = white.shape[1], terms.shape[1]
        gram = np.zeros((size * num_terms,) * 2)
        for begin in range(0, len(white), _BLOCK):
            columns = _columns(terms[begin : begin + _BLOCK], white[begin : begin + _BLOCK], np)
            gram += columns.T @ columns
        degrees = np.array(basis.exponents, float).sum(axis=1)
        decays = _DECAYS if degrees.any() else (1.0,)
        variances = np.array([np.tile(d**degrees, size) for d in decays])
        precisions = (_PENALTIES[:, None, None] / variances).reshape(-1, size * num_terms)
        factors = np.linalg.cholesky(gram + np.eye(size * num_terms) * precisions[:, None, :])
        inverses = np.linalg.inv(factors)
        logs = 2 * np.log(np.diagonal(factors, axis1=1, axis2=2)) - np.log(precisions)
        sums = np.concatenate([np.zeros((len(logs), 1)), np.cumsum(logs, axis=1)], axis=1)
        return cls(terms, white, np.tril(inverses), sums[:, : size * num_terms : num_terms], precisions)

    def predict(self, mixing: Any, xp: Any = np) -> Any:
        """Give Σ_j L_ij(θ) e_j of every row and datum; ``mixing`` is (terms, data, earlier data)."""
        return sum(self.terms[:, [b]] * (self.white @ mixing[b].T) for b in range(self.terms.shape[1]))

    def moved(self, mixing: Any, step: Step, xp: Any = np) -> Any:
        """Take a step of Fisher scoring from (terms, data, earlier data)."""
        num_terms, size = mixing.shape[0], mixing.shape[1]
        earlier = np.repeat(np.tri(size, k=-1).T, num_terms, axis=0)  # (all, data): regressors a datum has
        now = xp.moveaxis(mixing, 2, 0).reshape(size * num_terms, size)
        mean = step.mean

        def project(rows: Any) -> Any:
            parts = xp.stack([self.white.T @ (self.terms[:, [b]] * rows) for b in range(num_terms)], axis=1)
            return earlier * parts.reshape(size * num_terms, size)

        def predict(columns: Any) -> Any:
            parts = columns.reshape(size, num_terms, size)
            return sum(self.terms[:, [b]] * (self.white @ parts[:, b]) for b in range(num_terms))

        gradient = project(step.pull)
        # As if all rows weighed the same: good enough to choose the prior.
        target = gradient + mean * project(predict(now))
        chosen = self._best_prior(target, mean, earlier, xp)
        precision = (self.precisions[chosen] * mean[:, None]).T
        inverse = self.inverses[chosen]  # (data, all, all)

        def precondition(residual: Any) -> Any:
            half = earlier * (inverse @ residual.T[:, :, None])[:, :, 0].T
            return (xp.swapaxes(inverse, 1, 2) @ half.T[:, :, None])[:, :, 0].T / mean

        def operator(columns: Any) -> Any:
            return project(step.weights * predict(columns)) + precision * columns

        fitted = refine(operator, precondition, gradient - precision * now, now, num_steps=_NUM_STEPS, xp=xp)
        return xp.moveaxis(fitted.reshape(size, num_terms, size), 0, 2)

    def _best_prior(self, target: Any, mean: Any, earlier: Any, xp: Any) -> Any:
        """Choose the prior of every datum by the marginal likelihood."""
        halves = earlier * (self.inverses @ target)  # (choices, all, data)
        evidence = (halves**2).sum(axis=1) / mean - self.log_determinants
        return xp.argmax(evidence, axis=0)


def mixing_basis(num_parameters: int, num_rows: int, size: int) -> Basis:
    """Let correlations move with θ by the highest degree, up to 2, that leaves four rows a coefficient."""
    pairs = max(1, size * (size - 1) // 2)
    choices = [Basis(num_parameters, degree) for degree in (2, 1, 0)]
    affordable = (b for b in choices if pairs * len(b) <= num_rows / 4 and size * (size * len(b)) ** 2 <= _MAX_NUMBERS)
    return next(affordable, choices[-1])


def _columns(terms: Any, white: Any, xp: Any) -> Any:
    """Multiply every datum by every polynomial, (n, data × terms)."""
    return (white[:, :, None] * terms[:, None, :]).reshape(len(white), -1)
