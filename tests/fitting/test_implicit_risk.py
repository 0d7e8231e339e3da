"""Ranking and weighing scores without the truth: implicit score matching under any design."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.fitting import implicit_risk
from fisherscore.fitting.data import Rows
from fisherscore.fitting.implicit_risk import ImplicitRisk, Terms, edge_weights
from fisherscore.potentials.closed_forms import CLOSED_FORMS

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


def terms(function, u, x, metric):
    return Terms.of(function, Rows(u, x), metric)


def test_the_weight_vanishes_at_the_edge_and_beyond():
    values = edge_weights(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, -1.2], [0.9, 0.0]]))
    assert values[0] == 1 and values[1] == values[2] == 0 and 0 < values[3] < 1


@pytest.mark.parametrize("design", DESIGNS)
def test_the_exact_score_has_the_smallest_loss_under_any_design(design):
    u, x = rows(DESIGNS[design])
    metric = np.array([[SIGMA**2]])
    risk = ImplicitRisk(edge_weights(u), metric)
    exact = risk.loss(terms(Line(1.0), u, x, metric))
    for wrong in (Line(1.3), Line(0.7), Line(1.0, 0.5)):
        excess = risk.loss(terms(wrong, u, x, metric)) - exact
        assert excess.mean() > 3 * excess.std() / np.sqrt(len(excess))


def test_weights_undo_factors_and_drop_what_adds_nothing():
    u, x = rows(DESIGNS["uniform"])
    metric = np.array([[SIGMA**2]])
    members = [terms(n, u, x, metric) for n in (Line(2.0), Line(0.0, 1.0))]
    weights = ImplicitRisk(edge_weights(u), metric).stack_weights(members)
    np.testing.assert_allclose(weights[0], 0.5, atol=0.02)
    assert weights[1] < 0.05


def jackknifed(num_parts, noise, num=4_000):
    """Scores of two members with every part left out: the truth, and noise of given variances (inside, at the edge)."""
    u = np.linspace(-1, 1, num)
    weights = edge_weights(u[:, None])
    spread = np.sqrt([[np.where(weights > 0.5, inside, edge)] for inside, edge in noise])  # (members, 1, num)
    # The means of independent parts, each left out in turn, spread by 1 / (parts − 1) of the whole's standard error.
    parts = spread * RNG.normal(size=(len(noise), num_parts, num)) * np.sqrt(num_parts)
    left_out = (parts.sum(axis=1, keepdims=True) - parts) / (num_parts - 1)
    return left_out[..., None], weights


def test_noise_at_the_edge_is_found_and_that_inside_is_not_counted_twice():
    scores, weights = jackknifed(5, [(0.1, 0.5), (0.3, 0.3)])
    noise = ImplicitRisk(weights, np.eye(1)).edge_noise(scores)
    inside = weights.mean()
    # Between the weights 0 and 1 the two regions mix a little, so the difference of 0.4 is not seen whole.
    assert 0.25 < noise[0, 0] / (inside * (1 - inside)) < 0.45
    assert noise[1, 1] < 0.05 * noise[0, 0]


def test_a_member_wild_at_the_edge_loses_its_weight_though_the_loss_does_not_see_it():
    u, x = rows(DESIGNS["uniform"])
    members = [terms(n, u, x, np.eye(1)) for n in (Line(1.0, 0.5), Line(1.0))]
    risk = ImplicitRisk(edge_weights(u), np.eye(1))
    blind = risk.stack_weights(members)
    seen = risk.stack_weights(members, np.diag([0.0, 1e3]))
    assert blind[1] > 0.8 and blind[0] < 0.2
    assert seen[1] < 0.1 and seen[0] > 0.8


def test_members_that_hardly_help_are_left_out_and_those_that_do_are_kept():
    u, x = rows(DESIGNS["uniform"])
    metric = np.array([[SIGMA**2]])
    # The second is worse than the first wherever there are data; of the last two each has what the other lacks.
    alike = [terms(n, u, x, metric) for n in (Line(1.0), Line(1.0, 0.2))]
    risk = ImplicitRisk(edge_weights(u), metric)
    weights = risk.sparse_weights(alike)
    assert weights[1] == 0.0 and weights[0] == pytest.approx(1.0, abs=0.03)
    opposite = [terms(n, u, x, metric) for n in (Line(1.0, 0.7), Line(1.0, -0.7))]
    np.testing.assert_allclose(risk.sparse_weights(opposite), 0.5, atol=0.05)


def test_a_scale_within_errors_of_one_is_one_and_any_other_is_kept():
    u, x = rows(DESIGNS["uniform"])
    metric = np.array([[SIGMA**2]])
    risk = ImplicitRisk(edge_weights(u), metric)

    def scaled(factor):
        members = [terms(Line(factor), u, x, metric)]
        weights = risk.stack_weights(members)
        return weights[0], risk.with_unit_sum(weights, members)[0]

    free, one = scaled(1.0)
    assert free != one == 1.0
    free, other = scaled(0.9)
    assert free == other == pytest.approx(1.0 / 0.9, abs=0.03)


def test_a_network_may_take_weight_and_not_give_it():
    u, x = rows(DESIGNS["uniform"])
    metric = np.array([[SIGMA**2]])
    exact, half, waves = (terms(n, u, x, metric) for n in (Line(1.0), Line(0.5), Line(0.0, 1.0)))
    risk = ImplicitRisk(edge_weights(u), metric)
    keep, weight = risk.joint_weights(half, exact)
    assert keep + 2 * weight == pytest.approx(2.0, abs=0.1) and keep <= 1.0
    # Alone it would be doubled; beside a network that says nothing it is left as it was.
    assert risk.stack_weights([half, waves])[0] > 1.9
    keep, weight = risk.joint_weights(half, waves)
    assert keep == 1.0 and weight == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("form", CLOSED_FORMS)
def test_closed_forms_in_numpy_are_those_of_automatic_differentiation(form, monkeypatch):
    problem = fs.problems.poisson_counts()
    sims = fs.simulate(problem.simulator, problem.proposal, 300)
    centre, half = (
        (problem.proposal.high + problem.proposal.low) / 2,
        (problem.proposal.high - problem.proposal.low) / 2,
    )
    rows = Rows((sims.theta - centre) / half, (sims.x - sims.x.mean(axis=0)) / sims.x.std(axis=0))
    function = CLOSED_FORMS[form].fit(rows.u, rows.x)
    metric = np.array([[1.0, 0.3], [0.3, 0.5]])
    terms = Terms.of(function, rows, metric)
    single = [np.asarray(a, np.float32) for a in (metric, rows.u, rows.x)]
    expected = np.asarray(implicit_risk._score_and_divergence(function, *single))
    size = np.abs(expected).max(axis=0)
    np.testing.assert_allclose(terms.scores / size[:-1], expected[:, :-1] / size[:-1], atol=1e-5)
    np.testing.assert_allclose(terms.divergences / size[-1], expected[:, -1] / size[-1], atol=1e-5)
    np.testing.assert_allclose(rows.scores(function), terms.scores, atol=1e-8 * size[:-1].max())
    monkeypatch.setattr("fisherscore.fitting.data._NUMBERS_AT_ONCE", 0)  # a few rows at a time
    np.testing.assert_allclose(Terms.of(function, rows, metric).divergences, terms.divergences, rtol=1e-9)


def test_the_edge_weight_and_its_gradient_in_numpy():
    u = np.random.default_rng(2).uniform(-1, 1, (200, 3))
    value, gradient = jax.vmap(jax.value_and_grad(implicit_risk.edge_weight))(jnp.asarray(u, jnp.float32))
    weights, slopes = implicit_risk.edge_weights_and_gradients(u)
    np.testing.assert_allclose(weights, value, atol=1e-5)
    np.testing.assert_allclose(slopes, gradient, atol=1e-4)
