"""The classifier of the public benchmark: what cannot be told, what can, and many pairs as one by one."""

import numpy as np
import pytest
from benchmarks.sbi_tasks.classifier import c2st, c2st_of_many


def pair(shift, seed=0, num=800):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(num, 2)), rng.normal(size=(num, 2)) + np.array([shift, 0.0])


def test_many_pairs_are_told_as_by_scikit_learn():
    shifts = [0.0, 1.0, 3.0]
    many = c2st_of_many([pair(s, seed=k) for k, s in enumerate(shifts)])
    exact = [0.5, 0.6915, 0.9332]  # the best rule: which mean is nearer
    assert np.allclose(many, exact, atol=0.04)
    assert abs(many[1] - c2st(*pair(1.0, seed=1))) < 0.02


def test_pairs_of_other_sizes_stand_in_their_place():
    small, wide = pair(0.0, num=600), pair(4.0)
    found = c2st_of_many([wide, small, wide])
    assert found[0] == pytest.approx(found[2], abs=0.01)
    assert found[0] > 0.95 > 0.6 > found[1]


def test_too_few_draws_are_refused():
    with pytest.raises(ValueError, match="at least 250 draws"):
        c2st_of_many([pair(0.0, num=50)])
