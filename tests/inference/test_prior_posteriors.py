"""Posteriors under joint priors, draws and regions, against exact ones; and how often anything is compiled for them."""

import importlib.util
from pathlib import Path

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import fisherscore as fs

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "priors.py"
SPEC = importlib.util.spec_from_file_location("priors_benchmark", SCRIPT)
BENCHMARK = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(BENCHMARK)
X = np.array(BENCHMARK.OBSERVED[0])

COMPILED: list[str] = []


def _listen(event, duration, **_):
    if event == "/jax/core/compile/backend_compile_duration":
        COMPILED.append(event)


jax.monitoring.register_event_duration_secs_listener(_listen)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["joint, by names", "draws, curved", "triangle"])
def test_posteriors_cannot_be_told_from_exact_ones(form):
    make, log_prior = BENCHMARK.FORMS[form]
    assert BENCHMARK.told_apart(make(), log_prior, X) <= 0.53


@pytest.mark.slow
def test_the_wrong_prior_is_told_apart():
    """The control: correlations of the other sign, and the uniform prior in the place of a triangle."""
    flipped = dist.MultivariateNormal(BENCHMARK.MEAN, BENCHMARK.SPREAD * [[1, -1], [-1, 1]])
    assert BENCHMARK.told_apart(flipped, BENCHMARK.normal, X) > 0.6
    assert BENCHMARK.told_apart(None, BENCHMARK.triangle, X) > 0.6


def test_a_joint_prior_gives_the_conjugate_posterior():
    posterior = fs.sample(
        BENCHMARK.PROBLEM.exact_model(), X, prior=BENCHMARK.FORMS["joint, by names"][0](), num_samples=500
    )
    precision = np.linalg.inv(BENCHMARK.COVARIANCE)
    covariance = np.linalg.inv(precision + np.linalg.inv(BENCHMARK.SPREAD))
    mean = covariance @ (precision @ X + np.linalg.inv(BENCHMARK.SPREAD) @ BENCHMARK.MEAN)
    error = np.sqrt(np.diag(covariance) / posterior.effective_samples)
    assert (np.abs(posterior.mean - mean) < 4.5 * error).all() and posterior.trusted
    np.testing.assert_allclose(np.cov(posterior.samples.T), covariance, rtol=0.2)
    # The control: without the prior the posterior is elsewhere.
    assert (np.abs(X - mean) > 10 * error).any()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fisherscore.errors.FisherScoreWarning")  # short chains
def test_priors_of_the_same_form_share_a_program():
    """Other means and covariances, draws fitted by more Gaussians, another triangle: nothing is compiled."""
    rng = np.random.default_rng(0)
    names, model = BENCHMARK.NAMES, BENCHMARK.PROBLEM.exact_model()
    two = np.concatenate([rng.normal(-1, 0.3, (2000, 2)), rng.normal(1, 0.3, (2000, 2))])
    pairs = {
        "joint": [dist.MultivariateNormal(np.full(2, m), s * np.eye(2)) for m, s in ((0.1, 0.5), (0.3, 0.2))],
        "draws": [fs.prior_from_samples(draws, names) for draws in (rng.normal(size=(2000, 2)), rng.permutation(two))],
        "triangle": [fs.restricted_prior(None, f"theta1 + {k}*theta2 <= 1") for k in (1, 2)],
    }
    assert len({prior.num_components for prior in pairs["draws"]}) == 2
    options = {"num_samples": 50, "num_warmup": 60, "progress": False}
    for one, other in pairs.values():
        fs.sample(model, X, prior=one, **options)
        COMPILED.clear()
        fs.sample(model, X, prior=other, **options)
        assert not COMPILED
    COMPILED.clear()
    fs.sample(model, X, prior={"theta1": dist.Cauchy(0.0, 1.0)}, **options)
    assert COMPILED  # the control
