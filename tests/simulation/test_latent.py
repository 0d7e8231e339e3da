import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.simulation.latent import additive_latent


class StudentT(fs.Latent):
    def sample(self, key, theta):
        return theta + jax.random.t(key, 5.0, theta.shape)

    def log_prob(self, theta, latent):
        return -3.0 * jnp.log1p((latent - theta) ** 2 / 5.0).sum()


LATENTS = {
    "gaussian": fs.GaussianLatent([[0.5, 0.2], [0.2, 0.3]]),
    "diagonal": fs.GaussianLatent([0.1, 2.0]),
    "student": StudentT(),
    "laplace by log_prob": fs.CustomLatent(
        lambda key, theta: theta + jax.random.laplace(key, theta.shape),
        log_prob=lambda theta, z: -jnp.abs(z - theta).sum(),
    ),
    "logistic by score": fs.CustomLatent(
        lambda key, theta: theta + jax.random.logistic(key, theta.shape),
        score=lambda theta, z: jnp.tanh((z - theta) / 2),
    ),
}
THETA = jnp.array([0.3, -1.2])


@pytest.fixture(params=LATENTS)
def latent(request):
    return LATENTS[request.param]


def draws(latent, num=40_000):
    z = jax.vmap(latent.sample, (0, None))(jax.random.split(jax.random.key(0), num), THETA)
    return z, np.asarray(jax.vmap(latent.score, (None, 0))(THETA, z), np.float64)


def test_score_has_mean_zero_at_the_drawn_theta_and_not_elsewhere(latent):
    z, score = draws(latent)
    standard_error = score.std(axis=0) / np.sqrt(len(score))
    assert (np.abs(score.mean(axis=0)) < 4 * standard_error).all()
    elsewhere = np.asarray(jax.vmap(latent.score, (None, 0))(THETA + 0.3, z))
    assert (np.abs(elsewhere.mean(axis=0)) > 10 * standard_error).all()  # the control


def test_score_has_the_slope_the_draws_call_for(latent):
    """∇θ E[z] = E[z tᵀ] is the identity for a latent that is θ plus noise: draws and score belong together."""
    z, score = draws(latent)
    slope = np.einsum("ni,nj->ij", np.asarray(z) - np.asarray(THETA), score) / len(score)
    np.testing.assert_allclose(slope, np.eye(2), atol=0.05)


def test_jit_equals_eager(latent):
    z = latent.sample(jax.random.key(1), THETA)
    np.testing.assert_allclose(eqx.filter_jit(latent.score)(THETA, z), latent.score(THETA, z), rtol=1e-5)


@pytest.mark.parametrize("name", ["gaussian", "diagonal", "student", "laplace by log_prob"])
def test_score_is_the_gradient_of_the_log_probability(name):
    latent = LATENTS[name]
    z = latent.sample(jax.random.key(1), THETA)
    np.testing.assert_allclose(latent.score(THETA, z), jax.grad(latent.log_prob)(THETA, z), rtol=1e-5)


def test_gaussian_draws_have_the_covariance():
    z, _ = draws(LATENTS["gaussian"])
    np.testing.assert_allclose(np.cov(np.asarray(z).T), LATENTS["gaussian"].covariance, atol=0.02)


def test_default_noise_is_the_papers():
    latent = additive_latent(fs.uniform(omega_c=(0.2, 0.4), sigma8=(0.7, 0.9)))
    np.testing.assert_allclose(np.sqrt(np.diag(latent.covariance)), 1e-3)


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "covariance: expected a positive definite"),
        ([[1.0, 0.0], [0.5, 1.0]], "covariance: expected a symmetric"),
        ([[1.0, 0.0]], "covariance: expected a symmetric square"),
        ([0.0, 1.0], "covariance: expected a positive definite"),
        ([np.nan, 1.0], "covariance: expected finite"),
    ],
)
def test_bad_covariance_is_refused(covariance, message):
    with pytest.raises(fs.ArgumentError, match=message):
        fs.GaussianLatent(covariance)


def test_custom_latent_needs_a_log_probability_or_a_score():
    with pytest.raises(fs.ArgumentError, match="log_prob, score"):
        fs.CustomLatent(lambda key, theta: theta)


@pytest.mark.parametrize(
    ("latent", "message"),
    [
        (fs.GaussianLatent([1.0]), "latent: does not work|latent: expected"),
        (fs.GaussianLatent([1.0, 1.0, 1.0]), "latent: does not work with the 2 parameters"),
        (fs.CustomLatent(lambda k, t: t, score=lambda t, z: z[:1]), "latent: expected z of shape"),
        ("gaussian", "latent: expected a latent model"),
    ],
)
def test_latent_that_does_not_fit_is_found_before_simulating(latent, message):
    def never(theta, rng):
        raise AssertionError("must not be run")

    with pytest.raises(fs.ArgumentError, match=message):
        fs.simulate(fs.from_python(never), fs.uniform(a=(0, 1), b=(0, 1)), 10, latent=latent)
