"""Whether networks join: on data that depend on the parameters as no closed form sees it, and on data that do not."""

import jax
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.fitting import network_trial, trainers
from fisherscore.fitting.data import Rows
from fisherscore.fitting.implicit_risk import ImplicitRisk, Terms, edge_weights
from fisherscore.fitting.network_trial import NetworkTrial
from fisherscore.fitting.options import FitOptions

TRAINER = fs.DensityTrainer(num_members=3, num_steps=600, settings={"hidden": (8, 8), "num_components": 2})
QUIET = FitOptions(0, False, None)


def trial_of(x, little_left=True):
    """Make data of normal numbers, with the parameter or without it, of which closed forms say nothing."""
    u = np.random.default_rng(0).uniform(-1, 1, (len(x), 1))
    x = x + 0 * u if x.shape[1] == 1 else np.where(x[:, :1] < 0, -1, 1) * 2 * u + 0.3 * x[:, 1:]
    test, base = Rows(u[:400], x[:400]), Terms(np.zeros((400, 1)), np.zeros(400))
    risk = ImplicitRisk(edge_weights(test.u), np.eye(1))
    return NetworkTrial(Rows(u[400:], x[400:]), np.zeros_like(u[400:]), test, base, risk, little_left)


DEPENDENT = np.random.default_rng(2).normal(size=(1600, 2))
INDEPENDENT = DEPENDENT[:, :1]


def test_networks_join_the_same_side_by_side_and_as_one_batch(monkeypatch):
    trial = trial_of(DEPENDENT)
    joined, details = trial.run(TRAINER, jax.random.key(0), QUIET)
    assert list(joined.networks) == ["network 1", "network 2", "network 3"] and details["network_used"]
    for module in (network_trial, trainers):
        monkeypatch.setattr(module, "runs_members_as_one", lambda requests: True)
    as_one, _ = trial.run(TRAINER, jax.random.key(0), QUIET)
    assert as_one.weights == pytest.approx(joined.weights, rel=0.02)
    for name, network in joined.networks.items():
        here = trainers.network_terms(network, trial.test, np.eye(1)).scores
        there = trainers.network_terms(as_one.networks[name], trial.test, np.eye(1)).scores
        assert np.mean((here - there) ** 2) < 1e-2 * np.mean(here**2)


def test_networks_that_learn_nothing_are_given_up_where_little_is_left_to_learn():
    trial = trial_of(INDEPENDENT)
    joined, details = trial.run(TRAINER, jax.random.key(0), QUIET)
    assert joined is None and not details["network_used"] and details["stopped_early"]
    # Where closed forms leave much, it may come late.
    _, patient = trial_of(INDEPENDENT, little_left=False).run(TRAINER, jax.random.key(0), QUIET)
    assert details["num_epochs"] < 0.75 * patient["num_epochs"]
    # What was judged is what the whole training would have kept, unless that found something better later on.
    np.testing.assert_array_equal(details["loss"], patient["loss"][: details["num_epochs"]])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sims. the score was badly learned")  # two thin modes, few simulations
@pytest.mark.parametrize("seed", [1, 2])
def test_two_thin_modes_are_learned_though_the_held_out_loss_stops_falling_at_first(seed):
    problem = fs.problems.two_moons()
    sims = fs.simulate(problem.simulator, problem.proposal, 1_000, seed=seed, progress=False)
    model = fs.fit(sims, progress=False)
    assert model.provenance["network_used"] and model.provenance["network_gain"] > 1.0
