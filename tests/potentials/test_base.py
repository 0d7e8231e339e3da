"""What holds for every registered score function."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fisherscore.potentials.base import ARCHITECTURES, Potential, build, describe, likelihood
from fisherscore.potentials.networks import MLP

SETTINGS = {
    "vector_field": {"hidden": (7, 9)},
    "exponential_family": {"hidden": (8,), "num_features": 3},
    "mixture_density": {"hidden": (8, 8), "num_components": 2},
    "gaussian_baseline": {"degree": 2},
    "location_scale_baseline": {"degree": 2, "mixing_degree": 1, "num_components": 2},
    "polynomial_family": {"degree": 3},
    "log_gamma": {"degree": 2},
}
_FAMILY = {"architecture": "exponential_family", "settings": SETTINGS["exponential_family"]}
SETTINGS["mapped"] = {"num_knots": 5, "inner": _FAMILY}
SETTINGS["condensed"] = {"num_summaries": 3, "inner": _FAMILY}
SETTINGS["rare_events"] = {"places": [1, 4], "inner": _FAMILY}
SETTINGS["stack"] = {"members": [_FAMILY, {"architecture": "mapped", "settings": SETTINGS["mapped"]}]}


@pytest.fixture(params=ARCHITECTURES)
def network(request):
    return build(request.param, 2, 6, SETTINGS[request.param], key=jax.random.key(0))


THETA = jax.random.normal(jax.random.key(1), (5, 2))
X = jax.random.normal(jax.random.key(2), (5, 2, 3))


def test_batched_equals_looped_and_jit_equals_eager(network):
    looped = jnp.stack([network(t, x) for t, x in zip(THETA, X, strict=True)])
    assert looped.shape == (5, 2)
    np.testing.assert_allclose(jax.jit(jax.vmap(network))(THETA, X), looped, rtol=1e-4, atol=1e-6)


def test_settings_rebuild_the_same_shape(network):
    again = build(describe(network)["architecture"], 2, 6, network.settings, key=jax.random.key(0))
    assert jax.tree.structure(again) == jax.tree.structure(network)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(network), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_conservative_network_is_curl_free_and_a_vector_field_is_not(network):
    jacobian = jax.jit(lambda t: jax.vmap(jax.jacfwd(network))(t, X))(THETA)
    asymmetry = jnp.abs(jacobian - jacobian.mT).max()
    if isinstance(network, Potential):
        assert asymmetry < 1e-5
        np.testing.assert_allclose(network(THETA[0], X[0]), jax.grad(network.potential)(THETA[0], X[0]))
    else:
        assert asymmetry > 1e-3


def test_a_vector_field_cannot_be_part_of_a_stack():
    field = {"architecture": "vector_field", "settings": SETTINGS["vector_field"]}
    with pytest.raises(ValueError, match="no potential"):
        build("stack", 2, 6, {"members": [field]}, key=jax.random.key(0))


def test_exponential_family_is_exact_for_a_gaussian_with_fixed_covariance():
    """With η linear in θ and no features, the score is linear in x with slope ∂η/∂θ."""
    network = build("exponential_family", 2, 3, SETTINGS["exponential_family"], key=jax.random.key(0))
    dead = jax.tree.map(jnp.zeros_like, network.features)
    object.__setattr__(network, "features", dead)
    slope = jax.jacfwd(network.natural)(THETA[0])[:3]
    x = jnp.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(network(THETA[0], 2 * x) - network(THETA[0], x), slope.T @ x, rtol=1e-4, atol=1e-6)


def shaken(function):
    """Give arrays that start as zeros or ones other values, so that every part of a function counts."""

    def moved(path, leaf):
        fixed = any("knots" in str(p) or "values" in str(p) or "noise" in str(p) for p in path)
        return leaf if fixed else leaf + 0.1 * jax.random.normal(jax.random.key(leaf.size), leaf.shape)

    return jax.tree_util.tree_map_with_path(moved, function)


def gradients(function):
    """Give a function of a network, θ and x, and its gradients in each, as one program rather than a hundred."""
    of_all = eqx.filter_jit(eqx.filter_value_and_grad(lambda inputs: function(*inputs)))
    return lambda *inputs: of_all(inputs)


def test_scores_are_the_gradients_of_potentials(network):
    if not isinstance(network, Potential):
        pytest.skip("a vector field has no potential")
    network = shaken(network)
    theta, x = 0.5 * THETA[0], X[0]
    value, score = eqx.filter_jit(network.value_and_score)(theta, x)
    again, slopes = gradients(likelihood)(network, theta, x)
    potential, expected = gradients(lambda f, t, y: f.potential(t, y))(network, theta, x)
    np.testing.assert_allclose([value, again], potential, rtol=1e-5)
    for gradient in (eqx.filter_jit(network)(theta, x), expected[1]):
        np.testing.assert_allclose(gradient, score, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(slopes[1], score, rtol=1e-5)
    # In what else it may be differentiated, the likelihood is the potential.
    np.testing.assert_allclose(slopes[2], expected[2], rtol=1e-4, atol=1e-5)
    weights, expected = slopes[0], expected[0]
    for a, b in zip(jax.tree.leaves(weights), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("sizes", [(3, 16), (16, 1)])
def test_layers_are_drawn_as_equinox_draws_them(sizes):
    key = jax.random.key(3)
    (layer,) = MLP(sizes, key=key).layers
    expected = eqx.nn.Linear(*sizes, key=jax.random.split(key, 1)[0])
    assert jax.tree.structure(layer) == jax.tree.structure(expected)
    np.testing.assert_allclose(layer.weight, expected.weight, atol=1e-6)
    np.testing.assert_allclose(layer.bias, expected.bias, atol=1e-6)
