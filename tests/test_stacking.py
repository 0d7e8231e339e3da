"""Ranking and weighing scores without the truth: implicit score matching under any design."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fisherscore.stacking import edge_weight, implicit_terms, risk, stack_weights

RNG = np.random.default_rng(0)
SIGMA = 0.3


class Line(eqx.Module):
    """The score of x ~ N(θ, σ²) times a factor, plus a shift along x."""

    factor: float
    wiggle: float = 0.0

    def __call__(self, u, x):
        return self.factor * (x - u) / SIGMA**2 + self.wiggle * jnp.sin(9 * x) / SIGMA


def rows(design, num=20_000):
    u = design(num)[:, None]
    return u, u + SIGMA * RNG.normal(size=u.shape)


DESIGNS = {
    "uniform": lambda n: RNG.uniform(-1, 1, n),
    "clustered": lambda n: np.clip(np.where(RNG.uniform(size=n) < 0.8, 0.3, -0.4) + 0.2 * RNG.normal(size=n), -1, 1),
    "one side": lambda n: 2 * RNG.beta(3, 1, n) - 1,
}


def edges(u):
    return np.asarray(jax.vmap(edge_weight)(jnp.asarray(u)))


def test_the_weight_vanishes_at_the_edge_and_beyond():
    values = edges(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, -1.2], [0.9, 0.0]]))
    assert values[0] == 1 and values[1] == values[2] == 0 and 0 < values[3] < 1


@pytest.mark.parametrize("design", DESIGNS)
def test_the_exact_score_has_the_smallest_loss_under_any_design(design):
    u, x = rows(DESIGNS[design])
    metric = np.array([[SIGMA**2]])
    weight = edges(u)
    exact = risk(implicit_terms(Line(1.0), u, x, metric), weight, metric)
    for wrong in (Line(1.3), Line(0.7), Line(1.0, 0.5)):
        loss = risk(implicit_terms(wrong, u, x, metric), weight, metric)
        excess = loss - exact
        assert excess.mean() > 3 * excess.std() / np.sqrt(len(excess))


def test_weights_undo_factors_and_drop_what_adds_nothing():
    u, x = rows(DESIGNS["uniform"])
    metric = np.array([[SIGMA**2]])
    members = [implicit_terms(n, u, x, metric) for n in (Line(2.0), Line(0.0, 1.0))]
    found = stack_weights(members, edges(u), metric)
    np.testing.assert_allclose(found[0], 0.5, atol=0.02)
    assert found[1] < 0.05
