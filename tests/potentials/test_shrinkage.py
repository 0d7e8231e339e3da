"""Shrinkage that follows the data: smooth functions are found, noise is left alone."""

import numpy as np

from fisherscore._support.legendre import Basis
from fisherscore.potentials.shrinkage import NormalEquations, shrink

RNG = np.random.default_rng(0)


def test_shrinkage_finds_a_smooth_function_better_than_least_squares_and_leaves_noise_alone():
    rng = np.random.default_rng(1)
    basis = Basis(2, 8)
    u = rng.uniform(-1, 1, (300, 2))
    terms = basis(u)
    truth = np.stack([np.exp(u[:, 0] - 0.5 * u[:, 1]), np.zeros(300)], axis=1)
    y = truth + rng.normal(size=truth.shape)
    fitted = shrink(NormalEquations(terms.T @ terms, terms.T @ y), basis, shared=False)
    plain = np.linalg.lstsq(terms, y, rcond=None)[0]
    error, worse = (np.mean((terms @ c - truth) ** 2, axis=0) for c in (fitted.coefficients, plain))
    assert (error < 0.06).all() and (worse > 0.1).all()
    assert fitted.freedom[0] > 3 and fitted.freedom[1] < 5  # of 45


def test_columns_with_matrices_and_information_of_their_own():
    basis = Basis(1, 3)
    u = RNG.uniform(-1, 1, (500, 1))
    terms = basis(u)
    gram, y = terms.T @ terms, terms.T @ (3.0 * u)
    once = shrink(NormalEquations(4.0 * gram, 4.0 * y), basis, shared=False)
    scaled = shrink(NormalEquations(gram, 4.0 * y, np.array([4.0])), basis, shared=False)
    listed = shrink(NormalEquations(4.0 * gram[None], 4.0 * y), basis, shared=False)
    np.testing.assert_allclose(scaled.coefficients, once.coefficients)
    np.testing.assert_allclose(listed.coefficients, once.coefficients)
