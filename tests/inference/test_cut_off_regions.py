"""A region that cuts a posterior off is followed by one that goes on beyond the face, in every round and at the end."""

import numpy as np
import numpyro.distributions as dist
import pytest

import fisherscore as fs
from fisherscore._support.axes import Axes
from fisherscore.inference.aiming.gathered import within
from fisherscore.inference.aiming.rounds import find, next_region, sizes_of_rounds
from fisherscore.simulation.regions import Limits, faces_reached, reaching_beyond

DESIGN = np.array([[1.0, 0.5], [0.2, 1.0], [1.0, -1.0]])
NOISE = 0.05
BOX = fs.uniform(a=(-3.0, 3.0), b=(-3.0, 3.0))
X_OBS = DESIGN @ [1.0, -0.5]
COVARIANCE = np.linalg.inv(DESIGN.T @ DESIGN / NOISE**2)
EXACT = np.random.default_rng(1).multivariate_normal([1.0, -0.5], COVARIANCE, 4_000)
SQUARE = Axes(np.zeros(2), np.eye(2))
FAR = Limits(np.full(2, -9.0), np.full(2, 9.0))


def linear(theta, rng):
    return DESIGN @ theta + NOISE * rng.standard_normal(3)


@pytest.mark.parametrize("centre", [0.6, 0.9, 1.2])
def test_images_reach_over_what_is_beyond_a_face(centre):
    whole = np.random.default_rng(0).normal([centre, 0.0], 0.2, (8_000, 2))
    seen = whole[SQUARE.holds(whole)]
    assert faces_reached(seen, SQUARE, FAR) == [(0, 1)]
    reached = fs.uniform(a=(-9.0, 9.0), b=(-9.0, 9.0)).around(reaching_beyond(seen, SQUARE, [(0, 1)]))
    assert reached.inside(whole).mean() > 0.99
    if centre > 1:  # a control: around what is seen alone
        assert fs.uniform(a=(-9.0, 9.0), b=(-9.0, 9.0)).around(seen).inside(whole).mean() < 0.95


def test_faces_that_are_not_reached_or_lie_on_a_limit():
    draws = np.random.default_rng(0).normal(0.0, 0.25, (8_000, 2))
    assert faces_reached(draws, SQUARE, FAR) == []
    seen = draws + np.array([0.9, 0.0])
    assert faces_reached(seen, SQUARE, Limits(np.full(2, -9.0), np.array([1.0, 9.0]))) == []
    assert faces_reached(seen, SQUARE, Limits(np.full(2, -9.0), np.array([9.0, 1.0]))) == [(0, 1)]


@pytest.mark.slow
def test_a_round_that_cuts_the_posterior_is_followed_by_a_wider_one():
    sigma = np.sqrt(COVARIANCE[0, 0])
    # Beside the posterior: its region ends one σ below its mean.
    beside = BOX.around(EXACT - [3.5 * sigma, 0.0], wider=0.0)
    assert beside.inside(EXACT).mean() < 0.5
    sims = fs.simulate(fs.from_python(linear), beside, 300, seed=1)
    found = find(sims, X_OBS, None, BOX, seed=1)
    assert found.cut
    assert not found.exact
    assert not found.is_good
    assert next_region(found, BOX).inside(EXACT).mean() > 0.98
    whole = fs.simulate(fs.from_python(linear), BOX.around(EXACT), 300, seed=1)
    assert not find(whole, X_OBS, None, BOX, seed=1).cut  # a control


@pytest.mark.slow
def test_nothing_is_simulated_far_beyond_the_end_of_a_prior():
    prior = {"a": dist.Uniform(1.8, 3.0)}  # which excludes where the data point
    for seed in range(3):
        sims = fs.simulate(fs.from_python(linear), fs.uniform(a=(1.75, 2.5), b=(-3.0, 0.0)), 300, seed=seed)
        region = BOX.around(sims.theta[:, :2], wider=0.0)
        found = find(within(sims, region), X_OBS, prior, BOX, seed=seed)
        assert next_region(found, BOX).low[0] > 1.4
        free = find(within(sims, region), X_OBS, None, BOX, seed=seed)  # a control
        assert free.cut
        assert next_region(free, BOX).low[0] < 1.6


def test_some_are_kept_for_the_end():
    assert sizes_of_rounds(1_000, 2, None)[-1] == 150
    assert sum(sizes_of_rounds(1_000, 2, None)) == 1_000
    # Not where a number of rounds was asked for, nor of few simulations.
    assert sizes_of_rounds(1_000, 2, 3) == sorted(sizes_of_rounds(1_000, 2, 3))
    assert len(sizes_of_rounds(100, 2, None)) == 1
    assert sizes_of_rounds(300, 2, None) == sizes_of_rounds(300, 2, 2)
