"""Walls: motion that is thrown back, and posteriors that edges of uniform priors cut off, against sums over a grid."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.distributions.transforms import biject_to

import fisherscore as fs
from fisherscore.inference.convergence import convergence
from fisherscore.inference.nuts import sample_lanes
from fisherscore.inference.priors import blocks
from fisherscore.inference.smc import tempered_particles
from fisherscore.inference.target import Lanes, Target
from fisherscore.inference.walls import carried

# A narrow ridge through the corner of the unit square, where it is cut off at an angle.
MEAN, COVARIANCE = np.array([0.9, 0.95]), np.array([[0.04, -0.0399], [-0.0399, 0.04]])
BOX = np.zeros(2, np.float32), np.ones(2, np.float32)
FACTOR = np.linalg.cholesky(COVARIANCE).astype(np.float32)


def ridge():
    """Lanes for the ridge under uniform priors; their model is trained far beyond them."""
    precision = jnp.asarray(np.linalg.inv(COVARIANCE), jnp.float32)
    model = fs.FunctionScore(
        fs.uniform(a=(-5.0, 5.0), b=(-5.0, 5.0)),
        (1,),
        log_likelihood=lambda t, x: -0.5 * (t - MEAN) @ precision @ (t - MEAN),
    )
    return Lanes.of(Target.of(model, [dist.Uniform(0.0, 1.0)] * 2), np.zeros((16, 1)))


def on_a_grid():
    """Mean and covariance of the ridge inside the box."""
    axis = (np.arange(1500) + 0.5) / 1500
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    away = points - MEAN
    weights = np.exp(-0.5 * np.einsum("ni,ij,nj->n", away, np.linalg.inv(COVARIANCE), away))
    return np.average(points, axis=0, weights=weights), np.cov(points.T, aweights=weights)


def standard_errors_off(theta):
    """By how many standard errors means and second moments of draws are off, and how many draws are effective."""
    mean, covariance = on_a_grid()
    away = theta - mean
    values = np.concatenate(
        [away, away**2 - np.diag(covariance), away.prod(axis=-1, keepdims=True) - covariance[0, 1]], -1
    )
    effective = convergence(values.swapaxes(0, 1))[1]
    off = np.abs(values.mean(axis=(0, 1))) / (values.std(axis=(0, 1)) / np.sqrt(effective))
    return off.max(), effective.min()


def test_motion_is_thrown_back_and_can_be_run_backwards():
    rng = np.random.default_rng(0)
    u = rng.uniform(size=(200, 2)).astype(np.float32)
    w = rng.normal(size=(200, 2)).astype(np.float32)
    run = jax.vmap(lambda u, w, step: carried(u, w, step, FACTOR, BOX))
    steps = np.full(200, 3.0, np.float32)
    there, mirrored = run(u, w, steps)
    assert (np.asarray(there) >= 0).all() and (np.asarray(there) <= 1).all()
    assert np.linalg.norm(mirrored, axis=1) == pytest.approx(np.linalg.norm(w, axis=1), rel=1e-4)
    assert np.abs(np.asarray(mirrored) - w).max(axis=1).min() == 0  # some met no wall
    assert (np.abs(np.asarray(mirrored) - w).max(axis=1) > 0.1).mean() > 0.5  # most did
    back, momentum = run(there, mirrored, -steps)
    assert np.asarray(back) == pytest.approx(u, abs=1e-3) and np.asarray(momentum) == pytest.approx(w, abs=1e-2)


def test_a_motion_between_no_walls_is_straight():
    nowhere = np.full(2, -np.inf, np.float32), np.full(2, np.inf, np.float32)
    u, w = np.array([0.3, 0.4], np.float32), np.array([1.0, -2.0], np.float32)
    there, same = carried(u, w, np.float32(2.0), FACTOR, nowhere)
    assert np.asarray(there) == pytest.approx(u + 2 * FACTOR @ w, rel=1e-6) and (np.asarray(same) == w).all()


def test_a_posterior_cut_off_at_a_corner():
    draws = sample_lanes(ridge(), 0, num_warmup=500, num_samples=500)
    off, effective = standard_errors_off(draws.theta)
    assert off < 4.5 and effective > 1_000 and not draws.divergent.any()
    assert convergence(draws.theta.swapaxes(0, 1))[0].max() < 1.02
    # The control: draws that are off by a thirtieth.
    assert standard_errors_off(0.97 * draws.theta)[0] > 4.5


def test_coordinates_without_walls_are_slower(monkeypatch):
    """The control: with the edges stretched to infinity, the same chains are worth a fraction."""
    monkeypatch.setattr(blocks, "_bijection", lambda law: biject_to(law.support))
    monkeypatch.setattr(Target, "walls", (np.full(2, -np.inf, np.float32), np.full(2, np.inf, np.float32)))
    jax.clear_caches()
    stretched = sample_lanes(ridge(), 0, num_warmup=500, num_samples=500)
    jax.clear_caches()
    assert standard_errors_off(stretched.theta)[1] < 1_000


def test_particles_between_walls():
    particles = tempered_particles(ridge().part(slice(0, 1)), 0, num_particles=4_000)
    mean, covariance = on_a_grid()
    assert particles.theta.mean(axis=0) == pytest.approx(mean, abs=0.06 * np.sqrt(covariance[0, 0]))
    assert np.cov(particles.theta.T) == pytest.approx(covariance, rel=0.1)
