"""Posteriors against exact ones: conjugate, under other priors, of many draws, with two modes."""

import warnings

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS

import fisherscore as fs
from fisherscore.accuracy import c2st
from fisherscore.inference.posterior_checks import region_problems, sampler_problems
from fisherscore.problems.two_moons import two_moons_posterior
from fisherscore.score.combined import observed

# Noise small against the box, so that the uniform prior's edges do not matter and the posterior is N(x, Σ).
COVARIANCE = np.array([[0.09, 0.045], [0.045, 0.09]])
TOY = fs.problems.linear_gaussian(covariance=COVARIANCE, latent_covariance=0.4 * COVARIANCE)
X = np.array([0.5, -0.7])


def exact_normal(mean, covariance, num=4000, seed=9):
    return np.random.default_rng(seed).multivariate_normal(mean, covariance, num)


@pytest.fixture(scope="module")
def learned():
    sims = fs.simulate(TOY.simulator_from_latent, TOY.proposal, 10_000, latent=TOY.latent, seed=1)
    return fs.fit(sims, recipe=fs.ClosedFormRecipe())


def test_learned_score_gives_the_exact_posterior(learned):
    posterior = fs.sample(learned, X, seed=1)
    assert posterior.trusted and posterior.method == "NUTS" and "exact log-likelihood" in posterior.correction
    assert c2st(posterior.samples, exact_normal(X, COVARIANCE)) < 0.53
    assert posterior.r_hat.max() < 1.02 and posterior.effective_samples.min() > 500 and posterior.num_divergent == 0


def test_the_classifier_can_tell_a_wrong_posterior():
    right = exact_normal(X, COVARIANCE, seed=1)
    assert c2st(right, exact_normal(X, COVARIANCE)) < 0.52
    assert c2st(right, exact_normal(X, 1.7 * COVARIANCE)) > 0.54


def test_a_vector_field_is_corrected_by_its_line_integral():
    field = fs.FunctionScore(TOY.proposal, (2,), score=TOY.exact_model().score_one)
    posterior = fs.sample(field, X, seed=2)
    assert posterior.trusted and "line integral" in posterior.correction
    assert c2st(posterior.samples, exact_normal(X, COVARIANCE)) < 0.53


@pytest.mark.slow
def test_another_prior_without_retraining(learned):
    """A Gaussian prior makes a conjugate posterior; the score was learned under a uniform proposal."""
    prior = {"theta1": dist.Normal(0.0, 0.2), "theta2": dist.Normal(0.0, 0.3)}
    posterior = fs.sample(learned, X, prior=prior, seed=3)
    precision = np.linalg.inv(COVARIANCE)
    total = np.linalg.inv(precision + np.diag([1 / 0.04, 1 / 0.09]))
    assert c2st(posterior.samples, exact_normal(total @ precision @ X, total)) < 0.54
    assert c2st(posterior.samples, exact_normal(X, COVARIANCE)) > 0.6  # the control: the flat prior's posterior


def test_a_prior_with_bounded_support_is_respected():
    posterior = fs.sample(TOY.exact_model(), X, prior={"theta1": dist.Uniform(0.4, 0.6)}, seed=4)
    assert (posterior.samples[:, 0] > 0.4).all() and (posterior.samples[:, 0] < 0.6).all()
    half = fs.sample(TOY.exact_model(), X, prior={"theta2": dist.HalfNormal(1.0)}, seed=4, num_samples=200)
    assert (half.samples[:, 1] > 0).all()


@pytest.mark.slow
def test_fifty_independent_draws_from_a_model_trained_on_one(learned):
    draws = TOY.simulator.draw(np.tile([0.3, 0.1], (50, 1)), seed=5)
    posterior = fs.sample(learned, draws, iid=True, seed=5)
    exact = fs.sample(TOY.exact_model(), draws, iid=True, seed=6)
    assert c2st(exact.samples, exact_normal(draws.mean(axis=0), COVARIANCE / 50)) < 0.53
    mean, sigma = posterior.samples.mean(axis=0), posterior.samples.std(axis=0)
    analytic = np.sqrt(np.diag(COVARIANCE) / 50)
    # Fifty draws sharpen the posterior sevenfold, and with it every bias of the learned score.
    assert (np.abs(mean - draws.mean(axis=0)) < 1.0 * analytic).all()
    np.testing.assert_allclose(sigma, analytic, rtol=0.1)


@pytest.mark.slow
def test_two_moons_by_tempering_and_a_warning_from_nuts():
    problem = fs.problems.two_moons()
    x = problem.simulator.draw([0.3, 0.2], seed=4)
    posterior = fs.sample(problem.exact_model(), x, method="smc", seed=1)
    exact = two_moons_posterior(x, 4000)
    assert posterior.method == "tempered SMC"
    assert c2st(posterior.samples, exact) < 0.55
    weight = np.mean(posterior.samples.sum(axis=1) > 0)
    assert abs(weight - 0.5) < 0.06
    one_moon = exact[exact.sum(axis=1) > 0]
    assert c2st(one_moon, exact[: len(one_moon)]) > 0.6  # the control
    with pytest.warns(fs.FisherScoreWarning) as caught:
        stuck = fs.sample(problem.exact_model(), x, seed=1, num_samples=200, num_warmup=200)
    assert any('method="smc"' in str(w.message) for w in caught)
    assert not stuck.trusted and "do not trust this" in str(stuck)


@pytest.mark.slow
def test_smc_agrees_with_nuts_on_one_mode():
    posterior = fs.sample(TOY.exact_model(), X, method="smc", seed=2)
    assert c2st(posterior.samples, exact_normal(X, COVARIANCE)) < 0.53


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, None),
        ({"r_hat": np.array([1.0, 1.2])}, "have not converged or disagree"),
        (
            {"effective_samples": np.array([50.0, 900.0])},
            "the chains agree (R-hat up to 1.00) but are short: 50 effective",
        ),
        ({"r_hat": np.array([1.0, 1.2]), "effective_samples": np.array([9.0, 9.0])}, "have not converged or disagree"),
        ({"num_divergent": 100}, "100 of 4000 transitions diverged"),
        ({"fraction_outside": 0.2}, "20.0% of the posterior lies outside the training region"),
        ({"chains": exact_normal([2.9, 0.0], COVARIANCE).clip(-3, 3)[None]}, "'theta1' is cut off by the upper edge"),
        ({"chains": exact_normal([0.0, -2.9], COVARIANCE).clip(-3, 3)[None]}, "'theta2' is cut off by the lower edge"),
        ({"rarity": 1e-4}, "unlike anything simulated"),
    ],
)
def test_every_problem_is_named(changes, message):
    chains = exact_normal(X, COVARIANCE)[None]
    made_up = {
        "names": ("theta1", "theta2"),
        "units": ("", ""),
        "chains": chains,
        "log_density": np.zeros(chains.shape[:2]),
        "method": "NUTS",
        "correction": "none",
        "r_hat": np.ones(2),
        "effective_samples": np.full(2, 900.0),
        "num_divergent": 0,
        "fraction_outside": 0.0,
        "rarity": 0.5,
        "seconds": {},
    }
    posterior = fs.Posterior(**made_up | changes)
    problems = sampler_problems(posterior) + region_problems(posterior, TOY.exact_model())
    assert len(problems) == (message is not None) and (not problems or message in problems[0])


def flagged(message, model, x, **options):
    with pytest.warns(fs.FisherScoreWarning, match=message):
        posterior = fs.sample(model, x, num_samples=300, num_warmup=300, **options)
    assert any(message.split(".*")[0] in p for p in posterior.problems) and not posterior.trusted
    return posterior


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fisherscore.errors.FisherScoreWarning")
def test_flags_never_a_silent_contour(learned):
    wide = {"theta1": dist.Normal(0.0, 20.0), "theta2": dist.Normal(0.0, 20.0)}
    flagged("lies outside the training region", TOY.exact_model(), [4.5, 0.0], prior=wide)
    flagged("is cut off by the upper edge", TOY.exact_model(), [3.0, 0.0])
    flagged("unlike anything simulated", learned, [6.0, -6.0])
    flagged("have not converged or disagree", fs.problems.two_moons().exact_model(), [0.0, 0.0])


def test_no_flag_without_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(3):
            assert fs.sample(TOY.exact_model(), X, seed=seed).trusted


def test_one_chain_and_odd_numbers():
    posterior = fs.sample(TOY.exact_model(), X, num_chains=1, num_samples=333)
    assert posterior.samples.shape == (333, 2) and np.isfinite(posterior.r_hat).all()
    assert posterior.support == ((-3.0, 3.0), (-3.0, 3.0))


def test_many_ordinary_draws_are_not_called_strange_but_many_strange_ones_are():
    sims = fs.simulate(TOY.simulator, TOY.proposal, 2000, seed=1)
    model = fs.fit(sims, recipe=fs.ClosedFormRecipe())
    draws = TOY.simulator.draw(np.zeros((300, 2)), seed=3)
    assert observed(model, draws, True)[0].rarity(draws) > 0.01
    draws[:20] = [5.0, -5.0]
    assert observed(model, draws, True)[0].rarity(draws) < 1e-3


def test_same_seed_same_draws():
    one, two, three = (fs.sample(TOY.exact_model(), X, seed=s, num_samples=200) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.chains, two.chains)
    assert (one.chains != three.chains).any()


def test_the_log_density_is_that_of_the_draws():
    """Prior and likelihood as functions of θ, whatever coordinates the sampler works in; up to a constant."""
    prior = {"theta1": dist.Normal(0.1, 0.5)}
    for method in ("nuts", "smc"):
        posterior = fs.sample(TOY.exact_model(), X, prior=prior, num_samples=100, num_warmup=100, method=method)
        theta = posterior.samples
        expected = -0.5 * np.einsum("ni,ij,nj->n", theta - X, np.linalg.inv(COVARIANCE), theta - X)
        expected += -0.5 * ((theta[:, 0] - 0.1) / 0.5) ** 2
        difference = posterior.log_density.ravel() - expected
        np.testing.assert_allclose(difference, difference[0], atol=2e-3)


def test_exports_and_table():
    posterior = fs.sample(TOY.exact_model(), X, num_samples=250)
    data = posterior.to_arviz()
    assert data.posterior["theta1"].shape == (4, 250)
    np.testing.assert_allclose(data.posterior["theta2"].values, posterior.chains[..., 1])
    samples = posterior.to_getdist(label="toy")
    np.testing.assert_allclose(samples.getMeans(), posterior.samples.mean(axis=0), rtol=1e-3)
    text = str(posterior)
    for word in ("theta1", "R-hat", "ESS", "no problem found"):
        assert word in text
    np.testing.assert_allclose(posterior.mean, posterior.samples.mean(axis=0))
    assert samples.getParamNames().list() == ["theta1", "theta2"]


def test_the_likelihood_as_a_factor_in_a_numpyro_model(learned):
    """The learned likelihood inside a user's own model: here a hierarchical prior on the two means."""

    def model():
        centre = numpyro.sample("centre", dist.Normal(0.0, 1.0))
        theta = numpyro.sample("theta", dist.Normal(centre, 0.5).expand([2]))
        numpyro.factor("likelihood", learned.log_likelihood(theta, X))

    sampler = MCMC(NUTS(model), num_warmup=300, num_samples=1000, progress_bar=False)
    sampler.run(jax.random.key(0))
    prior = 0.25 * np.eye(2) + 1.0
    total = np.linalg.inv(np.linalg.inv(COVARIANCE) + np.linalg.inv(prior))
    mean = total @ np.linalg.inv(COVARIANCE) @ X
    draws = np.asarray(sampler.get_samples()["theta"])
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.06)
    np.testing.assert_allclose(np.cov(draws.T), total, atol=0.02)


def test_the_likelihood_as_a_log_density_in_blackjax(learned):
    def log_density(theta):
        return learned.log_likelihood(theta, X)

    kernel = blackjax.nuts(log_density, step_size=0.2, inverse_mass_matrix=jnp.diag(jnp.asarray(COVARIANCE)))
    state = kernel.init(jnp.asarray(X, jnp.float32))

    @jax.jit
    def run(state, keys):
        return jax.lax.scan(lambda s, k: (lambda out: (out[0], out[0].position))(kernel.step(k, s)), state, keys)

    draws = np.asarray(run(state, jax.random.split(jax.random.key(0), 2000))[1])
    np.testing.assert_allclose(draws.mean(axis=0), X, atol=0.06)
    np.testing.assert_allclose(np.cov(draws.T), COVARIANCE, atol=0.025)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x_obs": [0.0]}, "x_obs: expected shape"),
        ({"x_obs": None}, "x_obs: expected numbers, got None"),
        ({"x_obs": np.zeros((3, 4, 2))}, "x_obs: expected observations of shape .* along one leading axis.*iid=True"),
        ({"prior": {"sigma8": dist.Normal(0, 1)}}, "prior: unknown parameter name 'sigma8'"),
        ({"prior": {"theta1": (0, 1)}}, r"prior\['theta1'\]: expected a proper scalar continuous"),
        ({"prior": {"theta1": dist.Poisson(1.0)}}, r"prior\['theta1'\]: expected a proper scalar continuous"),
        ({"prior": dist.Normal(0, 1)}, r"prior: expected a proper continuous NumPyro distribution over 2 parameters"),
        ({"method": "gibbs"}, 'method: expected "nuts" or "smc"'),
        ({"prior": {"theta1": dist.Delta(0.3)}}, r"prior\['theta1'\]: expected a proper scalar"),
        ({"x_obs": np.zeros((0, 2))}, "x_obs: expected at least one observation"),
        ({"num_samples": 0}, "num_samples: expected"),
        ({"num_chains": 0}, "num_chains: expected"),
        ({"seed": "x"}, "seed: expected"),
    ],
)
def test_mistakes_are_named(options, message):
    x = options.pop("x_obs", X)
    with pytest.raises(fs.ArgumentError, match=message):
        fs.sample(TOY.exact_model(), x, **options)
