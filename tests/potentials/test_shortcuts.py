"""Shorter ways to the same numbers: each against the long way, and what would be wrong of it."""

import jax
import numpy as np
import pytest

from fisherscore._support.legendre import Basis
from fisherscore.potentials import location_scale_fit
from fisherscore.potentials.base import Frame
from fisherscore.potentials.gaussian import _least_squares, _Moments, fit_mean_and_covariance
from fisherscore.potentials.location_scale_fit import fit_location_scale
from fisherscore.potentials.points import Points
from fisherscore.potentials.quasi_score import _linear_scores

RNG = np.random.default_rng(0)
U = RNG.uniform(-1, 1, (400, 2))
ROWS = U @ RNG.normal(size=(2, 5)) + RNG.normal(size=(400, 5)) @ RNG.normal(size=(5, 5))


def test_one_matrix_for_all_points_gives_the_scores_of_a_matrix_for_each():
    points = Points(U)
    gaussian = fit_mean_and_covariance(points, ROWS)
    fitted = fit_location_scale(points, gaussian, ROWS, num_components=None, name="here")
    constant = RNG.normal(size=(1, 5, 5)) * np.tri(5, k=-1)
    at, gradients = U[:50], gaussian.basis.gradient(U[:50])

    def scores(mixing, degree):
        blocks = fitted.blocks._replace(mixing=mixing)
        return _linear_scores(fitted._replace(blocks=blocks, mixing_basis=Basis(2, degree)), at, gradients)

    nothing = np.zeros((2, 5, 5))
    for short, long in zip(scores(constant, 0), scores(np.concatenate([constant, nothing]), 1), strict=True):
        np.testing.assert_allclose(short, long, rtol=1e-9, atol=1e-9)
    moving = scores(np.concatenate([constant, nothing + 0.3 * np.tri(5, k=-1)]), 1)
    assert np.abs(moving[0] - scores(constant, 0)[0]).max() > 1e-3


@pytest.mark.parametrize("copied", [False, True])
def test_normal_equations_give_the_least_squares_also_where_parameters_go_together(copied):
    u = U[:, [0, 0]] if copied else U
    basis = Basis(2, 2)
    expected = np.linalg.lstsq(basis(u), ROWS, rcond=None)[0]
    np.testing.assert_allclose(_least_squares(Points(u), basis, ROWS), expected, rtol=1e-8, atol=1e-8)


def test_moments_of_parts_add_up_to_those_of_the_whole():
    whole, total = _Moments.of(ROWS), _Moments.total([_Moments.of(ROWS[k::3]) for k in range(3)])
    assert whole.num == total.num
    np.testing.assert_allclose(total.products, whole.products)
    np.testing.assert_allclose(total.squares, whole.squares)


def test_a_frame_tells_arrays_apart_that_follow_one_another():
    frame, basis = Frame(np.eye(2)), Basis(2, 2)
    for number in range(20):  # each array is gone when the next is made
        coefficients = np.full((len(basis), 1), float(number))
        np.testing.assert_array_equal(frame.differentiated(basis, coefficients)[0], coefficients)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "an accelerator"])
def test_a_round_on_the_device_is_that_in_numpy(backend, monkeypatch):
    # On accelerators rows are filled up: 400 of them to 512.
    rounds = []
    for most in (location_scale_fit._MANY_NUMBERS, 0):
        monkeypatch.setattr(location_scale_fit, "_MANY_NUMBERS", most)
        monkeypatch.setattr(location_scale_fit, "_MANY_ON_ACCELERATOR", most)
        if not most:
            monkeypatch.setattr(jax, "default_backend", lambda: backend)
        points = Points(U)
        gaussian = fit_mean_and_covariance(points, ROWS)
        rounds.append(fit_location_scale(points, gaussian, ROWS, num_components=2, name="here").blocks)
    for host, device in zip(jax.tree.leaves(rounds[0]), jax.tree.leaves(rounds[1]), strict=True):
        np.testing.assert_allclose(device, host, rtol=1e-6, atol=1e-8)
    assert np.abs(rounds[0].location).max() > 1e-3
