"""The own error counts what is lost since summaries were learned of few rows; estimates that reuse rows do not."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.fitting.assemble import FitOrigin, assemble
from fisherscore.fitting.cross_fitting import NO_OWNER, fit_learned
from fisherscore.fitting.embed import Summaries
from fisherscore.fitting.learned_subject import module_subject
from fisherscore.fitting.options import FitOptions

RECIPE = fs.AutoRecipe(closed_forms=("location_scale",), density=None, network=None)
PROPOSAL = fs.uniform(log_variance=(-1.0, 1.0))
SIZE = 40


def table(num, seed):
    theta = PROPOSAL.sample(num, seed=seed)
    return fs.from_table(theta, np.exp(theta / 2) * np.random.default_rng(seed).normal(size=(num, SIZE)), PROPOSAL)


def error(model, sims):
    exact = 0.5 * (np.sum(sims.x**2, axis=1, keepdims=True) * np.exp(-sims.theta) - SIZE)
    return np.mean((np.asarray(model.score(sims.theta, sims.x)) - exact) ** 2) / np.mean(exact**2)


def fitted(sims, cross, scatter):
    summaries = Summaries(None, cross)
    options = FitOptions(blocks=summaries.embedding.blocks, scatter=scatter)
    function = RECIPE.fit_function(summaries.of_simulations(sims), options)
    return assemble(function, FitOrigin("test", 0, 0.0), summaries.embedding, sims)


@pytest.mark.parametrize(("num", "seed"), [(400, 4_001), (1_000, 4_002)])
def test_the_own_error_of_a_learned_summary_is_met_and_that_of_seen_rows_is_not(num, seed):
    sims, test = table(num, seed), table(2_000, seed + 10)
    layers = eqx.nn.MLP(SIZE, 4, 64, 1, key=jax.random.key(0))
    module = eqx.nn.Sequential([eqx.nn.Lambda(lambda x: jnp.log(jnp.abs(x) + 0.01)), layers])
    wanted = fs.LearnedSummary(module, num_networks=2, num_steps=num)
    cross = fit_learned(sims, wanted, module_subject(wanted, (SIZE,), lambda x: x), FitOptions(), 1e9)
    model = fitted(sims, cross, Summaries(None, cross).scatter(sims))
    assert 0.5 < model.estimated_error / error(model, test) < 2.0
    # The control: every row is summarised by a network that has seen it, and what networks disagree in is not counted.
    seen = replace(cross, owner=np.where(cross.owner == NO_OWNER, 0, 1 - cross.owner))
    naive = fitted(sims, seen, None)
    assert naive.estimated_error < 0.5 * error(naive, test)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sims. the score was badly learned")  # as it is, of so few multi-scale fields
@pytest.mark.parametrize("problem", [fs.problems.gaussian_field(16), fs.problems.multiscale_field(16)])
def test_the_own_error_of_statistics_of_few_maps_is_met(problem):
    own, exact = [], []
    for seed in range(4_003, 4_006):
        model = fs.fit(fs.simulate(problem.simulator, problem.proposal, 800, seed=seed), recipe=RECIPE)
        own.append(model.estimated_error)
        exact.append(fs.accuracy.score_error(model, problem, num_pairs=1_000).mean)
    assert 0.5 < np.mean(own) / np.mean(exact) < 2.0


def test_the_own_error_is_of_the_score_of_the_summaries_and_says_so():
    # Of forty numbers the features keep ten, and with them a quarter of the information.
    sims, test, kept = table(2_000, 4_005), table(2_000, 4_015), 10
    lossy = fs.fit(sims, features=lambda x: x[:kept], recipe=RECIPE)
    of_kept = 0.5 * (np.sum(test.x[:, :kept] ** 2, axis=1, keepdims=True) * np.exp(-test.theta) - kept)
    scores = np.asarray(lossy.score(test.theta, test.x))
    error_of_kept = np.mean((scores - of_kept) ** 2) / np.mean(of_kept**2)
    assert 0.4 < lossy.estimated_error / error_of_kept < 2.5
    assert error(lossy, test) == pytest.approx(1 - kept / SIZE, abs=0.1) and error(lossy, test) > 5 * error_of_kept
    assert "what the summaries lose" in str(lossy)
    # The control: where nothing is summarised nothing is lost, and nothing is said of it.
    whole = fs.fit(sims, recipe=RECIPE)
    assert 0.4 < whole.estimated_error / error(whole, test) < 2.5
    assert "summaries" not in str(whole)
