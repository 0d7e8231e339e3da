"""Aimed inferences against posteriors known in closed form, and what is said where there is something wrong."""

import warnings

import numpy as np
import numpyro.distributions as dist
import pytest

import fisherscore as fs
from fisherscore.inference.aiming.pilot import pilot_draws
from fisherscore.inference.aiming.rounds import sizes_of_rounds
from fisherscore.score.constraints import BADLY_LEARNED, NOT_CONSTRAINED, RIGHT

DESIGN = np.array([[1.0, 0.5], [0.2, 1.0], [1.0, -1.0]])
NOISE = 0.05
WIDE = {"a": (-3.0, 3.0), "b": (-3.0, 3.0)}
X_OBS = DESIGN @ [1.0, -0.5] + NOISE * np.array([0.5, -1.0, 0.3])


def linear(theta, rng):
    return DESIGN @ theta + NOISE * rng.standard_normal(3)


def exact(prior_mean=(0.0, 0.0), prior_precision=0.0):
    """Return mean and covariance of the posterior of the linear model."""
    precision = DESIGN.T @ DESIGN / NOISE**2 + prior_precision
    covariance = np.linalg.inv(precision)
    return covariance @ (DESIGN.T @ X_OBS / NOISE**2 + prior_precision @ np.asarray(prior_mean)), covariance


def assert_is_normal(posterior, mean, covariance, *, off=0.15, wide=0.08):
    """Compare means in σ, and the whitened covariance with the unit matrix."""
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, (posterior.samples - mean).T).T
    assert np.abs(white.mean(axis=0)).max() < off
    assert np.abs(np.cov(white.T) - np.eye(len(mean))).max() < 2 * wide


def quietly(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.FisherScoreWarning)
        return fs.infer(*args, **options)


def test_rounds_grow_and_use_everything():
    for num in (100, 737, 10_000):
        sizes = sizes_of_rounds(num, 3, None)
        assert sum(sizes) == num
        rounds = [*sizes[:-2], sum(sizes[-2:])]  # the last are what is kept for the end of the one before
        assert rounds == sorted(rounds)
    assert sizes_of_rounds(100, 3, None) == [100]
    assert len(sizes_of_rounds(10_000, 3, 2)) == 2


def test_a_pilot_finds_both_modes_and_one():
    rng = np.random.default_rng(0)
    theta = rng.uniform(-1, 1, (600, 2))
    both = theta**2 + 0.02 * rng.standard_normal((600, 2))
    nearest = pilot_draws(theta, both, np.array([0.36, 0.36]))[0]
    assert {(-1, -1), (-1, 1), (1, -1), (1, 1)} == {tuple(row) for row in np.sign(nearest).astype(int).tolist()}
    _, one = pilot_draws(theta, theta + 0.02 * rng.standard_normal((600, 2)), np.array([0.6, -0.6]))
    assert np.abs(one.mean(axis=0) - [0.6, -0.6]).max() < 0.02
    assert (one.std(axis=0) < 0.1).all()


@pytest.fixture(scope="module")
def result():
    return fs.infer(fs.from_python(linear), X_OBS, fs.uniform(WIDE), 700, seed=4)


def test_the_posterior_of_a_linear_model(result):
    mean, covariance = exact(prior_precision=np.zeros((2, 2)))
    assert_is_normal(result.posterior, mean, covariance)
    assert result.verdict == RIGHT
    assert not result.posterior.problems
    assert len(result.sims) + result.num_saved == 700
    # The simulations closed in on it: from the whole range, 170 σ wide, to the 11 to 13 σ it takes to hold a posterior.
    first, last = (result.rounds[place].region for place in (0, -1))
    assert (last.high - last.low < 0.1 * (first.high - first.low)).all()
    with pytest.raises(AssertionError):  # a control: the posterior of another observation
        assert_is_normal(result.posterior, mean + 0.5 * np.sqrt(np.diagonal(covariance)), covariance)


def test_what_is_printed(result):
    assert repr(result).startswith("Inference(right; ")
    assert "own error" in str(result)
    assert "<table>" in result._repr_html_()
    assert len(str(result.rounds).splitlines()) == len(result.rounds) + 1
    axes = result.plot()
    assert axes.get_xlabel() == "round"


def test_a_model_knows_what_it_was_aimed_at(result):
    with pytest.warns(fs.FisherScoreWarning) as caught:
        fs.sample(result.model, X_OBS + 0.2, num_samples=200, num_warmup=200)
    assert any("aimed at another observation" in str(warning.message) for warning in caught)
    assert not fs.sample(result.model, X_OBS, num_samples=200, num_warmup=200).problems


def test_an_aimed_model_passes_its_checks(result):
    assert result.check(400, num_posteriors=100, seed=2).passed


def test_an_aimed_model_is_saved_and_loaded(result, tmp_path):
    result.model.save(tmp_path)
    loaded = fs.load(tmp_path)
    theta = result.posterior.samples[:20]
    assert np.array_equal(loaded.score(theta, X_OBS), result.model.score(theta, X_OBS))
    assert np.array_equal(loaded.inside(theta * 1.05), result.model.inside(theta * 1.05))
    score = DESIGN.T @ (X_OBS - theta @ DESIGN.T).T / NOISE**2
    assert np.sqrt(np.mean((loaded.score(theta, X_OBS) - score.T) ** 2)) < 0.15 * np.sqrt(np.mean(score**2))


@pytest.mark.slow
def test_a_correlated_prior():
    mean, covariance = exact(prior_precision=np.zeros((2, 2)))
    centre = mean + np.array([0.04, 0.02])
    joint = {("a", "b"): dist.MultivariateNormal(centre, np.array([[1.0, 0.8], [0.8, 1.0]]) * 0.03**2)}
    found = quietly(fs.from_python(linear), X_OBS, fs.uniform(WIDE), 500, prior=joint, seed=1)
    precision = np.linalg.inv(np.array([[1.0, 0.8], [0.8, 1.0]]) * 0.03**2)
    assert_is_normal(found.posterior, *exact(centre, precision))
    with pytest.raises(AssertionError):  # a control: without the prior
        assert_is_normal(found.posterior, mean, covariance)


@pytest.mark.slow
def test_a_posterior_at_the_edge_of_the_support():
    low = exact(prior_precision=np.zeros((2, 2)))[0][0]
    found = quietly(fs.from_python(linear), X_OBS, fs.uniform(a=(low, 3.0), b=(-3.0, 3.0)), 600, seed=2)
    # Half of a normal distribution is left of a.
    sigma = np.sqrt(exact(prior_precision=np.zeros((2, 2)))[1][0, 0])
    assert found.posterior.samples[:, 0].min() >= low
    assert np.isclose(found.posterior.mean[0], low + sigma * np.sqrt(2 / np.pi), atol=0.1 * sigma)
    assert found.verdict == RIGHT


@pytest.mark.slow
def test_two_modes_far_apart():
    def square(theta, rng):
        return np.array([theta[0] ** 2 + 0.1 * rng.standard_normal(), theta[1] + 0.1 * rng.standard_normal()])

    x_obs = np.array([4.0, 0.3])
    found = quietly(fs.from_python(square), x_obs, fs.uniform(a=(-3.0, 3.0), b=(-3.0, 3.0)), 1_500, seed=3)
    a = found.posterior.samples[:, 0]
    assert 0.4 < np.mean(a > 0) < 0.6
    assert np.isclose(np.abs(a).mean(), 2.0, atol=0.02)
    assert np.isclose(np.abs(a).std(), 0.1 / 4, rtol=0.3)
    parts = found.rounds[-1].region.parts
    assert parts is not None
    assert len(parts.boxes) >= 2


@pytest.mark.slow
def test_a_flat_likelihood_is_not_constrained_by_the_data():
    def noise(theta, rng):
        return rng.standard_normal(3)

    found = quietly(fs.from_python(noise), np.zeros(3), fs.uniform(WIDE), 600, seed=5)
    assert found.verdict == NOT_CONSTRAINED
    assert np.allclose(found.posterior.sigma, 6 / np.sqrt(12), rtol=0.1)


@pytest.mark.slow
def test_one_flat_parameter_is_not_constrained_by_the_data():
    def first_alone(theta, rng):
        return theta[0] + 0.1 * rng.standard_normal(3)

    found = quietly(fs.from_python(first_alone), np.array([0.9, 1.0, 1.1]), fs.uniform(WIDE), 800, seed=5)
    assert found.verdict == NOT_CONSTRAINED
    assert np.isclose(found.posterior.sigma[0], 0.1 / np.sqrt(3), rtol=0.15)
    assert np.isclose(found.posterior.sigma[1], 6 / np.sqrt(12), rtol=0.1)


@pytest.mark.slow
def test_an_observation_that_no_parameter_explains():
    x_obs = X_OBS + 20 * NOISE * np.array([0.8, -0.9, -0.62])
    found = quietly(fs.from_python(linear), x_obs, fs.uniform(WIDE), 600, seed=6)
    assert found.verdict == BADLY_LEARNED
    assert any("unlike anything simulated" in text for text in found.findings)


@pytest.mark.slow
def test_a_prior_that_excludes_the_truth():
    prior = {"a": dist.Uniform(1.8, 3.0)}
    found = quietly(fs.from_python(linear), X_OBS, fs.uniform(WIDE), 600, prior=prior, seed=7)
    assert found.verdict == BADLY_LEARNED
    assert any("unlike anything simulated" in text for text in found.findings)
    assert found.posterior.samples[:, 0].min() >= 1.8


def test_a_prior_beyond_the_proposal_is_refused():
    with pytest.raises(fs.ArgumentError, match="holds the prior"):
        fs.infer(fs.from_python(linear), X_OBS, fs.uniform(WIDE), 300, prior={"a": dist.Normal(50.0, 0.1)})


@pytest.mark.slow
def test_a_region_that_cuts_the_posterior_is_seen():
    mean, covariance = exact(prior_precision=np.zeros((2, 2)))
    draws = np.random.default_rng(0).multivariate_normal(mean, covariance, 2_000)
    whole = fs.uniform(WIDE).around(draws)
    half = fs.uniform(WIDE).around(draws[draws[:, 0] > mean[0]], wider=0.0)
    problems = []
    for region in (whole, half):
        model = fs.fit(fs.simulate(fs.from_python(linear), region, 400, seed=1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problems.append(fs.sample(model, X_OBS, seed=1).problems)
    assert problems[0] == ()
    assert any("cut off by the edge of the region" in text for text in problems[1])


LEFT = {"runs": 10**9}


def stopping(theta, rng):
    """Stop, as a kill would, when no runs are left."""
    LEFT["runs"] -= 1
    if LEFT["runs"] < 0:
        raise KeyboardInterrupt
    return linear(theta, rng)


@pytest.mark.slow
def test_stopped_in_any_round_and_resumed(tmp_path):
    options = {"num_rounds": 3, "seed": 9, "num_checked": 0}
    whole = quietly(fs.from_python(stopping), X_OBS, fs.uniform(WIDE), 300, **options)
    for runs in (40, 60, 40, 100):
        LEFT["runs"] = runs
        with pytest.raises(KeyboardInterrupt):
            quietly(fs.from_python(stopping), X_OBS, fs.uniform(WIDE), 300, out=tmp_path, **options)
    LEFT["runs"] = 10**9
    resumed = quietly(fs.from_python(stopping), X_OBS, fs.uniform(WIDE), 300, out=tmp_path, **options)
    assert np.array_equal(resumed.posterior.samples, whole.posterior.samples)
    assert np.array_equal(resumed.sims.theta, whole.sims.theta)
    assert np.allclose(resumed.rounds[0].sigma, whole.rounds[0].sigma)
    again = quietly(fs.from_python(stopping), X_OBS, fs.uniform(WIDE), 300, out=tmp_path, **options)
    assert np.array_equal(again.posterior.samples, whole.posterior.samples)


def test_another_observation_is_refused_in_the_same_folder(tmp_path):
    options = {"num_rounds": 1, "out": tmp_path}
    first = quietly(fs.from_python(linear), X_OBS, fs.uniform(WIDE), 100, **options)
    again = quietly(fs.from_python(linear), X_OBS, fs.uniform(WIDE), 100, **options)
    assert np.array_equal(first.posterior.samples, again.posterior.samples)
    with pytest.raises(fs.CampaignError, match="another observation"):
        quietly(fs.from_python(linear), X_OBS + 0.1, fs.uniform(WIDE), 100, **options)
