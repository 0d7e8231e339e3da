"""Scores add: independent probes and independent draws against what one model of everything would say."""

import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs

A = fs.FunctionScore(
    fs.uniform(m=(-3, 3), b=(-1, 1)),
    (2,),
    log_likelihood=lambda t, x: -0.5 * ((x - t[0] - t[1] * jnp.array([1.0, -1.0])) ** 2).sum(),
    fisher=lambda t: jnp.diag(jnp.array([2.0, 2.0])),
)
B = fs.FunctionScore(
    fs.uniform(c=(0, 1), m=(-2, 4)),
    (1,),
    log_likelihood=lambda t, x: -2.0 * ((x - t[1] * (1 + t[0])) ** 2).sum(),
)
THETA = {"m": 0.7, "b": -0.2, "c": 0.3}
XA, XB = np.array([0.5, 1.5]), np.array([0.4])


def test_combined_score_is_the_sum_in_the_right_places():
    both = fs.combine(A, B)
    assert both.names == ("m", "b", "c")
    a = A.score({"m": 0.7, "b": -0.2}, XA)
    b = B.score({"m": 0.7, "c": 0.3}, XB)
    np.testing.assert_allclose(both.score(THETA, (XA, XB)), [a[0] + b[1], a[1], b[0]], rtol=1e-5)
    np.testing.assert_allclose(
        both.log_likelihood(THETA, (XA, XB)),
        A.log_likelihood({"m": 0.7, "b": -0.2}, XA) + B.log_likelihood({"m": 0.7, "c": 0.3}, XB),
        rtol=1e-5,
    )
    np.testing.assert_array_equal(both.low, [-2, -1, 0])
    np.testing.assert_array_equal(both.high, [3, 1, 1])
    assert both.has_density and not both.knows_fisher


def test_combined_models_broadcast_and_fit():
    both = fs.combine(A, A)
    theta = np.zeros((5, 2))
    xs = np.arange(10.0).reshape(5, 2) / 10
    assert both.score(theta, (xs, xs)).shape == (5, 2)
    np.testing.assert_allclose(both.score(theta, (xs, xs)), 2 * A.score(theta, xs), rtol=1e-5)
    np.testing.assert_allclose(both.fisher_one(jnp.zeros(2)), np.diag([4.0, 4.0]))
    best = fs.maximum_likelihood(both, (XA, XA + 0.2))
    np.testing.assert_allclose(best.theta, [1.1, -0.5], atol=1e-3)
    np.testing.assert_allclose(best.sigma, 0.5, rtol=1e-3)


@pytest.mark.slow
def test_two_fitted_probes_combine_without_retraining():
    """Two linear Gaussian probes: the combined Fisher matrix, best fit and posterior are those of both together."""
    problem = fs.problems.linear_gaussian()
    sims = fs.simulate(problem.simulator_from_latent, problem.proposal, 20_000, latent=problem.latent)
    model = fs.fit(sims, recipe=fs.NetworkRecipe(num_steps=3000))
    x = problem.simulator.draw(np.zeros((2, 2)), seed=3)
    best = fs.maximum_likelihood(fs.combine(model, model), (x[0], x[1]))
    np.testing.assert_allclose(best.theta, x.mean(axis=0), atol=0.15)
    np.testing.assert_allclose(best.sigma, np.sqrt(0.5), rtol=0.15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (fs.combine, "models: expected one or more"),
        (lambda: fs.combine(A, 3), "models: expected one or more"),
        (lambda: fs.combine(A, B).score(THETA, XA), "x: expected a tuple of 2 entries"),
        (lambda: fs.combine(A, B).score(THETA, (XA, XA, XB)), "x: expected a tuple of 2 entries.*length 3"),
        (lambda: fs.combine(A, B).score(THETA, (XA, np.zeros(3))), r"x\[1\]: expected shape"),
        (lambda: fs.combine(A, A).score([0.0, 0.0], (np.zeros((4, 2)), np.zeros((3, 2)))), "same leading axes"),
        (lambda: fs.sample(fs.combine(A, B), (XA, XB), iid=True), "iid: not for combined models"),
        (
            lambda: fs.combine(A, fs.FunctionScore(fs.uniform(m=(5, 6)), (1,), score=lambda t, x: x - t)),
            "regions do not overlap in",
        ),
        (
            lambda: fs.combine(
                A, fs.FunctionScore(fs.uniform({"m": (0, 1)}, units={"m": "kg"}), (1,), score=lambda t, x: x - t)
            ),
            "has unit '' in one and 'kg' in another",
        ),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(fs.ArgumentError, match=message):
        call()
