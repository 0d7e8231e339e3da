"""Posteriors that cannot be, and posteriors handed on to others."""

import numpy as np
import numpyro.distributions as dist
import pytest

import fisherscore as fs


@pytest.fixture(scope="module")
def model():
    problem = fs.problems.linear_gaussian()
    sims = fs.simulate(problem.simulator, problem.proposal, 200)
    return fs.fit(sims, recipe=fs.ClosedFormRecipe(), progress=False)


@pytest.mark.parametrize(
    ("x", "prior"), [([1e30, 1e30], None), ([0.5, -0.5], {"theta1": dist.Uniform(5e12, 6e12)})], ids=["x", "prior"]
)
def test_what_has_no_density_is_refused_in_terms_of_what_was_given(model, x, prior):
    prior = prior and {model.names[0]: prior["theta1"]}
    with pytest.raises(fs.ArgumentError, match="x_obs, prior: the posterior has no density"):
        fs.sample(model, x, prior=prior, num_samples=10, num_warmup=10, progress=False)


def test_parameters_called_like_axes_reach_arviz():
    proposal = fs.uniform({"draw": (-3.0, 3.0), "chain": (-3.0, 3.0), "chain_": (-3.0, 3.0)})
    draws = np.random.default_rng(0).normal(size=(2, 50, 3))
    posterior = fs.Posterior(
        names=proposal.names,
        units=("", "", ""),
        chains=draws,
        log_density=draws[..., 0],
        method="none",
        correction="none",
        r_hat=np.ones(3),
        effective_samples=np.ones(3),
        num_divergent=0,
        fraction_outside=0.0,
        rarity=None,
        seconds={},
        support=((None, None),) * 3,
    )
    group = posterior.to_arviz()["posterior"]
    for name, column in (("draw_", 0), ("chain__", 1), ("chain_", 2)):
        np.testing.assert_array_equal(group[name], draws[..., column])
