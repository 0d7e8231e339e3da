"""The closed-form Gaussian score: exact where its form is right, beaten where it is wrong, harmless on odd data."""

import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.baseline import fit_baseline
from fisherscore.network import polynomial_exponents

RNG = np.random.default_rng(0)


def test_exponents_are_all_monomials_up_to_the_degree():
    assert polynomial_exponents(2, 2) == ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
    assert len(polynomial_exponents(4, 3)) == 35


def test_recovers_a_polynomial_mean_and_its_covariance():
    theta = RNG.normal(size=(20_000, 2))
    root = np.array([[1.0, 0.0], [0.6, 0.5]])
    mean = np.stack([theta[:, 0] ** 2 - theta[:, 1], theta[:, 0] * theta[:, 1]], axis=1)
    x = mean + RNG.normal(size=mean.shape) @ root.T
    baseline = fit_baseline(theta, x, seed=0)
    assert baseline.degree in (2, 3)
    t, v = np.array([0.4, -0.3]), np.array([1.0, 0.2])
    slope = np.array([[2 * t[0], -1.0], [t[1], t[0]]])
    exact = slope.T @ np.linalg.solve(root @ root.T, v - [t[0] ** 2 - t[1], t[0] * t[1]])
    np.testing.assert_allclose(baseline(jnp.asarray(t), jnp.asarray(v)), exact, rtol=0.05, atol=0.05)


def test_score_error_falls_with_simulations_on_the_linear_gaussian_model():
    problem = fs.problems.linear_gaussian()
    errors = []
    for num in (200, 5000):
        sims = fs.simulate(problem.simulator, problem.proposal, num, seed=2)
        errors.append(fs.accuracy.score_error(fs.fit(sims, recipe=fs.BaselineRecipe()), problem).mean)
    assert errors[1] < 0.003 < errors[0] < 0.2


def test_auto_takes_the_baseline_where_it_is_right_and_the_network_where_it_is_not():
    """Variance that moves with θ: all information is where a pooled covariance cannot see it."""
    gaussian = fs.problems.linear_gaussian()
    sims = fs.simulate(gaussian.simulator_from_latent, gaussian.proposal, 600, latent=gaussian.latent)
    quick = fs.AutoRecipe(candidates=(fs.BaselineRecipe(), fs.NetworkRecipe(num_steps=2000)))
    assert fs.fit(sims, recipe=quick).record["chosen"] == "BaselineRecipe"

    def spread(theta, rng):
        return np.exp(theta[0]) * rng.normal(size=8)

    sims = fs.simulate(fs.from_python(spread), fs.uniform(a=(-1.0, 1.0)), 5000, latent=fs.GaussianLatent([0.2**2]))
    model = fs.fit(sims, recipe=quick)
    assert model.record["chosen"] == "NetworkRecipe"
    losses = list(model.record["held_out_loss_of_candidates"].values())
    assert losses[1] < losses[0]


def test_a_saved_baseline_gives_the_same_scores(tmp_path):
    problem = fs.problems.poisson_counts()
    model = fs.fit(fs.simulate(problem.simulator, problem.proposal, 500), recipe=fs.BaselineRecipe())
    model.save(tmp_path / "m")
    x = problem.simulator.draw([1.0, 0.0])
    np.testing.assert_array_equal(fs.load(tmp_path / "m").score([1.0, 0.0], x), model.score([1.0, 0.0], x))


@pytest.mark.parametrize("num", [12, 60])
def test_constant_and_repeated_columns_and_few_rows_do_no_harm(num):
    def odd(theta, rng):
        value = theta[0] + 0.1 * rng.normal()
        return [value, value, 3.0, *rng.normal(size=20)]

    sims = fs.simulate(fs.from_python(odd), fs.uniform(a=(-1.0, 1.0)), num)
    scores = np.asarray(fs.fit(sims, recipe=fs.BaselineRecipe()).score([0.0], sims.x))
    assert np.isfinite(scores).all()
    assert np.corrcoef(scores[:, 0], sims.x[:, 0])[0, 1] > 0.5
