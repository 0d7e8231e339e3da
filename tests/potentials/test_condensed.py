"""Linear summaries of many data: two ways to the same regression, and what regressions that saw their rows claim."""

import numpy as np
import pytest

from fisherscore.potentials.condensed import _RIDGES, _by_columns, _by_rows, _regressed


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(7)
    targets = rng.normal(size=(60, 2))
    x = targets @ rng.normal(size=(2, 90)) + 3.0 * rng.normal(size=(60, 90)) * rng.uniform(0.5, 2.0, 90) + 5.0
    return x, targets, np.array_split(rng.permutation(60), 5)


def test_fewer_rows_than_columns_are_regressed_by_their_products_to_the_same_end(table):
    x, targets, parts = table
    for ours, theirs in zip(_by_rows(x, targets, parts), _by_columns(x, targets, parts), strict=True):
        np.testing.assert_allclose(ours.centre, theirs.centre)
        np.testing.assert_allclose(ours.level, theirs.level, atol=1e-12)
        for ridge, one, other in zip(_RIDGES, ours.solutions, theirs.solutions, strict=True):
            largest = np.abs(other).max()
            np.testing.assert_allclose(one, other, atol=1e-7 * largest / min(ridge, 1.0))


def test_guesses_are_of_rows_that_were_not_seen(table):
    x, targets, parts = table
    own, unseen, offset = _regressed(x, targets, parts)
    # Targets that have nothing to do with the data are not guessed; the control, by rows that were seen, is sharp.
    noise = np.random.default_rng(8).normal(size=targets.shape)
    _, blind, _ = _regressed(x, noise, parts)
    seen = _by_rows(x, noise, [np.zeros(0, int)])[0]
    sharp = (x - seen.centre) @ seen.solutions[0] + seen.level
    assert np.mean((unseen - targets) ** 2) < 0.5 * np.mean(targets**2)
    assert np.mean((blind - noise) ** 2) > 0.9 * np.mean(noise**2)
    assert np.mean((sharp - noise) ** 2) < 0.1 * np.mean(noise**2)
    assert own.shape == (90, 2) and offset.shape == (2,)
