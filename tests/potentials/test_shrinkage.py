"""Shrinkage that follows the data: smooth functions are found, noise is left alone."""

import jax.numpy as jnp
import numpy as np
import pytest

from fisherscore._support.legendre import Basis
from fisherscore._support.precision import double_precision
from fisherscore.potentials.mixing import Regression, Step
from fisherscore.potentials.shrinkage import Spectra, refine, shrink

RNG = np.random.default_rng(0)


def test_shrinkage_finds_a_smooth_function_better_than_least_squares_and_leaves_noise_alone():
    rng = np.random.default_rng(1)
    basis = Basis(2, 8)
    u = rng.uniform(-1, 1, (300, 2))
    terms = basis(u)
    truth = np.stack([np.exp(u[:, 0] - 0.5 * u[:, 1]), np.zeros(300)], axis=1)
    y = truth + rng.normal(size=truth.shape)
    fitted = shrink(Spectra.of(terms.T @ terms, basis), terms.T @ y)
    plain = np.linalg.lstsq(terms, y, rcond=None)[0]
    error, worse = (np.mean((terms @ c - truth) ** 2, axis=0) for c in (fitted.coefficients, plain))
    assert (error < 0.06).all() and (worse > 0.1).all()
    assert fitted.freedom[0] > 3 and fitted.freedom[1] < 5  # of 45


def test_columns_with_information_of_their_own():
    basis = Basis(1, 3)
    u = RNG.uniform(-1, 1, (500, 1))
    terms = basis(u)
    gram, y = terms.T @ terms, terms.T @ (3.0 * u)
    once = shrink(Spectra.of(4.0 * gram, basis), 4.0 * y)
    scaled = shrink(Spectra.of(gram, basis), 4.0 * y, np.array([4.0]))
    np.testing.assert_allclose(scaled.coefficients, once.coefficients)


def test_the_solution_is_that_of_the_penalised_equations():
    basis = Basis(2, 4)
    terms = basis(RNG.uniform(-1, 1, (200, 2)))
    gram, y = terms.T @ terms, terms.T @ RNG.normal(size=(200, 3))
    spectra = Spectra.of(gram, basis)
    fitted = shrink(spectra, y)
    for column in range(3):
        prior = spectra.priors[fitted.decay[column]] * fitted.sizes[column]
        penalised = gram + np.diag([0.0, *(1.0 / prior)])
        np.testing.assert_allclose(fitted.coefficients[:, column], np.linalg.solve(penalised, y[:, column]), rtol=1e-6)
        assert fitted.freedom[column] == pytest.approx(np.trace(np.linalg.solve(penalised, gram)), rel=1e-6)


def test_columns_of_a_group_share_their_prior_and_others_do_not():
    basis = Basis(1, 6)
    u = RNG.uniform(-1, 1, (400, 1))
    terms = basis(u)
    y = np.concatenate([np.sin(3 * u), 0.0 * u, 5 * u], axis=1) + RNG.normal(size=(400, 3))
    fitted = shrink(Spectra.of(terms.T @ terms, basis), terms.T @ y, groups=np.array([0, 0, 1]))
    alone = shrink(Spectra.of(terms.T @ terms, basis), terms.T @ y[:, 2:], groups=np.array([0]))
    assert fitted.sizes[0] == fitted.sizes[1] != fitted.sizes[2]
    np.testing.assert_allclose(fitted.coefficients[:, 2:], alone.coefficients)


def test_the_device_finds_the_same():
    basis = Basis(2, 5)
    terms = basis(RNG.uniform(-1, 1, (300, 2)))
    spectra, y = Spectra.of(terms.T @ terms, basis), terms.T @ RNG.normal(size=(300, 4))
    with double_precision():
        on_device = shrink(Spectra(*map(jnp.asarray, spectra)), jnp.asarray(y), xp=jnp)
    np.testing.assert_allclose(on_device.coefficients, shrink(spectra, y).coefficients, rtol=1e-9, atol=1e-12)


def test_conjugate_gradients_solve_every_column():
    root = RNG.normal(size=(20, 20))
    matrix = root @ root.T + 5 * np.eye(20)
    start, gradient = RNG.normal(size=(2, 20, 3))
    expected = start + np.linalg.solve(matrix, gradient)

    def solved(num_steps):
        return refine(
            lambda c: matrix @ c, lambda r: r / np.diag(matrix)[:, None], gradient, start, num_steps=num_steps
        )

    np.testing.assert_allclose(solved(40), expected, rtol=1e-8)
    assert np.abs(solved(2) - expected).max() > 1e-3


def test_correlations_are_found_by_weighted_regression_on_the_data_before():
    num, size = 4_000, 4
    u = RNG.uniform(-1, 1, (num, 1))
    white = RNG.normal(size=(num, size))
    width = np.exp(0.5 * u)
    white[:, 2] += (0.5 + 0.4 * u[:, 0]) * white[:, 0]
    white[:, 3] = (0.3 * white[:, 1]) + width[:, 0] * white[:, 3]
    basis = Basis(1, 1)
    regression = Regression.of(basis(u), white, basis)
    weights = np.ones((num, size))
    weights[:, 3] = 1 / width[:, 0] ** 2
    mixing = np.zeros((2, size, size))
    for _ in range(3):
        residual = white - regression.predict(mixing)
        mixing = regression.moved(mixing, Step(weights, weights.mean(axis=0), weights * residual))
    terms = basis(u)
    # Weighted least squares of every datum by itself: with so many rows the prior hardly matters.
    for i in (1, 2, 3):
        columns = (white[:, :i, None] * terms[:, None, :]).reshape(num, -1)
        gram = columns.T @ (weights[:, [i]] * columns)
        plain = np.linalg.solve(gram, columns.T @ (weights[:, i] * white[:, i])).reshape(i, 2)
        np.testing.assert_allclose(mixing[:, i, :i].T, plain, atol=0.02)
        assert (mixing[:, i, i:] == 0).all()
    assert mixing[1, 2, 0] * np.sqrt(3) == pytest.approx(0.4, abs=0.06)
