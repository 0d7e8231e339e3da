"""Counts that are zero but in a few simulations do not spoil what other data tell."""

import warnings

import numpy as np
import pytest

import fisherscore as fs
from fisherscore.fitting import recipes
from fisherscore.fitting.cross_validation import fits_of
from fisherscore.fitting.data import Rows
from fisherscore.fitting.rare_events import hardly_ever_changes
from fisherscore.potentials.closed_forms import CLOSED_FORMS

_RECIPE = fs.AutoRecipe(density=None)
_SLOPE = 2.0


def _simulations(num: int, num_events: int, seed: int = 0) -> fs.Simulations:
    """Draw two Gaussian data of means 2θ, and a count that is one in so many rows."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform(-1, 1, (num, 2))
    count = np.zeros(num)
    count[rng.choice(num, num_events, replace=False)] = 1.0
    x = np.column_stack([_SLOPE * theta + rng.standard_normal((num, 2)), count])
    return fs.from_table(theta, x, fs.uniform({"a": (-1, 1), "b": (-1, 1)}))


def _error(model: fs.FittedScore, num_events: int) -> float:
    fresh = _simulations(300, num_events, seed=1)
    scores = np.stack([np.asarray(model.score(t, x)) for t, x in zip(fresh.theta, fresh.x, strict=True)])
    true = _SLOPE * (fresh.x[:, :2] - _SLOPE * fresh.theta)
    return float(np.mean((scores - true) ** 2) / np.mean(true**2))


@pytest.mark.parametrize("num_events", [1, 12, 25])
def test_a_few_events_spoil_nothing(num_events):
    model = fs.fit(_simulations(500, num_events), recipe=_RECIPE, progress=False)
    assert _error(model, 30) < 0.05 and model.estimated_error < 0.1


def test_without_care_they_do(monkeypatch):
    monkeypatch.setattr(recipes, "hardly_ever_changes", lambda x: np.zeros(x.shape[1:], dtype=bool))
    with pytest.warns(fs.FisherScoreWarning, match="badly learned"):
        model = fs.fit(_simulations(500, 12), recipe=_RECIPE, progress=False)
    assert _error(model, 30) > 0.15 and model.estimated_error > 0.3


def test_a_model_does_not_look_at_them_and_remembers_it(tmp_path):
    model = fs.fit(_simulations(500, 5), recipe=_RECIPE, progress=False)
    model.save(tmp_path / "model")
    x = np.array([[0.3, -0.2, 0.0], [0.3, -0.2, 1.0]])
    for one in (model, fs.load(tmp_path / "model")):
        without, with_event = np.asarray(one.score([0.1, 0.2], x))
        assert np.array_equal(without, with_event)


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e6])
def test_a_posterior_of_an_event_says_what_it_left_out(unit, tmp_path):
    sims = _simulations(500, 12)
    sims = fs.from_table(sims.theta, sims.x * unit, sims.proposal)
    fs.fit(sims, recipe=fs.ClosedFormRecipe("gaussian"), progress=False).save(tmp_path)
    model = fs.load(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.FisherScoreWarning)  # each of the problems looked at below
        without, with_event = (
            fs.sample(model, unit * np.array([0.3, -0.2, event]), num_samples=100, num_warmup=100, progress=False)
            for event in (0.0, 1.0)
        )
    assert not any("hardly any simulation" in problem for problem in without.problems)
    assert any("hardly any simulation" in problem and "x[2]" in problem for problem in with_event.problems)


def test_which_data_hardly_ever_change():
    rows = np.arange(1_000)
    x = np.column_stack([rows < 0, rows == 700, rows % 40 == 7, rows % 30 == 7, rows, rows % 2]).astype(float)
    assert hardly_ever_changes(x).tolist() == [False, True, True, False, False, False]
    assert hardly_ever_changes(x[:, [4]].reshape(-1, 1, 1)).shape == (1, 1)
    assert not hardly_ever_changes(x[:60, 2:3] * 0 + (rows[:60, None] % 8 == 0)).any()


def test_where_all_data_hardly_ever_change_none_is_left_out():
    rng = np.random.default_rng(2)
    theta = rng.uniform(-1, 1, (300, 2))
    x = (rng.random((300, 3)) < 0.01 * np.exp(2 * theta[:, :1])).astype(float)
    assert hardly_ever_changes(x).all()
    with pytest.warns(fs.FisherScoreWarning, match="badly learned"):
        model = fs.fit(fs.from_table(theta, x, fs.uniform({"a": (-1, 1), "b": (-1, 1)})), recipe=_RECIPE)
    assert np.any(model.score([0.1, 0.2], x[x.any(axis=1)][0]))


def test_a_closed_form_that_comes_upon_a_singular_matrix_is_left_out():
    class Singular:
        max_data = 100

        def fit(self, points, rows):
            raise np.linalg.LinAlgError("Singular matrix")

    sims = _simulations(200, 100)
    rows = Rows(sims.theta, sims.x)
    gaussian = CLOSED_FORMS["gaussian"]
    assert list(fits_of({"singular": Singular(), "gaussian": gaussian}, rows.points, rows.x)) == ["gaussian"]
    with pytest.raises(np.linalg.LinAlgError):
        fits_of({"singular": Singular()}, rows.points, rows.x)
    with pytest.raises(np.linalg.LinAlgError):  # two, and the data are to blame
        fits_of({"singular": Singular(), "again": Singular(), "gaussian": gaussian}, rows.points, rows.x)
