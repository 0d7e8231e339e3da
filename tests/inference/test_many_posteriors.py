"""Many posteriors in one call, and how often anything is compiled."""

import os
import subprocess
import sys

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import fisherscore as fs

COVARIANCE = np.array([[0.09, 0.045], [0.045, 0.09]])
TOY = fs.problems.linear_gaussian(covariance=COVARIANCE, latent_covariance=0.4 * COVARIANCE)
OBSERVED = np.array([[0.5, -0.7], [0.0, 0.3], [-1.0, 1.0]])
SHORT = {"num_samples": 200, "num_warmup": 200, "num_chains": 4}

COMPILED: list[str] = []


def _listen(event, duration, **_):
    if event == "/jax/core/compile/backend_compile_duration":
        COMPILED.append(event)


jax.monitoring.register_event_duration_secs_listener(_listen)


def compilations(call):
    COMPILED.clear()
    call()
    return len(COMPILED)


def test_many_observations_give_a_sequence_of_posteriors():
    many = fs.sample(TOY.exact_model(), OBSERVED, seed=3, **SHORT)
    assert isinstance(many, fs.Posteriors) and len(many) == 3
    assert many.mean.shape == many.sigma.shape == (3, 2) and many.names == ("theta1", "theta2")
    error = np.sqrt(np.diag(COVARIANCE))
    assert (np.abs(many.mean - OBSERVED) < 5 * error / np.sqrt(300)).all()
    np.testing.assert_allclose(many.sigma, np.tile(error, (3, 1)), rtol=0.15)
    assert all(one.chains.shape == (4, 200, 2) and one.log_density.shape == (4, 200) for one in many)
    assert many.problems == ((), (), ()) and many.trusted.all()
    typed = fs.sample_many(TOY.exact_model(), OBSERVED, seed=3, **SHORT)
    np.testing.assert_array_equal(typed[1].chains, many[1].chains)


@pytest.mark.filterwarnings("ignore::fisherscore.errors.FisherScoreWarning")  # short chains
def test_printing_and_slices():
    many = fs.sample_many(TOY.exact_model(), np.tile(OBSERVED, (4, 1)), num_samples=50, num_warmup=100)
    assert isinstance(many[1:3], fs.Posteriors) and len(many[1:3]) == 2 and many[-1] is many[11]
    assert repr(many[:2]).startswith("Posteriors(theta1, theta2; 2 observations, ")
    assert "and 2 more" in str(many) and "theta2" in str(many)
    assert many._repr_html_().startswith("<table>") and "<script" not in many._repr_html_()
    with pytest.raises(IndexError):
        many[12]


def test_sets_of_independent_draws():
    model, sets = TOY.exact_model(), np.stack([OBSERVED[:2], OBSERVED[1:]])
    many = fs.sample_many(model, sets, iid=True, **SHORT)
    assert len(many) == 2
    np.testing.assert_allclose(many.mean, sets.mean(axis=1), atol=0.06)
    np.testing.assert_allclose(many.sigma, 0.3 / np.sqrt(2), rtol=0.15)
    one = fs.sample(model, sets[0], iid=True, **SHORT)
    assert isinstance(one, fs.Posterior)


def test_combined_models_and_fields_without_a_density():
    field = fs.FunctionScore(TOY.proposal, (2,), score=TOY.exact_model().score_one)
    both = fs.combine(TOY.exact_model(), field)
    many = fs.sample_many(both, (OBSERVED, OBSERVED), **SHORT)
    np.testing.assert_allclose(many.mean, OBSERVED, atol=0.06)
    np.testing.assert_allclose(many.sigma, 0.3 / np.sqrt(2), rtol=0.15)
    assert "line integral" in many[0].correction


def test_problems_are_counted_once_and_kept_for_each():
    observed = np.array([[0.0, 0.0], [3.0, 0.0]])
    with pytest.warns(fs.FisherScoreWarning, match="1 of 2 posteriors have problems, .* number 1: .*cut off") as caught:
        many = fs.sample_many(TOY.exact_model(), observed, **SHORT)
    assert len(caught) == 1 and not many.problems[0] and "cut off" in many.problems[1][0]


def test_many_by_tempering():
    many = fs.sample_many(TOY.exact_model(), OBSERVED, method="smc", num_samples=500, num_chains=2)
    np.testing.assert_allclose(many.mean, OBSERVED, atol=0.06)
    assert many[2].method == "tempered SMC"


def test_in_parts_when_a_model_allows_few_rows_at_once():
    whole, few = (
        fs.FunctionScore(TOY.proposal, (2,), log_likelihood=TOY.exact_model().log_likelihood_one, batch_size=size)
        for size in (1000, 4)
    )
    one, other = (fs.sample_many(model, OBSERVED, **SHORT) for model in (whole, few))
    np.testing.assert_allclose(one.mean, other.mean, atol=0.12)
    np.testing.assert_allclose(other.sigma, 0.3, rtol=0.2)


def test_one_observation_is_no_sequence():
    with pytest.raises(fs.ArgumentError, match=r"x_obs: expected observations .* along one leading axis, got leading"):
        fs.sample_many(TOY.exact_model(), OBSERVED[0])


@pytest.mark.filterwarnings("ignore::fisherscore.errors.FisherScoreWarning")  # short chains
@pytest.mark.parametrize("method", ["nuts", "smc"])
def test_nothing_is_compiled_twice(method):
    """Another observation, other numbers in the prior, a second model of the same shape: the same program."""

    def fitted(seed):
        sims = fs.simulate(TOY.simulator, TOY.proposal, 300, seed=seed, progress=False)
        return fs.fit(sims, recipe=fs.ClosedFormRecipe("gaussian"), progress=False)

    first, second = fitted(1), fitted(2)
    options = {"method": method, "num_samples": 50, "num_warmup": 60, "progress": False}

    def prior(a, b):
        return {"theta1": dist.TruncatedNormal(a, b, low=-2.0 * b, high=9.0), "theta2": dist.Normal(b, a)}

    def run(model, x, law, **more):
        return lambda: fs.sample(model, x, prior=law, **options | more)

    assert compilations(run(first, OBSERVED[0], prior(0.5, 1.0))) > 0
    assert compilations(run(first, OBSERVED[1], prior(0.5, 1.0), seed=4)) == 0
    assert compilations(run(first, OBSERVED[1], prior(0.7, 1.5))) == 0
    assert compilations(run(second, OBSERVED[2], prior(0.7, 1.5))) == 0
    if method == "nuts":
        assert compilations(run(first, OBSERVED[0], prior(0.5, 1.0), num_samples=70, num_warmup=30)) == 0
        assert compilations(run(first, OBSERVED[0], prior(0.5, 1.0), num_chains=3)) == 0
    # The control: another kind of prior is another program.
    assert compilations(run(first, OBSERVED[0], {"theta1": dist.Cauchy(0.5, 1.0)})) > 0


PROGRAM = """
import hashlib, numpy as np, numpyro.distributions as dist
import fisherscore as fs
from fisherscore.inference import nuts
from fisherscore.inference.target import Lanes, Target, random_words
prior = [dist.TruncatedNormal(0.0, 1.0, low=-2.0, high=3.0), dist.Uniform(-1.0, 2.0)]
lanes = Lanes.of(Target.of(fs.problems.linear_gaussian().exact_model(), prior), np.zeros((4, 2)))
keys = random_words(0, 1, 2), random_words(0, 2, 4)
print(hashlib.sha256(nuts._first_lanes.compiled.lower(lanes, keys).as_text().encode()).hexdigest())
"""


@pytest.mark.slow
def test_the_program_is_the_same_in_every_process():
    """Else a cache of compiled code would never find it: NumPyro orders the numbers of a law by hashes of names."""
    programs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    ]
    assert len(set(programs)) == 1 and programs[0].strip()
