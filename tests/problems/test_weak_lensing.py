import functools
import itertools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.problems.lensing_spectra import FIDUCIAL, _jax_cosmo, fiducial_covariance, spectra
from fisherscore.problems.weak_lensing import UNIT, weak_lensing

MULTIPOLES, REDSHIFTS = np.logspace(1.0, 3.0, 5), (1.0, 0.5)
THETA = jnp.array([FIDUCIAL["omega_c"], FIDUCIAL["sigma8"]])
NUM_DRAWS = 20_000
# Of some hundred normal deviates none is expected beyond.
SIGMAS = 4.5
# jax-cosmo asks for int64, which JAX says it does not have.
stock_warns = pytest.mark.filterwarnings("ignore:Explicitly requested dtype")


@pytest.fixture(scope="module")
def problem():
    return weak_lensing()


@pytest.fixture(scope="module")
def stock():
    """Spectra and covariance by jax-cosmo alone."""
    jc = _jax_cosmo()
    probes = [jc.probes.WeakLensing([jc.redshift.smail_nz(1.0, 2.0, z) for z in REDSHIFTS], sigma_e=0.26)]

    def mean_and_covariance(theta):
        cosmology = jc.Planck15(Omega_c=theta[0], sigma8=theta[1])
        return jc.angular_cl.gaussian_cl_covariance_and_mean(cosmology, jnp.logspace(1, 3, 5), probes)

    return jax.jit(mean_and_covariance)


@pytest.fixture(scope="module")
def covariance():
    return fiducial_covariance(MULTIPOLES, REDSHIFTS)


@pytest.fixture(scope="module")
def draws(problem):
    keys = jax.random.split(jax.random.key(0), NUM_DRAWS)
    return jax.jit(jax.vmap(problem.draw_one, (0, None)))(keys, THETA)


@pytest.fixture(scope="module")
def scores(problem, draws):
    """The scores of all draws as a function of theta."""
    function = jax.jit(jax.vmap(problem.score_one, (None, 0)))
    return lambda theta: function(theta, draws)


@jax.jit
def ours(theta):
    return spectra(theta, MULTIPOLES, REDSHIFTS).reshape(-1)


def deviations(samples, mean, covariance):
    """Differences of a sample's mean and covariance from what they should be, in standard errors."""
    samples, num = np.asarray(samples, dtype=np.float64), len(samples)
    variance = np.diag(covariance)
    errors = np.sqrt((np.outer(variance, variance) + covariance**2) / num)
    of_mean = (samples.mean(axis=0) - mean) / np.sqrt(variance / num)
    return np.abs(of_mean).max(), np.abs((np.cov(samples.T) - covariance) / errors).max()


@stock_warns
def test_spectra_are_those_of_jax_cosmo(stock):
    grid = np.array(list(itertools.product((0.2, 0.3, 0.4), (0.7, 0.8, 0.9))), dtype=np.float32)
    expected = np.stack([stock(theta)[0] for theta in grid])
    np.testing.assert_allclose([ours(theta) for theta in grid], expected, rtol=1e-5)
    wrong = np.stack([ours(theta) for theta in grid * np.float32(1.0 + 3e-5)])
    assert np.abs(wrong / expected - 1.0).min() > 1e-5


@stock_warns
def test_derivatives_follow_the_spectra_of_jax_cosmo(stock):
    # The spectra jump along with jax-cosmo's tables; over this step the jumps average out and curvature is not felt.
    step = 0.006
    expected = [(stock(THETA + shift)[0] - stock(THETA - shift)[0]) / (2.0 * step) for shift in step * jnp.eye(2)]
    for direction, difference in zip(jnp.eye(2), expected, strict=True):
        np.testing.assert_allclose(derivative("true", direction), difference, rtol=3e-3)
    # What automatic differentiation of jax-cosmo gives does not follow them.
    off = derivative("jax-cosmo", jnp.array([0.0, 1.0])) / expected[1] - 1.0
    assert 0.03 < np.abs(off).max() < 0.05


@functools.partial(jax.jit, static_argnums=0)
def derivative(derivatives, direction):
    return jax.jvp(lambda theta: spectra(theta, MULTIPOLES, REDSHIFTS, derivatives), (THETA,), (direction,))[1].ravel()


@stock_warns
def test_fiducial_cosmology_and_covariance_are_those_of_jax_cosmo(stock, covariance):
    planck = _jax_cosmo().Planck15()
    assert dict(FIDUCIAL) == {"omega_c": planck.Omega_c, "sigma8": planck.sigma8}
    np.testing.assert_allclose(covariance, stock(THETA)[1], rtol=1e-5, atol=0.0)
    assert not np.allclose(covariance, stock(THETA + 0.01)[1], rtol=1e-3, atol=0.0)


def test_draws_have_the_stated_mean_and_covariance(draws, covariance):
    mean = UNIT * np.asarray(ours(THETA), dtype=np.float64)
    covariance = UNIT**2 * covariance
    assert max(deviations(draws, mean, covariance)) < SIGMAS
    assert deviations(draws, 1.01 * mean, covariance)[0] > SIGMAS
    assert deviations(draws, mean, np.diag(np.diag(covariance)))[1] > SIGMAS


def test_score_is_the_gradient_of_the_log_likelihood(problem, draws, scores):
    gradient = jax.jit(jax.grad(problem.log_likelihood_one))
    for theta in jnp.array([[0.22, 0.88], [0.38, 0.72]]):
        expected = np.stack([gradient(theta, x) for x in draws[:4]])
        score = np.asarray(scores(theta))
        # In units of the largest: a component near zero is the difference of large terms, and has their rounding.
        size = np.abs(expected).max()
        np.testing.assert_allclose(score[:4] / size, expected / size, rtol=0.0, atol=1e-4)
        assert not np.allclose(score[4:8] / size, expected / size, rtol=0.0, atol=1e-4)


def test_fisher_matrix_is_the_covariance_of_the_score(problem, scores):
    fisher, elsewhere = problem.fisher(np.stack([THETA, THETA + 0.02]))
    assert max(deviations(scores(THETA), np.zeros(2), fisher)) < SIGMAS
    assert deviations(scores(THETA), np.zeros(2), elsewhere)[1] > SIGMAS


def test_records_do_not_depend_on_how_many_are_drawn(problem):
    theta = problem.proposal.sample(4)
    simulator = problem.simulator
    x = simulator.draw(theta, seed=1)
    assert x.shape == (4, *problem.x_shape) == (4, 15)
    np.testing.assert_allclose(simulator.draw(theta[:3], seed=1), x[:3], rtol=1e-5)
    assert not np.allclose(simulator.draw(theta, seed=2), x, rtol=1e-3)


def test_more_sources_and_multipoles_are_ordered_in_pairs():
    problem = weak_lensing(num_multipoles=3, source_redshifts=(0.5, 0.8, 1.2))
    assert problem.x_shape == (18,)
    multipoles = np.logspace(1.0, 3.0, 3)
    three, two = (jax.jit(lambda z=z: spectra(THETA, multipoles, z))() for z in ((0.5, 0.8, 1.2), (0.5, 0.8)))
    np.testing.assert_allclose(three[np.array([0, 1, 3])], two, rtol=1e-5)
    assert not np.allclose(three[:3], two, rtol=1e-2, atol=0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_multipoles": 1}, "num_multipoles: expected a whole number of at least 2, got 1"),
        ({"num_multipoles": 5.5}, "num_multipoles: expected a whole number"),
        ({"source_redshifts": ()}, "source_redshifts: expected one or more redshifts from 0.3 to 2.5"),
        ({"source_redshifts": 1.0}, "source_redshifts: expected one or more redshifts"),
        ({"source_redshifts": (1.0, 0.01)}, r"source_redshifts: .*got \(1.0, 0.01\)"),
        ({"derivatives": "exact"}, "derivatives: expected one of true, jax-cosmo, got 'exact'"),
        ({"source_redshifts": (1.0, float("nan"))}, "source_redshifts: expected finite numbers"),
    ],
)
def test_messages(options, message):
    with pytest.raises(fs.ArgumentError, match=message):
        weak_lensing(**options)


def test_message_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax_cosmo", None)
    with pytest.raises(fs.MissingExtraError, match=r'needs jax-cosmo.*pip install "fisherscore\[cosmology\]"'):
        weak_lensing()
