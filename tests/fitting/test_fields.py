"""Fits to maps and series: against exact scores, in every use, saved and read, and what is refused."""

import json

import jax
import numpy as np
import pytest

import fisherscore as fs

SIDE = 16
PROBLEM = fs.problems.gaussian_field(SIDE)


@pytest.fixture(scope="module")
def sims():
    return fs.simulate(PROBLEM.simulator, PROBLEM.proposal, 1_200, seed=1_001)


@pytest.fixture(scope="module")
def model(sims):
    return fs.fit(sims)


def test_the_score_of_a_gaussian_field_is_met_and_known_to_be(model):
    error = fs.accuracy.score_error(model, PROBLEM, num_pairs=2_000)
    assert error.mean < 0.05
    assert model.estimated_error < 0.06
    assert max(model.weights, key=model.weights.get) == "power of pixels"
    # The control: the model of one field is not that of another.
    assert fs.accuracy.score_error(model, fs.problems.gaussian_field(SIDE, noise=1.0), num_pairs=2_000).mean > 0.5


def test_a_log_normal_field_is_mapped_to_a_gaussian_one():
    problem = fs.problems.lognormal_field(SIDE)
    model = fs.fit(fs.simulate(problem.simulator, problem.proposal, 1_200, seed=1_002))
    assert fs.accuracy.score_error(model, problem, num_pairs=2_000).mean < 0.12
    assert model.weights["power of mapped"] > 0.5 > model.weights.get("power of pixels", 0.0)


def test_every_use_takes_the_map_itself(model, sims):
    x, theta = sims.x[0], sims.theta[0]
    assert model.x_shape == (SIDE, SIDE)
    assert model.score(theta, sims.x[:7]).shape == (7, 2)
    estimate = fs.maximum_likelihood(model, x)
    assert np.all(np.abs(estimate.theta - theta) < 6 * np.sqrt(np.diag(np.linalg.inv(PROBLEM.fisher(theta)))))
    posterior = fs.sample(model, x, num_samples=200, num_chains=2, seed=1)
    assert posterior.samples.shape[-1] == 2
    summary = fs.compress(model, theta0=[0.0, 2.0])
    assert summary(sims.x[:5]).shape == (5, 2)
    test = fs.simulate(PROBLEM.simulator, PROBLEM.proposal, 400, seed=1_003)
    assert fs.diagnose(model, test).checks
    assert np.shape(model.rarity(sims.x[:4])) == (4,)
    draws = fs.sample(model, sims.x[:3], iid=True, num_samples=100, num_chains=1, seed=2)
    assert draws.samples.shape[-1] == 2
    both = fs.combine(model, model)
    np.testing.assert_allclose(both.score(theta, (x, x)), 2 * model.score(theta, x), rtol=1e-4)


def test_forecasts_agree_with_the_exact_matrix(model):
    theta0 = np.array([0.0, 2.0])
    forecast = fs.forecast(model, PROBLEM.simulator, theta0, num_simulations=3_000, seed=1_004)
    exact = PROBLEM.fisher(theta0)
    relative = np.linalg.det(np.asarray(forecast.fisher.matrix)) / np.linalg.det(exact)
    assert 0.85 < relative < 1.12


def test_traced_scores_are_those_of_arrays(model, sims):
    x, theta = sims.x[:3], sims.theta[:3]
    traced = jax.jit(jax.vmap(model.score_one))(theta.astype(np.float32), x.astype(np.float32))
    np.testing.assert_allclose(traced, model.score(theta, x), rtol=2e-3, atol=2e-2)


def test_a_saved_model_gives_the_same_scores_and_a_changed_one_is_refused(model, sims, tmp_path):
    model.save(tmp_path / "model")
    read = fs.load(tmp_path / "model")
    assert np.array_equal(read.score(sims.theta[:5], sims.x[:5]), model.score(sims.theta[:5], sims.x[:5]))
    assert read.provenance["data_sha256"] == sims.fingerprint()
    file = tmp_path / "model" / "model.json"
    document = json.loads(file.read_text())
    assert document["embedding"]["architecture"] == "field_statistics"
    file.write_text(json.dumps(document | {"num_summaries": 7}))
    with pytest.raises(fs.ModelFolderError):
        fs.load(tmp_path / "model")


def _fluctuations(x):
    return np.array([np.log(np.var(x)), np.log(np.mean(np.diff(x, axis=0) ** 2)), np.log(np.var(x[::4, ::4]))])


def test_features_of_the_users_own_join_and_have_to_be_given_again(sims, tmp_path):
    some = sims.take(slice(500))
    model = fs.fit(some, features=_fluctuations)
    assert model.score(some.theta[:3], some.x[:3]).shape == (3, 2)
    model.save(tmp_path / "model")
    with pytest.raises(fs.ArgumentError, match="features: the model was fitted with a function"):
        fs.load(tmp_path / "model")
    with pytest.raises(fs.ArgumentError, match="features: expected the function of the fit"):
        fs.load(tmp_path / "model", features=lambda x: x[0])
    read = fs.load(tmp_path / "model", features=_fluctuations)
    assert np.array_equal(read.score(some.theta[:3], some.x[:3]), model.score(some.theta[:3], some.x[:3]))


def test_features_alone_serve_other_recipes(sims):
    model = fs.fit(sims, features=_fluctuations, recipe=fs.ClosedFormRecipe("location_scale"))
    assert 0.05 < fs.accuracy.score_error(model, PROBLEM, num_pairs=1_000).mean < 0.9


def _series(num_channels, seed, num=1_500):
    """Draw autoregressive series whose amplitude and memory are the parameters, the second channel noisier."""
    rng = np.random.default_rng(seed)
    proposal = fs.uniform(log_amplitude=(-1.0, 1.0), memory=(0.2, 0.8))
    theta = proposal.sample(num, seed=seed)
    noise = rng.normal(size=(num, 400)) * np.exp(theta[:, :1] / 2)
    x = noise.copy()
    for t in range(1, 400):
        x[:, t] = theta[:, 1] * x[:, t - 1] + noise[:, t]
    if num_channels == 2:
        x = np.stack([x, x + 0.3 * rng.normal(size=x.shape)], axis=-1)
    return proposal, theta, x


def _exact_series_score(theta, x):
    """Give the score of the first channel, the series without noise of its own."""
    a, m = theta.T
    steps = np.concatenate([x[:, :1], x[:, 1:] - m[:, None] * x[:, :-1]], axis=1)
    amplitude = 0.5 * (np.sum(steps**2, axis=1) / np.exp(a) - x.shape[1])
    return np.stack([amplitude, np.sum(steps[:, 1:] * x[:, :-1], axis=1) / np.exp(a)], axis=1)


@pytest.mark.parametrize("num_channels", [1, 2])
def test_series_with_channels_and_without(num_channels):
    proposal, theta, x = _series(num_channels, 1_005)
    model = fs.fit(fs.from_table(theta, x, proposal))
    _, theta, x = _series(num_channels, 1_006)
    exact = _exact_series_score(theta, x if num_channels == 1 else x[..., 0])
    scores = np.asarray(model.score(theta, x))
    error = np.mean(np.sum((scores - exact) ** 2 / np.mean(exact**2, axis=0), axis=1)) / 2
    assert error < (0.1 if num_channels == 1 else 0.35)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda sims: fs.fit(sims.take(slice(200))), "sims: 200 simulations are too few for 256 data of shape"),
        (lambda sims: fs.fit(sims, features=3), "features: expected a function of one observation, got int"),
        (lambda sims: fs.fit(sims, features=lambda x: x[:, 99]), "features: the function fails on an observation"),
        (lambda sims: fs.fit(sims, features=lambda x: np.zeros(0)), "features: expected 1 to 1,000 finite numbers"),
        (lambda sims: fs.fit(sims, features=lambda x: np.nan), "some of them NaN"),
        (lambda sims: fs.fit(sims, mask=np.ones((3, 3), bool)), "mask: expected true where a pixel was observed"),
        (lambda sims: fs.fit(sims, mask=np.zeros((SIDE, SIDE), bool)), "mask: expected at least 5 %"),
    ],
)
def test_what_cannot_be_fitted_is_refused(change, message, sims):
    with pytest.raises(fs.ArgumentError, match=message):
        change(sims)


def test_maps_of_another_shape_and_with_nan_are_refused(model, sims):
    with pytest.raises(fs.ArgumentError, match=r"one observation having shape \(16, 16\)"):
        model.score([0.0, 2.0], np.zeros((8, 8)))
    bad = sims.x[0].copy()
    bad[3, 4] = np.nan
    with pytest.raises(fs.ArgumentError, match="expected finite numbers, got nan"):
        model.score([0.0, 2.0], bad)
