import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import fisherscore as fs


def test_uniform_draws_fill_the_box_and_nothing_else():
    proposal = fs.uniform(a=(0.2, 0.4), b=(-1.0, 5.0))
    theta = proposal.sample(20_000, seed=3)
    assert proposal.inside(theta).all()
    assert not proposal.inside([0.5, 0.0])
    standard_error = (proposal.high - proposal.low) / np.sqrt(12 * len(theta))
    assert (np.abs(theta.mean(axis=0) - (proposal.low + proposal.high) / 2) < 4 * standard_error).all()


def test_same_seed_same_draws_other_seed_other_draws():
    proposal = fs.uniform(a=(0, 1))
    assert (proposal.sample(5, seed=1) == proposal.sample(5, seed=1)).all()
    assert (proposal.sample(5, seed=1) != proposal.sample(5, seed=2)).any()


def test_any_numpyro_distribution_gets_a_region_and_a_density():
    proposal = fs.Proposal.of({"g": dist.Gamma(3.0, 1.0), "b": dist.Beta(2.0, 5.0), "n": dist.Normal(0.0, 2.0)})
    draws = proposal.sample(10_000)
    assert proposal.inside(draws).mean() > 0.99
    expected = dist.Gamma(3.0, 1.0).log_prob(2.0) + dist.Beta(2.0, 5.0).log_prob(0.3) + dist.Normal(0, 2).log_prob(1.0)
    np.testing.assert_allclose(proposal.log_prob([2.0, 0.3, 1.0]), expected, rtol=1e-5)
    assert proposal.low[1] == 0.0 and proposal.high[1] == 1.0
    np.testing.assert_allclose(proposal.high[2], 2 * 3.0902, rtol=1e-3)


def test_names_may_be_anything_that_can_be_printed():
    names = ["Ω c", 'quo"te', "; $(touch x)", "a.b"]
    assert fs.uniform(dict.fromkeys(names, (0, 1))).names == tuple(names)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fs.uniform(a=(1.0, 1.0)), "a: expected low < high"),
        (lambda: fs.uniform(a=(2.0, 1.0)), "a: expected low < high"),
        (lambda: fs.uniform(a=(0.0, np.nan)), "a: expected two finite"),
        (lambda: fs.uniform(a=(0.0, np.inf)), "a: expected two finite"),
        (lambda: fs.uniform(a=1.0), "a: expected two numbers"),
        (fs.uniform, "ranges: expected at least one"),
        (lambda: fs.uniform({"a": (0, 1)}, a=(0, 2)), "'a' is given 2 times"),
        (lambda: fs.uniform([("a", (0, 1)), ("a", (0, 2))]), "'a' is given 2 times"),
        (lambda: fs.uniform({"": (0, 1)}), "names that can be printed"),
        (lambda: fs.uniform({"a\n": (0, 1)}), "names that can be printed"),
        (lambda: fs.uniform(3), "ranges: expected a mapping"),
        (lambda: fs.uniform({"a": (0, 1)}, units={"b": "m"}), "unknown parameter name 'b'"),
        (lambda: fs.normal(a=(0.0, -1.0)), "a: expected a standard deviation above 0"),
        (lambda: fs.Proposal.of({"a": 3}), r"distributions\['a'\]: expected a NumPyro"),
        (lambda: fs.Proposal.of({"a": dist.Poisson(1.0)}), "scalar continuous"),
        (lambda: fs.Proposal.of({"a": dist.Normal(np.zeros(2), 1.0)}), "scalar continuous"),
        (lambda: fs.uniform(a=(0, 1)).sample(0), "num: expected a whole number of at least 1"),
        (lambda: fs.uniform(a=(0, 1)).sample(3, seed=-1), "seed: expected"),
        (lambda: fs.uniform(a=(0, 1)).inside([0.0, 1.0]), "theta: expected shape"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(fs.ArgumentError, match=message):
        make()


def test_draws_stay_inside_the_range_although_they_are_made_in_single_precision():
    proposal = fs.uniform(a=(1000.1, 1000.2))
    raw = np.asarray(jax.vmap(proposal.draw_one)(jax.random.split(jax.random.key(0), 20_000)), np.float64)
    assert not proposal.inside(raw).all(), "the control: rounding takes some draws outside"
    assert proposal.inside(proposal.sample(20_000)).all()
    sims = fs.simulate(fs.from_jax(lambda key, theta: theta), proposal, 20_000)
    assert proposal.inside(sims.theta).all()


def test_a_distribution_is_left_as_it_was():
    laws = {"a": dist.TruncatedNormal(0.0, 0.9, low=-2.0, high=1.0), "b": dist.TruncatedNormal(0.0, 1.0, low=-2.5)}
    known = {name: set(vars(law)) for name, law in laws.items()}
    proposal = fs.Proposal.of(laws)
    first = proposal.sample(5, seed=1)
    assert np.isfinite(proposal.log_prob(first)).all()
    assert {name: set(vars(law)) for name, law in laws.items()} == known
    # The control: drawing from it directly leaves something behind, and draws do not depend on that.
    laws["a"].sample(jax.random.key(0))
    assert set(vars(laws["a"])) > known["a"]
    np.testing.assert_array_equal(fs.Proposal.of(laws).sample(5, seed=1), first)
