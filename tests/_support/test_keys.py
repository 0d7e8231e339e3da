"""Keys made on the host are those of JAX."""

import jax
import numpy as np
import pytest

from fisherscore._support.keys import key_of

SEEDS = [0, 5, 2**31 - 1, 2**31, 2**32 + 5, 2**63 - 1]


def same(seed):
    ours, theirs = key_of(seed), jax.random.key(seed)
    equal = np.array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))
    return equal and ours.dtype == theirs.dtype and ours.shape == theirs.shape


@pytest.mark.parametrize("seed", SEEDS)
def test_a_key_is_that_of_jax(seed):
    assert same(seed)


def test_seeds_that_differ_give_keys_that_differ():
    assert not np.array_equal(jax.random.key_data(key_of(1)), jax.random.key_data(jax.random.key(2)))


def test_other_generators_and_double_precision_are_followed():
    with jax.enable_x64(True):
        assert all(map(same, SEEDS))
    with jax.default_prng_impl("rbg"):
        assert all(map(same, SEEDS))
