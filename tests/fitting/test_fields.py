"""Fits to maps and series: against exact scores, in every use, saved and read, and what is refused."""

import json

import jax
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.fitting.field_forms import field_forms
from fisherscore.potentials.closed_forms import CLOSED_FORMS
from fisherscore.summaries.bank import FieldStatistics

SIDE = 16
PROBLEM = fs.problems.gaussian_field(SIDE)


@pytest.fixture(scope="module")
def sims():
    return fs.simulate(PROBLEM.simulator, PROBLEM.proposal, 1_200, seed=1_001)


@pytest.fixture(scope="module")
def model(sims):
    return fs.fit(sims)


@pytest.mark.slow
def test_the_score_of_a_gaussian_field_is_met_and_known_to_be(model):
    error = fs.accuracy.score_error(model, PROBLEM, num_pairs=2_000)
    assert error.mean < 0.05
    assert model.estimated_error < 0.06
    assert max(model.weights, key=model.weights.get) == "power of pixels"
    # The control: the model of one field is not that of another.
    assert fs.accuracy.score_error(model, fs.problems.gaussian_field(SIDE, noise=1.0), num_pairs=2_000).mean > 0.5


@pytest.mark.slow
def test_a_log_normal_field_is_mapped_to_a_gaussian_one():
    problem = fs.problems.lognormal_field(32)
    model = fs.fit(fs.simulate(problem.simulator, problem.proposal, 1_500, seed=1_002))
    assert fs.accuracy.score_error(model, problem, num_pairs=2_000).mean < 0.12
    assert model.weights["power of mapped"] > 0.5 > model.weights.get("power of pixels", 0.0)


@pytest.mark.slow
def test_every_use_takes_the_map_itself(model, sims):
    theta = np.array([0.0, 2.0])
    x = PROBLEM.simulator.draw(theta, seed=1_007)
    assert model.x_shape == (SIDE, SIDE)
    assert model.score(theta, sims.x[:7]).shape == (7, 2)
    estimate = fs.maximum_likelihood(model, x)
    assert np.all(np.abs(estimate.theta - theta) < 6 * np.sqrt(np.diag(np.linalg.inv(PROBLEM.fisher(theta)))))
    posterior = fs.sample(model, x, num_samples=600, num_chains=2, seed=1)
    assert posterior.chains.shape[-1] == 2
    summary = fs.compress(model, theta0=[0.0, 2.0])
    assert summary(sims.x[:5]).shape == (5, 2)
    test = fs.simulate(PROBLEM.simulator, PROBLEM.proposal, 400, seed=1_003)
    assert fs.diagnose(model, test).checks
    assert np.shape(model.rarity(sims.x[:4])) == (4,)
    several = PROBLEM.simulator.draw(np.tile(theta, (3, 1)), seed=1_008)
    draws = fs.sample(model, several, iid=True, num_samples=600, num_chains=2, seed=2)
    assert draws.chains.shape[-1] == 2
    both = fs.combine(model, model)
    np.testing.assert_allclose(both.score(theta, (x, x)), 2 * model.score(theta, x), rtol=1e-4)


@pytest.mark.slow
def test_forecasts_agree_with_the_exact_matrix(model):
    theta0 = np.array([0.0, 2.0])
    forecast = fs.forecast(model, theta0, PROBLEM.simulator, num_simulations=20_000, seed=1_004)
    exact = PROBLEM.fisher(theta0)
    # The bound claims no more than there is, up to its noise; the plug-in of so few simulations is too small.
    assert 0.85 < np.linalg.det(forecast.fisher_bound) / np.linalg.det(exact) < 1.05


@pytest.mark.slow
def test_traced_scores_are_those_of_arrays(model, sims):
    x, theta = sims.x[:3], sims.theta[:3]
    traced = jax.jit(jax.vmap(model.score_one))(theta.astype(np.float32), x.astype(np.float32))
    np.testing.assert_allclose(traced, model.score(theta, x), rtol=2e-3, atol=2e-2)


@pytest.mark.slow
def test_the_smallest_map_is_fitted_saved_and_read(tmp_path):
    problem = fs.problems.gaussian_field(12)
    sims = fs.simulate(problem.simulator, problem.proposal, 800, seed=1_014)
    model = fs.fit(sims, recipe=fs.AutoRecipe(closed_forms=("location_scale",), network=None))
    assert fs.accuracy.score_error(model, problem, num_pairs=500).mean < 0.15
    model.save(tmp_path / "model")
    read = fs.load(tmp_path / "model")
    assert np.array_equal(read.score(sims.theta[:5], sims.x[:5]), model.score(sims.theta[:5], sims.x[:5]))


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("num_channels", [1, 2])
def test_series_with_channels_and_without(num_channels):
    proposal, theta, x = _series(num_channels, 1_005)
    model = fs.fit(fs.from_table(theta, x, proposal), recipe=fs.AutoRecipe(network=None))
    _, theta, x = _series(num_channels, 1_006)
    exact = _exact_series_score(theta, x if num_channels == 1 else x[..., 0])
    scores = np.asarray(model.score(theta, x))
    error = np.mean(np.sum((scores - exact) ** 2 / np.mean(exact**2, axis=0), axis=1)) / 2
    assert error < (0.1 if num_channels == 1 else 0.35)


def _exact_masked_score(theta, x, mask, noise=0.1):
    """Give the score of the observed pixels of a Gaussian field, by their covariance matrix, in double precision."""
    side = len(mask)
    each = np.fft.fftfreq(side, 1 / side)
    wave = np.hypot(each[:, None], each)
    logs = np.log(np.where(wave > 0, wave, 4.0) / 4.0)
    places = np.argwhere(mask)
    lag = tuple(((places[:, None] - places) % side).transpose(2, 0, 1))
    scores = []
    for (a, slope), field in zip(theta, x, strict=True):
        signal = np.where(wave > 0, np.exp(a - slope * logs), 0.0)
        covariance, *moved = (np.fft.ifft2(p).real[lag] for p in (signal + noise, signal, -logs * signal))
        inverse = np.linalg.inv(covariance)
        z = inverse @ field[mask]
        scores.append([0.5 * (z @ m @ z - np.sum(inverse * m)) for m in moved])
    return np.array(scores)


@pytest.mark.slow
def test_a_quarter_of_the_pixels_may_be_missing():
    mask = np.ones((SIDE, SIDE), bool)
    mask.ravel()[np.random.default_rng(1_009).permutation(SIDE**2)[: SIDE**2 // 4]] = False
    sims = fs.simulate(PROBLEM.simulator, PROBLEM.proposal, 2_000, seed=1_010)
    model = fs.fit(fs.from_table(sims.theta, np.where(mask, sims.x, 0.0), PROBLEM.proposal), mask=mask)
    test = fs.simulate(PROBLEM.simulator, PROBLEM.proposal, 300, seed=1_011)
    exact = _exact_masked_score(test.theta, test.x, mask)
    precision = np.linalg.inv(exact.T @ exact / len(exact))

    def error(model, x):
        missed = np.asarray(model.score(test.theta, x), np.float64) - exact
        return np.einsum("ni,ij,nj->n", missed, precision, missed).mean() / 2

    hidden = np.where(mask, test.x, np.nan)
    assert error(model, hidden) < 0.05
    np.testing.assert_array_equal(model.score(test.theta, hidden), model.score(test.theta, np.where(mask, test.x, 7.0)))
    # The control: a model that is not told what is missing cannot undo how the mask mixes modes.
    untold = fs.fit(fs.from_table(sims.theta, np.where(mask, sims.x, 0.0), PROBLEM.proposal))
    assert error(untold, np.where(mask, test.x, 0.0)) > 0.1


def test_nan_that_was_not_declared_is_refused_with_a_way_out():

    def patchy(theta, rng):
        return np.where(np.eye(12) * rng.uniform() > 0.5, np.nan, rng.normal(size=(12, 12)))

    sims = fs.simulate(fs.from_python(patchy), PROBLEM.proposal, 40, seed=1)
    with pytest.raises(fs.ArgumentError, match=r"missing by design.*pass mask="):
        fs.fit(sims)


def test_many_channels_leave_forms_to_fit():
    for shape in [(1_000, 8), (64, 64, 8), (128, 128, 16)]:
        bank = FieldStatistics.laid_out(shape, {"masked": 0}, {})
        forms = field_forms(bank.blocks, np.ones(bank.num_summaries), list(CLOSED_FORMS))
        fitted = [name for name, form in forms.items() if bank.num_summaries <= form.max_data]
        assert {"power of pixels", "power of mapped", "location_scale of scales"} <= set(fitted)


@pytest.mark.slow
def test_many_channels_are_fitted():
    rng = np.random.default_rng(1_012)
    proposal = fs.uniform(log_variance=(-1.0, 1.0))
    theta = proposal.sample(400, seed=1_013)
    x = np.exp(theta / 2)[:, :, None] * rng.normal(size=(400, 1_000, 8))
    model = fs.fit(fs.from_table(theta[:350], x[:350], proposal), recipe=fs.AutoRecipe(network=None))
    exact = 0.5 * (np.sum(x[350:] ** 2, axis=(1, 2)) / np.exp(theta[350:, 0]) - 8_000)
    missed = np.asarray(model.score(theta[350:], x[350:]))[:, 0] - exact
    assert np.mean(missed**2) < 0.2 * np.mean(exact**2)


@pytest.mark.parametrize("recipe", ["paper", fs.ClosedFormRecipe("location_scale")])
def test_a_mask_is_refused_by_recipes_without_statistics(recipe):
    rng = np.random.default_rng(1)
    sims = fs.from_table(rng.uniform(-1, 1, (400, 1)), rng.normal(size=(400, 12)), fs.uniform(a=(-1.0, 1.0)))
    with pytest.raises(fs.ArgumentError, match=r'mask: is for recipe="auto", got .*Recipe\. Leave recipe= out'):
        fs.fit(sims, mask=np.ones(12, bool), recipe=recipe)


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


@pytest.mark.slow
def test_maps_of_another_shape_and_with_nan_are_refused(model, sims):
    with pytest.raises(fs.ArgumentError, match=r"one observation having shape \(16, 16\)"):
        model.score([0.0, 2.0], np.zeros((8, 8)))
    bad = sims.x[0].copy()
    bad[3, 4] = np.nan
    with pytest.raises(fs.ArgumentError, match="expected finite numbers, got nan"):
        model.score([0.0, 2.0], bad)
