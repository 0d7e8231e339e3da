import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import qmc

import fisherscore as fs
from fisherscore.inference.estimate import _spread_points

TOY, COUNTS = fs.problems.linear_gaussian(), fs.problems.poisson_counts()


def test_estimates_are_unbiased_and_reach_the_cramer_rao_bound():
    """Covariance of 1,000 best fits against F⁻¹, in standard errors of a sample covariance; θ is far from the edge."""
    problem = fs.problems.linear_gaussian(
        covariance=[[0.25, 0.1], [0.1, 0.16]], latent_covariance=[[0.05, 0.0], [0.0, 0.05]]
    )
    truth, num = np.array([0.5, -1.0]), 1000
    best = fs.maximum_likelihood(problem.exact_model(), problem.simulator.draw(np.tile(truth, (num, 1)), seed=3))
    assert best.converged.all() and set(best.message) == {"converged"}
    bound = np.linalg.inv(problem.fisher(truth))
    z = (best.theta.mean(axis=0) - truth) / np.sqrt(np.diag(bound) / num)
    assert (np.abs(z) < 3.5).all()
    spread = np.sqrt((bound**2 + np.outer(np.diag(bound), np.diag(bound))) / num)
    assert (np.abs(np.cov(best.theta.T) - bound) < 4 * spread).all()
    np.testing.assert_allclose(best.sigma, np.broadcast_to(np.sqrt(np.diag(bound)), (num, 2)), rtol=1e-3)
    # The control: shrunken estimates are off in both respects.
    shrunk = 0.7 * best.theta
    assert (np.abs(np.cov(shrunk.T) - bound) > 4 * spread).any()


def test_poisson_best_fits_solve_the_likelihood_equations():
    x = COUNTS.simulator.draw(np.tile([1.2, 0.2], (50, 1)), seed=5)
    best = fs.maximum_likelihood(COUNTS.exact_model(), x)
    inside = best.converged
    assert inside.mean() > 0.9
    score = np.asarray(COUNTS.score(best.theta, x))[inside]
    assert np.abs(score / np.sqrt(np.diag(COUNTS.fisher([1.2, 0.2])))).max() < 5e-3


def test_vector_fields_and_densities_give_the_same():
    field = fs.FunctionScore(COUNTS.proposal, (8,), score=COUNTS.exact_model().score_one)
    x = COUNTS.simulator.draw([1.2, 0.2], seed=6)
    density = fs.maximum_likelihood(COUNTS.exact_model(), x)
    np.testing.assert_allclose(fs.maximum_likelihood(field, x).theta, density.theta, rtol=1e-3)
    started = fs.maximum_likelihood(field, x, theta0=[1.9, -0.9])
    np.testing.assert_allclose(started.theta, density.theta, rtol=1e-3)


def test_a_likelihood_that_is_not_concave():
    """Cauchy data: Newton's steps run away from far starts; the safeguarded ones find the root."""
    model = fs.FunctionScore(fs.uniform(a=(-20.0, 20.0)), (1,), score=lambda t, x: 2 * (x - t) / (1 + (x - t) ** 2))
    x = np.array([-3.0, 0.1, 0.4, 0.5, 1.2])[:, None]
    best = fs.maximum_likelihood(model, x, iid=True, theta0=[15.0])
    root = brentq(lambda t: np.sum(2 * (x - t) / (1 + (x - t) ** 2)), 0.0, 1.0)
    assert best.converged and best.theta[0] == pytest.approx(root, abs=1e-3)


def test_independent_draws_average():
    x = TOY.simulator.draw(np.zeros((50, 2)), seed=1)
    best = fs.maximum_likelihood(TOY.exact_model(), x, iid=True)
    np.testing.assert_allclose(best.theta, x.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(best.sigma, 1 / np.sqrt(50), rtol=1e-3)


def test_failures_say_why():
    edge = fs.maximum_likelihood(TOY.exact_model(), [5.0, 0.0])
    assert not edge.converged and "edge of the training region in theta1" in edge.message
    assert np.isnan(edge.sigma).all()
    few = fs.maximum_likelihood(
        COUNTS.exact_model(), COUNTS.simulator.draw([1.9, 0.9]), theta0=[0.6, -0.9], max_steps=1
    )
    assert not few.converged and "still pulling" in few.message
    upside_down = fs.FunctionScore(fs.uniform(a=(-1, 1)), (1,), score=lambda t, x: t - x)
    bottom = fs.maximum_likelihood(upside_down, [0.0], theta0=[0.0])
    assert not bottom.converged and "no maximum" in bottom.message
    broken = fs.FunctionScore(fs.uniform(a=(-1, 1)), (1,), score=lambda t, x: t * jnp.nan)
    assert "NaN" in fs.maximum_likelihood(broken, [0.0]).message


def test_one_start_for_all_or_one_for_each():
    model, x = TOY.exact_model(), TOY.simulator.draw(np.zeros((6, 2))).reshape(2, 3, 2)
    expected = fs.maximum_likelihood(model, x).theta
    for theta0 in ([0.1, 0.2], np.full((2, 3, 2), 0.3), {"theta1": np.zeros((2, 3)), "theta2": 0.5}):
        np.testing.assert_allclose(fs.maximum_likelihood(model, x, theta0=theta0).theta, expected, atol=2e-3)
    steps = fs.maximum_likelihood(model, x, theta0=expected).num_steps  # each begins at its own best fit
    assert (steps == 1).all()
    for shape in ((6, 2), (4, 2), (5, 2, 3, 2)):
        with pytest.raises(fs.ArgumentError, match=r"theta0: expected one point of shape \(2,\), or one for each"):
            fs.maximum_likelihood(model, x, theta0=np.zeros(shape))
    with pytest.raises(fs.ArgumentError, match="theta0: expected one point"):
        fs.maximum_likelihood(model, x[0, 0], theta0=np.zeros((3, 2)))


def test_shapes_and_printing():
    x = TOY.simulator.draw(np.zeros((6, 2))).reshape(2, 3, 2)
    many = fs.maximum_likelihood(TOY.exact_model(), x)
    assert many.theta.shape == (2, 3, 2) and many.covariance.shape == (2, 3, 2, 2) and many.converged.shape == (2, 3)
    assert "100.0% converged" in str(many)
    one = fs.maximum_likelihood(TOY.exact_model(), x[0, 0])
    assert one.theta.shape == (2,) and "theta1 = " in str(one) and "converged" in str(one)
    assert "observations" in repr(many) and repr(one).endswith("; converged)")
    assert "<th>theta1</th>" in one._repr_html_() and "100.0% converged" in many._repr_html_()
    assert len(one.plot().lines) == 3 and len(many.plot(names=["theta2", "theta1"]).lines) == 1
    outside = fs.maximum_likelihood(TOY.exact_model(), [5.0, 0.0])
    assert outside.plot().lines and "not converged" in repr(outside)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: fs.maximum_likelihood(m, [1.0]), "x_obs: expected shape"),
        (lambda m: fs.maximum_likelihood(m, [np.nan, 0.0]), "x_obs: expected finite"),
        (lambda m: fs.maximum_likelihood(m, [0.0, 0.0], iid=True), "x_obs: with iid=True"),
        (lambda m: fs.maximum_likelihood(m, [0.0, 0.0], theta0=[9.0, 0.0]), "theta0: .*outside"),
        (
            lambda m: fs.maximum_likelihood(m, [0.0, 0.0], theta0=[9.0, 0.0]),
            r"theta0: \[9.0, 0.0\] lies outside the training region \(theta1 in \[-3, 3\], theta2 in",
        ),
        (
            lambda m: fs.maximum_likelihood(m, [0.0, 0.0], theta0={"theta1": "text", "theta2": 0.0}),
            r"theta0\['theta1'\]: expected numbers, got 'text'",
        ),
        (
            lambda m: fs.maximum_likelihood(m, [0.0, 0.0], theta0={"theta1": [0.0, 1.0], "theta2": [0.0, 1.0, 2.0]}),
            r"theta0: expected as many values .* theta1 \(2,\), theta2 \(3,\)",
        ),
        (lambda m: fs.maximum_likelihood(m, None), "x_obs: expected numbers, got None"),
        (
            lambda m: fs.maximum_likelihood(m, [0.0, 0.0]).plot(names="theta1"),
            "names: expected two parameter names of theta1, theta2; got 'theta1'",
        ),
        (lambda m: fs.maximum_likelihood(m, [0.0, 0.0], max_steps=0), "max_steps: expected"),
        (lambda m: fs.maximum_likelihood(None, [0.0, 0.0]), "model: expected a score model"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(fs.ArgumentError, match=message):
        call(TOY.exact_model())


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_the_candidates_of_a_start_are_spread_more_evenly_than_random_points(dimension):
    points = _spread_points(64, dimension)
    assert points.shape == (64, dimension) and (points >= 0).all() and (points < 1).all()
    random = [qmc.discrepancy(np.random.default_rng(seed).random((64, dimension))) for seed in range(20)]
    assert qmc.discrepancy(points) < 0.5 * min(random)
