"""Keys made on the host are those of JAX, of all 64 bits of a seed."""

import jax
import numpy as np
import pytest

from fisherscore._support.keys import key_of, short_key_of

SEEDS = [0, 5, 2**31 - 1, 2**31, 2**32 + 5, 2**63 - 1]


def same(ours, theirs):
    equal = np.array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))
    return equal and ours.dtype == theirs.dtype and ours.shape == theirs.shape


@pytest.mark.parametrize("seed", SEEDS)
def test_a_key_is_that_of_jax_in_double_precision_and_a_short_one_that_of_single(seed):
    assert same(short_key_of(seed), jax.random.key(seed))
    with jax.enable_x64(True):
        assert same(key_of(seed), jax.random.key(seed))


def test_seeds_that_differ_give_keys_that_differ():
    words = {tuple(jax.random.key_data(key_of(seed)).tolist()) for seed in [*SEEDS, 2**32]}
    assert len(words) == len(SEEDS) + 1
    assert same(short_key_of(0), short_key_of(2**32)), "the control: JAX in single precision drops the upper bits"


def test_the_settings_of_jax_make_no_difference():
    with jax.enable_x64(True), jax.default_prng_impl("rbg"):
        keys = [key_of(seed) for seed in SEEDS]
    assert all(same(key, key_of(seed)) for key, seed in zip(keys, SEEDS, strict=True))
