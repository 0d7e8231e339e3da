"""Tempering against densities with several modes of known weights."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import fisherscore as fs
from fisherscore.accuracy import c2st
from fisherscore.inference import smc
from fisherscore.inference.smc import tempered_particles
from fisherscore.inference.target import Lanes, Target
from fisherscore.problems.two_moons import two_moons_posterior

WEIGHT = 0.3


def two_modes(p):
    """Two narrow Gaussian modes of unequal weight, far apart in every parameter, under a uniform prior."""

    def log_likelihood(t, x):
        modes = jnp.stack([jnp.log(WEIGHT) - 50.0 * ((t - 1.0) ** 2).sum(), jnp.log(0.7) - 50 * ((t + 1.0) ** 2).sum()])
        return jnp.logaddexp(modes[0], modes[1]) + 0 * x.sum()

    region = fs.uniform({f"a{i}": (-2.0, 2.0) for i in range(p)})
    model = fs.FunctionScore(region, (1,), log_likelihood=log_likelihood)
    return Lanes.of(Target.of(model, [dist.Uniform(-2.0, 2.0)] * p), np.zeros((1, 1)))


@pytest.mark.parametrize("p", [1, 3])
def test_weights_and_widths_of_two_modes(p):
    lanes = two_modes(p)
    weights = []
    for seed in range(8):
        theta = tempered_particles(lanes, seed, num_particles=2000).theta
        weights.append(np.mean(theta[:, 0] > 0))
        inside = theta[theta[:, 0] > 0]
        np.testing.assert_allclose(inside.mean(axis=0), 1.0, atol=0.03)
        np.testing.assert_allclose(inside.std(axis=0), 0.1, rtol=0.15)
    assert abs(np.mean(weights) - WEIGHT) < 4 * 0.04 / np.sqrt(8) and np.std(weights) < 0.05


def test_two_moons_for_several_observations():
    problem = fs.problems.two_moons()
    for x in problem.simulator.draw([[0.3, 0.2], [-0.5, 0.4]], seed=4):
        posterior = fs.sample(problem.exact_model(), x, method="smc", seed=1)
        exact = two_moons_posterior(x, 4000)
        assert c2st(posterior.samples, exact) < 0.54
        assert abs(np.mean(posterior.samples.sum(axis=1) > 0) - 0.5) < 0.06


def test_moves_that_are_always_accepted_are_found_out(monkeypatch):
    right = smc._noise

    def wrong(words, shape):
        normal, uniform = right(words, shape)
        return normal, uniform.at[1:, :, 0].set(1e-30)

    monkeypatch.setattr(smc, "_noise", wrong)
    monkeypatch.setattr(smc, "_NUM_LEAPS", 2)
    theta = tempered_particles(two_modes(2), 0, num_particles=1999).theta  # another number is traced anew
    assert abs(theta[theta[:, 0] > 0].std() / 0.1 - 1) > 0.15


def test_the_width_of_one_gaussian_is_right():
    """Moves must be reversible: a last half step of another length than the first made widths 4 % too small."""
    region = fs.uniform(a0=(-20.0, 20.0), a1=(-20.0, 20.0))
    model = fs.FunctionScore(region, (1,), log_likelihood=lambda t, x: -0.5 * (t @ t) + 0 * x.sum())
    lanes = Lanes.of(Target.of(model, [dist.Normal(0.5, 1.0)] * 2), np.zeros((1, 1)))
    widths = [tempered_particles(lanes, seed, num_particles=2000).theta.std(axis=0) for seed in range(10)]
    assert (np.abs(np.mean(widths, axis=0) * np.sqrt(2) - 1) < 0.02).all()


def test_same_seed_same_particles():
    one, two, three = (tempered_particles(two_modes(1), seed, num_particles=500).theta for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert (one != three).any()


def test_a_likelihood_that_never_ends_is_named(monkeypatch):
    monkeypatch.setattr(smc, "_MAX_TEMPERATURES", 2)
    with pytest.raises(fs.TrainingError, match="did not reach the posterior in 2 temperatures"):
        tempered_particles(two_modes(3), 0, num_particles=500)
