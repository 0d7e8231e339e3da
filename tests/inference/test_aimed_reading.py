"""Aimed inferences from features of the data and from series that were observed in part, against closed forms."""

import numpy as np
import pytest

import fisherscore as fs
from fisherscore.inference.aiming.reading import Reading

pytestmark = pytest.mark.filterwarnings("ignore::fisherscore.errors.FisherScoreWarning")
DESIGN = np.array([[1.0, 0.5], [0.2, 1.0], [1.0, -1.0]])
NOISE = 0.05
BOX = fs.uniform(a=(-3.0, 3.0), b=(-3.0, 3.0))
X_OBS = DESIGN @ [1.0, -0.5] + NOISE * np.array([1.5, -1.0, -2.3])
SCALE = fs.uniform(log_scale=(-3.0, 3.0))
SERIES, SEEN = 12, np.arange(12) < 6
# All that is asked for here are rounds and a posterior.
QUICK = fs.AutoRecipe(density=None)


def linear(theta, rng):
    return DESIGN @ theta + NOISE * rng.standard_normal(3)


def white(theta, rng):
    return np.where(SEEN, np.exp(theta[0]) * rng.standard_normal(SERIES), 9.0 * rng.standard_normal(SERIES))


def never(theta, rng):
    raise AssertionError("nothing should be simulated")


def first_two(x):
    return x[:2]


def exact(design, x):
    return np.linalg.solve(design, x), NOISE * np.linalg.norm(np.linalg.inv(design), axis=1)


def test_features_and_masks_are_known_again():
    series = np.arange(12.0)
    plain, read = Reading.of(None, None, series, "auto")
    seen, hidden = Reading.of(first_two, SEEN, np.where(SEEN, series, np.nan), "auto")
    assert plain.marks(read) == {}
    assert set(seen.marks(hidden)) == {"features", "mask"}
    assert (
        Reading.of(lambda x: x[2:4], SEEN, series, "auto")[0].marks(hidden)["features"]
        != seen.marks(hidden)["features"]
    )
    assert Reading.of(None, ~SEEN, series, "auto")[0].marks(read)["mask"] != seen.marks(hidden)["mask"]
    assert np.array_equal(seen.rows(np.stack([series, series])), [[0.0, 1.0]] * 2)
    assert np.array_equal(plain.rows(series[None]), series[None])
    assert not Reading.of(None, SEEN, series, "auto")[1][~SEEN].any()


@pytest.mark.slow
def test_features_are_what_is_learned_from(tmp_path):
    options = {"recipe": QUICK, "out": tmp_path}
    found = fs.infer(fs.from_python(linear), X_OBS, BOX, 500, features=first_two, **options).posterior
    mean, sigma = exact(DESIGN[:2], X_OBS[:2])
    assert (np.abs(found.mean - mean) < 0.2 * sigma).all()
    assert np.allclose(found.sigma, sigma, rtol=0.1)
    all_data = np.linalg.lstsq(DESIGN, X_OBS)[0]  # a control: the third datum says something else
    assert (np.abs(found.mean - all_data) > 0.5 * sigma).any()
    with pytest.raises(fs.CampaignError, match="another features"):
        fs.infer(fs.from_python(linear), X_OBS, BOX, 500, features=lambda x: x[1:], **options)
    with pytest.raises(fs.CampaignError, match="another features"):
        fs.infer(fs.from_python(linear), X_OBS, BOX, 500, **options)


@pytest.mark.slow
def test_what_was_not_observed_never_matters():
    x_obs = 0.5 * np.random.default_rng(5).standard_normal(SERIES)
    found = fs.infer(fs.from_python(white), np.where(SEEN, x_obs, np.nan), SCALE, 400, mask=SEEN, recipe=QUICK)
    power = np.mean(x_obs[SEEN] ** 2)
    theta = np.linspace(-3, 3, 20_001)
    log_posterior = -SEEN.sum() * (theta + 0.5 * power * np.exp(-2 * theta))
    weights = np.exp(log_posterior - log_posterior.max())
    mean = np.average(theta, weights=weights)
    sigma = np.sqrt(np.average((theta - mean) ** 2, weights=weights))
    # Statistics of a series do not hold its mean and its power apart, which costs as much as one of six data.
    assert abs(found.posterior.mean[0] - mean) < np.sqrt(1 / 5) * sigma
    assert found.posterior.sigma[0] == pytest.approx(sigma, rel=0.2)
    of_all = mean - 0.5 * np.log(2)  # a control: had the other half been seen, as nothing
    assert abs(found.posterior.mean[0] - of_all) > 0.7 * sigma
    again = fs.sample(found.model, np.where(SEEN, x_obs, -5.0), num_samples=200)
    assert not any("another observation" in problem for problem in again.problems)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"features": 3}, "features: expected a function"),
        ({"features": lambda x: x[99]}, "features: the function fails"),
        ({"mask": np.ones(3)}, "mask: expected true"),
        ({"mask": np.ones(3, bool)}, "mask: is for series and maps"),
        ({"mask": np.ones(3, bool), "recipe": "paper"}, 'mask: is for recipe="auto"'),
    ],
)
def test_features_and_masks_are_looked_at_before_anything_is_simulated(options, words):
    with pytest.raises(fs.ArgumentError, match=words):
        fs.infer(fs.from_python(never), X_OBS, BOX, 400, **options)
