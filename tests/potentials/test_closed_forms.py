"""The closed-form scores: exact where their form is right, beaten where it is wrong, harmless on odd data."""

import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.potentials.closed_forms import CLOSED_FORMS
from fisherscore.potentials.gaussian import Gaussian, sparse_covariance

RNG = np.random.default_rng(0)


def test_recovers_a_smooth_mean_and_its_covariance():
    theta = RNG.uniform(-1, 1, size=(20_000, 2))
    root = np.array([[1.0, 0.0], [0.6, 0.5]])
    mean = np.stack([theta[:, 0] ** 2 - theta[:, 1], theta[:, 0] * theta[:, 1]], axis=1)
    x = mean + RNG.normal(size=mean.shape) @ root.T
    form = Gaussian.fit(theta, x)
    t, v = np.array([0.4, -0.3]), np.array([1.0, 0.2])
    slope = np.array([[2 * t[0], -1.0], [t[1], t[0]]])
    exact = slope.T @ np.linalg.solve(root @ root.T, v - [t[0] ** 2 - t[1], t[0] * t[1]])
    np.testing.assert_allclose(form(jnp.asarray(t), jnp.asarray(v)), exact, rtol=0.05, atol=0.05)


def test_correlations_that_are_not_there_are_not_estimated():
    root = np.kron(np.eye(5), np.linalg.cholesky(np.array([[1.0, 0.9], [0.9, 1.0]])))
    rows = RNG.normal(size=(400, 10)) @ root.T
    truth, sparse, plain = root @ root.T, sparse_covariance(rows, 0.0), rows.T @ rows / 400
    assert np.linalg.norm(sparse - truth) < 0.6 * np.linalg.norm(plain - truth)
    assert (sparse[truth == 0] == 0).mean() > 0.8 and (sparse[truth > 0] != 0).all()


ERRORS = {  # what each closed form must reach with 3,000 simulations of the problem it is made for
    "gaussian": ("linear_gaussian", 0.01),
    "location_scale": ("student_t", 0.2),
    "quasi_score": ("poisson_counts", 0.04),
    "mapped": ("waiting_times", 0.1),
}


@pytest.mark.parametrize("form", ERRORS)
def test_each_closed_form_is_right_where_it_should_be_and_better_than_the_simplest(form):
    name, bound = ERRORS[form]
    problem = getattr(fs.problems, name)()
    sims = fs.simulate(problem.simulator, problem.proposal, 3_000, seed=2)
    error = fs.accuracy.score_error(fs.fit(sims, recipe=fs.ClosedFormRecipe(form)), problem, num_pairs=4_000).mean
    assert error < bound
    if form != "gaussian":
        simplest = fs.accuracy.score_error(fs.fit(sims, recipe=fs.ClosedFormRecipe()), problem, num_pairs=4_000).mean
        assert simplest > 2 * error


def test_score_error_falls_with_simulations():
    problem = fs.problems.linear_gaussian()
    errors = []
    for num in (200, 5000):
        sims = fs.simulate(problem.simulator, problem.proposal, num, seed=2)
        errors.append(fs.accuracy.score_error(fs.fit(sims, recipe=fs.ClosedFormRecipe()), problem).mean)
    assert errors[1] < 0.003 and errors[1] < 0.3 * errors[0]


def test_an_unknown_form_is_refused():
    with pytest.raises(fs.ArgumentError, match="form: expected one of gaussian, location_scale"):
        fs.ClosedFormRecipe("magic")


@pytest.mark.parametrize("form", CLOSED_FORMS)
def test_a_saved_closed_form_gives_the_same_scores(tmp_path, form):
    problem = fs.problems.poisson_counts()
    model = fs.fit(fs.simulate(problem.simulator, problem.proposal, 500), recipe=fs.ClosedFormRecipe(form))
    model.save(tmp_path / "m")
    x = problem.simulator.draw([1.0, 0.0])
    np.testing.assert_array_equal(fs.load(tmp_path / "m").score([1.0, 0.0], x), model.score([1.0, 0.0], x))


@pytest.mark.parametrize("form", CLOSED_FORMS)
@pytest.mark.parametrize("num", [12, 60])
def test_constant_and_repeated_columns_and_few_rows_do_no_harm(num, form):
    def odd(theta, rng):
        value = theta[0] + 0.1 * rng.normal()
        return [value, value, 3.0, *rng.normal(size=20)]

    sims = fs.simulate(fs.from_python(odd), fs.uniform(a=(-1.0, 1.0)), num)
    scores = np.asarray(fs.fit(sims, recipe=fs.ClosedFormRecipe(form)).score([0.0], sims.x))
    assert np.isfinite(scores).all()
    if form == "gaussian":
        assert np.corrcoef(scores[:, 0], sims.x[:, 0])[0, 1] > 0.5
