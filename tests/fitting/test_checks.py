"""Refusals and warnings come before any fit, and only where they should."""

import warnings

import numpy as np
import pytest

import fisherscore as fs
from fisherscore.fitting.checks import check_number, warn_if_deterministic, warn_if_imprecise
from fisherscore.fitting.data import Rows

RNG = np.random.default_rng(0)
U = RNG.uniform(-1, 1, (300, 2))
NOISE = RNG.normal(size=(300, 1))


def test_a_datum_without_noise_is_named():
    with pytest.warns(fs.FisherScoreWarning, match="datum 1 has hardly any noise"):
        warn_if_deterministic(Rows(U, np.hstack([NOISE, U[:, :1] ** 2])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_deterministic(Rows(U, np.hstack([NOISE, U[:, :1] + 0.01 * NOISE])))


def test_numbers_that_hardly_vary_are_named():
    proposal = fs.uniform(a=(-1.0, 1.0))
    with pytest.warns(fs.FisherScoreWarning, match=r"column 0 of x is about 1e\+06.*Subtract a constant"):
        warn_if_imprecise(fs.from_table(U[:, :1], (1e6 + NOISE).astype(np.float32), proposal))
    with pytest.warns(fs.FisherScoreWarning, match="which double precision hardly resolves"):
        warn_if_imprecise(fs.from_table(U[:, :1], 1e12 + NOISE, proposal))
    for size in (1e150, 1e-150):
        with pytest.raises(fs.ArgumentError, match=r"column 0 of x is as large as .*in other units"):
            warn_if_imprecise(fs.from_table(U[:, :1], size * np.abs(NOISE), proposal))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_imprecise(fs.from_table(U[:, :1], 1e6 + NOISE, proposal))
        warn_if_imprecise(fs.from_table(U[:, :1], NOISE, proposal))


def test_too_few_simulations_are_refused():
    check_number(10)
    with pytest.raises(fs.ArgumentError, match="at least 10 simulations that succeeded, got 9"):
        check_number(9)


@pytest.mark.parametrize(("form", "limit"), [("gaussian", 1000), ("location_scale", 100), ("mapped", 100)])
def test_a_closed_form_refuses_data_larger_than_its_own_limit(form, limit):
    x = np.random.default_rng(0).normal(size=(20, limit + 1))
    sims = fs.from_table(U[:20, :1], x, fs.uniform(a=(-1.0, 1.0)))
    with pytest.raises(fs.ArgumentError, match=f"{form} is for up to {limit} data, got {limit + 1}"):
        fs.fit(sims, recipe=fs.ClosedFormRecipe(form))
