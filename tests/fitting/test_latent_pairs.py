"""Triplets (θ, x, t) against closed forms: regression gives the exact coefficients, with edges and failures."""

from dataclasses import replace

import numpy as np
import numpyro.distributions as dist
import pytest

import fisherscore as fs
from fisherscore.fitting.latent_pairs import additive_pairs, latent_pairs, smoothed_gradient

NUM = 20_000
DEVIATION = 0.5
MEAN, SPREAD = 0.8, 1.0


def normal_problem():
    return fs.problems.linear_gaussian(proposal=fs.normal(a=(MEAN, SPREAD), b=(MEAN, SPREAD)))


def simulated(problem, num=NUM, seed=3):
    return fs.simulate(problem.simulator, problem.proposal, num, seed=seed)


def regression(pairs, target):
    """Weighted least squares of targets on (1, θ, x): coefficients (5, 2) and their standard errors."""
    weights = np.ones(len(target)) if pairs.weights is None else pairs.weights
    design = np.column_stack([np.ones(len(target)), pairs.theta, pairs.x])
    inverse = np.linalg.inv((design * weights[:, None]).T @ design)
    coefficients = inverse @ (design * weights[:, None]).T @ target
    residuals = (target - design @ coefficients) * weights[:, None]
    variances = [inverse @ (design * r[:, None] ** 2).T @ design @ inverse for r in residuals.T]
    return coefficients, np.sqrt(np.stack([np.diag(v) for v in variances], axis=1))


def exact_coefficients(problem):
    """With z ~ N(μ, s²) and θ = z − w: z | θ ~ N(m, V), x | θ ~ N(m, S + V), both linear in θ."""
    spread = 1 / (1 / SPREAD**2 + 1 / DEVIATION**2)
    noise = np.linalg.inv(np.asarray(problem.fisher([0.0, 0.0]), np.float64))
    on_x = spread / DEVIATION**2 * np.linalg.inv(noise + spread * np.eye(2))
    constant = -on_x @ np.full(2, spread * MEAN / SPREAD**2)
    return np.vstack([constant, -spread / DEVIATION**2 * on_x.T, on_x.T])


def largest_deviation(pairs, target, exact):
    """Compare coefficients with the exact ones in standard errors."""
    coefficients, errors = regression(pairs, target)
    return np.abs((coefficients - exact) / errors).max()


def test_the_regression_gives_the_exact_score_of_a_normal_proposal():
    problem = normal_problem()
    sims = simulated(problem)
    pairs = additive_pairs(sims, np.full(2, DEVIATION), np.random.default_rng(0))
    exact = exact_coefficients(problem)
    assert largest_deviation(pairs, pairs.target, exact) < 4
    # The control: the raw target, without the correction, learns the pull of the proposal as well.
    raw = pairs.target + smoothed_gradient(sims.proposal, pairs.theta, np.full(2, DEVIATION))
    assert largest_deviation(pairs, raw, exact) > 20


def test_weights_make_up_for_failures_that_depend_on_the_parameters():
    problem = normal_problem()
    sims = simulated(problem, 2 * NUM)
    rng = np.random.default_rng(1)
    success = 1 / (1 + np.exp(-2 * sims.theta[:, 0]))
    kept = np.flatnonzero(rng.uniform(size=len(sims)) < success)
    chosen = replace(sims.take(kept), weights=1 / success[kept])
    pairs = additive_pairs(chosen, np.full(2, DEVIATION), rng)
    exact = exact_coefficients(problem)
    assert largest_deviation(pairs, pairs.target, exact) < 4
    assert largest_deviation(replace(pairs, weights=None), pairs.target, exact) > 10


def test_targets_have_no_mean_at_any_parameter_of_a_box():
    problem = fs.problems.linear_gaussian()
    sims = simulated(problem)
    deviations = np.full(2, DEVIATION)
    pairs = additive_pairs(sims, deviations, np.random.default_rng(0))
    raw = pairs.target + smoothed_gradient(sims.proposal, pairs.theta, deviations)

    def significance(target):  # of the mean, near each edge and in the middle
        cells = np.digitize(pairs.theta, [-2.5, -1.5, 1.5, 2.5])
        parts = [target[cells[:, j] == k, j] for j in range(2) for k in range(5)]
        return np.array([p.mean() / p.std() * np.sqrt(len(p)) for p in parts])

    assert np.abs(significance(pairs.target)).max() < 4
    assert np.abs(significance(raw)).max() > 20  # the control


def test_the_correction_in_closed_form_and_by_quadrature():
    theta = np.linspace(-3.4, 3.4, 41)[:, None]
    width = np.array([0.3])
    normal = smoothed_gradient(fs.normal(a=(0.5, 1.2)), theta, width)
    np.testing.assert_allclose(normal, -(theta - 0.5) / (1.2**2 + 0.3**2), rtol=1e-4, atol=1e-5)
    # A truncated normal as wide as this is a uniform law to six digits.
    box = smoothed_gradient(fs.uniform(a=(-3.0, 3.0)), theta, width)
    flat = fs.Proposal.of({"a": dist.TruncatedNormal(0.0, 1e4, low=-3.0, high=3.0)})
    np.testing.assert_allclose(smoothed_gradient(flat, theta, width), box, rtol=1e-3, atol=1e-3)
    assert box[0, 0] > 1 and abs(box[20, 0]) < 1e-6  # inwards at the edge, nothing in the middle


def test_noise_is_drawn_as_in_the_paper_and_differs_with_the_seed():
    sims = simulated(fs.problems.linear_gaussian(), 2_000)
    first, again, other = (latent_pairs(sims, np.random.default_rng(s)) for s in (0, 0, 1))
    np.testing.assert_allclose((first.theta - sims.theta).std(axis=0), 6 / 200, rtol=0.05)
    np.testing.assert_array_equal(first.theta, again.theta)
    assert (first.theta != other.theta).any()


def test_a_latent_that_was_drawn_is_used():
    problem = fs.problems.linear_gaussian()
    sims = fs.simulate(problem.simulator_from_latent, problem.proposal, 50, latent=problem.latent)
    pairs = latent_pairs(sims, np.random.default_rng(0))
    np.testing.assert_array_equal(pairs.theta, sims.theta)
    np.testing.assert_array_equal(pairs.target, sims.latent_score())


def test_a_table_is_refused_with_advice():
    sims = fs.from_table(np.full((20, 1), 0.5), np.zeros((20, 2)), fs.uniform(a=(0.0, 1.0)))
    with pytest.raises(fs.ArgumentError, match=r'table: no latent.*recipe="auto"'):
        latent_pairs(sims, np.random.default_rng(0))
