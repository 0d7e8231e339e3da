"""Posteriors as results: log-density, quantiles, derived parameters, folders, exports; against closed forms."""

import string

import matplotlib.pyplot
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.folders import arrays_of, rewrite

import fisherscore as fs

COVARIANCE = np.array([[0.09, 0.045], [0.045, 0.09]])
PRECISION = np.linalg.inv(COVARIANCE)
TOY = fs.problems.linear_gaussian(covariance=COVARIANCE, latent_covariance=0.4 * COVARIANCE)
X = np.array([0.5, -0.7])
FIELD = fs.FunctionScore(TOY.proposal, (2,), score=TOY.exact_model().score_one)


def normal_posterior(num=100_000, names=("a", "b"), units=("", "kg")):
    """Independent draws from N(X, COVARIANCE), as if they had been sampled in four chains."""
    draws = np.random.default_rng(5).multivariate_normal(X, COVARIANCE, num)
    return fs.Posterior(
        names=names,
        units=units,
        chains=draws.reshape(4, -1, 2),
        log_density=-0.5 * np.einsum("ni,ij,nj->n", draws - X, PRECISION, draws - X).reshape(4, -1),
        method="NUTS",
        correction="none",
        r_hat=np.ones(2),
        effective_samples=np.full(2, float(num)),
        num_divergent=0,
        fraction_outside=0.0,
        rarity=None,
        seconds={"sample": 1.5},
        problems=("made up",),
        support=((None, None), (-3.0, 3.0)),
    )


@pytest.mark.filterwarnings("ignore::fisherscore.errors.FisherScoreWarning")
@pytest.mark.parametrize(
    ("model", "options"),
    [
        (TOY.exact_model(), {"prior": {"theta1": dist.Normal(0.1, 0.2)}}),
        (FIELD, {}),
        pytest.param(FIELD, {"method": "smc"}, marks=pytest.mark.slow),
    ],
    ids=["density", "line integral", "smc"],
)
def test_log_density_is_the_known_quadratic_up_to_a_constant(model, options):
    posterior = fs.sample(model, X, num_samples=50, num_warmup=50, num_chains=2, **options)
    delta = posterior.chains - X
    exact = -0.5 * np.einsum("cni,ij,cnj->cn", delta, PRECISION, delta)
    if "prior" in options:
        exact -= 0.5 * ((posterior.chains[..., 0] - 0.1) / 0.2) ** 2
    assert posterior.log_density.shape == (2, 50) and exact.std() > 0.3
    difference = posterior.log_density - exact
    np.testing.assert_allclose(difference, difference.mean(), atol=1e-4)


def test_means_errors_and_quantiles_of_a_known_normal():
    posterior = normal_posterior()
    np.testing.assert_allclose(posterior.mean, X, atol=0.005)
    np.testing.assert_allclose(posterior.sigma, 0.3, rtol=0.01)
    levels = [0.1587, 0.5, 0.8413]
    np.testing.assert_allclose(posterior.quantiles(levels), X + 0.3 * np.array([[-1], [0], [1]]), atol=0.007)
    assert posterior.quantiles(0.5).shape == (2,)


def test_a_derived_linear_combination_has_the_known_mean_and_error():
    posterior = normal_posterior().derive({"c": lambda p: 2 * p["a"] - p["b"]}, units={"c": "m"})
    assert posterior.names == ("a", "b", "c") and posterior.units == ("", "kg", "m")
    weights = np.array([2.0, -1.0])
    assert posterior.mean[2] == pytest.approx(weights @ X, abs=0.01)
    assert posterior.sigma[2] == pytest.approx(np.sqrt(weights @ COVARIANCE @ weights), rel=0.01)
    assert posterior.r_hat.shape == (3,) and abs(posterior.r_hat[2] - 1) < 1e-3
    assert posterior.support[2] == (None, None)
    assert posterior.log_density.shape == posterior.chains.shape[:2]
    assert "c" in str(posterior)


def test_a_saved_posterior_comes_back_equal(tmp_path):
    posterior = normal_posterior(1000).derive({"sum": lambda p: p["a"] + p["b"]})
    posterior.save(tmp_path / "p")
    posterior.save(tmp_path / "p")
    again = fs.Posterior.load(tmp_path / "p")
    for name in posterior.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(again, name), getattr(posterior, name), err_msg=name)
    assert str(again) == str(posterior) and type(again.names) is tuple


def test_no_result_replaces_another(tmp_path):
    normal_posterior(100).save(tmp_path / "p")
    problem = fs.problems.linear_gaussian()
    forecast = fs.forecast(problem.exact_model(), [0.0, 0.0], problem.simulator, num_simulations=500)
    with pytest.raises(fs.ModelFolderError, match="left alone"):
        forecast.save(tmp_path / "p")
    (tmp_path / "p" / "notes.txt").write_text("precious")
    with pytest.raises(fs.ModelFolderError, match="left alone"):
        normal_posterior(100).save(tmp_path / "p")
    assert len(fs.Posterior.load(tmp_path / "p").samples) == 100


def test_the_wrong_call_is_told_what_the_folder_holds(tmp_path):
    normal_posterior(100).save(tmp_path / "p")
    problem = fs.problems.linear_gaussian()
    sims = fs.simulate(problem.simulator, problem.proposal, 200)
    fs.fit(sims, recipe=fs.ClosedFormRecipe("gaussian")).save(tmp_path / "m")
    fisher = fs.FisherMatrix(("a",), np.eye(1))
    fs.Forecast(np.zeros(1), fisher, fisher, fisher, num_simulations=100).save(tmp_path / "f")
    calls = {
        "p": ("a posterior", "Posterior.load", fs.Posterior.load),
        "m": ("a score model", "load", fs.load),
        "f": ("a forecast", "Forecast.load", fs.Forecast.load),
    }
    for folder, (kind, name, right) in calls.items():
        right(tmp_path / folder)
        for _, _, wrong in calls.values():
            if wrong is not right:
                with pytest.raises(
                    fs.ModelFolderError, match=f"The folder holds {kind}: read it with fisherscore.{name}"
                ):
                    wrong(tmp_path / folder)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "posterior.json").unlink(), "expected the file posterior.json"),
        (lambda f: arrays_of(f).unlink(), "expected the file draws-"),
        (lambda f: arrays_of(f).write_bytes(b"\xff" * 64), "not a safetensors file"),
        (lambda f: (f / "posterior.json").write_text("{"), "not a JSON document"),
        (lambda f: rewrite(f, schema="fisherscore-model"), "was not written by fisherscore as 'fisherscore-posterior'"),
        (lambda f: rewrite(f, version=99), "format version 99"),
        (lambda f: rewrite(f, names=["a"]), "do not fit together"),
        (lambda f: rewrite(f, names=["a", "a"]), "'names' is missing or damaged"),
        (lambda f: rewrite(f, units=None), "'units' is missing or damaged"),
        (lambda f: rewrite(f, shape=[4, 25, 2.0]), "'shape' is missing or damaged"),
        (lambda f: rewrite(f, shape=[4, 24, 2]), "call for"),
        (lambda f: rewrite(f, seconds={"sample": "long"}), "'seconds' is missing or damaged"),
        (lambda f: rewrite(f, support=[[0.0], [0.0, 1.0]]), "do not fit together"),
    ],
)
def test_damaged_folders_are_refused(tmp_path, damage, message):
    normal_posterior(100).save(tmp_path / "p")
    damage(tmp_path / "p")
    with pytest.raises(fs.ModelFolderError, match=message):
        fs.Posterior.load(tmp_path / "p")


def test_getdist_and_arviz_know_names_and_log_densities():
    posterior = normal_posterior(2000, names=("Omega_m", "S 8*"))
    samples = posterior.to_getdist(label="toy")
    assert samples.getParamNames().list() == ["Omega_m", "S_8_"]
    assert samples.ranges.getLower("S_8_") == -3.0
    np.testing.assert_allclose(samples.getMeans(), posterior.mean)
    np.testing.assert_array_equal(samples.loglikes, -posterior.log_density.ravel())
    data = posterior.to_arviz()
    np.testing.assert_array_equal(data.posterior["Omega_m"].values, posterior.chains[..., 0])
    np.testing.assert_array_equal(data.sample_stats["lp"].values, posterior.log_density)


def test_short_text_for_terminals_and_notebooks():
    posterior = normal_posterior(2000, names=("<a>", "b"))
    assert repr(posterior) == "Posterior(<a>, b; NUTS, 4 chains of 500 draws)"
    assert "&lt;a&gt;" in posterior._repr_html_() and "do not trust this: made up" in posterior._repr_html_()
    assert posterior != normal_posterior(2000)  # results with arrays are compared by identity


@pytest.mark.filterwarnings("ignore::matplotlib.MatplotlibDeprecationWarning")
def test_any_name_can_be_drawn(tmp_path):
    """Every character that can be typed, alone and between others, in names and units."""
    names = ("a{ a}b a^ a\\b 'x'", string.punctuation)
    posterior = normal_posterior(400, names=names, units=("km^2 {", string.punctuation[::-1]))
    fs.plot.save_figure(posterior.plot(), tmp_path / "picture.png")
    alone = [fs.plot.triangle(normal_posterior(400, names=(c, c + c), units=("", ""))) for c in "{}^\\"]
    for number, axes in enumerate(alone):
        fs.plot.save_figure(axes, tmp_path / f"{number}.png")
    matplotlib.pyplot.close("all")
    assert all(picture.read_bytes()[:4] == b"\x89PNG" for picture in tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) == 1 + len(alone)


def test_a_constant_parameter_is_left_out_of_the_picture():
    posterior = normal_posterior(2000).derive({"one": lambda p: np.ones(len(p["a"])), "c": lambda p: p["a"] * 2})
    assert posterior.plot(truth={"a": 0.5, "b": -0.7, "one": 1.0, "c": 1.0}).shape == (3, 3)
    matplotlib.pyplot.close("all")


def test_pictures():
    axes = normal_posterior(2000, names=("a 1", "b")).plot(truth={"a 1": 0.5, "b": -0.7})
    assert axes.shape == (2, 2)
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.quantiles([0.5, 1.2]), "levels: expected one or more numbers from 0 to 1"),
        (lambda p: p.derive({"a": lambda q: q["b"]}), r"functions\['a'\]: there is a parameter of that name"),
        (lambda p: p.derive({"c": 3.0}), r"functions\['c'\]: expected a function"),
        (lambda p: p.derive({"c": lambda q: 3.0}), r"functions\['c'\]: expected one number per draw"),
        (lambda p: p.derive({"c": lambda q: q["a"] * np.nan}), r"functions\['c'\]: expected finite"),
        (lambda p: p.derive({"c": lambda q: q["a"]}, units={"d": "m"}), "units: unknown parameter name 'd'"),
        (lambda p: p.derive([("c", abs)]), "functions: expected a mapping"),
        (lambda p: p.derive({"": lambda q: q["a"]}), r"functions\[''\]: expected a name"),
        (lambda p: p.derive({"a\nb": lambda q: q["a"]}), "expected a name that is a text and can be printed"),
        (lambda p: p.derive({3: lambda q: q["a"]}), r"functions\[3\]: expected a name"),
        (lambda p: p.quantiles(None), "levels: expected numbers, got None"),
        (lambda p: fs.plot.triangle([]), "posteriors: expected one or more, got an empty list"),
        (lambda p: fs.plot.triangle([p, p], labels=["one"]), "labels: expected a list of 2 texts"),
        (lambda p: fs.plot.triangle(p, labels="one"), "labels: expected a list of 1 texts"),
        (lambda p: fs.Posterior.load(3), "path: expected a folder"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(fs.ArgumentError, match=message):
        call(normal_posterior(100))
