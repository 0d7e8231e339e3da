"""Learned summaries: of other simulations than those they summarise, against exact scores, saved, and refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.fitting.cross_fitting import NO_OWNER, fit_learned
from fisherscore.fitting.embed import Summaries
from fisherscore.fitting.learned_subject import module_subject
from fisherscore.fitting.learned_summary import LearnedSummary
from fisherscore.fitting.options import FitOptions
from fisherscore.summaries.bank import FieldStatistics
from fisherscore.summaries.learned import negative_log_density

SIZE = 40
PROPOSAL = fs.uniform(log_variance=(-1.0, 1.0))
QUICK = fs.ClosedFormRecipe("location_scale")


class Sizes(eqx.Module):
    """Means of powers of the size of data, weighed by numbers to train."""

    weights: jax.Array
    powers: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, powers=(1.0, 2.0), key=0):
        self.weights = 1.0 + 0.1 * jax.random.normal(jax.random.key(key), (len(powers),))
        self.powers = powers

    def __call__(self, x):
        return self.weights * jnp.stack([jnp.log(jnp.mean(jnp.abs(x) ** power)) for power in self.powers])


class Shape(eqx.Module):
    """A module of one number to train, which gives whatever a function does."""

    weight: jax.Array
    function: object = eqx.field(static=True)

    def __call__(self, x):
        return self.function(self.weight * x)


def table(num, seed, size=SIZE):
    rng = np.random.default_rng(seed)
    theta = PROPOSAL.sample(num, seed=seed)
    return fs.from_table(theta, np.exp(theta / 2) * rng.normal(size=(num, size)), PROPOSAL)


def error(model, sims):
    exact = 0.5 * (np.sum(sims.x**2, axis=1, keepdims=True) * np.exp(-sims.theta) - sims.x.shape[1])
    return np.mean((np.asarray(model.score(sims.theta, sims.x)) - exact) ** 2) / np.mean(exact**2)


def learned_of(sims, wanted):
    return fit_learned(sims, wanted, module_subject(wanted, sims.x_shape, lambda x: x), FitOptions(), 1e9)


@pytest.fixture(scope="module")
def sims():
    return table(1_000, 2_001)


@pytest.fixture(scope="module")
def learned(sims):
    return learned_of(sims, LearnedSummary(Sizes(), num_networks=3, num_steps=300))


@pytest.fixture(scope="module")
def model(sims):
    return fs.fit(sims, embedding=LearnedSummary(Sizes(), num_networks=2, num_steps=1_000), recipe=QUICK)


def test_the_score_of_a_trained_module_is_the_exact_one(model):
    test = table(2_000, 2_002)
    assert error(model, test) < 0.08  # the best summary of a variance, with this closed form, gives 0.04
    # The control: without the sizes of data there is nothing to learn the score of.
    blind = Shape(jnp.ones(()), lambda x: jnp.stack([x[0], x[1]]))
    wanted = LearnedSummary(blind, num_networks=2, num_steps=50)
    assert error(fs.fit(table(1_000, 2_001), embedding=wanted, recipe=QUICK), test) > 0.5


def test_a_simulation_is_summarised_by_the_network_that_has_not_seen_it(sims, learned):
    each = learned.learned.each_of_rows(sims.x)
    rows = learned.rows(sims.x, np.arange(len(sims)))
    assert set(learned.owner) == {NO_OWNER, 0, 1, 2} and np.sum(learned.owner == NO_OWNER) == 100
    for number in range(3):
        own = learned.owner == number
        np.testing.assert_array_equal(rows[own], each[own, number])
    apart = learned.owner == NO_OWNER
    np.testing.assert_allclose(rows[apart], each[apart].mean(axis=1))
    np.testing.assert_allclose(learned.learned.rows(sims.x), each.mean(axis=1), atol=1e-6)


def test_networks_that_learn_by_heart_are_sharp_on_what_they_saw_alone():
    few = table(300, 2_003)
    layers = eqx.nn.MLP(SIZE, 4, 64, 1, key=jax.random.key(0))
    module = eqx.nn.Sequential([eqx.nn.Lambda(lambda x: jnp.log(jnp.abs(x) + 0.01)), layers])
    learned = learned_of(few, LearnedSummary(module, num_networks=2, num_steps=600))
    each = learned.learned.each_of_rows(few.x)[..., 0]
    missed = (each - few.theta) ** 2
    seen, unseen = (
        np.mean([missed[learned.owner == owner, network].mean() for owner, network in pairs])
        for pairs in (((1, 0), (0, 1)), ((0, 0), (1, 1)))
    )
    assert seen < 0.8 * unseen
    # What is fitted to is what new data look like.
    new = table(1_000, 2_004)
    fresh = np.mean((learned.learned.each_of_rows(new.x)[:, 1] - new.theta) ** 2)
    assert 0.7 < unseen / fresh < 1.4


def test_networks_are_compared_on_what_none_has_seen(sims, learned):
    scatter = Summaries(None, learned).scatter(sims)
    assert scatter.x.shape == (3, 100, 1)
    apart = np.flatnonzero(learned.owner == NO_OWNER)
    np.testing.assert_array_equal(scatter.theta, sims.theta[apart])


def test_the_loss_is_that_of_a_normal_distribution():
    rng = np.random.default_rng(0)
    triangle = np.tril(rng.normal(size=(3, 3)))
    np.fill_diagonal(triangle, rng.normal(size=3))
    mean, u = rng.normal(size=(2, 3))
    precision_root = triangle.copy()
    np.fill_diagonal(precision_root, np.exp(np.diag(triangle)))
    away = u - mean
    wanted = 0.5 * away @ precision_root.T @ precision_root @ away - np.linalg.slogdet(precision_root)[1]
    numbers = np.concatenate([mean, triangle[np.tril_indices(3)]]).astype(np.float32)
    np.testing.assert_allclose(negative_log_density(jnp.asarray(numbers), jnp.asarray(u)), wanted, rtol=1e-4)


def test_a_saved_model_takes_a_module_of_the_same_making(model, sims, tmp_path):
    model.save(tmp_path / "model")
    read = fs.load(tmp_path / "model", embedding=Sizes(key=7))
    np.testing.assert_array_equal(read.score(sims.theta[:5], sims.x[:5]), model.score(sims.theta[:5], sims.x[:5]))
    with pytest.raises(fs.ArgumentError, match=r"embedding: .* of which only the trained numbers are saved. Pass"):
        fs.load(tmp_path / "model")
    with pytest.raises(fs.ArgumentError, match=r"embedding: expected the module of the fit.*with this one"):
        fs.load(tmp_path / "model", embedding=Sizes((1.0, 2.0, 3.0)))


def test_networks_that_a_stopped_fit_has_trained_are_not_trained_again(sims, tmp_path, monkeypatch):
    options, wanted = FitOptions(checkpoint=tmp_path), LearnedSummary(Sizes(), num_networks=2, num_steps=20)
    subject = module_subject(wanted, sims.x_shape, lambda x: x)
    first = fit_learned(sims, wanted, subject, options, 1e9)

    def refuse(*_, **__):
        raise TypeError

    monkeypatch.setattr("fisherscore.fitting.cross_fitting.train_guesser", refuse)
    again = fit_learned(sims, wanted, subject, options, 1e9)
    np.testing.assert_array_equal(first.learned.vectors, again.learned.vectors)
    with pytest.raises(fs.ModelFolderError, match="belongs to another fit"):
        fit_learned(sims.take(slice(900)), wanted, subject, options, 1e9)
    with pytest.raises(TypeError):  # the control: elsewhere they are trained
        fit_learned(sims, wanted, subject, FitOptions(), 1e9)


def with_dropout():
    return eqx.nn.Sequential([eqx.nn.Linear(SIZE, 4, key=jax.random.key(0)), eqx.nn.Dropout(0.1)])


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda x: x[:3], "embedding: expected an Equinox module .*got function.* features="),
        (Shape(jnp.ones(()), lambda x: x[:0]), "expected a vector of 1 to 1,000 .* shape \\(0,\\)"),
        (Shape(jnp.ones(()), lambda x: jnp.outer(x, x)), "expected a vector .* an array of shape \\(40, 40\\)"),
        (Shape(jnp.ones(()), jnp.sum), "expected a vector .* an array of shape \\(\\)"),
        (Shape(jnp.ones(()), lambda x: (x, x)), "expected a vector .* the module gives tuple"),
        (Shape(jnp.ones(()), lambda x: x @ np.ones((7, 2))), "embedding: the module fails on one observation of shape"),
        (Shape(1.0, lambda x: x[:2]), "has no numbers to train. Pass it as features="),
        (Shape(jnp.ones(2, int), lambda x: x[:2]), "has no numbers to train"),
        (Shape((jnp.ones(()), jnp.arange(2)), lambda x: x), "expected no arrays in the module but those to train"),
        (Shape((jnp.ones(()), {1}), jnp.sum), "has no hash"),
        (with_dropout(), "dropout, which needs a random key.*inference_mode"),
        (eqx.nn.make_with_state(eqx.nn.BatchNorm)(SIZE, "batch", mode="batch")[0], "keeps a state.*GroupNorm"),
    ],
)
def test_modules_that_cannot_be_trained_as_summaries_are_refused(module, message, sims):
    with pytest.raises(fs.ArgumentError, match=message):
        fs.fit(sims, embedding=module, recipe=QUICK)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_networks": 1}, "num_networks: expected a whole number of at least 2, got 1"),
        ({"num_steps": 0.5}, "num_steps: expected a whole number of at least 1, got 0.5"),
        ({"learning_rate": "fast"}, "learning_rate: expected a number of at least 1e-12, got 'fast'"),
        ({"weight_decay": -1.0}, "weight_decay: expected a number of at least 0, got -1.0"),
        ({"flips": "yes"}, "flips: expected True, False or None, got 'yes'"),
    ],
)
def test_settings_out_of_range_are_refused(wrong, message):
    with pytest.raises(fs.ArgumentError, match=message):
        LearnedSummary(Sizes(), **wrong)


def test_so_few_simulations_that_nothing_can_be_learned_are_refused():
    with pytest.raises(fs.ArgumentError, match="sims: 200 simulations are too few"):
        fs.fit(table(200, 2_005), embedding=Sizes())


@pytest.mark.slow
def test_a_module_beside_the_statistics_of_a_map_is_left_out_where_it_says_nothing_new():
    problem = fs.problems.gaussian_field(12)
    sims = fs.simulate(problem.simulator, problem.proposal, 800, seed=2_006)
    blind = Shape(jnp.ones(()), lambda x: x[0, :3])
    recipe = fs.AutoRecipe(closed_forms=("location_scale",), network=None)
    model = fs.fit(sims, embedding=LearnedSummary(blind, num_networks=2, num_steps=100), recipe=recipe)
    assert model.provenance["learned_summary_used"] is False and "left out" in str(model)
    assert isinstance(model.embedding, FieldStatistics)
    assert fs.accuracy.score_error(model, problem, num_pairs=500).mean < 0.15
