"""The mixture density: many rows at once, weights drawn on the host, and derivatives in NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fisherscore._support import host_random
from fisherscore.fitting.data import Rows
from fisherscore.fitting.implicit_risk import Terms
from fisherscore.fitting.trainers import network_terms
from fisherscore.potentials import mixture_density
from fisherscore.potentials.base import build

SETTINGS = {"hidden": (16, 16, 16), "num_components": 3}


def network(num_parameters=2, data_size=4):
    """Give one whose last layer moves with its inputs, also beyond the bounds of the widths."""
    fresh = build("mixture_density", num_parameters, data_size, SETTINGS, key=jax.random.key(2))
    rng = np.random.default_rng(4)
    return jax.tree.map(lambda a: jnp.asarray(a + 0.3 * rng.normal(size=a.shape), jnp.float32), fresh)


def rows(num=50, num_parameters=2, data_size=4):
    rng = np.random.default_rng(1)
    return Rows(rng.uniform(-1, 1, (num, num_parameters)), rng.standard_t(3, (num, data_size)))


def test_many_rows_at_once_are_what_each_is():
    data, density = rows(), network()
    u, x = jnp.asarray(data.u, jnp.float32), jnp.asarray(data.x, jnp.float32)
    together = eqx.filter_jit(lambda d, *rows: d.log_densities(*rows))
    alone = eqx.filter_jit(lambda d, *rows: jax.vmap(d.potential)(*rows))
    np.testing.assert_allclose(together(density, u, x), alone(density, u, x), rtol=1e-5, atol=1e-5)
    assert np.abs(together(density, u, x) - together(density, u, x[::-1])).max() > 0.1


def test_weights_drawn_on_the_host_are_those_drawn_by_jax():
    key = jax.random.key(5)
    by_jax = build("mixture_density", 2, 4, SETTINGS, key=key)
    on_host = build("mixture_density", 2, 4, SETTINGS, key=host_random.words_of(key))
    assert jax.tree.structure(by_jax) == jax.tree.structure(on_host)
    for a, b in zip(jax.tree.leaves(by_jax), jax.tree.leaves(on_host), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("num_parameters", [1, 3])
def test_terms_in_numpy_are_those_of_automatic_differentiation(num_parameters, monkeypatch):
    monkeypatch.setattr(mixture_density, "_NUMBERS_AT_ONCE", 2_000)  # several blocks
    data, density = rows(num_parameters=num_parameters), network(num_parameters)
    root = np.random.default_rng(2).normal(size=(num_parameters, num_parameters))
    metric = root @ root.T
    quick, expected = network_terms(density, data, metric), Terms.of(density, data, metric)
    scale = np.abs(expected.scores).max(), np.abs(expected.divergences).max()
    assert np.abs(quick.scores - expected.scores).max() < 1e-4 * scale[0]
    assert np.abs(quick.divergences - expected.divergences).max() < 1e-4 * scale[1]
    other = network_terms(density, data, metric + 0.1 * np.eye(num_parameters))
    assert np.abs(other.divergences - expected.divergences).max() > 1e-2 * scale[1]
