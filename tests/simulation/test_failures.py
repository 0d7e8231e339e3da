"""Failures that depend on the latent bias a regression on latent scores; weights undo it.

z = θ + 0.2 w, x = z + 0.5 n, and runs fail more often the larger z. The score of p(x | θ) is (x − θ) / 0.29 exactly.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs

LATENT, NOISE = 0.2, 0.5
SLOPE = 1 / (LATENT**2 + NOISE**2)


@pytest.fixture(scope="module")
def sims():
    def fails_at_one_end(key, z):
        first, second = jax.random.split(key)
        works = jax.random.uniform(first) < jax.nn.sigmoid(2 - 3 * z[0])
        return jnp.where(works, z + NOISE * jax.random.normal(second, (1,)), jnp.nan)

    proposal = fs.uniform(a=(-1.0, 1.0))
    return fs.simulate(fs.from_jax(fails_at_one_end), proposal, 50_000, latent=fs.GaussianLatent([LATENT**2]), seed=1)


def linear_fit(sims, weights):
    """Regress latent scores on (1, θ, x) and return coefficients with their standard errors."""
    design = np.column_stack([np.ones(len(sims)), sims.theta, sims.x])
    weighted = design * weights[:, None]
    inverse = np.linalg.inv(weighted.T @ design)
    coefficients = inverse @ weighted.T @ sims.latent_score()[:, 0]
    residual = sims.latent_score()[:, 0] - design @ coefficients
    covariance = inverse @ (weighted * residual[:, None] ** 2).T @ weighted @ inverse
    return coefficients, np.sqrt(np.diag(covariance))


def test_weights_restore_the_score_and_without_them_it_is_biased(sims):
    good, exact = sims.ok(), np.array([0.0, -SLOPE, SLOPE])
    assert 0.15 < sims.failure_rate < 0.3
    found, errors = linear_fit(good, good.weights)
    assert (np.abs(found - exact) < 4 * errors).all()
    plain, errors = linear_fit(good, np.ones(len(good)))
    assert (np.abs(plain - exact) > 10 * errors).any()  # the control


@pytest.mark.slow
def test_networks_are_trained_with_the_weights(sims):
    recipe = fs.NetworkRecipe(settings={"hidden": (16, 16), "num_features": 2}, num_steps=1_000)
    rng = np.random.default_rng(0)
    theta = rng.uniform(-1, 1, (2_000, 1))
    x = theta + rng.normal(size=theta.shape) / np.sqrt(SLOPE)
    errors, good = {}, sims.ok().take(np.arange(15_000))
    for name, chosen in (("weighted", good), ("plain", replace(good, weights=None))):
        model = recipe.fit(chosen, seed=0, progress=False, checkpoint=None)
        errors[name] = np.mean((np.asarray(model.score(theta, x)) - SLOPE * (x - theta)) ** 2)
    assert errors["weighted"] < 0.4 * errors["plain"]


def test_the_default_makes_up_for_failures_that_depend_on_a_latent_of_ones_own(sims):
    recipe = fs.AutoRecipe(closed_forms=("gaussian",), density=None)
    good = sims.ok().take(np.arange(20_000))
    x = 0.9 + np.random.default_rng(0).normal(size=(20_000, 1)) / np.sqrt(SLOPE)
    means = {}
    for name, chosen in (("evened", good), ("plain", replace(good, weights=None))):
        model = recipe.fit(chosen, seed=0, progress=False, checkpoint=None)
        means[name] = np.asarray(model.score([0.9], x)).mean()
    # The mean of 20,000 scores of variance SLOPE has an error of 0.013, that of the fit is some 0.03.
    assert abs(means["evened"]) < 0.1 and means["plain"] > 0.2, means


def test_without_failures_there_are_no_weights():
    problem = fs.problems.linear_gaussian()
    assert fs.simulate(problem.simulator, problem.proposal, 50).ok().weights is None


@pytest.mark.parametrize("latent", [None, "additive"])
def test_data_drawn_at_their_parameters_need_no_weights(latent):
    """Auto uses x and the parameters v it was drawn at: p(x | v, success) = p(x | v), however many fail at one end."""

    def fails(theta, rng):
        if rng.uniform() < 0.2 * theta[0]:
            raise ValueError("too far out")
        return theta + rng.normal(size=3)

    sims = fs.simulate(fs.from_python(fails), fs.uniform(a=(0.0, 4.0)), 3_000, latent=latent)
    assert sims.failure_rate > 0.3
    with pytest.raises(fs.ArgumentError, match="failed"):
        fs.fit(sims)
    with pytest.warns(fs.FisherScoreWarning, match="made up for"):
        model = fs.fit(sims, recipe=fs.AutoRecipe(closed_forms=("gaussian",), density=None), allow_failures=True)
    # Near the end where most failed, as good as anywhere else.
    x = 3.0 + np.random.default_rng(1).normal(size=(500, 3))
    exact = (x - 3.0).sum(axis=1)
    learned = np.asarray(model.score([3.0], x))[:, 0]
    assert np.mean((learned - exact) ** 2) < 0.05 * np.mean(exact**2)
    assert abs(learned.mean() - exact.mean()) < 0.1
