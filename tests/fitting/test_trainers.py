"""The neural likelihood on a density that is known: a mixture whose weights and noise move with θ."""

import jax
import jax.numpy as jnp
import numpy as np

from fisherscore.fitting.data import Rows
from fisherscore.fitting.trainers import DensityTrainer, TrainingRequest
from fisherscore.potentials.base import build


def log_density(theta, x):
    """Give the log-density of x₁ = ±1 + noise of width 0.4, mostly + for large θ₁, and x₂ = x₁ θ₂ + noise."""
    plus = jax.nn.sigmoid(2 * theta[0])
    first = jnp.logaddexp(
        jnp.log(plus) - 0.5 * ((x[0] - 1) / 0.4) ** 2, jnp.log1p(-plus) - 0.5 * ((x[0] + 1) / 0.4) ** 2
    )
    return first - 0.5 * (x[1] - x[0] * theta[1]) ** 2


def draws(num, seed):
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, (num, 2))
    sign = np.where(rng.uniform(size=num) < 1 / (1 + np.exp(-2 * u[:, 0])), 1.0, -1.0)
    first = sign + 0.4 * rng.normal(size=num)
    return u, np.stack([first, first * u[:, 1] + rng.normal(size=num)], axis=1)


def test_its_score_is_that_of_a_known_density():
    u, x = draws(10_000, 0)
    request = TrainingRequest(Rows(u, x), np.zeros_like(u), np.eye(2), key=jax.random.key(0), progress=False)
    trained = DensityTrainer(num_steps=2_000).fit(request)
    network = trained.potential
    u, x = draws(1_000, 1)
    exact = np.asarray(jax.vmap(jax.grad(log_density))(u, x))
    learned = trained.scale * np.asarray(
        jax.jit(jax.vmap(network.__call__))(u.astype(np.float32), x.astype(np.float32))
    )
    assert np.mean((learned - exact) ** 2) < 0.15 * np.mean(exact**2)
    untrained = build("mixture_density", 2, 2, network.settings, key=jax.random.key(0))
    poor = np.asarray(jax.jit(jax.vmap(untrained.__call__))(u.astype(np.float32), x.astype(np.float32)))
    assert np.mean((poor - exact) ** 2) > 0.9 * np.mean(exact**2)
    assert trained.history.best_epoch > 1


def test_it_is_normalised():
    network = build("mixture_density", 1, 2, {"hidden": (8, 8), "num_components": 3}, key=jax.random.key(1))
    points = np.linspace(-9, 9, 301)
    grid = np.stack(np.meshgrid(points, points, indexing="ij"), axis=-1).reshape(-1, 2).astype(np.float32)
    for theta in (-1.0, 0.7):
        values = jax.vmap(lambda x, t=theta: network.potential(jnp.array([t]), x))(grid)
        # The potential leaves out the constant of the two normals.
        total = float(jnp.exp(values).sum()) * (points[1] - points[0]) ** 2 / (2 * np.pi)
        assert abs(total - 1) < 1e-3
