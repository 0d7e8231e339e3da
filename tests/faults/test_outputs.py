"""What simulators return that is no plain array of numbers: never taken for data with a wrong value."""

import jax
import numpy as np
import pytest

import fisherscore as fs
from fisherscore._support.arguments import as_finite
from fisherscore._support.masks import with_nan_for_masked
from fisherscore.simulation.execution.run import outcome_of

MASKED = np.ma.masked_array([1.0, -999.0, 2.0], mask=[False, True, False], fill_value=-999.0)


@pytest.mark.parametrize(
    ("value", "status"),
    [
        (MASKED, "nonfinite"),
        (MASKED.astype(int), "nonfinite"),
        ([MASKED, MASKED], "nonfinite"),
        ([[MASKED], [np.ones(3)]], "nonfinite"),
        ((1.0, np.ma.masked), "nonfinite"),
        (np.ma.masked, "nonfinite"),
        (np.ma.masked_array([1.0, 2.0]), "ok"),
        (np.array(["NaT", "2020-01-01"], "M8[D]"), "nonfinite"),
        (np.array(["NaT", 3], "m8[s]"), "nonfinite"),
        (np.array([3, 4], "m8[s]"), "bad_output"),
        (np.array(["2020-01-01"], "M8[D]"), "bad_output"),
        (np.array(["1.0"]), "bad_output"),
        (np.array([1 + 0j]), "bad_output"),
        (np.array([1.0, None]), "bad_output"),
        (np.array([object()]), "bad_output"),
        (np.array([(1.0, 2)], "f8,i8"), "bad_output"),
        (np.ma.masked_array(["a"], mask=[True]), "bad_output"),
        (np.array([np.longdouble("1e400")]), "nonfinite"),
        (np.array([2**53 + 1]), "bad_output"),
        (np.array([-(2**60), 0]), "bad_output"),
        (np.array([2**53 - 1, 0]), "ok"),
        (np.array([float(2**60)]), "ok"),
        ([True, False], "ok"),
        (3, "ok"),
    ],
)
def test_only_finite_real_numbers_are_data(value, status):
    """On 0.1.0 masked entries are data of -999, and spans of time that are none are data of -9.2e18."""
    outcome = outcome_of(value, "The simulator")
    assert outcome.status == status
    assert (outcome.message == "") == (status == "ok")


def test_what_is_masked_becomes_nan_and_nothing_else_changes():
    np.testing.assert_array_equal(with_nan_for_masked(MASKED), [1.0, np.nan, 2.0])
    assert with_nan_for_masked(7) == 7 and with_nan_for_masked([1, 2]) == [1, 2]


def test_a_campaign_counts_them_as_failures():
    def simulator(theta, rng):
        x = np.ma.masked_array(theta + rng.normal(size=2), mask=[rng.uniform() < 0.5, False], fill_value=-999.0)
        x.data[x.mask] = -999.0
        return x

    sims = fs.simulate(fs.from_python(simulator), fs.uniform(a=(0.0, 1.0)), 40)
    assert set(sims.status) == {"ok", "nonfinite"}
    assert not (sims.x == -999.0).any() and np.isnan(sims.x[sims.status == "nonfinite", 0]).all()


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (MASKED, r"got nan at index \(1,\)"),
        ([MASKED, MASKED], r"got nan at index \(0, 1\)"),
        (np.array(["2020-01-01"], "M8[D]"), "datetime64"),
        (np.array([1 + 1j]), "complex128"),
        (np.array(["1.0"]), "<U3"),
        ([1.0, None], "NoneType|expected finite numbers"),
        (np.array([np.longdouble("1e400")]), "got inf"),
    ],
    ids=str,
)
def test_arguments_are_read_the_same_way(value, match):
    with pytest.raises(fs.ArgumentError, match=match):
        as_finite(value, "x")


def test_an_index_that_jax_would_clamp_is_found_before_a_campaign():
    """JAX reads ``theta[2]`` of two parameters as ``theta[1]``: nothing fails, and the data are of another model."""

    def simulator(key, theta):
        return theta[index] + jax.random.normal(key, (3,))

    proposal = fs.uniform(a=(0.0, 1.0), b=(0.0, 1.0))
    index = 2
    beyond = fs.check_simulator(fs.from_jax(simulator, name="beyond"), proposal)
    assert "beyond the end of an array" in beyond.problems[0] and "index 2 is out of bounds" in beyond.problems[0]
    index = 1
    within = fs.check_simulator(fs.from_jax(simulator), proposal)
    assert within.problems == ()
