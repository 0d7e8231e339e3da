"""The default fit: its members, its own error, existing simulations of any design, and data that invite trouble."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs

NO_NETWORK = fs.AutoRecipe(density=None)


def fitted(problem, num, seed=0, recipe=NO_NETWORK):
    return fs.fit(fs.simulate(problem.simulator, problem.proposal, num, seed=seed), recipe=recipe, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bound"), [("poisson_counts", 0.04), ("linear_gaussian", 0.01)])
def test_auto_is_accurate_and_knows_its_error(name, bound):
    problem = getattr(fs.problems, name)()
    model = fitted(problem, 2_000)
    error = fs.accuracy.score_error(model, problem, num_pairs=4_000).mean
    assert error < bound
    assert 0.4 < model.estimated_error / error < 2.5
    assert model.has_density and set(model.weights) == {
        "gaussian",
        "location_scale",
        "quasi_score",
        "mapped",
    }


@pytest.mark.slow
def test_networks_join_where_closed_forms_fail_and_only_there():
    problem = fs.problems.two_signs()
    forms = ("location_scale",)
    density = fs.DensityTrainer(num_members=2, num_steps=2_000)
    recipe = fs.AutoRecipe(closed_forms=forms, density=density)
    alone = fs.accuracy.score_error(fitted(problem, 3_000, recipe=fs.ClosedFormRecipe(*forms)), problem).mean
    model = fitted(problem, 3_000, recipe=recipe)
    assert model.provenance["network_used"] and "network 2" in model.weights
    error = fs.accuracy.score_error(model, problem).mean
    assert error < 0.75 * alone
    assert 0.4 < model.estimated_error / error < 2.5
    exact = fitted(fs.problems.linear_gaussian(), 1_000, recipe=recipe)
    assert not exact.provenance["network_used"] and set(exact.weights) == {"location_scale"}


@pytest.mark.slow
def test_large_data_get_a_network_of_their_own():
    """Beyond what a density can hold, a network is trained on what the closed forms leave: here a variance."""

    def noise(key, theta):
        return jnp.exp(theta[0]) * jax.random.normal(key, (40,))

    sims = fs.simulate(fs.from_jax(noise), fs.uniform(log_width=(-0.5, 0.5)), 2_000)
    recipe = fs.AutoRecipe(closed_forms=("gaussian",), network=fs.NetworkRecipe(num_steps=1_000))
    model = fs.fit(sims, recipe=recipe)
    assert model.provenance["network_used"]
    x = fs.from_jax(noise).draw(np.zeros((2_000, 1)), seed=5)
    exact = (x**2).sum(axis=1) - 40
    assert np.corrcoef(np.asarray(model.score([0.0], x))[:, 0], exact)[0, 1] > 0.7


def test_a_saved_stack_gives_the_same_scores(tmp_path):
    problem = fs.problems.poisson_counts()
    model = fitted(problem, 400, recipe=fs.AutoRecipe(closed_forms=("gaussian", "quasi_score"), density=None))
    model.save(tmp_path / "m")
    x = problem.simulator.draw([1.0, 0.0])
    np.testing.assert_array_equal(fs.load(tmp_path / "m").score([1.0, 0.0], x), model.score([1.0, 0.0], x))


def designs(problem, num):
    rng = np.random.default_rng(5)
    low, high = problem.proposal.low, problem.proposal.high
    cells = np.stack([rng.permutation(num), rng.permutation(num)], axis=1)
    clustered = np.clip(0.25 + 0.2 * rng.normal(size=(num, 2)), 0, 1)
    clustered[: num // 4] = rng.uniform(size=(num // 4, 2))
    fails = rng.uniform(size=(2 * num, 2))
    kept = fails[rng.uniform(size=2 * num) > 0.9 * fails[:, 0]][:num]
    unit = {"latin": (cells + rng.uniform(size=(num, 2))) / num, "clustered": clustered, "failures": kept}
    return {name: low + (high - low) * u for name, u in unit.items()}


@pytest.mark.slow
def test_existing_simulations_of_any_design_give_the_same_score():
    problem = fs.problems.poisson_counts()
    recipe = fs.AutoRecipe(closed_forms=("location_scale", "quasi_score"), density=None)
    # A clustered design has a third of the rows where the error is measured, so that a third of them is the yardstick.
    third = fs.accuracy.score_error(fitted(problem, 2_000 // 3, recipe=recipe), problem).mean
    for theta in designs(problem, 2_000).values():
        x = problem.simulator.draw(theta, seed=6)
        model = fs.fit(fs.from_table(theta, x, problem.proposal), recipe=recipe)
        # Where a design leaves gaps there is less to learn from, but no bias.
        assert fs.accuracy.score_error(model, problem).mean < 1.5 * third


def test_a_table_is_checked():
    proposal = fs.uniform(a=(0.0, 1.0))
    with pytest.raises(fs.ArgumentError, match="x: expected shape"):
        fs.from_table(np.zeros((3, 1)), np.zeros((2, 4)), proposal)
    with pytest.raises(fs.ArgumentError, match="theta: expected"):
        fs.from_table(np.zeros((3, 2)), np.zeros((3, 4)), proposal)
    sims = fs.from_table(np.full((20, 1), 0.5), np.random.default_rng(0).normal(size=(20, 4)), proposal)
    with pytest.raises(fs.ArgumentError, match="latent"):
        fs.fit(sims, recipe="paper")


BAD = {
    "fewer simulations than data": (30, lambda t, rng: t[0] + rng.normal(size=40)),
    "a constant column": (200, lambda t, rng: [t[0] + rng.normal(), 5.0]),
    "collinear data": (200, lambda t, rng: np.repeat(t[0] + 0.1 * rng.normal(), 3)),
    "discrete": (300, lambda t, rng: rng.binomial(1, 1 / (1 + np.exp(-3 * t[0])), size=5)),
    "heavy tails": (400, lambda t, rng: t[0] + 0.2 * rng.standard_cauchy(size=3)),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sims. the score was badly learned")  # which is right, for few simulations
@pytest.mark.parametrize("case", BAD)
def test_odd_data_end_in_a_good_fit_or_a_clear_message(case):
    num, function = BAD[case]
    sims = fs.simulate(fs.from_python(function), fs.uniform(a=(-1.0, 1.0)), num)
    scores = np.asarray(fs.fit(sims, recipe=NO_NETWORK).score([0.0], sims.x))
    assert np.isfinite(scores).all()
    # A larger parameter makes larger data, so these must want one.
    order = np.argsort(np.median(sims.x, axis=1))
    assert scores[order[-num // 4 :]].mean() > scores[order[: num // 4]].mean()


def test_a_simulator_that_adds_no_noise_gets_a_message():
    sims = fs.simulate(fs.from_python(lambda t, rng: [t[0], t[0] ** 2]), fs.uniform(a=(-1.0, 1.0)), 200)
    with pytest.warns(fs.FisherScoreWarning, match="badly learned"), pytest.warns(match="hardly any noise"):
        fs.fit(sims, recipe=fs.AutoRecipe(closed_forms=("gaussian",), density=None))


@pytest.mark.slow
def test_scales_of_nine_orders_either_way():
    proposal = fs.uniform(small=(1e-9, 3e-9), large=(1e9, 3e9))

    def scaled(theta, rng):
        return [theta[0] * 1e9 + 0.1 * rng.normal(), theta[1] * 1e-9 + 0.1 * rng.normal()]

    recipe = fs.AutoRecipe(closed_forms=("gaussian", "location_scale"), density=None)
    model = fs.fit(fs.simulate(fs.from_python(scaled), proposal, 500), recipe=recipe)
    score = np.asarray(model.score([2e-9, 2e9], [2.05, 2.0]))
    np.testing.assert_allclose(score * [1e-9, 1e9], [5.0, 0.0], atol=1.0)
