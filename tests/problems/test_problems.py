"""Contracts every reference problem keeps, and pictures of what is done with them."""

import inspect

import jax
import jax.numpy as jnp
import matplotlib.pyplot
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.problems.two_moons import two_moons_posterior

PROBLEMS = {
    "linear_gaussian": fs.problems.linear_gaussian(),
    "poisson_counts": fs.problems.poisson_counts(),
    "two_moons": fs.problems.two_moons(),
    "student_t": fs.problems.student_t(),
    "gaussian_covariance": fs.problems.gaussian_covariance(),
    "two_signs": fs.problems.two_signs(),
    "waiting_times": fs.problems.waiting_times(),
    "ten_parameters": fs.problems.ten_parameters(),
}


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]


def test_score_is_the_gradient_of_the_log_likelihood(problem):
    theta = problem.proposal.sample(20, seed=1)
    x = problem.simulator.draw(theta, seed=2)
    gradient = jax.jit(jax.vmap(jax.grad(problem.log_likelihood)))(jnp.asarray(theta), jnp.asarray(x))
    np.testing.assert_allclose(problem.score(theta, x), gradient, rtol=1e-3, atol=1e-3)


def test_the_score_of_drawn_data_has_mean_zero_and_the_fisher_matrix_as_covariance(problem):
    if problem.fisher_one is None:
        pytest.skip("its Fisher matrix does not exist")
    theta = problem.proposal.sample(1, seed=3)[0]
    x = problem.simulator.draw(np.tile(theta, (20_000, 1)), seed=4)
    score = np.asarray(problem.score(theta, x), np.float64)
    fisher = problem.fisher(theta)
    assert (np.abs(score.mean(axis=0)) < 4 * np.sqrt(np.diag(fisher) / len(x))).all()
    half = np.linalg.inv(np.linalg.cholesky(fisher))
    np.testing.assert_allclose(
        half @ np.cov(score.T) @ half.T, np.eye(len(fisher)), atol=4 * np.sqrt(2 / len(x)) + 0.02
    )
    # The control: the score at other parameters has another mean.
    middle = 0.5 * (problem.proposal.low + problem.proposal.high)
    off = np.asarray(problem.score(0.7 * theta + 0.3 * middle, x)).mean(axis=0)
    assert (np.abs(off) > 4 * np.sqrt(np.diag(fisher) / len(x))).any()


def test_decomposition_gives_the_same_data_as_the_whole():
    problem = PROBLEMS["linear_gaussian"]
    theta = np.tile([0.5, -1.0], (20_000, 1))
    latent = jax.vmap(problem.latent.sample)(jax.random.split(jax.random.key(0), len(theta)), jnp.asarray(theta))
    split = problem.simulator_from_latent.draw(np.asarray(latent), seed=1)
    whole = problem.simulator.draw(theta, seed=2)
    np.testing.assert_allclose(split.mean(axis=0), whole.mean(axis=0), atol=0.04)
    np.testing.assert_allclose(np.cov(split.T), np.cov(whole.T), atol=0.05)


def test_two_moons_density_is_normalised_and_its_posterior_exact():
    problem = PROBLEMS["two_moons"]
    theta = np.array([0.3, 0.2])
    grid = np.stack(np.meshgrid(np.linspace(-0.5, 0.5, 801), np.linspace(-0.5, 0.5, 801)), axis=-1).reshape(-1, 2)
    cell = (1 / 800) ** 2
    constant = np.pi * 0.01 * np.sqrt(2 * np.pi)
    total = np.exp(np.asarray(problem.log_likelihood(theta, grid))).sum() * cell / constant
    assert total == pytest.approx(1.0, abs=0.01)
    x = problem.simulator.draw(theta, seed=1)
    draws = two_moons_posterior(x, 2000)
    assert np.isfinite(np.asarray(problem.log_likelihood(draws, x))).all()
    assert abs(np.mean(draws.sum(axis=1) > 0) - 0.5) < 0.04


def test_what_a_problem_does_not_have_is_said():
    with pytest.raises(fs.ArgumentError, match="not decomposable"):
        PROBLEMS["poisson_counts"].simulator_from_latent  # noqa: B018
    with pytest.raises(fs.ArgumentError, match="Fisher matrix of the problem 'two-moons' is not known"):
        PROBLEMS["two_moons"].fisher([0.0, 0.0])
    with pytest.raises(fs.ArgumentError, match="latent_covariance"):
        fs.problems.linear_gaussian(latent_covariance=[[2.0, 0.0], [0.0, 2.0]])


def test_pictures_of_forecasts_and_posteriors(tmp_path):
    problem = PROBLEMS["linear_gaussian"]
    model = problem.exact_model()
    points = [[-1.0, -1.0], [1.0, 1.0]]
    forecasts = fs.forecast_grid(model, points, problem.simulator, num_simulations=500)
    ax = fs.plot.fisher_ellipses(forecasts, exact=problem.fisher(points))
    assert len(ax.lines) == 6 and ax.get_ylabel() == "theta2"
    fs.plot.save_figure(ax, tmp_path / "ellipses.png")
    posterior = fs.sample(model, [0.2, 0.1], num_samples=300)
    axes = fs.plot.triangle([posterior, posterior], truth=[0.0, 0.0], labels=["one", "two"])
    assert axes.shape == (2, 2)
    matplotlib.pyplot.close("all")
    with pytest.raises(fs.ArgumentError, match="unknown parameter name 'x'"):
        fs.plot.fisher_ellipses(forecasts, names=["theta1", "x"])


def test_loss_curves_with_and_without_held_out_losses():
    assert len(fs.plot.loss_curve({"loss": [3.0, 2.0]}).lines) == 1
    assert len(fs.plot.loss_curve({"loss": [3.0, 2.0], "held_out_loss": [None, None], "best_epoch": 2}).lines) == 1
    assert len(fs.plot.loss_curve({"loss": [3.0, 2.0], "held_out_loss": [3.2, 2.1], "best_epoch": 2}).lines) == 3
    with pytest.raises(fs.ArgumentError, match=r"provenance: .*Pass model\.provenance"):
        fs.plot.loss_curve(PROBLEMS["linear_gaussian"].exact_model())
    with pytest.raises(fs.ArgumentError, match="provenance: this model was fitted in closed form"):
        fs.plot.loss_curve({})


@pytest.mark.parametrize("module", [fs.plot, fs.accuracy], ids=["plot", "accuracy"])
def test_modules_list_what_users_may_call(module):
    own = {n for n, v in vars(module).items() if inspect.isroutine(v) and v.__module__ == module.__name__}
    assert {n for n in own if not n.startswith("_")} <= set(module.__all__)
    assert sorted(dir(module)) == sorted(module.__all__) and all(hasattr(module, n) for n in module.__all__)
