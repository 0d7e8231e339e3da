"""Posteriors drawn on a grid, against the Gaussian they are."""

import dataclasses

import numpy as np
import pytest

import fisherscore as fs
from fisherscore.experiments.exact_posterior import draw_exact_posterior

NUM = 2_000  # draws of each of four chains


@pytest.fixture(scope="module")
def problem():
    return fs.problems.linear_gaussian()


def guess(mean, sigma):
    """Return a posterior with these moments, which need not be right."""
    chains = np.array([[np.add(mean, sigma), np.subtract(mean, sigma)]] * 4)
    blank = dict.fromkeys((field.name for field in dataclasses.fields(fs.Posterior)), None)
    return fs.Posterior(**blank | {"names": ("theta1", "theta2"), "chains": chains})


@pytest.mark.parametrize(("mean", "sigma"), [([0.0, 0.0], [1.0, 1.0]), ([0.4, 0.1], [0.05, 0.02])])
def test_draws_have_the_moments_of_the_truncated_gaussian(problem, mean, sigma):
    x = np.array([0.3, -0.2])
    drawn = draw_exact_posterior(problem, x, guess(mean, sigma), num_samples=NUM, seed=1)
    # By quadrature on a fine grid over the whole region, with the exact Fisher matrix of a Gaussian.
    axis = np.linspace(-3.0, 3.0, 301)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    offset = points - x
    weights = np.exp(-0.5 * np.einsum("ni,ij,nj->n", offset, problem.fisher([0.0, 0.0]), offset))
    weights /= weights.sum()
    expected = weights @ points
    deviation = np.sqrt(weights @ (points - expected) ** 2)
    error = deviation / np.sqrt(4 * NUM)
    assert (np.abs(drawn.mean - expected) < 4 * error).all()
    assert np.abs(drawn.sigma / deviation - 1).max() < 0.04
    assert (np.abs(drawn.samples) <= 3.0).all()
    # The control: another observation is told apart.
    other = draw_exact_posterior(problem, x + 0.3, guess(mean, sigma), num_samples=NUM, seed=1)
    assert (np.abs(other.mean - expected) > 4 * error).any()
