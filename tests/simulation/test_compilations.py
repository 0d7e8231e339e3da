"""Draws and simulations are compiled once, not once a call, whatever their number."""

import jax
import numpy as np
import pytest

import fisherscore as fs
from fisherscore._support.compiling import quickly_compiled

COMPILED = []


@pytest.fixture(scope="module", autouse=True)
def counted():
    """Count compilations, those found in a cache on disk too; but for what a process asks of the compiler once."""
    quickly_compiled(lambda x: x)(np.float32(0.0))

    def count(event, seconds, **_):
        if event.endswith("backend_compile_duration"):
            COMPILED.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(count)


def number_compiled(call):
    before = len(COMPILED)
    call()
    return len(COMPILED) - before


def noisy(key, theta):
    return theta + jax.random.normal(key, theta.shape)


def test_simulations_of_the_same_function_share_what_is_compiled():
    proposal = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))
    assert number_compiled(lambda: fs.simulate(fs.from_jax(noisy), proposal, 300)) == 1  # records
    for num, seed in ((300, 0), (900, 1), (257, 2)):
        again = fs.from_jax(noisy)
        assert number_compiled(lambda n=num, s=seed, a=again: fs.simulate(a, proposal, n, seed=s)) == 0
    # A control: another function.
    assert number_compiled(lambda: fs.simulate(fs.from_jax(lambda k, t: 2 * noisy(k, t)), proposal, 300)) == 1


def test_records_and_parameters_do_not_depend_on_how_many_others_there_are():
    proposal = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))
    many = fs.simulate(fs.from_jax(noisy, batch_size=32), proposal, 1_100, seed=3)
    for num in (1, 31, 33, 700):
        few = fs.simulate(fs.from_jax(noisy, batch_size=32), proposal, num, seed=3)
        assert np.array_equal(few.theta, many.theta[:num]) and np.allclose(few.x, many.x[:num], rtol=1e-6)


def test_a_function_that_cannot_be_hashed_is_simulated():
    class Noisy:
        __hash__ = None

        def __call__(self, key, theta):
            return noisy(key, theta)

    proposal = fs.uniform(a=(0.0, 1.0))
    one, other = (fs.simulate(fs.from_jax(f, name="noisy"), proposal, 20) for f in (Noisy(), noisy))
    assert np.array_equal(one.x, other.x)


def test_draws_of_many_uniform_parameters_are_those_of_one_by_one():
    proposal = fs.uniform([(f"a{i}", (-float(i), 2.0 + i)) for i in range(5)])

    def one_by_one(key):
        keys = jax.random.split(key, 5)
        return jax.numpy.stack([law.sample(k) for law, k in zip(proposal.distributions, keys, strict=True)])

    keys = jax.random.split(jax.random.key(1), 200)
    expected = jax.jit(jax.vmap(one_by_one))(keys)
    assert np.array_equal(jax.jit(jax.vmap(proposal.draw_one))(keys), expected)


def test_forecasts_and_summaries_compile_little_and_only_once():
    problem = fs.problems.linear_gaussian()
    model, simulator = problem.exact_model(), problem.simulator
    first = number_compiled(lambda: fs.forecast(model, [0.0, 0.0], simulator, num_simulations=2_000))
    assert first <= 2  # records and scores
    assert number_compiled(lambda: fs.forecast(model, [0.5, 0.0], simulator, num_simulations=9_000)) == 0
    assert number_compiled(lambda: fs.compress(model, [0.0, 0.0])([0.1, 0.2])) <= 2  # F, and scores of a handful
    assert number_compiled(lambda: fs.compress(model, [0.5, 0.0])([[0.1, 0.2], [0.3, 0.4]])) == 0
