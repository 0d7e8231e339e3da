"""Smooth functions of the parameters: orthonormal terms, and shrinkage that follows the data."""

import jax
import jax.numpy as jnp
import numpy as np

from fisherscore._support.legendre import affordable_degree, exponents_up_to, legendre, legendre_gradient, shrink

RNG = np.random.default_rng(0)


def test_exponents_are_all_products_up_to_the_degree_and_few_rows_afford_few():
    assert exponents_up_to(2, 2) == ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
    assert len(exponents_up_to(4, 3)) == 35
    assert affordable_degree(2, 100_000, 300) == 10
    assert affordable_degree(10, 100_000, 300) == 3
    assert affordable_degree(10, 5, 300) == 1


def test_terms_are_orthonormal_over_the_region():
    nodes, weights = np.polynomial.legendre.leggauss(12)
    u = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    terms = legendre(u, exponents_up_to(2, 5))
    gram = terms.T @ (np.outer(weights, weights).reshape(-1, 1) / 4 * terms)
    np.testing.assert_allclose(gram, np.eye(21), atol=1e-12)


def test_gradients_are_those_of_automatic_differentiation():
    exponents = exponents_up_to(3, 4)
    u = RNG.uniform(-1, 1, (5, 3))
    exact = jax.vmap(jax.jacfwd(lambda v: legendre(v, exponents, jnp)))(jnp.asarray(u))
    np.testing.assert_allclose(legendre_gradient(u, exponents), exact, rtol=1e-4, atol=1e-4)


def test_shrinkage_finds_a_smooth_function_better_than_least_squares_and_leaves_noise_alone():
    rng = np.random.default_rng(1)
    exponents = exponents_up_to(2, 8)
    u = rng.uniform(-1, 1, (300, 2))
    terms = legendre(u, exponents)
    truth = np.stack([np.exp(u[:, 0] - 0.5 * u[:, 1]), np.zeros(300)], axis=1)
    y = truth + rng.normal(size=truth.shape)
    fitted = shrink(terms.T @ terms, terms.T @ y, exponents, shared=False)
    plain = np.linalg.lstsq(terms, y, rcond=None)[0]
    error, worse = (np.mean((terms @ c - truth) ** 2, axis=0) for c in (fitted.coefficients, plain))
    assert (error < 0.06).all() and (worse > 0.1).all()
    assert fitted.freedom[0] > 3 and fitted.freedom[1] < 5  # of 45


def test_columns_with_matrices_and_information_of_their_own():
    exponents = exponents_up_to(1, 3)
    u = RNG.uniform(-1, 1, (500, 1))
    terms = legendre(u, exponents)
    gram, y = terms.T @ terms, terms.T @ (3.0 * u)
    once = shrink(4.0 * gram, 4.0 * y, exponents, shared=False)
    scaled = shrink(gram, 4.0 * y, exponents, shared=False, information=np.array([4.0]))
    listed = shrink(4.0 * gram[None], 4.0 * y, exponents, shared=False)
    np.testing.assert_allclose(scaled.coefficients, once.coefficients)
    np.testing.assert_allclose(listed.coefficients, once.coefficients)
