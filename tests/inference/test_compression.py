"""Summaries of a Gaussian problem with 100 data: nothing lost, and no reaction to nuisance parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs

RNG = np.random.default_rng(3)
DESIGN = RNG.normal(size=(100, 3)).astype(np.float32) * np.array([1.0, 0.5, 0.8], np.float32)
DESIGN[:, 2] += 0.7 * DESIGN[:, 0]  # the nuisance parameter looks like the first one
ROOT = (np.eye(100) + 0.03 * RNG.normal(size=(100, 100))).astype(np.float32)
PRECISION = np.linalg.inv(ROOT @ ROOT.T)
FISHER = DESIGN.T @ PRECISION @ DESIGN
BOX = fs.uniform(a=(-1, 1), b=(-1, 1), nuisance=(-1, 1))


def mean(theta):
    return DESIGN @ theta + 0.1 * jnp.sin(DESIGN @ theta)  # a little curvature


SIMULATOR = fs.from_jax(lambda key, theta: mean(theta) + ROOT @ jax.random.normal(key, (100,)))
MODEL = fs.FunctionScore(
    BOX, (100,), log_likelihood=lambda t, x: -0.5 * (x - mean(t)) @ PRECISION.astype(np.float32) @ (x - mean(t))
)
ORIGIN = np.zeros(3)


def information(summary, names=3, num=100_000):
    """Measure the Fisher information of a summary: slope of its mean and its covariance, by simulation."""
    step = 0.05
    base = summary(SIMULATOR.draw(np.tile(ORIGIN, (num, 1)), seed=1))
    slope = np.stack(
        [
            summary(SIMULATOR.draw(np.tile(ORIGIN + step * e, (num, 1)), seed=1)).mean(axis=0)
            - summary(SIMULATOR.draw(np.tile(ORIGIN - step * e, (num, 1)), seed=1)).mean(axis=0)
            for e in np.eye(3)[:names]
        ]
    ) / (2 * step)
    return slope @ np.linalg.solve(np.cov(base.T).reshape(len(slope.T), -1), slope.T)


def test_three_numbers_keep_the_information_of_a_hundred():
    forecast = fs.forecast(MODEL, ORIGIN, SIMULATOR, num_simulations=70_000)
    kept = information(fs.compress(MODEL, ORIGIN, fisher=forecast))
    exact = 1.1**2 * FISHER  # the slope of the mean at 0 is 1.1
    ratio = np.linalg.eigvalsh(np.linalg.solve(exact, kept))
    np.testing.assert_allclose(ratio, 1.0, atol=0.02)
    # The control: three arbitrary data keep far less.
    assert np.linalg.eigvalsh(np.linalg.solve(exact, information(lambda x: x[:, :3]))).min() < 0.2


def test_hardened_summaries_do_not_react_to_the_nuisance_parameter():
    forecast = fs.forecast(MODEL, ORIGIN, SIMULATOR, num_simulations=70_000)
    hardened = fs.compress(MODEL, ORIGIN, fisher=forecast, nuisance="nuisance")
    plain = fs.compress(
        MODEL.__class__(
            fs.uniform(a=(-1, 1), b=(-1, 1)),
            (100,),
            score=lambda t, x: MODEL.score_one(jnp.concatenate([t, jnp.zeros(1)]), x)[:2],
        ),
        [0.0, 0.0],
        fisher=forecast.fix("nuisance"),
    )
    assert hardened.names == ("a", "b")
    shifted = np.tile([0.0, 0.0, 0.1], (20_000, 1))
    x, x0 = SIMULATOR.draw(shifted, seed=2), SIMULATOR.draw(0 * shifted, seed=2)
    sigma = forecast.sigma[:2]
    moved = (hardened(x) - hardened(x0)).mean(axis=0) / sigma
    assert (np.abs(moved) < 0.02).all()
    assert np.abs((plain(x) - plain(x0)).mean(axis=0) / sigma).max() > 0.3  # the control
    np.testing.assert_allclose(hardened(x0).std(axis=0), sigma, rtol=0.03)  # and they have the marginal errors


def linear():
    """Give a linear Gaussian problem in which all is exact: simulator, model and Fisher matrix, no curvature."""
    simulator = fs.from_jax(lambda key, theta: DESIGN @ theta + ROOT @ jax.random.normal(key, (100,)))
    weights = (DESIGN.T @ PRECISION).astype(np.float32)
    return simulator, fs.FunctionScore(BOX, (100,), score=lambda t, x: weights @ (x - DESIGN @ t))


def test_the_hardened_score_has_the_marginal_information_and_does_not_see_the_nuisance():
    simulator, model = linear()
    summary = fs.compress(model, ORIGIN, fisher=FISHER, interest=["a", "b"])
    marginal = fs.FisherMatrix(("a", "b", "nuisance"), FISHER).marginalize("nuisance").matrix
    num, sigma = 40_000, np.sqrt(np.diag(marginal))
    x = simulator.draw(np.zeros((num, 3)), seed=5)
    covariance = np.cov(summary.score(x).T)
    np.testing.assert_allclose(covariance, marginal, atol=5 * np.sqrt(2 / num) * marginal.max())
    whole = np.asarray(model.score(ORIGIN, x))[:, :2]
    exact = whole - np.asarray(model.score(ORIGIN, x))[:, 2:] * (FISHER[:2, 2] / FISHER[2, 2])
    np.testing.assert_allclose(summary.score(x) / sigma, exact / sigma, atol=1e-3)
    moved_x = simulator.draw(np.tile([0.0, 0.0, 0.1], (num, 1)), seed=5)
    moved = (summary.score(moved_x) - summary.score(x)).mean(axis=0) / sigma
    np.testing.assert_allclose(moved, 0.0, atol=1e-3)
    # The controls: the score that is not projected sees the nuisance, and holds the conditional information.
    seen = (np.asarray(model.score(ORIGIN, moved_x))[:, :2] - whole).mean(axis=0)
    np.testing.assert_allclose(seen, 0.1 * FISHER[:2, 2], rtol=1e-3)
    assert np.abs(seen / sigma).max() > 0.5
    assert np.abs(np.cov(whole.T) - marginal).max() > 20 * np.sqrt(2 / num) * marginal.max()


def test_what_is_kept_may_be_named_instead_and_without_nuisances_the_score_is_whole():
    simulator, model = linear()
    x = simulator.draw(np.zeros((20, 3)), seed=6)
    kept = fs.compress(model, ORIGIN, fisher=FISHER, interest=["b", "a"])
    dropped = fs.compress(model, ORIGIN, fisher=FISHER, nuisance="nuisance")
    assert kept.names == dropped.names == ("a", "b")
    np.testing.assert_array_equal(kept(x), dropped(x))
    one = fs.compress(model, ORIGIN, fisher=FISHER, interest="a")
    assert one.names == ("a",) and one.score(x).shape == (20, 1) and one.score(x[0]).shape == (1,)
    every = fs.compress(model, ORIGIN, fisher=FISHER)
    np.testing.assert_allclose(every.score(x), model.score(ORIGIN, x), rtol=1e-5, atol=1e-4)


def test_the_summary_is_an_estimate_of_the_parameters():
    t = fs.compress(MODEL, ORIGIN, fisher=1.1**2 * FISHER)
    theta = np.array([0.05, -0.03, 0.02])
    x = SIMULATOR.draw(np.tile(theta, (20_000, 1)), seed=4)
    error = np.sqrt(np.diag(np.linalg.inv(1.21 * FISHER)) / 20_000)
    np.testing.assert_allclose(t(x).mean(axis=0), theta, atol=float(5 * error.max()) + 1e-3)
    assert repr(t) == "Summary(a, b, nuisance; at a=0, b=0, nuisance=0)" and "a, b, nuisance" in t._repr_html_()
    assert t(x[0]).shape == (3,) and t(x[:4].reshape(2, 2, 100)).shape == (2, 2, 3)


def test_a_forecast_elsewhere_is_refused_by_each_parameters_own_error():
    model = fs.FunctionScore(fs.uniform(a=(-1, 1), b=(-1e7, 1e7)), (2,), score=lambda t, x: (x - t) / 1e-12)
    fisher = fs.FisherMatrix(("a", "b"), np.diag([1e12, 1e-12]))
    forecast = fs.Forecast(np.zeros(2), fisher, fisher, fisher, num_simulations=100)
    assert fs.compress(model, [0.0, 1.0], fisher=forecast).names == ("a", "b")  # a millionth of its error
    for theta0, name in (([1e-6, 0.0], "a"), ([0.0, 1e6], "b")):
        with pytest.raises(fs.ArgumentError, match=f"fisher: this forecast was made at .*'{name}' differs"):
            fs.compress(model, theta0, fisher=forecast)


@pytest.mark.slow
def test_a_fitted_model_compresses_with_what_it_remembers():
    problem = fs.problems.linear_gaussian()
    sims = fs.simulate(problem.simulator_from_latent, problem.proposal, 10_000, latent=problem.latent)
    model = fs.fit(sims, recipe=fs.ClosedFormRecipe("gaussian"))
    x = problem.simulator.draw(np.zeros((2000, 2)), seed=1)
    np.testing.assert_allclose(np.cov(fs.compress(model, [0.0, 0.0])(x).T), [[1.0, 0.5], [0.5, 1.0]], atol=0.08)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fs.compress(MODEL, ORIGIN), "fisher: this model knows no Fisher matrix"),
        (lambda: fs.compress(MODEL, [5.0, 0.0, 0.0], fisher=FISHER), r"theta0: .*outside the training region \(a in"),
        (lambda: fs.compress(MODEL, [ORIGIN], fisher=FISHER), "theta0: expected one parameter vector"),
        (lambda: fs.compress(MODEL, ORIGIN, fisher=np.eye(2)), "matrix: expected"),
        (lambda: fs.compress(MODEL, ORIGIN, fisher=np.ones((3, 3))), "do not constrain"),
        (lambda: fs.compress(MODEL, ORIGIN, fisher=FISHER, nuisance="x"), "nuisance: unknown parameter name"),
        (lambda: fs.compress(MODEL, ORIGIN, fisher=FISHER, nuisance=["a", "b", "nuisance"]), "at least one parameter"),
        (lambda: fs.compress(MODEL, ORIGIN, fisher=FISHER, interest="x"), "interest: unknown parameter name"),
        (lambda: fs.compress(MODEL, ORIGIN, fisher=FISHER, interest=[]), "interest: expected at least one"),
        (lambda: fs.compress(MODEL, ORIGIN, fisher=FISHER, interest="a", nuisance="b"), "expected one of the two"),
        (lambda: fs.compress(MODEL, ORIGIN, fisher=fs.FisherMatrix(("a",), np.eye(1))), "fisher: expected parameters"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(fs.ArgumentError, match=message):
        call()
