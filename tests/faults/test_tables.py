"""Tables of any making: copies of rows, rows far away, parameters that go together, data without noise."""

import warnings

import numpy as np
import pytest

import fisherscore as fs

BOX = fs.uniform(a=(0.0, 1.0), b=(0.0, 1.0))
RNG = np.random.default_rng(0)
THETA = RNG.uniform(size=(300, 2))
X = THETA * [1, 3] + 0.1 * RNG.normal(size=(300, 2))
FORM = fs.ClosedFormRecipe()


def score(theta, x):
    """Fit a table, and return the score at one place."""
    model = fs.fit(fs.from_table(theta, x, BOX), recipe=FORM, progress=False)
    return np.asarray(model.score([0.5, 0.5], [0.6, 1.4]))


EXACT = np.array([0.1, -0.3]) / 0.01  # (x - mean) dmean/dtheta / variance


def test_a_row_far_away_does_not_decide_about_the_fit():
    right = score(THETA, X)
    np.testing.assert_allclose(right, EXACT, atol=5)
    theta, x = np.concatenate([THETA, [[1e6, 0.5]]]), np.concatenate([X, X[:1]])
    with pytest.warns(fs.FisherScoreWarning, match="1 of 301 rows are left out.*row 300"):
        np.testing.assert_allclose(score(theta, x), right, rtol=1e-6)
    near = np.concatenate([THETA, [[1.9, 0.5]]]), np.concatenate([X, [[1.9, 1.5]]])  # helps at the edge, and stays
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not np.array_equal(score(*near), right)


def test_rows_of_which_hardly_any_is_near_are_refused():
    with pytest.warns(fs.FisherScoreWarning, match="left out"), pytest.raises(fs.ArgumentError, match="at least 10"):
        score(np.concatenate([THETA[:5], THETA + 5]), np.concatenate([X[:5], X]))


@pytest.mark.parametrize("copies", [slice(None), slice(0, 50)])
def test_copies_of_rows_count_once(copies):
    theta, x = np.concatenate([THETA, THETA[copies]]), np.concatenate([X, X[copies]])
    with pytest.warns(fs.FisherScoreWarning, match="are copies of others"):
        np.testing.assert_allclose(score(theta, x), score(THETA, X), rtol=1e-6)


def test_runs_repeated_at_the_same_parameters_are_no_copies():
    theta = np.repeat(THETA[:60], 5, axis=0)
    counts = RNG.poisson(2 + 3 * theta)  # some of which are the same
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fs.fit(fs.from_table(theta, counts, BOX), recipe=FORM, progress=False)


DEPENDENT = {
    "the same": (THETA[:, [0, 0]], "a, b go together"),
    "nearly the same": (THETA[:, [0, 0]] + 1e-6 * RNG.normal(size=(300, 2)), "a, b go together"),
    "constant": (np.stack([THETA[:, 0], np.full(300, 0.5)], 1), "b hardly varies"),
    "all constant": (np.full((300, 2), 0.5), "a hardly varies"),
    "two values": (np.round(THETA), "a hardly varies"),
}


@pytest.mark.parametrize("case", DEPENDENT)
def test_parameters_that_cannot_be_told_apart_are_refused(case):
    theta, words = DEPENDENT[case]
    with pytest.raises(fs.ArgumentError, match=words):
        fs.fit(fs.from_table(theta, X, BOX), progress=False)


def test_parameters_that_nearly_go_together_are_warned_of():
    theta = THETA[:, [0, 0]] + np.stack([np.zeros(300), 2e-3 * RNG.normal(size=300)], 1)
    with pytest.warns(fs.FisherScoreWarning, match="go together"):
        fs.fit(fs.from_table(theta, X, BOX), recipe=FORM, progress=False)


def test_three_values_of_a_parameter_will_do():
    score(np.round(2 * THETA) / 2, X)


def test_data_without_any_noise_are_told():
    with pytest.raises(fs.ArgumentError, match="x is the same in all 300 rows"):
        fs.fit(fs.from_table(THETA, np.ones((300, 2)), BOX), progress=False)
    with pytest.warns(fs.FisherScoreWarning, match="hardly any noise"):
        score(THETA, np.sin(THETA))
    with (
        pytest.warns(fs.FisherScoreWarning, match="hardly any noise"),
        pytest.raises(fs.TrainingError, match="no noise"),
    ):
        fs.fit(fs.from_table(THETA, THETA * [1, 3], BOX), progress=False)
