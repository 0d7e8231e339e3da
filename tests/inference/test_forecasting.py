"""Forecasts against exact Fisher matrices, with scores broken on purpose as controls."""

import os
import shutil
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.folders import arrays_of, rewrite

import fisherscore as fs
from fisherscore.inference.forecast_notes import _explained, _of_bound
from fisherscore.inference.score_moments import Moments, pooled
from fisherscore.score.constraints import OwnError

TOY, COUNTS = fs.problems.linear_gaussian(), fs.problems.poisson_counts()
AT = {"linear-gaussian": [0.5, -1.0], "poisson-counts": [1.2, 0.3]}


@pytest.fixture(params=[TOY, COUNTS], ids=lambda p: p.name)
def problem(request):
    return request.param


def excess(forecast, truth):
    """Largest claim of the bound beyond the truth over all directions, in standard errors."""
    half = np.linalg.inv(np.linalg.cholesky(truth))
    claim = half @ (forecast.fisher_bound - truth) @ half.T
    draws = half @ (forecast.bound.draws - truth) @ half.T
    values, vectors = np.linalg.eigh(claim)
    top = vectors[:, -1]
    return values[-1] / np.std(np.einsum("i,nij,j->n", top, draws, top))


def test_three_estimates_agree_with_the_exact_matrix(problem):
    theta = AT[problem.name]
    truth = problem.fisher(theta)
    forecast = fs.forecast(problem.exact_model(), theta, problem.simulator, num_simulations=40_000, seed=1)
    for estimate in (forecast.plug_in, forecast.slope, forecast.bound):
        np.testing.assert_array_less(np.abs(estimate.matrix - truth), 4 * estimate.error + 0.004 * np.abs(truth))
    exact_sigma = np.sqrt(np.diag(np.linalg.inv(truth)))
    np.testing.assert_allclose(forecast.sigma, exact_sigma, atol=float(4 * forecast.sigma_error.max()))


def noisy_model(problem, size):
    """A score with noise: a wild function of x, which no average over x can see but every square does."""
    exact = problem.exact_model()
    root = np.linalg.cholesky(problem.fisher(AT[problem.name])).astype(np.float32)

    def score(theta, x):
        return exact.score_one(theta, x) + size * root @ jnp.sin(
            1e3 * jnp.stack([x[0] - 2.1 * x[1], x[1] + 1.7 * x[0]])
        )

    return fs.FunctionScore(problem.proposal, problem.x_shape, score=score)


def test_a_noisy_score_makes_the_plug_in_overclaim_but_not_the_bound(problem):
    theta = AT[problem.name]
    truth = problem.fisher(theta)
    with pytest.warns(fs.FisherScoreWarning, match="disagree"):
        forecast = fs.forecast(noisy_model(problem, 1.0), theta, problem.simulator, num_simulations=20_000)
    assert (np.linalg.eigvalsh(np.linalg.solve(truth, forecast.fisher)) > 1.3).all()
    assert excess(forecast, truth) < 3
    # Of both problems the exact score is linear in x, and the forecast's own simulations teach as much.
    exact = np.sqrt(np.diag(np.linalg.inv(truth)))
    np.testing.assert_array_less(np.abs(forecast.sigma_bound - exact), 4 * forecast.bound.sigma_error)


def test_bootstrap_errors_are_the_scatter_between_seeds():
    forecasts = [
        fs.forecast(TOY.exact_model(), [0.0, 0.0], TOY.simulator, num_simulations=2000, seed=s) for s in range(30)
    ]
    for name in ("plug_in", "bound"):
        scatter = np.std([getattr(f, name).matrix for f in forecasts], axis=0, ddof=1)
        stated = np.mean([getattr(f, name).error for f in forecasts], axis=0)
        np.testing.assert_allclose(stated, scatter, rtol=0.45)  # 30 seeds know the scatter to 13 %
        mean = np.mean([getattr(f, name).matrix for f in forecasts], axis=0)
        assert (np.abs(mean - TOY.fisher([0.0, 0.0])) < 4 * scatter / np.sqrt(30)).all()


def test_with_many_parameters_the_covariance_is_known_from_all_points():
    """At 17 points with 60 simulations each, θ alone would leave an error of a tenth in every σ."""
    p, num = 8, 17 * 60
    model = fs.FunctionScore(fs.uniform({f"t{i}": (-5.0, 5.0) for i in range(p)}), (p,), score=lambda t, x: x - t)
    simulator = fs.from_jax(lambda key, theta: theta + jax.random.normal(key, (p,)))
    forecast = fs.forecast(model, np.zeros(p), simulator, num_simulations=num)
    for estimate in (forecast.plug_in, forecast.bound):
        assert np.sqrt(np.mean((estimate.sigma - 1) ** 2)) < 0.05 and (estimate.sigma_error < 0.05).all()
    rng = np.random.default_rng(1)  # the control, many times over
    alone = [np.sqrt(np.diag(np.linalg.inv(np.cov(rng.normal(size=(p, num // 17)))))) for _ in range(100)]
    assert np.sqrt(np.mean((np.array(alone) - 1) ** 2)) > 0.08


def test_a_covariance_that_bends_over_a_step_is_taken_at_the_point_itself():
    def moments(covariances, num, seed):
        rng = np.random.default_rng(seed)
        scores = np.stack([rng.normal(size=(num, 1)) * np.sqrt(c) for c in covariances])
        return Moments.of(scores, rng)

    def together(beside, num, seed):
        centre = moments([1.0], num, 100 * seed)
        ends = [moments([beside, beside], num, 100 * seed + k) for k in range(1, 10)]
        return centre.covariance[0, 0, 0], pooled(centre, ends)[0, 0, 0], np.mean([e.covariance[0] for e in ends])

    at_point, found, plain = together(1.5, 100_000, 0)
    assert found == pytest.approx(1.0, abs=0.02) and plain > 1.4  # the control: the mean over all points is wrong
    # Where it does not bend, the noise at the point itself is not what is left.
    several = np.array([together(1.0, 100, seed)[:2] for seed in range(1, 41)])
    at_point, found = np.sqrt(np.mean((several - 1.0) ** 2, axis=0))
    assert found < 0.75 * at_point


@pytest.mark.parametrize(("size", "own", "said"), [(0.9, 0.01, False), (0.9, 1e-4, True), (1.1, 0.01, True)])
def test_what_a_model_says_of_its_own_error_is_no_disagreement(size, own, said):
    scaled = fs.FunctionScore(TOY.proposal, (2,), score=lambda t, x: size * TOY.exact_model().score_one(t, x))
    with pytest.warns(fs.FisherScoreWarning, match="disagree"):  # no own error is known
        forecast = fs.forecast(scaled, [0.0, 0.0], TOY.simulator, num_simulations=40_000)
    known = OwnError(forecast.fisher, own * forecast.fisher, 1_000)
    notes = _of_bound(forecast, free=False, explained=_explained(forecast, known))
    assert bool(notes) == said and all("disagree" in note for note in notes)


def test_slope_is_linear_in_the_score_where_the_plug_in_is_not():
    scaled = fs.FunctionScore(TOY.proposal, (2,), score=lambda t, x: 1.2 * TOY.exact_model().score_one(t, x))
    with pytest.warns(fs.FisherScoreWarning, match="disagree"):
        forecast = fs.forecast(scaled, [0.0, 0.0], TOY.simulator, num_simulations=40_000)
    truth = TOY.fisher([0.0, 0.0])
    np.testing.assert_allclose(forecast.fisher_slope, 1.2 * truth, rtol=0.01)
    np.testing.assert_allclose(np.trace(forecast.fisher), 1.44 * np.trace(truth), rtol=0.1)
    np.testing.assert_allclose(np.trace(forecast.fisher_bound), np.trace(truth), rtol=0.1)


def test_many_points_names_and_table():
    points = [[-1.0, 0.0], [0.0, 1.0]]
    forecasts = fs.forecast_grid(TOY.exact_model(), points, TOY.simulator, num_simulations=2000)
    assert len(forecasts) == 2 and forecasts[1].theta0.tolist() == points[1]
    forecast = forecasts[0]
    text = str(forecast)
    for word in ("theta1", "σ plug-in", "σ bound", "±", "figure of merit"):
        assert word in text
    less = forecast.marginalize("theta2")
    assert less.names == ("theta1",) and less.theta0.tolist() == [-1.0]
    np.testing.assert_allclose(less.sigma[0], forecast.sigma[0])
    np.testing.assert_allclose(forecast.fix("theta2").sigma[0], forecast.conditional_sigma[0])
    both = forecast.add(forecast)
    np.testing.assert_allclose(both.fisher, 2 * forecast.fisher)
    np.testing.assert_allclose(both.fisher_bound, 2 * forecast.fisher_bound)
    with pytest.raises(fs.ArgumentError, match="different parameters do not add"):
        forecast.add(forecasts[1])
    assert forecast.covariance_error.shape == (2, 2)
    assert forecast.add({"theta1": 0.01}).sigma[0] < 0.01
    np.testing.assert_allclose(forecast.times(4).sigma, forecast.sigma / 2)
    assert forecast.correlation[0, 1] == pytest.approx(0.5, abs=0.15)


def forecast_at(theta0, sigma, names=("a", "b")):
    fisher = fs.FisherMatrix(names, np.diag(np.array(sigma) ** -2.0))
    return fs.Forecast(np.array(theta0), fisher, fisher, fisher, num_simulations=100)


def test_each_parameter_is_compared_by_its_own_error():
    """Units of a millionth beside units of a million: neither hides nor forbids a difference in the other."""
    here = forecast_at([0.0, 0.0], [1e-6, 1e6])
    assert here.add(forecast_at([0.0, 1.0], [1e-6, 1e6])).num_simulations == 200
    for other in ([1e-6, 0.0], [0.0, 1e6]):
        there = forecast_at(other, [1e-6, 1e6])
        with pytest.raises(fs.ArgumentError, match="different parameters do not add"):
            here.add(there)
    # The order does not matter: a difference that is small for one of the two may be large for the other.
    sharp, blunt = forecast_at([0.0, 0.0], [0.1, 0.1]), forecast_at([0.1, 0.0], [10.0, 10.0])
    for first, second in ((sharp, blunt), (blunt, sharp)):
        with pytest.raises(fs.ArgumentError, match=r"'a' is 0.* here and 0.* there"):
            first.add(second)


def test_a_saved_forecast_comes_back_equal(tmp_path):
    forecast = fs.forecast(TOY.exact_model(), [0.5, -1.0], TOY.simulator, num_simulations=500)
    forecast = forecast.add(fs.FisherMatrix(("more",), np.eye(1)))  # of which θ is not known
    forecast.save(tmp_path / "f")
    forecast.save(tmp_path / "f")
    again = fs.Forecast.load(tmp_path / "f")
    np.testing.assert_array_equal(again.theta0, forecast.theta0)
    assert again.names == forecast.names == ("theta1", "theta2", "more")
    for name in ("plug_in", "slope", "bound"):
        np.testing.assert_array_equal(getattr(again, name).matrix, getattr(forecast, name).matrix)
        np.testing.assert_array_equal(getattr(again, name).draws, getattr(forecast, name).draws)
    assert str(again) == str(forecast)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forecast") / "f"
    fs.forecast(TOY.exact_model(), [0.5, -1.0], TOY.simulator, num_simulations=500).save(folder)
    return folder


def test_places_that_cannot_be_written_are_left_as_they_are(saved, tmp_path, monkeypatch):
    forecast = fs.Forecast.load(saved)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    for place in (".", "", "../empty", tmp_path / "empty"):
        with pytest.raises(fs.ModelFolderError, match=r"path: .*empty is the current folder.*Give a folder inside it"):
            forecast.save(place)
    assert not list((tmp_path / "empty").iterdir())
    forecast.save("result")
    (tmp_path / "link").symlink_to("empty/result")
    (tmp_path / "dangling").symlink_to("nowhere")
    for place in ("link", "dangling"):
        with pytest.raises(fs.ModelFolderError, match=f"path: .*{place} is a link to .*Save to the folder"):
            forecast.save(tmp_path / place)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "dangling").is_symlink()
    assert len(fs.Forecast.load(tmp_path / "link").names) == 2
    (tmp_path / "file").write_text("precious")
    for place in ("file/sub", "file/sub/sub", "a" * 300):
        with pytest.raises(fs.ModelFolderError, match=r"path: .*cannot be written: .*Choose another folder"):
            forecast.save(tmp_path / place)
    (tmp_path / "mine" / "forecast.json").mkdir(parents=True)
    (tmp_path / "mine" / "forecast.json" / "thesis.txt").write_text("precious")
    with pytest.raises(fs.ModelFolderError, match="left alone"):
        forecast.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "forecast.json" / "thesis.txt").read_text() == "precious"
    with pytest.raises(fs.ArgumentError, match="path: expected a folder"):
        forecast.save("a\0b")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dangling", "empty", "file", "link", "mine"]


def test_a_folder_that_cannot_be_replaced_is_put_back(saved, tmp_path, monkeypatch):
    shutil.copytree(saved, tmp_path / "f")
    forecast, replace = fs.Forecast.load(saved).times(2.0), os.replace
    before = sorted(path.name for path in saved.iterdir())

    def fails_to_put_a_new_one(source, target):
        if target == tmp_path / "f" / "forecast.json":
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails_to_put_a_new_one)
    with pytest.raises(fs.ModelFolderError, match="cannot be replaced: No space left"):
        forecast.save(tmp_path / "f")
    assert [p.name for p in tmp_path.iterdir()] == ["f"]
    assert sorted(path.name for path in (tmp_path / "f").iterdir()) == before
    np.testing.assert_array_equal(fs.Forecast.load(tmp_path / "f").fisher, fs.Forecast.load(saved).fisher)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "forecast.json").unlink(), "expected the file forecast.json"),
        (lambda f: arrays_of(f).write_bytes(b"\xff" * 64), "not a safetensors file"),
        (lambda f: rewrite(f, version=1), "format version 1"),
        (lambda f: rewrite(f, names=["a"]), "do not fit together"),
        (lambda f: rewrite(f, theta0=["x", 0.0]), "'theta0' is missing or damaged"),
        (lambda f: rewrite(f, num_replicates=[200, 200]), "do not fit together"),
        (lambda f: rewrite(f, num_replicates=[100, 200, 200]), "call for"),
        (lambda f: rewrite(f, num_replicates=[None, 200, 200]), "call for"),
    ],
)
def test_damaged_folders_are_refused(saved, tmp_path, damage, message):
    shutil.copytree(saved, tmp_path / "f")
    damage(tmp_path / "f")
    with pytest.raises(fs.ModelFolderError, match=message):
        fs.Forecast.load(tmp_path / "f")


def test_short_texts_and_a_picture():
    forecast = fs.forecast(TOY.exact_model(), [0.5, -1.0], TOY.simulator, num_simulations=500)
    assert repr(forecast) == "Forecast(theta1=0.5, theta2=-1; 500 simulations)"
    assert repr(forecast.plug_in) == "FisherMatrix(theta1, theta2; 200 replicates)"
    assert (
        "<th>theta1</th><td>0.5: σ = " in forecast._repr_html_() and "<th>theta2</th>" in forecast.bound._repr_html_()
    )
    assert "σ conditional" in str(forecast.bound)
    assert forecast.plot(names=["theta2", "theta1"]).get_xlabel() == "theta2"


def test_an_exact_matrix_may_come_alone_for_one_forecast(saved):
    forecast = fs.Forecast.load(saved)
    alone = fs.plot.fisher_ellipses(forecast, exact=np.eye(2))
    listed = fs.plot.fisher_ellipses([forecast], exact=[np.eye(2)])
    assert len(alone.lines) == len(listed.lines) == 3
    np.testing.assert_array_equal(alone.lines[0].get_xydata(), listed.lines[0].get_xydata())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f.plot(estimate="foo"), "estimate: expected .* got 'foo'"),
        (lambda f: f.plot(names="theta1"), "names: expected two parameter names"),
        (lambda f: f.plot(names=["theta1"]), "names: expected two parameter names"),
        (lambda f: f.plot(names=3), "names: expected two parameter names"),
        (lambda f: f.fix("theta2").plot(), "names: two parameters are drawn .* only 'theta1'. Print the result"),
        (lambda f: fs.plot.fisher_ellipses([]), "forecasts: expected one or more, got an empty list"),
        (lambda f: fs.plot.fisher_ellipses([f, f], exact=np.eye(2)), "exact: expected one matrix .* of 2 forecasts"),
        (lambda f: fs.plot.fisher_ellipses(f, exact=np.eye(3)), "exact: expected one matrix"),
        (lambda f: fs.plot.fisher_ellipses(f, exact="exact"), "exact: expected numbers"),
        (lambda f: f.times(0), "number: expected a number above 0"),
    ],
)
def test_mistakes_with_results_are_named(saved, call, message):
    with pytest.raises(fs.ArgumentError, match=message):
        call(fs.Forecast.load(saved))


def test_a_plain_python_simulator_that_jumps():
    """Counts jump with θ at fixed random numbers, so paired differences are noisy; the slope must still be right."""

    def counts(theta, rng):
        return [rng.poisson(abs(theta[0]))]

    model = fs.FunctionScore(fs.uniform(rate=(5.0, 30.0)), (1,), score=lambda t, x: x / t - 1)
    forecast = fs.forecast(model, [16.0], fs.from_python(counts), num_simulations=9000)
    for estimate in (forecast.plug_in, forecast.slope, forecast.bound):
        assert abs(estimate.matrix[0, 0] - 1 / 16) < 4 * estimate.error[0, 0]
        assert estimate.error[0, 0] < 0.1 / 16


def test_a_degenerate_pair_is_flagged_never_a_silent_contour():
    model = fs.FunctionScore(
        fs.uniform(a=(-3, 3), b=(-3, 3)), (1,), score=lambda t, x: (x[0] - t.sum()) * jnp.ones(2, jnp.float32)
    )
    simulator = fs.from_python(lambda t, rng: [t.sum() + rng.normal()])
    with pytest.warns(fs.FisherScoreWarning) as caught:
        forecast = fs.forecast(model, [0.0, 0.0], simulator, num_simulations=1000)
    said = [str(warning.message) for warning in caught]
    assert said == list(forecast.notes) and said[0].startswith("not constrained by the data: +1 a -1 b")
    assert "singular" in said[1] and "singular" in str(forecast)
    with pytest.raises(fs.ArgumentError, match="do not constrain the combination"):
        forecast.sigma  # noqa: B018
    assert forecast.fix("b").sigma[0] == pytest.approx(1.0, abs=0.2)


def test_a_pair_known_in_combination_only_has_a_bound_after_all():
    """Their sum is known a hundred times better than their difference: one by one, steps would see noise alone."""
    model = fs.FunctionScore(
        fs.uniform(a=(-3, 3), b=(-3, 3)),
        (2,),
        score=lambda t, x: jnp.asarray(
            [[1e4 * (x[0] - t.sum()) + x[1] - t[0] + t[1]], [1e4 * (x[0] - t.sum()) - x[1] + t[0] - t[1]]], jnp.float32
        )[:, 0],
    )
    simulator = fs.from_python(lambda t, rng: [t.sum() + 0.01 * rng.normal(), t[0] - t[1] + rng.normal()])
    forecast = fs.forecast(model, [0.5, -0.5], simulator, num_simulations=2_000)
    np.testing.assert_allclose(forecast.sigma_bound, 0.5, rtol=0.15)
    np.testing.assert_allclose(forecast.sigma, 0.5, rtol=0.15)


def test_beside_an_edge_the_other_parameters_keep_their_steps():
    near = fs.forecast(TOY.exact_model(), [2.99, 0.0], TOY.simulator, num_simulations=20_000)
    np.testing.assert_allclose(near.bound.conditional_sigma[1], 1 / np.sqrt(TOY.fisher([0.0, 0.0])[1, 1]), rtol=0.05)


def test_equal_seeds_do_not_share_noise():
    """A model must not be judged on the noise it was trained on, though every seed is 0 unless told otherwise."""
    simulator = fs.from_python(lambda t, rng: t + rng.normal(size=1))
    sims = fs.simulate(simulator, fs.uniform(a=(-1.0, 1.0)), 500)
    noise = (sims.x - sims.theta)[:, 0]
    mock = simulator.draw(np.zeros((500, 1)))[:, 0]
    assert abs(np.corrcoef(noise, mock)[0, 1]) < 0.2
    from fisherscore.simulation.execution.run import Purpose, Stream

    fresh = simulator.draw_stream(np.zeros((500, 1)), Stream(0, Purpose.FORECAST))[:, 0]
    assert abs(np.corrcoef(noise, fresh)[0, 1]) < 0.2 and abs(np.corrcoef(mock, fresh)[0, 1]) < 0.2


def test_no_warning_for_a_good_model():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(5):
            fs.forecast(TOY.exact_model(), [0.0, 0.0], TOY.simulator, num_simulations=3000, seed=seed)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fs.forecast(TOY.exact_model(), [9.0, 0.0], TOY.simulator), "theta0: .*outside the training region"),
        (lambda: fs.forecast(TOY.exact_model(), [3.0, 0.0], TOY.simulator), "theta0: 'theta1' lies on the edge"),
        (lambda: fs.forecast(TOY.exact_model(), [0.0], TOY.simulator), "theta0: expected shape"),
        (lambda: fs.forecast(TOY.exact_model(), [[0.0, 0.0]], TOY.simulator), "theta0: .*use forecast_grid"),
        (lambda: fs.forecast_grid(TOY.exact_model(), [0.0, 0.0], TOY.simulator), "theta0s: expected points"),
        (lambda: fs.forecast_grid(TOY.exact_model(), [[9.0, 0.0]], TOY.simulator), "theta0s: .*outside"),
        (
            lambda: fs.forecast_grid(TOY.exact_model(), np.zeros((2, 2)), TOY.simulator, seed=2**63 - 1),
            r"seed: expected that of the last point, seed \+ 1, to be at most",
        ),
        (lambda: fs.Forecast.load(3), "path: expected a folder"),
        (lambda: fs.forecast(TOY.exact_model(), [0.0, 0.0], TOY.draw_one), "simulator: expected a simulator"),
        (
            lambda: fs.forecast(fs.combine(TOY.exact_model(), TOY.exact_model()), [0.0, 0.0], TOY.simulator),
            "forecast each probe",
        ),
        (lambda: fs.forecast("model", [0.0, 0.0], TOY.simulator), "model: expected a score model"),
        (lambda: fs.forecast(TOY.exact_model(), [0.0, 0.0], TOY.simulator, num_simulations=10), "num_simulations"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(fs.ArgumentError, match=message):
        call()
