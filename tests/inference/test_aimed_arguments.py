"""Aimed models under priors that are no boxes, combined ones, and arguments that are looked at before simulations."""

import numpy as np
import numpyro.distributions as dist
import pytest

import fisherscore as fs
from fisherscore.inference.constraints import prior_precision

pytestmark = pytest.mark.filterwarnings("ignore::fisherscore.errors.FisherScoreWarning")
DESIGN = np.array([[1.0, 0.5], [0.2, 1.0], [1.0, -1.0]])
BOX = fs.uniform(a=(-3.0, 3.0), b=(-3.0, 3.0))
X_OBS = np.array([0.03, -0.02, 0.01])
# A narrow region along a diagonal.
DRAWS = np.random.default_rng(0).standard_normal((500, 2)) @ np.array([[0.1, 0.09], [0.0, 0.03]])


def linear(theta, rng):
    return DESIGN @ theta + 0.05 * rng.standard_normal(3)


SIMULATOR = fs.from_python(linear)
REGION = BOX.around(DRAWS)


@pytest.fixture(scope="module")
def model():
    return fs.fit(fs.simulate(SIMULATOR, REGION, 400), recipe=fs.ClosedFormRecipe("gaussian"))


def drawn(model, prior):
    return fs.sample(model, X_OBS, prior=prior, num_samples=500).samples


def test_inequalities_hold_in_a_region_with_axes_of_its_own(model):
    free, cut = drawn(model, None), drawn(model, fs.restricted_prior(None, "a + b >= 0.02"))
    told = drawn(model, fs.restricted_prior(None, lambda theta: theta[0] + theta[1] >= 0.02))
    assert (free.sum(axis=1) < 0.02).mean() > 0.2  # without the restriction, many draws are there
    assert (cut.sum(axis=1) >= 0.02 - 1e-4).all()
    np.testing.assert_allclose(cut.mean(axis=0), told.mean(axis=0), atol=0.2 * free.std())


def test_a_law_on_a_support_that_is_no_box_ends_where_it_does(model):
    ordered = dist.TransformedDistribution(
        dist.Normal(0.0, 1.0).expand([2]).to_event(1), dist.transforms.OrderedTransform()
    )
    assert (np.diff(drawn(model, {("a", "b"): ordered}), axis=1) >= -1e-4).all()


def test_a_combined_model_knows_the_regions_of_all(model):
    other = fs.FunctionScore(BOX, (2,), score=lambda theta, x: x - theta)
    corner = np.array([REGION.high[0], REGION.low[1]])
    assert not model.inside(corner)
    assert other.inside(corner)
    both = fs.combine(model, other)
    assert not both.inside(corner)
    assert both.inside(DRAWS.mean(axis=0))


def test_parameters_without_a_prior_are_as_wide_as_the_region():
    whole = np.linalg.inv(REGION.region_precision())
    precision = prior_precision(REGION, {"a": dist.Normal(0.0, 5.0)})
    assert precision[1, 1] == pytest.approx(1 / whole[1, 1])
    assert precision[1, 1] < 0.9 * REGION.region_precision()[1, 1]


def never(theta, rng):
    raise AssertionError("nothing should be simulated")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"recipe": "atuo"}, "recipe: expected"),
        ({"num_samples": 5}, "num_samples: expected"),
        ({"num_rounds": 40}, "num_rounds: with 40 rounds"),
    ],
)
def test_arguments_are_looked_at_before_anything_is_simulated(options, words, tmp_path):
    with pytest.raises(fs.ArgumentError, match=words):
        fs.infer(fs.from_python(never), X_OBS, BOX, 400, out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_an_observation_that_is_no_number_leaves_no_folder(tmp_path):
    with pytest.raises(fs.ArgumentError, match="x_obs"):
        fs.infer(fs.from_python(never), [np.nan, 0.0, 0.0], BOX, 400, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"num_simulations": 480}, "another num_simulations, 240 instead of 480"),
        ({"seed": 8}, "another seed, 7 instead of 8"),
        ({"num_rounds": 1}, r"another num_rounds, by which its rounds were of \[\d+, \d+\] .* be of \[240\]"),
        ({"x_obs": [0.0, 0.1, 0.0]}, r"another observation\."),
    ],
)
def test_a_folder_says_what_was_changed(changed, words, tmp_path):
    asked = {"x_obs": X_OBS, "proposal": BOX, "num_simulations": 240, "seed": 7, "out": tmp_path}
    with pytest.raises(fs.SimulationError, match="failed on each"):  # begun, but no more
        fs.infer(fs.from_python(never), **asked)
    with pytest.raises(fs.CampaignError, match=words):
        fs.infer(fs.from_python(never), **{**asked, **changed})


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(fs.CampaignError, match="is a file, or lies in one"):
            fs.infer(fs.from_python(never), X_OBS, BOX, 240, out=out)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_prior_much_wider_than_the_proposal_is_cut_off_by_it():
    prior = {name: dist.Normal(0.0, 300.0) for name in BOX.names}
    result = fs.infer(SIMULATOR, X_OBS, BOX, 300, prior=prior, recipe=fs.ClosedFormRecipe("gaussian"), num_samples=300)
    assert result.verdict == "right"
    assert any("does not know its own error" in text for text in result.findings)
    assert np.abs(result.posterior.mean).max() < 0.2
