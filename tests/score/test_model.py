import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs

PROBLEM = fs.problems.linear_gaussian()
EXACT = PROBLEM.exact_model()


@pytest.fixture(scope="module")
def fitted():
    sims = fs.simulate(PROBLEM.simulator_from_latent, PROBLEM.proposal, 500, latent=PROBLEM.latent)
    return fs.fit(sims, recipe=fs.NetworkRecipe(num_steps=50))


@pytest.fixture(params=["exact", "fitted"])
def model(request, fitted):
    return EXACT if request.param == "exact" else fitted


THETA, X = PROBLEM.proposal.sample(6), PROBLEM.simulator.draw(PROBLEM.proposal.sample(6), seed=2)


def test_broadcasting(model):
    looped = np.stack([model.score(t, x) for t, x in zip(THETA, X, strict=True)])
    np.testing.assert_allclose(model.score(THETA, X), looped, rtol=1e-4, atol=1e-5)
    assert model.score(THETA[:, None], X[None]).shape == (6, 6, 2)
    np.testing.assert_allclose(model.score(THETA[:, None], X)[3, 3], looped[3], rtol=1e-4, atol=1e-5)
    assert model.score(THETA[0], X[0]).shape == (2,)
    assert model.log_likelihood(THETA, X[0]).shape == (6,)


def test_more_rows_than_fit_at_once():
    small = fs.FunctionScore(PROBLEM.proposal, (2,), log_likelihood=PROBLEM.log_likelihood_one, batch_size=4)
    theta = np.resize(THETA, (11, 2))
    np.testing.assert_allclose(small.score(theta, X[0]), EXACT.score(theta, X[0]), rtol=1e-4, atol=1e-5)
    assert fs.maximum_likelihood(small, np.resize(X, (9, 2))).theta.shape == (9, 2)


def test_score_is_the_gradient_of_the_log_likelihood_in_the_users_units(model):
    gradient = jax.vmap(jax.grad(model.log_likelihood))(jnp.asarray(THETA), jnp.asarray(X))
    np.testing.assert_allclose(model.score(THETA, X), gradient, rtol=1e-4, atol=1e-5)


def test_works_under_jit(model):
    inside = jax.jit(lambda t: model.score(t, X[0]))(jnp.asarray(THETA))
    np.testing.assert_allclose(inside, model.score(THETA, X[0]), rtol=1e-4, atol=1e-5)


def test_parameters_by_name(model):
    by_name = {"theta2": THETA[:, 1], "theta1": THETA[:, 0]}
    np.testing.assert_array_equal(model.score(by_name, X), model.score(THETA, X))


def test_outside_the_region_is_said():
    with pytest.warns(fs.FisherScoreWarning, match="outside the training region"):
        EXACT.score([9.0, 0.0], X[0])


def test_functions_of_the_wrong_shape_are_refused():
    with pytest.raises(fs.ArgumentError, match="score: expected a function that returns shape"):
        fs.FunctionScore(fs.uniform(a=(0, 1)), (1,), score=lambda t, x: (x - t)[0])
    with pytest.raises(fs.ArgumentError, match="log_likelihood: expected a function"):
        fs.FunctionScore(fs.uniform(a=(0, 1)), (1,), log_likelihood=lambda t, x: x - t)


@pytest.mark.parametrize(
    ("theta", "x", "message"),
    [
        ([0.0], X[0], r"theta: expected shape \(..., 2\).*theta1, theta2"),
        (0.0, X[0], "theta: expected shape"),
        ([0.0, np.nan], X[0], "theta: expected finite"),
        (np.zeros((3, 2)), np.zeros((5, 2)), "theta, x: expected leading axes that broadcast"),
        ("text", X[0], "theta: expected numbers"),
        ([0.0, 0.0], [0.0, 0.0, 0.0], r"x: expected shape \(..., 2\)"),
        ([0.0, 0.0], 1.0, "x: expected shape"),
        ([0.0, 0.0], [0.0, np.inf], "x: expected finite"),
        ({"theta1": 0.0, "sigma8": 0.0}, X[0], "theta: unknown parameter name 'sigma8'"),
        ({"theta1": 0.0}, X[0], r"theta: no value for \['theta2'\]"),
    ],
)
def test_mistakes_are_named(model, theta, x, message):
    with pytest.raises(fs.ArgumentError, match=message):
        model.score(theta, x)


def test_short_texts_for_terminals_and_notebooks(fitted):
    assert repr(EXACT) == "FunctionScore(theta1, theta2; data of shape (2,))"
    assert repr(fitted) == "FittedScore(theta1, theta2; data of shape (2,))"
    assert repr(fs.combine(EXACT, fitted)) == "CombinedScore(theta1, theta2; data of shape ((2,), (2,)))"
    for model in (EXACT, fitted, fs.combine(EXACT, fitted)):
        assert "<th>theta1</th><td>[-3, 3]</td>" in model._repr_html_()
    assert str(fitted).startswith("score of theta1 in [-3, 3], theta2 in [-3, 3], given data of shape (2,)")
    assert repr(PROBLEM) == "Problem(linear-gaussian: theta1, theta2; data of shape (2,))"


def test_a_vector_field_has_no_density():
    model = fs.FunctionScore(fs.uniform(a=(0, 1)), (1,), score=lambda t, x: x - t)
    with pytest.raises(fs.ArgumentError, match="model: expected one with a density"):
        model.log_likelihood([0.5], [0.5])


@pytest.mark.slow
def test_units_do_not_change_the_physics():
    """Parameters in units 1e9 times smaller and data 1e-6 times larger give the score by the chain rule, no more."""
    scale, stretch = np.array([1e9, 1e-9]), 1e-6
    box = fs.uniform(theta1=(-3e9, 3e9), theta2=(-3e-9, 3e-9))

    def rescaled(key, z):
        return stretch * PROBLEM.draw_one_from_latent(key, z / scale.astype(np.float32))

    latent = fs.GaussianLatent(np.diag(0.4 * scale**2))
    recipe = fs.NetworkRecipe(num_steps=300)
    plain = fs.fit(
        fs.simulate(PROBLEM.simulator_from_latent, PROBLEM.proposal, 2000, latent=PROBLEM.latent), recipe=recipe
    )
    scaled = fs.fit(fs.simulate(fs.from_jax(rescaled), box, 2000, latent=latent), recipe=recipe)
    np.testing.assert_allclose(
        np.asarray(scaled.score(THETA * scale, X * stretch)) * scale, plain.score(THETA, X), rtol=0.02, atol=0.02
    )
