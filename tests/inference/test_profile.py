"""Profile likelihoods against the closed form of a Gaussian, and where they are not parabolas."""

import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs

COVARIANCE = np.array([[0.5, 0.3, -0.1], [0.3, 0.6, 0.2], [-0.1, 0.2, 0.4]])
BOX = fs.uniform(a=(-6.0, 6.0), b=(-6.0, 6.0), c=(-6.0, 6.0))
PRECISION = np.linalg.inv(COVARIANCE).astype(np.float32)
MODEL = fs.FunctionScore(BOX, (3,), log_likelihood=lambda t, x: -0.5 * (x - t) @ jnp.asarray(PRECISION) @ (x - t))
FIELD = fs.FunctionScore(BOX, (3,), score=lambda t, x: jnp.asarray(PRECISION) @ (x - t))
X = np.array([0.5, -0.2, 0.8])


@pytest.mark.parametrize("model", [MODEL, FIELD], ids=["density", "vector field"])
def test_the_profile_of_a_gaussian_is_its_marginal(model):
    """The others follow their regression on the one that is held, and the fall is that of the marginal law."""
    profile = fs.profile_likelihood(model, X, "b")
    values = profile.grid[0]
    np.testing.assert_allclose(profile.fall, (values - X[1]) ** 2 / COVARIANCE[1, 1], atol=5e-3)
    np.testing.assert_allclose(profile.theta[:, 0], X[0] + 0.3 / 0.6 * (values - X[1]), atol=2e-3)
    low, high = profile.interval(0.9545)
    np.testing.assert_allclose([low, high], X[1] + 2 * np.sqrt(0.6) * np.array([-1, 1]), atol=5e-3)
    assert not profile.at_edge.any() and profile.best[0] == pytest.approx(X[1], abs=1e-3)
    # The control: with the others held where they are best, the fall is steeper.
    assert (PRECISION[1, 1] * (values - X[1]) ** 2)[0] > 1.3 * profile.fall[0]


def test_two_parameters_at_once():
    profile = fs.profile_likelihood(MODEL, X, ["c", "a"], num_points=7)
    c, a = np.meshgrid(*profile.grid, indexing="ij")
    away = np.stack([c - X[2], a - X[0]], axis=-1)
    expected = np.einsum("...i,ij,...j->...", away, np.linalg.inv(COVARIANCE[np.ix_([2, 0], [2, 0])]), away)
    np.testing.assert_allclose(profile.fall, expected, atol=2e-2)
    assert profile.plot().get_ylabel() == "a" and "largest at c = " in str(profile)


def test_a_likelihood_with_two_modes_is_followed_across():
    """The other parameter jumps from one mode to the other; a fit that follows from the best one would miss it."""

    def log_likelihood(t, x):
        one = -0.5 * ((t[0] - 1) ** 2 + ((t[1] - 2) / 0.3) ** 2)
        other = -0.5 * ((t[0] + 2) ** 2 + ((t[1] + 2) / 0.3) ** 2)
        return jnp.logaddexp(one, other) + 0 * x[0]

    model = fs.FunctionScore(fs.uniform(a=(-5, 5), b=(-4, 4)), (1,), log_likelihood=log_likelihood)
    profile = fs.profile_likelihood(model, [0.0], "a", ranges={"a": (-3, 2)})
    expected = np.minimum((profile.grid[0] - 1) ** 2, (profile.grid[0] + 2) ** 2)
    np.testing.assert_allclose(profile.fall, expected, atol=2e-2)
    assert (profile.theta[:, 1] > 0).sum() not in (0, 41)


def test_independent_draws_and_edges():
    draws = np.tile(X, (4, 1))
    profile = fs.profile_likelihood(MODEL, draws, "a", iid=True)
    np.testing.assert_allclose(np.subtract(*profile.interval(0.6827)[::-1]), 2 * np.sqrt(0.5 / 4), rtol=1e-2)
    narrow = fs.FunctionScore(fs.uniform(a=(0, 1), b=(-6, 6), c=(-6, 6)), (3,), log_likelihood=MODEL.log_likelihood_one)
    cut = fs.profile_likelihood(narrow, X, "a")
    assert cut.interval(0.95) == (None, None) and "open" in str(cut)
    held = fs.profile_likelihood(narrow, X, "b", ranges={"b": (2.0, 3.0)})
    assert held.at_edge.all()  # the regression on b would take a beyond 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((X, "d"), {}), "unknown parameter name 'd'"),
        (((X, ["a", "b", "c"]), {}), "one parameter or two, got 3"),
        (((np.tile(X, (2, 1)), "a"), {}), "x_obs: expected one observation"),
        (((X, "a"), {"num_points": 2}), "num_points: expected"),
        (((X, "a"), {"ranges": {"a": (-9, 0)}}), "within the training region, -6 to 6"),
    ],
)
def test_what_is_wrong_is_said(arguments, message):
    given, options = arguments
    with pytest.raises(fs.ArgumentError, match=message):
        fs.profile_likelihood(MODEL, *given, **options)


def test_pictures_and_levels():
    profile = fs.profile_likelihood(MODEL, X, "a", num_points=9)
    assert profile.plot().get_xlabel() == "a" and repr(profile) == "Profile(a; 9 points)"
    with pytest.raises(fs.ArgumentError, match="level: expected a number between 0 and 1"):
        profile.interval(1.5)
