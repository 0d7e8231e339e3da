"""Counts that are zero but in a few simulations do not spoil what other data tell."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.fitting import recipes
from fisherscore.fitting.cross_validation import fits_of
from fisherscore.fitting.data import Rows
from fisherscore.fitting.rare_events import hardly_ever_changes
from fisherscore.inference.posterior_checks import unlearned_problems
from fisherscore.potentials.base import Frame
from fisherscore.potentials.closed_forms import CLOSED_FORMS
from fisherscore.potentials.points import Points
from fisherscore.potentials.rare_events import RareEventsFitter, log_linear_rate
from fisherscore.potentials.sizes import check_description

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


def test_a_closed_form_by_itself_does_not_look_at_them_and_remembers_it(tmp_path):
    model = fs.fit(_simulations(500, 5), recipe=fs.ClosedFormRecipe("gaussian"), progress=False)
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


def _told(num: int, seed: int = 0) -> fs.Simulations:
    """Draw one Gaussian datum of mean a, and a count whose rate e^(4 b - 6) rises with b, in half of the rows zero."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform(-1, 1, (num, 2))
    x = np.column_stack([theta[:, 0] + 0.5 * rng.standard_normal(num), rng.poisson(np.exp(_RISE * theta[:, 1] - 6.0))])
    return fs.from_table(theta, x, fs.uniform({"a": (-1, 1), "b": (-1, 1)}))


_RISE = 4.0


def _told_slope(model: fs.FittedScore) -> float:
    """Say by how much one event moves the score of b, which is e^(4 b - 6)'s logarithmic slope."""
    without, with_event = np.asarray(model.score([0.1, 0.2], [[0.0, 0.0], [0.0, 1.0]]))
    assert with_event[0] - without[0] == pytest.approx(0.0, abs=1.0)
    return float(with_event[1] - without[1])


def test_how_often_they_come_is_learned(tmp_path, monkeypatch):
    sims = _told(1_000)
    assert 10 < (sims.x[:, 1] > 0).sum() < 30
    model = fs.fit(sims, recipe=_RECIPE, progress=False)
    model.save(tmp_path / "model")
    slopes = [_told_slope(model), _told_slope(fs.load(tmp_path / "model"))]
    assert slopes[0] == slopes[1] == pytest.approx(_RISE, abs=0.4 * _RISE)
    whole = recipes.rows_with_rare_events
    monkeypatch.setattr(recipes, "rows_with_rare_events", lambda sims, is_read: whole(sims, is_read=False))
    assert _told_slope(fs.fit(sims, recipe=_RECIPE, progress=False)) == 0.0  # the control: they are left out


def test_a_value_beyond_all_simulated_ones_is_told():
    sims = _told(1_000)
    model = fs.fit(sims, recipe=_RECIPE, progress=False)
    largest = sims.x[:, 1].max()
    told = [unlearned_problems(model, np.array([0.0, value])) for value in (0.0, 1.0, largest, largest + 1)]
    assert [len(problems) for problems in told] == [0, 0, 0, 1]
    assert model.score([0.1, 0.2], [0.0, 10 * largest])[1] == model.score([0.1, 0.2], [0.0, largest])[1]


def _events(slope: float, level: float, num: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, (num, 2))
    return u, rng.poisson(np.exp(level + slope * u[:, 0])).astype(float)


@pytest.mark.parametrize("clump", [1.0, 30.0, 1e-4])
def test_rates_are_found_whatever_the_size_of_an_event(clump):
    u, y = _events(2.0, -4.0, 20_000)
    size, level, slope = log_linear_rate(u, clump * y)
    error = 1 / np.sqrt(y.sum() * np.var(u[y > 0], axis=0))
    assert size * clump == pytest.approx(1.0, abs=0.15)  # some have two events
    assert np.abs(slope - [2.0, 0.0]).max() < 3 * error.max() < 0.5
    assert np.exp(level + u @ slope).sum() == pytest.approx(size * clump * y.sum(), rel=1e-6)
    assert abs(slope[0]) > 10 * error[0]  # a slope of zero would fail


def test_of_one_event_little_is_believed():
    u, _ = _events(0.0, -4.0, 500)
    slopes = np.array([log_linear_rate(u, np.arange(500) == place)[2] for place in range(0, 500, 10)])
    few = [log_linear_rate(*_events(4.0, -6.0, 500, seed))[2][0] for seed in range(10)]
    assert np.sqrt(np.mean(slopes**2)) < 1.0 and 2.0 < np.median(few) < 5.0
    assert np.all(log_linear_rate(u, np.zeros(500))[2] == 0)


def test_scores_are_gradients_in_numpy_and_in_jax():
    sims = _told(1_000)
    _, rows, places = recipes.rows_with_rare_events(sims, is_read=True)
    form = RareEventsFitter(CLOSED_FORMS["gaussian"], places).fit(rows.points, rows.x)
    chosen = np.concatenate([np.flatnonzero(sims.x[:, 1])[:5], np.arange(5)])
    frame = Frame(np.eye(2))
    scores, traces = form.evaluate(Points(rows.u[chosen]), rows.x[chosen], frame)
    for row, score, trace in zip(chosen, scores, traces, strict=True):
        u, x = jnp.asarray(rows.u[row], jnp.float32), jnp.asarray(rows.x[row], jnp.float32)
        assert jax.grad(form.potential)(u, x) == pytest.approx(score, rel=1e-3, abs=1e-3)
        assert np.asarray(form.value_and_score(u, x)[1]) == pytest.approx(score, rel=1e-3, abs=1e-3)
        assert float(jnp.trace(jax.hessian(form.potential)(u, x))) == pytest.approx(trace, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("places", [[1, 1], [2, 1], [-1], [200], ["1"], [True], 3])
def test_places_of_a_damaged_file_are_refused(places):
    inner = {"architecture": "gaussian_baseline", "settings": {"degree": 1}}
    check_description(
        {"architecture": "rare_events", "settings": {"places": [*range(150)], "inner": inner}}, 2, 200, 999
    )
    damaged = {"architecture": "rare_events", "settings": {"places": places, "inner": inner}}
    with pytest.raises(ValueError, match="damaged"):
        check_description(damaged, 2, 200, 999)


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
