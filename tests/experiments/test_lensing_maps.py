"""The experiment of the lensing maps, with a stand-in that simulates its statistics at once."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.experiments.lensing_maps import hmc_posterior
from fisherscore.problems.problem import Observed

NUM = 63


def quick_maps(*, statistics=False):
    """Stand in for the maps: linear statistics of six parameters, and maps of noise."""
    real_names = ("omega_c", "omega_b", "sigma8", "h", "n_s", "w0")
    slope = np.random.default_rng(0).normal(size=(NUM, 6)).astype(np.float32)
    proposal = fs.uniform(dict.fromkeys(real_names, (-1.0, 1.0)))
    truth = np.zeros(6)

    def draw_one(key, theta):
        if statistics:
            return slope @ theta + jax.random.normal(key, (NUM,))
        return 0.03 * jax.random.normal(key, (16, 16, 5)) + 0.0 * jnp.sum(theta)

    problem = fs.problems.Problem(
        name="maps", proposal=proposal, draw_one=draw_one, x_shape=(NUM,) if statistics else (16, 16, 5)
    )
    x = problem.simulator.draw(truth, seed=9)
    prior = dict(zip(proposal.names, proposal.distributions, strict=True))
    covariance = np.linalg.inv(slope.T @ slope)
    mean = covariance @ slope.T @ x if statistics else truth
    draws = np.random.default_rng(1).multivariate_normal(mean, covariance, size=3_000)
    return replace(problem, observed=Observed(x=x, truth=truth, prior=prior, draws=draws))


@pytest.mark.slow
def test_lensing_maps_run_from_simulation_to_page(tmp_path, monkeypatch, call_cli):
    module = "fisherscore.experiments.lensing_maps"
    recipe = fs.ClosedFormRecipe("gaussian")
    monkeypatch.setattr(f"{module}.lensing_maps", quick_maps)
    monkeypatch.setattr(f"{module}.infer", lambda *a, **k: fs.infer(*a, **{**k, "recipe": recipe, "num_rounds": 1}))
    monkeypatch.setattr(f"{module}.fit", lambda *a, **k: fs.fit(*a, **k, recipe=recipe))
    out = tmp_path / "maps"
    result = call_cli("run", "lensing-maps", "--out", out, "--num-simulations", 800, "--quick")
    assert result.exit_code == 0, result.output
    for name in ("report.html", "maps.png", "summaries.png", "ellipses.png", "posterior.png", "model/model.json"):
        assert (out / name).stat().st_size > 0, name
    found = json.loads((out / "results.json").read_text())
    # The stand-in's posterior is known: widths are those of its draws.
    np.testing.assert_allclose(found["widths_over_hmc"], 1.0, atol=0.15)
    assert np.abs(found["offsets_in_hmc_widths"]).max() < 0.4


def test_draws_of_hmc_are_some_of_those_given():
    problem = quick_maps(statistics=True)
    posterior = hmc_posterior(problem, 400, 0)
    assert posterior.chains.shape == (4, 100, 6)
    given = {tuple(row) for row in problem.observed.draws.tolist()}
    assert all(tuple(row) in given for row in posterior.samples.tolist())
