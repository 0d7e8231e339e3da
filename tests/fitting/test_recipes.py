"""Fits against closed forms: the right answer within its error, and a control that must fail."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.polynomial.hermite_e import hermegauss
from tests.folders import rewrite_arrays

import fisherscore as fs
from fisherscore.accuracy import score_error_of
from fisherscore.fitting.fit import _chosen_recipe

TOY = fs.problems.linear_gaussian()
QUICK = fs.NetworkRecipe(num_steps=1500)
FIELD = fs.NetworkRecipe(architecture="vector_field", settings={"hidden": (32, 32)}, num_steps=2500)


def pairs(problem=TOY, num=4000):
    theta = problem.proposal.sample(num, seed=50)
    return theta, problem.simulator.draw(theta, seed=51)


def toy_sims(num=10_000, proposal=None, seed=0):
    return fs.simulate(TOY.simulator_from_latent, proposal or TOY.proposal, num, latent=TOY.latent, seed=seed)


def test_the_papers_recipe_has_the_papers_settings():
    toy, lensing = fs.PaperRecipe.toy(), fs.PaperRecipe()
    assert toy.settings["hidden"] == (64, 64) and lensing.settings["hidden"] == (64, 128, 128)
    assert (toy.training.num_epochs, toy.training.learning_rate) == (1000, 1e-2)
    assert (lensing.training.num_epochs, lensing.training.learning_rate) == (10_000, 1e-3)
    for training in (toy.training, lensing.training):
        assert (training.batch_size, training.decay, training.held_out) == (None, "none", 0.0)


LATENTS = {"none": None, "additive": "additive", "own": TOY.latent}


@pytest.mark.parametrize("latent", LATENTS)
def test_the_papers_recipe_by_name_follows_the_latent(latent):
    sims = fs.simulate(TOY.simulator_from_latent, TOY.proposal, 20, latent=LATENTS[latent])
    assert _chosen_recipe("paper", sims) == (fs.PaperRecipe.toy() if latent == "own" else fs.PaperRecipe())


def test_the_papers_recipe_draws_the_latent_where_there_is_none():
    sims = fs.simulate(TOY.simulator, TOY.proposal, 200)
    recipe = replace(fs.PaperRecipe.toy(), training=replace(fs.PaperRecipe.toy().training, num_epochs=5))
    models = [fs.fit(sims, recipe=recipe, seed=s, progress=False) for s in (0, 0, 1)]
    scores = [np.asarray(m.score([0.5, 0.5], sims.x)) for m in models]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert np.isfinite(scores[0]).all() and (scores[0] != scores[2]).any()
    assert models[0].provenance["simulations"]["seed"] == 0


@pytest.mark.slow
def test_decomposable_paper_recipe_learns_the_exact_score():
    model = fs.fit(toy_sims(30_000), recipe="paper")
    assert model.provenance["recipe"] == "PaperRecipe" and model.provenance["settings"]["hidden"] == (64, 64)
    error = fs.accuracy.score_error(model, TOY)
    assert error.mean < 0.01
    wrong = fs.FunctionScore(TOY.proposal, (2,), score=lambda t, x: x - t)  # forgets the covariance
    assert fs.accuracy.score_error(wrong, TOY).mean > 0.1


@pytest.mark.slow
def test_a_short_training_on_latent_scores_is_better_than_none():
    model = fs.fit(toy_sims(3_000), recipe=fs.NetworkRecipe(num_steps=400), progress=False)
    assert fs.accuracy.score_error(model, TOY, num_pairs=1_000).mean < 0.3


@pytest.mark.slow
def test_auto_recipe_learns_the_exact_score_and_has_a_density():
    model = fs.fit(toy_sims(2_000), recipe=fs.AutoRecipe(density=None))
    assert model.has_density
    assert fs.accuracy.score_error(model, TOY).mean < 0.01
    assert fs.accuracy.field_error(model, TOY, [0.5, -0.5]).median < 0.1


def distance(first, second, truth):
    """Mean square difference of two sets of scores, in the units of the score error."""
    return score_error_of(np.asarray(first, np.float64) - np.asarray(second, np.float64) + truth, truth).mean


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.7, 1.0])
def test_indecomposable_learns_the_extended_score_not_the_original(sigma):
    """With z = θ + w, w ~ N(0, σ²), the target is the score of N(θ, Σ_n + σ²)."""
    latent = fs.GaussianLatent([sigma**2] * 2)
    sims = [fs.simulate(TOY.simulator, TOY.proposal, 20_000, latent=latent, seed=s) for s in (1, 2)]
    theta, x = pairs()
    first, second = (fs.fit(s, recipe=QUICK, seed=i).score(theta, x) for i, s in enumerate(sims))
    covariance = np.linalg.inv(TOY.fisher([0.0, 0.0]))
    extended = (x - theta) @ np.linalg.inv(covariance + sigma**2 * np.eye(2))
    original = (x - theta) @ np.linalg.inv(covariance)
    variance = distance(first, second, extended) / 2  # of one fit, from two independent ones
    assert score_error_of(np.asarray(first), extended).mean < 3 * variance
    assert distance(first, original, extended) > 10 * variance  # the control
    assert variance < 0.1


@pytest.mark.slow
def test_the_score_does_not_depend_on_the_proposal():
    """Fits under a flat and a strongly peaked proposal differ by no more than their errors against the exact score."""
    peaked = fs.Proposal.of({n: dist.TruncatedNormal(2.0, 1.2, low=-3.0, high=3.0) for n in TOY.proposal.names})
    theta = fs.uniform(dict.fromkeys(TOY.proposal.names, (-1.0, 3.0))).sample(4000, seed=7)  # where both have drawn
    x = TOY.simulator.draw(theta, seed=8)
    truth = np.asarray(TOY.score(theta, x), np.float64)
    flat, lopsided = (
        [np.asarray(fs.fit(toy_sims(20_000, p, seed=s), recipe=QUICK, seed=s).score(theta, x))]
        for p, s in ((TOY.proposal, 0), (peaked, 2))
    )
    errors = [score_error_of(flat[0], truth).mean, score_error_of(lopsided[0], truth).mean]
    between = distance(flat[0], lopsided[0], truth)
    # Independent errors add; a common dependence on the proposal would come on top.
    assert between < 1.5 * sum(errors) and max(errors) < 0.05
    # The control: what a method that learns a posterior would have found under the second proposal.
    pull = np.asarray(jax.vmap(jax.grad(peaked.log_prob))(jnp.asarray(theta)))
    assert distance(flat[0], lopsided[0] + pull, truth) > 20 * between


@pytest.mark.slow
def test_a_latent_given_only_by_its_log_probability():
    """Laplace noise plus Gaussian noise: the score of their convolution, by quadrature."""
    scale, spread = 1.0, 0.7
    latent = fs.CustomLatent(
        lambda key, theta: theta + scale * jax.random.laplace(key, theta.shape),
        log_prob=lambda theta, z: -jnp.abs(z - theta).sum() / scale,
    )
    proposal = fs.uniform(a=(-2.0, 2.0))
    simulator = fs.from_jax(lambda key, z: z + spread * jax.random.normal(key, (1,)))
    model = fs.fit(fs.simulate(simulator, proposal, 30_000, latent=latent), recipe=FIELD)

    theta = proposal.sample(3000, seed=9)
    whole = fs.from_jax(
        lambda key, t: (
            t + scale * jax.random.laplace(key, (1,)) + spread * jax.random.normal(jax.random.fold_in(key, 1))
        )
    )
    x = whole.draw(theta, seed=10)
    grid = np.linspace(-12, 12, 4801)
    weight = np.exp(-np.abs(grid) / scale - (x - theta - grid) ** 2 / (2 * spread**2))
    truth = (weight @ (np.sign(grid) / scale) / weight.sum(axis=1))[:, None]
    learned = np.asarray(model.score(theta, x))
    assert score_error_of(learned, truth).mean < 0.02
    gaussian = (x - theta) / (2 * scale**2 + spread**2)  # the control: the same variance, all Gaussian
    assert score_error_of(gaussian, truth).mean > 0.1


def knuth_poisson(theta, rng):
    """Count uniform draws until their product falls below exp(−rate): branches, a loop, a random number of draws."""
    rate = abs(theta[0])
    if rate == 0:
        return [0]
    product, count = rng.uniform(), 0
    while product > np.exp(-rate):
        product *= rng.uniform()
        count += 1
    return [count]


@pytest.mark.slow
def test_plain_python_with_branches_and_loops_trains_like_any_other():
    proposal, sigma = fs.uniform(rate=(3.0, 9.0)), 1.0
    sims = fs.simulate(fs.from_python(knuth_poisson), proposal, 12_000, latent=fs.GaussianLatent([sigma**2]))
    model = fs.fit(sims, recipe=FIELD)
    theta = proposal.sample(2000, seed=3)
    x = fs.from_python(knuth_poisson).draw(theta, seed=4)
    nodes, weights = hermegauss(60)  # the extended model by Gauss-Hermite quadrature over the noise
    rates = np.abs(theta + sigma * nodes)
    joint = weights * np.exp(x * np.log(rates) - rates - (x * np.log(theta) - theta))
    truth = ((joint @ (nodes / sigma)) / joint.sum(axis=1))[:, None]
    assert score_error_of(np.asarray(model.score(theta, x)), truth).mean < 0.04
    assert score_error_of(x - theta, truth).mean > 0.5  # the control


def test_same_seed_same_fit_other_seed_another():
    sims = toy_sims(500)
    recipe = fs.NetworkRecipe(num_steps=30)
    scores = [np.asarray(fs.fit(sims, recipe=recipe, seed=s).score([0.0, 0.0], sims.x)) for s in (0, 0, 1)]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert (scores[0] != scores[2]).any()


def test_fit_resumes_from_a_checkpoint(tmp_path):
    sims = toy_sims(500)
    recipe = fs.NetworkRecipe(num_steps=30)
    first = fs.fit(sims, recipe=recipe, checkpoint=tmp_path / "c")
    assert (tmp_path / "c" / "checkpoint.json").exists()
    # A finished fit is read, not run: with its losses on disk changed, the changed ones come back.
    rewrite_arrays(tmp_path / "c", lambda arrays: arrays | {"losses": arrays["losses"] + 1.0})
    again = fs.fit(sims, recipe=recipe, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(again.provenance["loss"], first.provenance["loss"] + 1.0)
    np.testing.assert_array_equal(first.score([0.0, 0.0], sims.x), again.score([0.0, 0.0], sims.x))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fs.fit(toy_sims(10), recipe="best"), 'recipe: expected "auto", "paper"'),
        (lambda: fs.fit([1, 2]), "sims: expected simulations"),
        (lambda: fs.fit(toy_sims(1)), "sims: expected at least 10 simulations"),
        (lambda: fs.fit(toy_sims(10), seed=1.5), "seed: expected"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(fs.ArgumentError, match=message):
        call()
