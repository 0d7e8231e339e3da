"""What an aimed posterior is off by, as fits to fewer simulations say, against what it is off by."""

from dataclasses import replace

import equinox as eqx
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.inference.aiming.local_error import needs_a_closer_look, said_of, with_local_error

pytestmark = pytest.mark.filterwarnings("ignore::fisherscore.errors.FisherScoreWarning")
DESIGN = np.array([[1.0, 0.5], [0.2, 1.0], [1.0, -1.0]])
NOISE = 0.05
X_OBS = DESIGN @ [1.0, -0.5]
COVARIANCE = NOISE**2 * np.linalg.inv(DESIGN.T @ DESIGN)
DRAWS = np.random.default_rng(0).multivariate_normal([1.0, -0.5], COVARIANCE, 2_000)
REGION = fs.uniform(a=(-3.0, 3.0), b=(-3.0, 3.0)).around(DRAWS)
RECIPE = fs.AutoRecipe(closed_forms=("gaussian",), density=None, network=None)


def linear(theta, rng):
    return DESIGN @ theta + NOISE * rng.standard_normal(3)


def again(sims, seed):
    return fs.fit(sims, recipe=RECIPE, seed=seed, progress=False)


def looked_at(num, seed, change=lambda model: model):
    """Return model, its posterior's draws as they should be, and the model that knows its local error."""
    sims = fs.simulate(fs.from_python(linear), REGION, num, seed=seed)
    model = change(again(sims, 0))
    posterior = fs.sample(model, X_OBS, num_samples=500, seed=seed)
    return model, posterior, with_local_error(model, X_OBS, posterior, sims, again)


def mean_square(error):
    """Return the mean square of how far the posterior is off, summed over directions, in its σ."""
    return np.trace(COVARIANCE @ error)


@pytest.mark.slow
def test_it_is_what_posteriors_are_off_by():
    said, off = [], []
    for seed in range(12):
        _, posterior, closer = looked_at(120, seed)
        said.append(mean_square(closer.own_error.covariance))
        shift, found = posterior.mean - [1.0, -0.5], np.linalg.solve(COVARIANCE, np.cov(posterior.samples.T))
        # Twice the Kullback-Leibler divergence of two normal distributions.
        off.append(shift @ np.linalg.solve(COVARIANCE, shift) + np.trace(found) - 2 - np.linalg.slogdet(found)[1])
    # Twelve mean squares of two directions scatter by a third; the divergence of the draws' own noise is 0.003.
    assert 0.5 < np.mean(said) / np.mean(off) < 2.5


@pytest.mark.slow
def test_a_model_that_is_unlike_its_fits_is_far_off():
    good, posterior, closer = looked_at(300, 1)
    assert mean_square(closer.own_error.covariance) < 0.25
    assert not needs_a_closer_look(posterior, good)

    def shrunk(model):  # a control: twice as wide
        return replace(model, function=eqx.tree_at(lambda s: s.weights, model.function, 0.25 * model.function.weights))

    _, posterior, worse = looked_at(300, 1, shrunk)
    assert mean_square(worse.own_error.covariance) > 10 * mean_square(closer.own_error.covariance)
    assert needs_a_closer_look(posterior, worse)
    assert "off by up to" in said_of(posterior, good, worse)


def test_what_cannot_be_learned_from_fewer_stays_as_it_was():
    sims = fs.simulate(fs.from_python(linear), REGION, 300, seed=1)
    model = again(sims, 0)
    posterior = fs.sample(model, X_OBS, num_samples=100)

    def fails(sims, seed):
        raise fs.TrainingError("too few")

    assert with_local_error(model, X_OBS, posterior, sims, fails) is model
