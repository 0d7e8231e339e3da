"""Tasks of the public benchmark: every simulator against its density or its moments, and what must be told apart."""

import bz2

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.sbi_tasks import TASKS, References
from benchmarks.sbi_tasks.glm import design, prior
from benchmarks.sbi_tasks.identities import steins_identity
from benchmarks.sbi_tasks.jobs import Outcome, pair_of
from benchmarks.sbi_tasks.populations import infected, log_populations
from benchmarks.sbi_tasks.slcp import distractors
from scipy.integrate import solve_ivp
from scipy.special import expit

NUM = 4_000
# A parameter vector inside each prior, and another at which the same data must not pass.
POINTS = {
    "gaussian_linear": (np.linspace(-0.4, 0.4, 10), np.linspace(-0.35, 0.45, 10)),
    "gaussian_linear_uniform": (np.linspace(-0.4, 0.4, 10), np.linspace(-0.35, 0.45, 10)),
    "bernoulli_glm": (np.linspace(-1.0, 1.0, 10), np.linspace(-0.8, 1.2, 10)),
    "bernoulli_glm_raw": (np.linspace(-1.0, 1.0, 10), np.linspace(-0.8, 1.2, 10)),
    "sir": ([0.5, 0.13], [0.51, 0.13]),
    "lotka_volterra": ([0.7, 0.06, 0.8, 0.04], [0.71, 0.06, 0.8, 0.04]),
    "slcp": ([0.5, -1.0, 1.2, -0.8, 0.6], [0.5, -1.0, 1.25, -0.8, 0.6]),
    "slcp_distractors": ([0.5, -1.0, 1.2, -0.8, 0.6], [0.5, -1.0, 1.25, -0.8, 0.6]),
    "gaussian_mixture": ([2.0, -3.0], [2.05, -3.0]),
}


def drawn(task, theta, num=NUM):
    return task.simulator.draw(np.tile(theta, (num, 1)), seed=3)


def worst_mean_score(task, theta, x):
    """The largest mean score in its standard errors: at the θ of the data, a score has mean zero."""
    score = jax.jit(jax.vmap(jax.grad(task.log_likelihood_one), in_axes=(None, 0)))
    scores = np.asarray(score(jnp.asarray(theta, jnp.float32), jnp.asarray(x, jnp.float32)), float)
    return np.max(np.abs(scores.mean(axis=0)) / (scores.std(axis=0) / np.sqrt(len(scores))))


@pytest.mark.parametrize("name", POINTS)
def test_likelihood_belongs_to_the_simulator(name):
    task = TASKS[name]()
    theta, other = POINTS[name]
    x = drawn(task, theta)
    assert np.isfinite(x).all()
    assert worst_mean_score(task, theta, x) < 4
    assert worst_mean_score(task, other, x) > 6  # the control


@pytest.mark.parametrize("name", TASKS)
def test_prior_has_the_parameters_of_the_proposal(name):
    task = TASKS[name]()
    theta = task.sample_prior(1_000, seed=0)
    assert theta.shape == (1_000, task.proposal.num_parameters)
    assert task.proposal.inside(theta).mean() > 0.95


def test_gaussian_noise_is_given_by_its_variance():
    x = drawn(TASKS["gaussian_linear"](), np.zeros(10))
    assert np.allclose(x.var(axis=0), 0.1, atol=5 * 0.1 * np.sqrt(2 / NUM))
    mixed = drawn(TASKS["gaussian_mixture"](), np.zeros(2))
    assert np.allclose(mixed.var(axis=0), (1 + 0.01) / 2, atol=0.06)
    assert np.isclose(np.mean(np.abs(mixed) < 0.1, axis=0), 0.381, atol=0.04).all()  # (0.683 + 0.080) / 2


def test_spikes_have_the_moments_of_their_rates():
    theta = POINTS["bernoulli_glm"][0]
    rate = expit(design() @ theta)
    x = drawn(TASKS["bernoulli_glm"](), theta)
    covariance = design().T @ (design() * (rate * (1 - rate))[:, None])
    errors = np.sqrt(np.diag(covariance) / NUM)
    assert (np.abs(x.mean(axis=0) - design().T @ rate) < 4 * errors).all()
    assert np.allclose(np.cov(x.T), covariance, atol=6 * np.max(np.diag(covariance)) * np.sqrt(2 / NUM))
    raw = drawn(TASKS["bernoulli_glm_raw"](), theta)
    assert set(np.unique(raw)) == {0.0, 1.0}
    assert (np.abs(raw.mean(axis=0) - rate) < 5 * np.sqrt(rate * (1 - rate) / NUM) + 1e-3).all()


def test_filter_is_smooth_under_its_prior():
    covariance = np.asarray(prior().covariance_matrix)
    assert np.isclose(covariance[0, 0], 2.0)
    assert np.allclose(covariance[0, 1:], 0.0)
    correlations = covariance[1:, 1:] / np.sqrt(np.outer(np.diag(covariance)[1:], np.diag(covariance)[1:]))
    assert correlations[0, 1] > 0.5


def test_points_have_the_covariance_of_their_parameters():
    theta = np.array(POINTS["slcp"][0])
    x = drawn(TASKS["slcp"](), theta).reshape(-1, 2)
    first, second, correlation = theta[2] ** 2, theta[3] ** 2, np.tanh(theta[4])
    exact = [[first**2, correlation * first * second], [correlation * first * second, second**2]]
    assert np.allclose(np.cov(x.T), exact, rtol=0.06)
    assert np.allclose(x.mean(axis=0), theta[:2], atol=0.05)


def test_distractors_hide_the_points_and_know_nothing():
    theta = POINTS["slcp"][0]
    where = np.argsort(distractors()[2])
    task = TASKS["slcp_distractors"]()
    x, elsewhere = drawn(task, theta), drawn(task, np.zeros(5) + 2.0)
    assert np.array_equal(x[:, where[8:]], elsewhere[:, where[8:]])  # the same random numbers
    assert not np.array_equal(x[:, where[:8]], elsewhere[:, where[:8]])
    medians = np.median(x[:, where[8:]], axis=0)
    assert np.abs(medians - np.median(distractors()[0], axis=0)).max() < 25.0


@pytest.mark.parametrize("theta", [(0.4, 0.125), (1.6, 0.2), (0.12, 0.2)])
def test_epidemic_is_integrated_rightly(theta):
    def slope(_, state):
        return [-theta[0] * state[0] * state[1], theta[0] * state[0] * state[1] - theta[1] * state[1]]

    times = 17.0 * np.arange(10)
    exact = solve_ivp(slope, (0, times[-1]), [1 - 1e-6, 1e-6], t_eval=times, rtol=1e-10, atol=1e-14, method="LSODA")
    ours = np.asarray(infected(jnp.array(theta)))
    seen = exact.y[1] > 1e-9  # of a thousand people, none of fewer; there SciPy's own error is seen
    assert np.abs(ours / exact.y[1] - 1)[seen].max() < 5e-4


@pytest.mark.parametrize("theta", [(0.88, 0.05, 0.88, 0.05), (2.4, 0.14, 2.4, 0.14), (0.3, 0.02, 3.0, 0.15)])
def test_predators_and_prey_are_integrated_rightly(theta):
    birth, hunting, death, feeding = theta

    def slope(_, state):
        return [birth - hunting * np.exp(state[1]), feeding * np.exp(state[0]) - death]

    times = 2.1 * np.arange(10)
    exact = solve_ivp(slope, (0, times[-1]), np.log([30.0, 1.0]), t_eval=times, rtol=1e-10, atol=1e-12, method="LSODA")
    ours = np.asarray(log_populations(jnp.array(theta))).reshape(2, 10)
    assert np.abs(ours - np.clip(exact.y, np.log(1e-10), np.log(1e4))).max() < 0.01  # the noise is 0.1


def test_counts_of_rare_cases_have_their_mean():
    task = TASKS["sir"]()
    theta = (0.4, 0.125)
    rates = np.asarray(infected(jnp.array(theta)), float)
    x = drawn(task, theta, 20_000)
    assert (np.abs(x.mean(axis=0) - 1000 * rates) < 5 * np.sqrt(1000 * rates / 20_000) + 1e-3).all()
    assert x[:, 0].max() <= 2


def test_steins_identity_tells_a_posterior_from_another():
    task = TASKS["gaussian_linear"]()
    x = np.linspace(-0.5, 0.5, 10)
    rng = np.random.default_rng(0)
    draws = x / 2 + np.sqrt(0.05) * rng.normal(size=(NUM, 10))
    average, error = steins_identity(task, draws, x)
    assert (np.abs(average) < 4 * error).all()
    wrong, error = steins_identity(task, draws + 0.03, x)
    assert (np.abs(wrong) > 4 * error).any()


def test_packed_references_are_those_of_the_files(tmp_path):
    task = TASKS["two_moons"]()
    folder = tmp_path / "sbibm" / "tasks" / "two_moons" / "files"
    rng = np.random.default_rng(0)
    for number in range(1, 11):
        inside = folder / f"num_observation_{number}"
        inside.mkdir(parents=True)
        for name in ("observation.csv", "true_parameters.csv"):
            np.savetxt(inside / name, rng.normal(size=(1, 2)), delimiter=",", header="a,b", comments="")
        np.savetxt(inside / "draws", rng.normal(size=(5, 2)), delimiter=",", header="a,b", comments="")
        packed = bz2.compress((inside / "draws").read_bytes())
        (inside / "reference_posterior_samples.csv.bz2").write_bytes(packed)
    plain = References(tmp_path)
    plain.pack([task], tmp_path / "packed.npz")
    again = References(tmp_path / "packed.npz")
    assert np.allclose(plain.posterior(task, 10), again.posterior(task, 10), rtol=1e-6)
    assert np.allclose(plain.observation(task, 3), again.observation(task, 3), rtol=1e-6)
    assert np.allclose(plain.true_parameters(task, 3), again.true_parameters(task, 3), rtol=1e-6)


@pytest.mark.parametrize("method", ["aimed", "reference"])
def test_a_classifier_is_given_as_many_of_each(method):
    reference = np.random.default_rng(0).normal(size=(1_000, 2))
    one, other = pair_of(Outcome({"method": method}, reference[:200] + 5.0, reference))
    assert len(one) == len(other) == (200 if method == "aimed" else 500)
    assert (other.mean() > 4) == (method == "aimed")
