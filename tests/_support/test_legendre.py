"""Smooth functions of the parameters: orthonormal terms and their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fisherscore._support.legendre import Basis, affordable_degree, exponents_up_to, legendre, legendre_gradient

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


def test_a_basis_is_the_exponents_and_their_terms():
    basis = Basis.affordable(2, 100_000, 21)
    u = RNG.uniform(-1, 1, (5, 2))
    assert basis == Basis(2, 5) and len(basis) == 21 and basis.exponents == exponents_up_to(2, 5)
    np.testing.assert_array_equal(basis(u), legendre(u, basis.exponents))
    np.testing.assert_array_equal(basis.gradient(u), legendre_gradient(u, basis.exponents))


def test_derivatives_of_coefficients_are_those_of_functions():
    rng = np.random.default_rng(5)
    basis = Basis(3, 4)
    u, coefficients = rng.uniform(-1, 1, (20, 3)), rng.normal(size=len(basis))
    expected = np.einsum("ntp,t->pn", basis.gradient(u), coefficients)
    np.testing.assert_allclose(basis(u) @ (basis.derivatives @ coefficients).T, expected.T, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("num_parameters", "degree"), [(1, 10), (2, 10), (3, 4), (7, 2)])
def test_the_jet_is_value_and_gradient_inside_and_outside(num_parameters, degree):
    basis = Basis(num_parameters, degree)
    for u in np.random.default_rng(6).uniform(-1.1, 1.1, (20, num_parameters)):
        terms, slopes = basis.jet(jnp.asarray(u, jnp.float32))
        value, slope = basis(u), basis.gradient(u[None])[0].T
        np.testing.assert_allclose(terms, value, atol=1e-5 * np.abs(value).max())
        np.testing.assert_allclose(slopes, slope, atol=1e-5 * np.abs(slope).max())
