"""Fields whose score is exact: mean zero, the Fisher matrix as covariance, and the limits of what they take."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.problems.multiscale_field import _joined, _split

PROBLEMS = {
    "gaussian": fs.problems.gaussian_field(12),
    "odd": fs.problems.gaussian_field(9, noise=0.5),
    "lognormal": fs.problems.lognormal_field(12),
    "multiscale": fs.problems.multiscale_field(8),
}
THETA = {name: np.array([0.4, 0.5 if name == "multiscale" else 2.3]) for name in PROBLEMS}
NUM = 8_000


def scores_at(problem, theta, at=None):
    """Draw data at θ, and score them there or at other parameters."""
    x = problem.simulator.draw(np.tile(theta, (NUM, 1)), seed=1_001)
    return np.asarray(problem.score(theta if at is None else at, x), np.float64)


@pytest.mark.parametrize("name", PROBLEMS)
def test_scores_have_mean_zero_at_the_parameters_of_the_data_and_nowhere_else(name):
    problem, theta = PROBLEMS[name], THETA[name]
    scores = scores_at(problem, theta)
    assert (np.abs(scores.mean(axis=0)) < 4 * scores.std(axis=0) / np.sqrt(NUM)).all()
    off = scores_at(problem, theta, theta - 0.1)
    assert (np.abs(off.mean(axis=0)) > 10 * off.std(axis=0) / np.sqrt(NUM)).any()


@pytest.mark.parametrize("name", ["gaussian", "odd", "lognormal"])
def test_the_fisher_matrix_is_the_covariance_of_scores_and_counts_every_mode_once(name):
    problem, theta = PROBLEMS[name], THETA[name]
    scores = scores_at(problem, theta)
    fisher = problem.fisher(theta)
    half = np.linalg.inv(np.linalg.cholesky(fisher))
    relative = half @ (scores.T @ scores / NUM) @ half.T
    error = 4 * np.sqrt(3.0 / NUM)
    np.testing.assert_allclose(relative, np.eye(2), atol=error)
    # The control: counting a mode and its conjugate twice, or half of the plane only.
    for wrong in (2.0, 0.5):
        assert np.abs(relative / wrong - np.eye(2)).max() > error


def test_the_fisher_matrix_of_the_noiseless_field_is_the_number_of_modes():
    fisher = PROBLEMS["lognormal"].fisher([0.0, 2.0])
    assert fisher[0, 0] == pytest.approx((12 * 12 - 1) / 2, rel=1e-5)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_score_is_the_gradient_of_the_log_likelihood(name):
    problem = PROBLEMS[name]
    theta = problem.proposal.sample(5, seed=1_002)
    x = problem.simulator.draw(theta, seed=1_003)
    gradient = jax.jit(jax.vmap(jax.grad(problem.log_likelihood_one)))(jnp.asarray(theta), jnp.asarray(x))
    np.testing.assert_allclose(problem.score(theta, x), gradient, rtol=2e-3, atol=2e-2)


def test_wavelets_of_the_multi_scale_field_are_orthonormal_and_undone():
    image = jax.random.normal(jax.random.key(0), (8, 8))
    means, details = _split(image)
    assert float(jnp.sum(means**2) + jnp.sum(details**2)) == pytest.approx(float(jnp.sum(image**2)), rel=1e-5)
    np.testing.assert_allclose(_joined(means, details), image, atol=1e-5)


def test_the_coupling_of_scales_is_not_in_the_power():
    problem = PROBLEMS["multiscale"]
    powers = []
    for coupling in (0.1, 0.8):
        x = problem.simulator.draw(np.tile([0.0, coupling], (NUM, 1)), seed=1_004)
        powers.append((np.abs(np.fft.fft2(x)) ** 2).mean(axis=0).ravel()[1:])
    np.testing.assert_allclose(powers[1] / powers[0], 1.0, atol=0.25)
    # Fourth moments do tell.
    fourth = [
        np.mean(np.asarray(problem.simulator.draw(np.tile([0.0, c], (NUM, 1)), seed=1_005)) ** 4) for c in (0.1, 0.8)
    ]
    assert fourth[1] > 1.3 * fourth[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fs.problems.gaussian_field(2), "n: expected a whole number of at least 4"),
        (lambda: fs.problems.gaussian_field(5_000), "n: expected at most 4096"),
        (lambda: fs.problems.gaussian_field(8, noise=-1.0), "noise: expected a power of at least 0"),
        (lambda: fs.problems.lognormal_field("a"), "n: expected a whole number"),
        (lambda: fs.problems.multiscale_field(12), "n: expected a power of two"),
    ],
)
def test_what_cannot_be_made_is_refused(make, message):
    with pytest.raises(fs.ArgumentError, match=message):
        make()
