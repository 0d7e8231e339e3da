"""What the data constrain and how well that was learned: against closed forms, and the three outcomes."""

import numpy as np
import pytest

import fisherscore as fs
from fisherscore.score.constraints import OwnError, precision_of_region

WIDE = precision_of_region(np.zeros(2), np.ones(2))


def of(information, covariance, precision=WIDE):
    return OwnError(np.asarray(information, float), np.asarray(covariance, float), 1_000).under(
        ("a", "b"), precision, "it"
    )


def test_shares_and_errors_of_uncoupled_parameters():
    known = of(np.diag([36.0, 4.0]), np.diag([4.8, 1.6]))
    first, second = known.combinations
    assert (first.text, second.text) == ("a", "b")
    assert first.share == pytest.approx(36 / 48) and second.share == pytest.approx(4 / 16)
    assert first.error == pytest.approx(4.8 / 48) and second.error == pytest.approx(1.6 / 16)
    assert known.error == pytest.approx(0.1) and known.outcome == "right" and known.findings == ()


def test_coupled_parameters_against_the_definition():
    """The mean over combinations is tr[(F + Λ)⁻¹ E] / p, whatever they are; directions obey F v = f Λ v."""
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(3, 2, 2))
    information, error, precision = (r @ r.T + 0.1 * np.eye(2) for r in roots)
    known = of(information, error, precision)
    assert known.error == pytest.approx(np.trace(np.linalg.solve(information + precision, error)) / 2)
    for c in known.combinations:
        v = c.direction
        assert information @ v == pytest.approx(c.share / (1 - c.share) * precision @ v)
        assert c.error == pytest.approx(v @ error @ v / (v @ (information + precision) @ v))


def test_units_do_not_matter():
    units = np.diag([1e9, 1e-9])
    plain, scaled = (
        of(np.diag([36.0, 4.0]), np.eye(2)),
        of(units @ np.diag([36.0, 4.0]) @ units, units @ units, units @ WIDE @ units),
    )
    assert [c.share for c in scaled.combinations] == pytest.approx([c.share for c in plain.combinations])
    assert scaled.error == pytest.approx(plain.error)


def test_the_unconstrained_combination_is_named():
    known = of(1_000.0 * np.ones((2, 2)), 1.0 * np.eye(2))
    assert known.outcome == "not constrained by the data" and not known.badly_learned
    (free,) = known.unconstrained
    assert free.direction == pytest.approx([1.0, -1.0]) and free.text == "+1 a -1 b" and free.strength == "not at all"
    assert "More simulations would not help" in known.findings[0]


def test_what_was_badly_learned_is_no_fault_of_the_data():
    known = of(1_000.0 * np.eye(2), 500.0 * np.eye(2))
    assert known.outcome == "badly learned" and not known.unconstrained
    # An error of a half is ten times what is aimed at.
    assert "some 10,000 simulations (there are 1,000)" in known.findings[0]


def test_independent_draws_repeat_the_same_error():
    one = OwnError(4.0 * np.eye(2), 0.1 * np.eye(2), 100)
    many = one.of_draws(10)
    assert many.information == pytest.approx(40.0 * np.eye(2)) and many.covariance == pytest.approx(10.0 * np.eye(2))


def added(theta, rng):
    return theta.sum() + 0.1 * rng.normal(size=3)


REGION = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))


@pytest.fixture(scope="module")
def model():
    recipe = fs.AutoRecipe(closed_forms=("gaussian", "quasi_score"), density=None)
    return fs.fit(fs.simulate(fs.from_python(added), REGION, 600), recipe=recipe)


def test_a_fit_with_a_free_direction_is_right_where_the_data_speak(model, tmp_path):
    """The score is that of a + b; beside it the true one, Σ (x − a − b) / 0.01 for both."""
    known = fs.constraints(model)
    assert known.outcome == "not constrained by the data"
    assert abs(known.unconstrained[0].direction @ [1, 1]) < 0.1
    assert known.combinations[0].share > 0.9 and known.combinations[0].error < 0.05
    sims = fs.simulate(fs.from_python(added), REGION, 2_000, seed=1)
    truth = np.repeat((sims.x - sims.theta.sum(axis=1, keepdims=True)).sum(axis=1, keepdims=True) / 0.01, 2, axis=1)
    off = np.asarray(model.score(sims.theta, sims.x)) - truth
    posterior = np.linalg.inv(truth.T @ truth / len(truth) + WIDE)
    assert 0.2 < known.error / (np.einsum("ni,ij,nj->n", off, posterior, off).mean() / 2) < 5
    model.save(tmp_path / "model")
    again = fs.constraints(fs.load(tmp_path / "model"))
    assert again.error == pytest.approx(known.error) and str(again) == str(known)
    assert "not constrained by the data" in str(model)


def test_its_posterior_says_so_and_is_trusted(model, tmp_path):
    posterior = fs.sample(model, [3.0, 3.0, 3.0], num_samples=300, num_warmup=300)
    assert posterior.trusted, posterior.problems
    (note,) = posterior.notes
    assert note.startswith("not constrained by the data: along +") and note in str(posterior)
    posterior.save(tmp_path / "posterior")
    assert fs.Posterior.load(tmp_path / "posterior").notes == (note,)


def test_a_prior_cures_it(model):
    import numpyro.distributions as dist

    cured = fs.constraints(model, prior={"a": dist.Normal(0.5, 0.02)})
    assert cured.prior == "the prior" and cured.combinations[0].share > 0.8


def test_pictures_and_tables(model):
    known = fs.constraints(model)
    assert len(known.plot().patches) == 2
    assert "a" in known._repr_html_() and repr(known).startswith("Constraints(a, b; not constrained")


def test_a_worthless_fit_warns_and_its_estimates_are_not_trusted():
    problem = fs.problems.student_t()
    sims = fs.simulate(problem.simulator, problem.proposal, 40)
    with pytest.warns(fs.FisherScoreWarning, match="badly learned: .* What would help: some"):
        model = fs.fit(sims)
    best = fs.maximum_likelihood(model, sims.x[0])
    assert not best.converged and best.message.startswith("not ")
    with pytest.warns(fs.FisherScoreWarning, match="badly learned: by the model's own error"):
        posterior = fs.sample(model, sims.x[0], num_samples=100, num_warmup=200)
    assert not posterior.trusted


def test_models_that_know_nothing_of_their_error_say_so():
    exact = fs.problems.linear_gaussian().exact_model()
    assert exact.constraints is None
    with pytest.raises(fs.ArgumentError, match="does not know its own error"):
        fs.constraints(exact)
    with pytest.raises(fs.ArgumentError, match="expected a score model"):
        fs.constraints(3)
