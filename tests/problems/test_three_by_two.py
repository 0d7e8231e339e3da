import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore._support.compiling import quickly_compiled
from fisherscore._support.precision import double_precision
from fisherscore.problems.background import Cosmology
from fisherscore.problems.gaussian_noise import gaussian_noise
from fisherscore.problems.lensing_spectra import _jax_cosmo, limber_spectra
from fisherscore.problems.three_by_two import (
    ELLIPTICITY,
    F_SKY,
    LENS_DENSITY,
    SOURCE_DENSITY,
    UNIT,
    Layout,
    three_by_two,
)
from fisherscore.problems.three_by_two_spectra import GaussianBins, _shear_factors
from fisherscore.problems.tomography import Populations

LAYOUT = Layout(num_sources=2, num_lenses=2, num_multipoles=2, lens_shifts=True)
NAMES = tuple(LAYOUT.ranges())
FIDUCIAL = np.array([value for value, _ in LAYOUT.ranges().values()], np.float32)
SHEAR, CROSS, CLUSTERING = np.s_[:2, :2], np.s_[:2, 2:], np.s_[2:, 2:]


@quickly_compiled
def values(theta):
    return LAYOUT.spectra(theta)


def spectra(**changed):
    theta = FIDUCIAL.copy()
    for name, value in changed.items():
        theta[NAMES.index(name)] = value
    return np.asarray(values(theta))


def correlations(covariance):
    sigma = np.sqrt(np.diag(covariance))
    return covariance / np.outer(sigma, sigma)


def test_biases_scale_the_spectra_exactly():
    # By powers of two, so that there is no rounding either.
    bias = {name: 2.0 * FIDUCIAL[NAMES.index(name)] for name in ("bias1", "bias2")}
    base, biased, sheared = spectra(), spectra(**bias), spectra(shear1=1.0, shear2=1.0)
    for part, of_bias, of_shear in ((SHEAR, 1.0, 4.0), (CROSS, 2.0, 2.0), (CLUSTERING, 4.0, 1.0)):
        np.testing.assert_array_equal(biased[part], of_bias * base[part])
        np.testing.assert_array_equal(sheared[part], of_shear * base[part])
    # Each bin has its own, and what enters in another way does not scale.
    one = spectra(bias1=bias["bias1"])
    np.testing.assert_array_equal(one[2, :, :], np.array([2.0, 2.0, 4.0, 2.0])[:, None] * base[2])
    np.testing.assert_array_equal(one[3, 3], base[3, 3])
    more = spectra(alignment=2.0)
    assert not np.allclose(more[SHEAR], base[SHEAR], rtol=1e-3, atol=0.0)
    np.testing.assert_array_equal(more[CLUSTERING], base[CLUSTERING])


class Normal(Populations):
    """Sources as ``limber_spectra`` takes them, with the redshifts of the bins."""

    def density(self, z):
        centres = np.array(self.peaks)[:, None]
        width = LAYOUT.bins[0].scatter * (1.0 + centres)
        return np.exp(-0.5 * ((z - centres) / width) ** 2) / np.sqrt(2.0 * np.pi) / width


@pytest.mark.slow
def test_without_alignments_shear_is_pure_lensing():
    cosmology = [np.float32(FIDUCIAL[NAMES.index(name)]) for name in Cosmology._fields]

    def lensing(cosmology):
        return limber_spectra(
            Cosmology(*cosmology), LAYOUT.multipoles, Normal(LAYOUT.bins[0].centres), derivatives="smooth"
        )

    expected = np.asarray(quickly_compiled(lensing)(cosmology))
    first, second = np.triu_indices(2)
    np.testing.assert_allclose(spectra(alignment=0.0)[first, second], expected, rtol=1e-5)
    # Alignments and shifts move them.
    assert np.abs(spectra()[first, second] / expected - 1.0).max() > 1e-3
    assert np.abs(spectra(alignment=0.0, shift1=0.01)[first, second] / expected - 1.0).max() > 1e-3


def test_a_shift_moves_the_redshifts():
    bins, z = GaussianBins((0.5, 1.0), 0.05), np.linspace(0.0, 3.0, 3001, dtype=np.float32)
    density = np.asarray(bins.density(z, jnp.array([0.0, 0.1])))
    np.testing.assert_allclose(density.sum(axis=1) * 1e-3, 1.0, rtol=1e-4)
    np.testing.assert_allclose((density * z).sum(axis=1) * 1e-3, [0.5, 1.1], rtol=1e-4)
    np.testing.assert_allclose((density * (z - 1.1) ** 2).sum(axis=1)[1] * 1e-3, 0.1**2, rtol=1e-3)


def test_covariance_is_that_of_gaussian_fields_in_a_closed_form():
    # ⟨a b c d⟩ of one source bin e and one lens bin g, term by term; N modes in each band.
    layout = Layout(num_sources=1, num_lenses=1, num_multipoles=2, lens_shifts=False)
    theta = jnp.array([value for value, _ in layout.ranges().values()])
    signal = np.asarray(quickly_compiled(layout.spectra)(theta), np.float64)
    steradian = (180.0 / np.pi * 60.0) ** 2
    ee = signal[0, 0] + ELLIPTICITY**2 / (SOURCE_DENSITY * steradian)
    gg, ge = signal[1, 1] + 1.0 / (LENS_DENSITY * steradian), signal[0, 1]
    expected = np.array(
        [
            [2 * ee**2, 2 * ee * ge, 2 * ge**2],
            [2 * ee * ge, ee * gg + ge**2, 2 * gg * ge],
            [2 * ge**2, 2 * gg * ge, 2 * gg**2],
        ]
    )
    edges = 20.0 * 10.0 ** np.arange(3)
    middles = edges[:-1] * np.sqrt(10.0)
    expected = expected / ((2.0 * middles + 1.0) * np.diff(edges) * F_SKY)
    covariance = layout.covariance().reshape(3, 2, 3, 2)
    for band in range(2):
        np.testing.assert_allclose(covariance[:, band, :, band], expected[..., band], rtol=1e-4)
        assert not covariance[:, band, :, 1 - band].any()
    assert not np.allclose(covariance[:, 0, :, 0], expected[..., 1], rtol=0.1, atol=0.0)


def test_default_has_21_parameters_and_a_covariance_that_can_be_inverted():
    layout = Layout(num_sources=4, num_lenses=5, num_multipoles=3, lens_shifts=False)
    covariance = correlations(layout.covariance())
    assert len(layout.ranges()) == 21 and covariance.shape == (105, 105)
    assert np.linalg.eigvalsh(covariance).min() > 1e-5
    wrong = 2.0 * covariance - np.eye(len(covariance))
    assert np.linalg.eigvalsh(wrong).min() < -0.1


def test_score_and_fisher_matrix_of_gaussian_noise():
    # A mean that bends, whose derivatives are known: x₁ = θ₁², x₂ = θ₁ θ₂.
    noise = np.array([[2.0, 0.0], [1.0, 0.5]])
    known = gaussian_noise(lambda theta: jnp.stack([theta[0] ** 2, theta[0] * theta[1]]), noise)
    theta, x = jnp.array([1.5, -0.5]), jnp.array([2.0, 1.0])
    jacobian, precision = np.array([[3.0, 0.0], [-0.5, 1.5]]), np.linalg.inv(noise @ noise.T)
    residual = np.array([2.0 - 2.25, 1.0 + 0.75])
    np.testing.assert_allclose(known["score_one"](theta, x), jacobian.T @ precision @ residual, rtol=1e-5)
    np.testing.assert_allclose(known["fisher_one"](theta), jacobian.T @ precision @ jacobian, rtol=1e-5)
    np.testing.assert_allclose(jax.grad(known["log_likelihood_one"])(theta, x), known["score_one"](theta, x), rtol=1e-5)
    assert not np.allclose(known["score_one"](theta, x), jacobian.T @ np.linalg.inv(noise) @ residual, rtol=0.1)


@pytest.mark.slow
def test_score_and_fisher_matrix_follow_finite_differences():
    problem, layout = three_by_two(), Layout(num_sources=4, num_lenses=5, num_multipoles=3, lens_shifts=False)
    half = 0.5 * (problem.proposal.high - problem.proposal.low)
    theta = np.asarray(problem.proposal.sample(1, seed=5)[0], np.float64)
    x = np.asarray(problem.simulator.draw(theta, seed=6), np.float64)
    both = quickly_compiled(lambda theta, x: (problem.score_one(theta, x), problem.fisher_one(theta)))
    score, fisher = (np.asarray(a, np.float64) for a in both(theta.astype(np.float32), x.astype(np.float32)))
    with double_precision():
        mean = jax.jit(lambda theta: UNIT * layout.data_of(layout.spectra(theta)))
        steps = 2e-3 * np.diag(half)
        at = np.array([[mean(jnp.asarray(theta + sign * step)) for sign in (1, -1)] for step in steps])
    covariance = UNIT**2 * layout.covariance()
    log_likelihood = -0.5 * np.einsum("...i,ij,...j", x - at, np.linalg.inv(covariance), x - at)
    difference = (log_likelihood[:, 0] - log_likelihood[:, 1]) / (2.0 * np.diag(steps))
    sigma = np.sqrt(np.diag(fisher))
    np.testing.assert_allclose(score / sigma, difference / sigma, rtol=0.0, atol=2e-3)
    assert np.abs(np.roll(score / sigma, 1) - difference / sigma).max() > 0.2
    jacobian = ((at[:, 0] - at[:, 1]) / (2.0 * np.diag(steps))[:, None]).T
    expected = jacobian.T @ np.linalg.solve(covariance, jacobian)
    scale = np.outer(sigma, sigma)
    np.testing.assert_allclose(fisher / scale, expected / scale, rtol=0.0, atol=3e-4)
    alone = jacobian.T @ (jacobian / np.diag(covariance)[:, None])
    assert np.abs(fisher / scale - alone / scale).max() > 0.1
    marginal = np.sqrt(np.diag(np.linalg.inv(fisher)))
    np.testing.assert_allclose(marginal, np.sqrt(np.diag(np.linalg.inv(expected))), rtol=5e-4)
    assert (marginal > 1.05 / sigma).all()  # the control: the parameters are degenerate, and that is seen


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_spectra_are_those_of_jax_cosmo():
    jc = _jax_cosmo()
    theta = dict(zip(NAMES, FIDUCIAL, strict=True))

    def probes():
        sources, lenses = (
            [jc.redshift.kde_nz(jnp.array([z]), jnp.ones(1), bw=bins.scatter * (1.0 + z)) for z in bins.centres]
            for bins in LAYOUT.bins
        )
        alignment = jc.bias.des_y1_ia_bias(theta["alignment"], 0.6, 0.62)
        biases = [jc.bias.constant_linear_bias(theta[f"bias{i}"]) for i in (1, 2)]
        return [jc.probes.WeakLensing(sources, ia_bias=alignment), jc.probes.NumberCounts(lenses, biases)]

    def stock(w):
        cosmology = jc.Cosmology(
            Omega_c=theta["omega_c"],
            Omega_b=theta["omega_b"],
            h=theta["h"],
            n_s=theta["n_s"],
            sigma8=theta["sigma8"],
            Omega_k=0.0,
            w0=w,
            wa=0.0,
        )
        return jc.angular_cl.angular_cl(cosmology, jnp.asarray(LAYOUT.multipoles, jnp.float32), probes())

    expected = np.asarray(jax.jit(stock)(-0.95))
    first, second = np.triu_indices(4)
    ours = spectra(alignment_slope=0.6, w=-0.95)[first, second]
    np.testing.assert_allclose(ours, expected, rtol=1e-3)
    assert np.abs(spectra(alignment_slope=0.0, w=-0.95)[first, second] / expected - 1.0).max() > 1e-2


def test_f_is_that_of_shear_only():
    factors = _shear_factors(np.array([20.0, 2000.0]), 1, 1)
    np.testing.assert_allclose(
        factors[0], np.sqrt([19 * 20 * 21 * 22, 1999 * 2000.0 * 2001 * 2002]) / [20.5**2, 2000.5**2]
    )
    np.testing.assert_array_equal(factors[1], 1.0)


@pytest.mark.slow
def test_more_bins_make_forty_parameters():
    problem = three_by_two(num_sources=6, num_lenses=10, lens_shifts=True)
    assert problem.proposal.num_parameters == 40 and problem.x_shape == (273,)
    half = 0.5 * (problem.proposal.high - problem.proposal.low)
    marginal = np.sqrt(np.diag(np.linalg.inv(problem.fisher(problem.proposal.low + half))))
    assert (marginal < half).all() and (marginal > 0.2 * half).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_sources": 0}, "num_sources: expected a whole number of at least 1, got 0"),
        ({"num_lenses": 2.5}, "num_lenses: expected a whole number"),
        ({"num_multipoles": 0}, "num_multipoles: expected a whole number of at least 1"),
        ({"lens_shifts": 1}, "lens_shifts: expected True or False, got 1"),
    ],
)
def test_messages(options, message):
    with pytest.raises(fs.ArgumentError, match=message):
        three_by_two(**options)
