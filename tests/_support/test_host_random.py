"""Random numbers on the host are those of JAX, so that what is drawn does not depend on where."""

import jax
import numpy as np
import pytest

from fisherscore._support import host_random

KEY = jax.random.fold_in(jax.random.key(2**31 - 7), 3)
WORDS = host_random.words_of(KEY)


@pytest.mark.filterwarnings("error")
def test_keys_are_those_of_jax():
    np.testing.assert_array_equal(host_random.split(WORDS, 4), jax.random.key_data(jax.random.split(KEY, 4)))
    np.testing.assert_array_equal(host_random.fold_in(WORDS, 9), jax.random.key_data(jax.random.fold_in(KEY, 9)))
    assert host_random.words_of(WORDS) is WORDS
    assert not np.array_equal(host_random.fold_in(WORDS, 8), host_random.fold_in(WORDS, 9))


@pytest.mark.parametrize("num", [1, 2, 700, 3000])
def test_permutations_are_those_of_jax(num):
    np.testing.assert_array_equal(host_random.permutation(WORDS, num), jax.random.permutation(KEY, num))


def test_normals_are_those_of_jax():
    drawn = host_random.normals(WORDS, (30, 40, 5))
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn, jax.random.normal(KEY, (30, 40, 5)), rtol=1e-5, atol=1e-6)
    assert abs(drawn.mean()) < 0.05 and abs(drawn.std() - 1) < 0.05


def test_uniforms_are_those_of_jax():
    drawn = host_random.uniforms(WORDS, (30, 4), -0.3, 0.3)
    np.testing.assert_allclose(drawn, jax.random.uniform(KEY, (30, 4), minval=-0.3, maxval=0.3), atol=1e-7)


def test_keys_that_are_traced_are_left_to_jax():
    def draw(key):
        first, second = host_random.split(host_random.words_of(key))
        return host_random.normals(host_random.fold_in(first, 1), (5,)), host_random.uniforms(second, (5,), 0.0, 1.0)

    for traced, expected in zip(jax.jit(draw)(KEY), draw(KEY), strict=True):
        np.testing.assert_allclose(traced, expected, rtol=1e-5)
