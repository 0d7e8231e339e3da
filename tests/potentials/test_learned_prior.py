"""Priors learned from the data: of many interactions few are there, and the others must cost nothing."""

import numpy as np

from fisherscore._support.legendre import Basis
from fisherscore.potentials import gaussian
from fisherscore.potentials.gaussian import fit_mean_and_covariance
from fisherscore.potentials.points import Points

P, DATA, NUM = 12, 60, 1_500
RNG = np.random.default_rng(4)
BASIS = Basis(P, 2)
INTERACTING = RNG.choice(np.arange(1 + P, len(BASIS)), 6, replace=False)


def truth():
    coefficients = np.zeros((len(BASIS), DATA))
    coefficients[1 : 1 + P] = RNG.normal(size=(P, DATA))
    coefficients[INTERACTING] = 0.5 * RNG.normal(size=(6, DATA))
    return coefficients


def error_of(coefficients):
    u = RNG.uniform(-1.0, 1.0, (NUM, P))
    rows = BASIS(u) @ coefficients + RNG.normal(size=(NUM, DATA))
    fitted = fit_mean_and_covariance(Points(u), rows)
    assert fitted.basis == BASIS
    missed = fitted.mean - coefficients
    return np.sum(missed[1 + P :] ** 2), np.sum(missed[INTERACTING] ** 2)


def test_interactions_that_are_not_there_cost_nothing_and_those_that_are_stay(monkeypatch):
    coefficients = truth()
    errors = np.mean([error_of(coefficients) for _ in range(3)], axis=0)
    exact = len(INTERACTING) * DATA / NUM  # what least squares would miss if it knew which terms there are
    assert errors[0] < 1.6 * exact and errors[1] < 1.4 * exact
    monkeypatch.setattr(gaussian, "_MIN_DATA_OF_LEARNED_PRIOR", np.inf)  # the control: one size for all
    assert error_of(coefficients)[0] > 4 * exact


def test_forty_parameters_have_interactions_where_simulations_allow():
    u = RNG.uniform(-1.0, 1.0, (4_000, 40))
    rows = u[:, :1] * u[:, 1:2] + 0.3 * RNG.normal(size=(4_000, 2))
    assert fit_mean_and_covariance(Points(u), rows).basis.degree == 2
    assert fit_mean_and_covariance(Points(u[:1_000]), rows[:1_000]).basis.degree == 1  # the control: too few
