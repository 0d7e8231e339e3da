"""Compiling quickly: the same results, on any compiler."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fisherscore._support import compiling
from fisherscore._support.compiling import quickly_compiled


@pytest.fixture(autouse=True)
def forgotten_options():
    compiling._known_options.cache_clear()
    yield
    compiling._known_options.cache_clear()


def square(x, factor):
    return factor * jnp.sum(x**2)


def test_results_are_those_of_the_function():
    x = np.arange(3.0, dtype=np.float32)
    assert float(quickly_compiled(square)(x, 2.0)) == float(square(x, 2.0))
    assert quickly_compiled(square).__name__ == "square"


def test_an_option_the_compiler_does_not_know_is_left_out(monkeypatch):
    known = {"xla_backend_optimization_level": 1}
    monkeypatch.setattr(compiling, "_OPTIONS", {"cpu": known | {"xla_no_such_option": True}})
    assert compiling._known_options() == known
    assert float(quickly_compiled(square)(np.ones(2, np.float32), 1.0)) == 2.0


def test_other_devices_are_left_alone(monkeypatch):
    monkeypatch.setattr("jax.default_backend", lambda: "metal")
    assert compiling._known_options() == {}


def test_a_function_may_be_a_part_of_another_that_is_compiled():
    inner = quickly_compiled(square)
    x = np.arange(3.0, dtype=np.float32)
    assert float(jax.jit(lambda x: inner(x, 2.0) + 1)(x)) == 11.0
    assert np.array_equal(jax.grad(lambda x: inner(x, 2.0))(x), 4 * x)
