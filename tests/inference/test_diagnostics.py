"""Every check passes on a good model and fails on one broken in just that way."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs

COVARIANCE = np.array([[0.09, 0.045], [0.045, 0.09]])
TOY = fs.problems.linear_gaussian(covariance=COVARIANCE, latent_covariance=0.4 * COVARIANCE)
EXACT = TOY.exact_model()
SIMS = fs.simulate(TOY.simulator_from_latent, TOY.proposal, 10_000, latent=TOY.latent, seed=77)
ROOT = np.linalg.cholesky(TOY.fisher([0.0, 0.0])).astype(np.float32)


def broken(change):
    return fs.FunctionScore(TOY.proposal, (2,), score=lambda t, x: change(EXACT.score_one(t, x), t, x))


BROKEN = {
    "zero mean": broken(lambda s, t, x: s + 0.3 * ROOT @ jnp.ones(2)),
    "information": broken(lambda s, t, x: 1.3 * s),
    "residual": broken(lambda s, t, x: s + 0.7 * ROOT @ jnp.sin(1e3 * jnp.array([x[0] - 2 * x[1], x[1] + 3 * x[0]]))),
    "symmetry": broken(lambda s, t, x: s + 0.6 * ROOT @ jnp.array([[0.0, 1.0], [-1.0, 0.0]]) @ ROOT.T @ (x - t)),
}


def test_a_good_model_passes_every_identity():
    diagnosis = fs.diagnose(EXACT, SIMS, num_posteriors=0)
    assert diagnosis.passed and [c.verdict for c in diagnosis.checks] == ["pass"] * 4
    assert "All 4 checks passed" in str(diagnosis)


@pytest.mark.parametrize("name", BROKEN)
def test_a_model_broken_in_one_way_fails_that_identity(name):
    diagnosis = fs.diagnose(BROKEN[name], SIMS, num_posteriors=0)
    assert diagnosis[name].verdict == "FAIL" and not diagnosis.passed
    assert diagnosis[name].value > 3 * diagnosis[name].standard_error
    assert "Do not trust this model" in str(diagnosis)


def test_breaks_that_an_identity_cannot_see_leave_it_alone():
    assert fs.diagnose(BROKEN["zero mean"], SIMS, num_posteriors=0)["symmetry"].verdict == "pass"
    assert fs.diagnose(BROKEN["information"], SIMS, num_posteriors=0)["zero mean"].verdict == "pass"
    assert fs.diagnose(BROKEN["symmetry"], SIMS, num_posteriors=0)["zero mean"].verdict == "pass"


def test_noise_added_by_simulate_is_accounted_for():
    """The exact score passes on noisy parameters too, even where the noise is a third of a sigma."""
    wide = fs.problems.linear_gaussian(
        covariance=COVARIANCE,
        latent_covariance=0.4 * COVARIANCE,
        proposal=fs.uniform(theta1=(-10.0, 10.0), theta2=(-10.0, 10.0)),
    )
    sims = fs.simulate(wide.simulator, wide.proposal, 40_000, latent="additive", seed=5)
    diagnosis = fs.diagnose(wide.exact_model(), sims, num_posteriors=0)
    assert [c.verdict for c in diagnosis.checks] == ["pass"] * 4
    scaled = fs.FunctionScore(wide.proposal, (2,), score=lambda t, x: 1.3 * wide.exact_model().score_one(t, x))
    assert fs.diagnose(scaled, sims, num_posteriors=0)["residual"].verdict == "FAIL"


def test_a_mean_that_is_zero_on_average_but_not_at_every_parameter():
    tilted = broken(lambda s, t, x: s + 0.3 * ROOT @ jnp.array([t[0] / 1.7, 0.0]))
    assert fs.diagnose(tilted, SIMS, num_posteriors=0)["zero mean"].verdict == "FAIL"


@pytest.mark.slow
def test_a_network_that_learned_its_training_data_by_heart():
    few = fs.simulate(TOY.simulator_from_latent, TOY.proposal, 60, latent=TOY.latent, seed=3)
    training = fs.Training(num_epochs=3000, batch_size=None, held_out=0.0, patience=None, decay="none")
    overfitted = fs.fit(few, recipe=fs.PaperRecipe(training=training))
    diagnosis = fs.diagnose(overfitted, SIMS, num_posteriors=0)
    assert diagnosis["residual"].verdict == "FAIL"


def test_too_few_simulations_are_called_unclear_not_passed():
    few = fs.simulate(TOY.simulator_from_latent, TOY.proposal, 150, latent=TOY.latent)
    diagnosis = fs.diagnose(EXACT, few, num_posteriors=0)
    assert diagnosis["information"].verdict == "unclear" and diagnosis.passed
    assert "cannot be told" in str(diagnosis)


def test_few_posteriors_are_counted_as_posteriors():
    text = str(fs.diagnose(EXACT, SIMS, num_posteriors=3))
    assert "No check failed, but calibration, coverage cannot be told with 3 posteriors." in text
    few = fs.simulate(TOY.simulator_from_latent, TOY.proposal, 150, latent=TOY.latent)
    both = str(fs.diagnose(EXACT, few, num_posteriors=3))
    assert "cannot be told with 150 simulations and calibration, coverage cannot be told with 3 posteriors." in both


def test_identities_raise_few_false_alarms():
    for seed in range(8):
        sims = fs.simulate(TOY.simulator_from_latent, TOY.proposal, 3000, latent=TOY.latent, seed=seed)
        assert fs.diagnose(EXACT, sims, num_posteriors=0).passed


@pytest.mark.slow
def test_calibration_and_coverage_pass_for_a_good_model_and_fail_for_one_scaled_by_a_third():
    good = fs.diagnose(EXACT, SIMS, num_posteriors=1200, seed=1)
    assert good["calibration"].verdict == good["coverage"].verdict == "pass"
    assert good.ranks.shape == (1200, 2) and good.coverage.shape == (1200,)
    scaled = fs.FunctionScore(TOY.proposal, (2,), log_likelihood=lambda t, x: 1.3 * EXACT.log_likelihood_one(t, x))
    bad = fs.diagnose(scaled, SIMS, num_posteriors=1200, seed=1)
    assert bad["calibration"].verdict == bad["coverage"].verdict == "FAIL"
    assert bad["calibration"].value > 0.05  # normal scores of the truth spread too widely: posteriors too narrow


def test_a_strange_observation_is_flagged():
    trained_on = fs.simulate(TOY.simulator_from_latent, TOY.proposal, 2000, latent=TOY.latent, seed=3)
    model = fs.fit(trained_on, recipe=fs.NetworkRecipe(num_steps=100))
    with pytest.raises(fs.ArgumentError, match="test_sims: the model was trained on"):
        fs.diagnose(model, trained_on)
    assert fs.diagnose(model, SIMS, x_obs=[0.5, 0.5], num_posteriors=0)["observation"].verdict == "pass"
    strange = fs.diagnose(model, SIMS, x_obs=[7.0, -7.0], num_posteriors=0)
    assert strange["observation"].verdict == "FAIL" and "unlike anything simulated" in str(strange)


def test_pictures():
    diagnosis = fs.diagnose(EXACT, SIMS, num_posteriors=50)
    assert len(fs.plot.identities(diagnosis).get_yticklabels()) == 4
    assert fs.plot.coverage(diagnosis).get_ylabel() == "fraction of simulations"
    assert diagnosis.plot().shape == (2,)
    with pytest.raises(fs.ArgumentError, match="holds no posteriors"):
        fs.plot.coverage(fs.diagnose(EXACT, SIMS, num_posteriors=0))
    with pytest.raises(KeyError):
        diagnosis["nonsense"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fs.diagnose(EXACT, [1, 2]), "model, test_sims: expected"),
        (lambda: fs.diagnose(fs.problems.poisson_counts().exact_model(), SIMS), "test_sims: expected parameters"),
        (lambda: fs.diagnose(EXACT, fs.simulate(TOY.simulator, TOY.proposal, 50)), "at least 100 simulations"),
        (lambda: fs.diagnose(EXACT, SIMS, num_posteriors=-1), "num_posteriors: expected"),
        (lambda: fs.diagnose(EXACT, SIMS, num_posteriors=1), "num_posteriors: expected 0 or at least 2"),
        (lambda: fs.diagnose(EXACT, SIMS, x_obs=[1.0], num_posteriors=0), "x_obs: expected shape"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(fs.ArgumentError, match=message):
        call()


def test_a_direction_that_the_data_do_not_constrain_is_no_obstacle():
    """Only a + b moves the data: checks are in units of a posterior over the region, and still see a wrong size."""
    region = fs.uniform(a=(0.0, 1.0), b=(0.0, 1.0))
    simulator = fs.from_python(lambda theta, rng: [theta.sum() + 0.1 * rng.normal()])
    sims = fs.simulate(simulator, region, 2_000)

    def model(size):
        return fs.FunctionScore(region, (1,), score=lambda t, x: size * (x[0] - t.sum()) / 0.01 * jnp.ones(2))

    assert fs.diagnose(model(1.0), sims, num_posteriors=0).passed
    assert fs.diagnose(model(1.3), sims, num_posteriors=0)["information"].verdict == "FAIL"


def a_posterior(theta, sigma):
    chains = np.random.default_rng(0).normal(theta, sigma, (1, 2000, 2))
    return replace(MADE_UP, chains=chains)


MADE_UP = fs.Posterior(
    names=("theta1", "theta2"),
    units=("", ""),
    chains=np.zeros((1, 2, 2)),
    log_density=np.zeros((1, 2000)),
    method="NUTS",
    correction="none",
    r_hat=np.ones(2),
    effective_samples=np.full(2, 2000.0),
    num_divergent=0,
    fraction_outside=0.0,
    rarity=None,
    seconds={},
    support=((-3.0, 3.0), (-3.0, 3.0)),
)


def test_a_model_that_is_wrong_in_one_corner_is_found_there_and_nowhere_else():
    """The checks near a posterior are about that part of the region alone."""
    corner = broken(lambda s, t, x: s * jnp.where((t > 1.0).all(), 1.4, 1.0))
    there, elsewhere = a_posterior([2.0, 2.0], 0.25), a_posterior([-1.5, -1.5], 0.35)
    assert fs.diagnose(corner, SIMS, near=there, num_posteriors=0)["information"].verdict == "FAIL"
    assert fs.diagnose(corner, SIMS, near=elsewhere, num_posteriors=0).passed
    assert fs.diagnose(EXACT, SIMS, near=there, num_posteriors=0).passed


def test_posteriors_near_a_posterior_are_calibrated_under_the_prior_cut_to_there():
    near = a_posterior([2.0, 2.0], 0.25)
    assert near.neighbourhood(5.0).high.max() == 3.0  # the box ends where the region does
    assert fs.diagnose(EXACT, SIMS, near=near, num_posteriors=150)["calibration"].verdict == "pass"
    # Not by a jump, at which samplers would take the smallest of steps.
    narrow = broken(lambda s, t, x: s * (1.0 + 2.0 * jax.nn.sigmoid(20.0 * (t.min() - 1.0))))
    assert fs.diagnose(narrow, SIMS, near=near, num_posteriors=150)["calibration"].verdict == "FAIL"


def test_too_few_near_a_posterior():
    with pytest.raises(fs.ArgumentError, match=r"near: 0 of 10000 .*posterior\.neighbourhood\(\)"):
        fs.diagnose(EXACT, SIMS, near=a_posterior([0.0, 0.0], 1e-4), num_posteriors=0)
    with pytest.raises(fs.ArgumentError, match="near: expected a posterior of theta1, theta2"):
        fs.diagnose(EXACT, SIMS, near=EXACT, num_posteriors=0)
    with pytest.raises(fs.ArgumentError, match="num_sigma: expected a number above 0"):
        MADE_UP.neighbourhood(0.0)
