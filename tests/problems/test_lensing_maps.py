import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import skew

import fisherscore as fs
from fisherscore.problems.background import Cosmology
from fisherscore.problems.lensing_fields import LogNormalMaps, Survey, _lines
from fisherscore.problems.lensing_maps import _SURVEY, TRUTH, _read, _statistics, averaged, shifts_of
from fisherscore.problems.lensing_spectra import _jax_cosmo, limber_spectra
from fisherscore.problems.lensing_statistics import NUM_SPECTRA, _directions
from fisherscore.problems.tomography import RedshiftBins

THETAS = (TRUTH, (0.35, 0.045, 0.7, 0.6, 1.05, -1.5), (0.2, 0.055, 0.95, 0.75, 0.9, -0.5))
MULTIPOLES = np.geomspace(36.0, 6500.0, 4)
# Of some thirty normal deviates none is expected beyond.
SIGMAS = 4.5


@pytest.fixture(scope="module")
def problem():
    return fs.problems.lensing_maps()


@pytest.fixture(scope="module")
def maps():
    return LogNormalMaps(_SURVEY)


@jax.jit
def ours(theta):
    return limber_spectra(Cosmology(*theta), MULTIPOLES, _SURVEY.sources)


def by_jax_cosmo(jc):
    """Compute spectra of the bins by jax-cosmo alone."""

    @jax.tree_util.register_pytree_node_class
    class Bin(jc.redshift.redshift_distribution):
        def pz_fn(self, z):
            scale = 1.0 / (jnp.sqrt(2.0) * 0.05 * (1.0 + z))
            low, high = (jax.scipy.special.erf((edge - z) * scale) for edge in self.params)
            return z**2 * jnp.exp(-((z / 0.11) ** 0.68)) * (high - low)

    edges = _SURVEY.sources.edges()
    probes = [jc.probes.WeakLensing([Bin(float(a), float(b)) for a, b in itertools.pairwise(edges)])]

    def spectra(theta):
        omega_c, omega_b, sigma8, h, n_s, w0 = theta
        cosmology = jc.Planck15(Omega_c=omega_c, Omega_b=omega_b, sigma8=sigma8, h=h, n_s=n_s, w0=w0)
        return jc.angular_cl.angular_cl(cosmology, jnp.asarray(MULTIPOLES, jnp.float32), probes)

    return jax.jit(spectra)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_spectra_are_those_of_jax_cosmo():
    stock = by_jax_cosmo(_jax_cosmo())
    expected = np.stack([stock(jnp.array(theta)) for theta in THETAS])
    np.testing.assert_allclose([ours(jnp.array(theta)) for theta in THETAS], expected, rtol=1e-4)
    for k in range(6):
        moved = [ours(jnp.array(theta).at[k].multiply(1.002)) for theta in THETAS]
        assert np.abs(moved / expected - 1.0).max() > 1e-4, k


def test_bins_hold_equal_numbers_of_galaxies():
    edges, z = _SURVEY.sources.edges(), np.linspace(0.0, 10.0, 200_001)
    density = z**2 * np.exp(-((z / 0.11) ** 0.68))
    parts = [density[(z >= low) & (z < high)].sum() / density.sum() for low, high in itertools.pairwise(edges)]
    np.testing.assert_allclose(parts, 0.2, atol=2e-4)
    assert not np.allclose(parts[:1], np.sum(density[z < 0.46]) / density.sum(), atol=2e-4)


def observed_without_noise(maps, shifts):
    """The observed map's field, from the white noise that it was made of, and that of its pixels."""
    with jax.threefry_partitionable(False):
        rest, first = jax.random.split(jax.random.key(42))
        second = jax.random.split(rest)[1]
        white = jax.random.normal(first, (5, 256, 256), np.float32)
        noise = np.asarray(jax.random.normal(second, (256, 256, 5), np.float32))
    power = np.asarray(jax.jit(lambda s: maps.gaussian_power(Cosmology(*map(jnp.float32, TRUTH)), s))(shifts))
    matrices = np.zeros((*power.shape[1:], 5, 5))
    matrices[..., maps.first, maps.second] = matrices[..., maps.second, maps.first] = np.moveaxis(power, 0, -1)
    values, vectors = np.linalg.eigh(matrices)
    products = (vectors * np.sqrt(values.clip(0))[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    rows = [[jnp.asarray(products[..., i, j], jnp.float32) for j in range(5)] for i in range(5)]
    field = maps.convergence(maps.gaussian(rows, white), shifts)
    return np.moveaxis(np.asarray(field), 0, -1), maps.survey.noise * noise


def test_the_observed_map_is_made_again_from_its_random_numbers(problem, maps):
    shifts = shifts_of(Cosmology(*map(jnp.float32, TRUTH)), _read("shifts.npy"))
    field, noise = observed_without_noise(maps, shifts)
    apart = (problem.observed.x - field - noise).std((0, 1)) / field.std((0, 1))
    assert apart.max() < 1e-3
    wrong, _ = observed_without_noise(maps, 1.02 * shifts)
    assert ((problem.observed.x - wrong - noise).std((0, 1)) / field.std((0, 1))).max() > 1e-3


def statistics(x):
    """Give the power of each bin in four rings, and the skewness of smoothed maps."""
    modes = np.fft.fft2(x, axes=(-3, -2))
    wave = np.hypot(*np.meshgrid(*[np.fft.fftfreq(256, 1 / 256)] * 2))
    power = [
        np.log((np.abs(modes[..., (wave >= low) & (wave < high), :]) ** 2).mean(axis=-2))
        for low, high in ((1, 8), (8, 20), (20, 50), (50, 120))
    ]
    smooth = np.fft.ifft2(modes * np.exp(-((wave / 30.0) ** 2))[..., None], axes=(-3, -2)).real
    return np.concatenate([*power, skew(smooth.reshape(*x.shape[:-3], -1, 5), axis=-2)], axis=-1)


def deviations(problem, draws):
    found = statistics(draws)
    return np.abs((statistics(problem.observed.x) - found.mean(axis=0)) / found.std(axis=0, ddof=1))


@pytest.mark.slow
def test_the_observed_map_is_like_maps_at_the_mean_of_its_posterior(problem, maps):
    mean, table = problem.observed.draws.mean(axis=0), _read("shifts.npy")
    draw = jax.jit(
        lambda key, theta, factor: maps.draw(key, Cosmology(*theta), factor * shifts_of(Cosmology(*theta), table))
    )

    def draws(theta, factor=1.0):
        return np.stack(
            [draw(key, jnp.array(theta, jnp.float32), factor) for key in jax.random.split(jax.random.key(0), 24)]
        )

    assert deviations(problem, draws(mean)).max() < SIGMAS
    assert deviations(problem, draws(mean * np.array([1, 1, 1.15, 1, 1, 1]))).max() > SIGMAS
    assert deviations(problem, draws(mean, 20.0)).max() > SIGMAS


def small_maps():
    return LogNormalMaps(Survey(10.0, 32, RedshiftBins(5, 2.0, 0.68, 0.11, 0.05), 27.0, 0.26))


@pytest.mark.slow
def test_maps_without_noise_have_the_correlations_of_the_spectra():
    small, shifts, num = small_maps(), jnp.array(_read("shifts.npy")[3, 2, 4, :, 4], jnp.float32), 2_000
    power = jax.jit(lambda: small.gaussian_power(Cosmology(), shifts))()
    rows = small.root(power)

    def products(white):
        kappa = small.convergence(small.gaussian(rows, white), shifts)
        return jnp.mean(kappa[small.first] * kappa[small.second], axis=(1, 2))

    white = jax.random.normal(jax.random.key(0), (num, 5, 32, 32))
    found = np.asarray(jax.lax.map(jax.jit(products), white, batch_size=50))
    spectra = np.asarray(limber_spectra(Cosmology(), np.geomspace(36.0, 36.0 * 23, 40), _SURVEY.sources))
    periods = np.hypot(*np.meshgrid(*[np.fft.fftfreq(32, 1 / 32)] * 2))
    left, way = _lines(periods, 25)
    nodes = [np.interp(np.arange(1, 26), np.geomspace(1.0, 23.0, 40), c) for c in spectra]
    expected = np.array(
        [np.sum((np.r_[0, c][left] * (1 - way) + np.r_[0, c][left + 1] * way)[periods > 0]) for c in nodes]
    )
    expected /= np.deg2rad(10.0) ** 2
    errors = found.std(axis=0) / np.sqrt(num)
    # The own variance of a map is taken for that of all: that lowers what is found by some per mille.
    assert (np.abs(found.mean(axis=0) - expected) < 4 * errors + 0.005 * expected).all()
    # The control, seen best where λ is small: a g with the correlations of κ / λ, not those of its logarithm.
    uncorrected = np.expm1(expected / (shifts[small.first] * shifts[small.second]))
    wrong = uncorrected * (shifts[small.first] * shifts[small.second])
    assert (np.abs(found.mean(axis=0) - wrong) > 4 * errors + 0.005 * wrong)[0]


@pytest.mark.slow
def test_averaged_maps_are_means_of_blocks(problem):
    coarse = fs.problems.lensing_maps(num_pixels=64)
    assert coarse.x_shape == coarse.observed.x.shape == (64, 64, 5)
    np.testing.assert_allclose(coarse.observed.x[3, 2], problem.observed.x[12:16, 8:12].mean(axis=(0, 1)), rtol=1e-5)
    draw = coarse.simulator.draw(TRUTH, seed=1)
    np.testing.assert_allclose(draw, averaged(problem.simulator.draw(TRUTH, seed=1), 64), atol=1e-6)
    assert not np.allclose(draw, averaged(problem.simulator.draw(TRUTH, seed=2), 64), atol=1e-3)


@pytest.mark.slow
def test_third_moments_are_those_of_log_normal_maps_and_not_of_gaussian_ones(problem, maps):
    statistics, num = _statistics(), 24

    def found(factor):
        """Draw maps with shifts larger by a factor, and give the third moments of each bin in units of their errors."""

        @jax.jit
        def one(key):
            cosmology = Cosmology(*jnp.array(TRUTH, jnp.float32))
            modes = jnp.fft.rfft2(
                jnp.moveaxis(maps.draw(key, cosmology, factor * shifts_of(cosmology, _read("shifts.npy"))), -1, 0)
            )
            filtered = jnp.einsum("xyij,jxy->ixy", statistics.wiener, modes)
            moments = statistics.third_moments(modes)
            return moments, jnp.var(jnp.fft.irfft2(filtered), axis=(1, 2))

        moments, variances = map(np.asarray, zip(*map(one, jax.random.split(jax.random.key(1), num)), strict=True))
        return moments.mean(axis=0) / moments.std(axis=0) * np.sqrt(num), variances.mean(axis=0)

    moments, variances = found(1.0)
    np.testing.assert_allclose(variances, 1.0, atol=0.05)
    assert (moments > 5.0).all()
    assert (np.abs(found(1e3)[0]) < 4.0).all()


def test_directions_of_spectra_are_those_in_which_they_differ_and_span_them():
    # Spectra of three bins that move along two known directions and by a little of a third.
    rng, num = np.random.default_rng(2), 12
    parts = [rng.normal(size=(num, 3, 3)) for _ in range(3)]
    parts = [part + part.transpose(0, 2, 1) for part in parts]
    values, vectors = np.linalg.eigh(parts[0])
    typical = (vectors * np.exp(0.3 * values)[:, None, :]) @ vectors.transpose(0, 2, 1)
    root = np.linalg.inv(np.linalg.cholesky(typical))
    sizes = rng.normal(size=(40, 3)) * np.array([0.1, 0.05, 1e-6])
    symmetric = np.linalg.inv(root) @ np.stack([0.1 * part for part in parts]) @ np.linalg.inv(root).transpose(0, 2, 1)
    found = _directions(typical, typical + np.einsum("mi,ikab->mkab", sizes, symmetric))
    # In units of the typical power from both sides: inverse typical, direction, inverse typical.
    inverse = np.linalg.inv(typical)
    expected = (inverse @ symmetric @ inverse).reshape(3, -1)
    inside = [np.linalg.lstsq(found[:2].reshape(2, -1).T, one, rcond=None) for one in expected]
    left = [np.sqrt(rest[0] / (one @ one)) for (_, rest, *_), one in zip(inside, expected, strict=True)]
    assert max(left[:2]) < 0.1 < left[2]
    assert np.einsum("kab,kba->", found[0], typical) > 0


@pytest.mark.slow
def test_statistics_are_those_of_the_map_and_spectra_come_first(problem):
    condensed = fs.problems.lensing_maps(statistics=True)
    assert condensed.x_shape == (16,) and condensed.observed.x.shape == (16,)
    x, found = problem.simulator.draw(TRUTH, seed=1), condensed.simulator.draw(TRUTH, seed=1)
    modes = np.fft.fft2(x.astype(float), axes=(0, 1))[:, :129]
    weights = _statistics().directions.astype(float)
    pairs = np.stack([(modes[..., i] * modes[..., j].conj()).real for i, j in zip(*np.triu_indices(5), strict=True)])
    powers = np.einsum("kpxy,pxy->k", weights, pairs)
    np.testing.assert_allclose(found[0], np.log(powers[0]), rtol=1e-5)
    np.testing.assert_allclose(found[1:6], powers[1:] / powers[0], rtol=1e-3, atol=1e-3)
    wave = np.hypot(np.fft.fftfreq(256, 1 / 256)[:, None], np.fft.fftfreq(256, 1 / 256))
    of_largest = (np.abs(np.fft.fft2(x, axes=(0, 1))[(wave > 0) & (wave < 4.5)]) ** 2).mean(axis=0)
    np.testing.assert_allclose(found[6:NUM_SPECTRA], np.log(of_largest), rtol=1e-4)
    # More power is more, and a fifth more of sigma8 shows; the control, other noise, does not.
    several = {
        s8: condensed.simulator.draw(np.tile((*TRUTH[:2], s8, *TRUTH[3:]), (8, 1)), seed=3) for s8 in (0.75, 0.9)
    }
    low, high = several[0.75], several[0.9]
    away = (high.mean(axis=0) - low.mean(axis=0)) / np.sqrt((high.var(axis=0) + low.var(axis=0)) / 8)
    assert away[0] > 10.0
    again = condensed.simulator.draw(np.tile((*TRUTH[:2], 0.75, *TRUTH[3:]), (8, 1)), seed=4)
    apart = (again.mean(axis=0) - low.mean(axis=0)) / np.sqrt((again.var(axis=0) + low.var(axis=0)) / 8)
    assert np.abs(apart[0]) < 4.5


@pytest.mark.slow
def test_maps_are_finite_all_over_the_prior(problem):
    draws = problem.simulator.draw(problem.proposal.sample(64, seed=1), seed=2)
    assert np.isfinite(draws).all() and draws.std(axis=(1, 2)).min() > 0.045


@pytest.mark.parametrize("num_pixels", [100, 4, 512, 64.5])
def test_messages(num_pixels):
    with pytest.raises(fs.ArgumentError, match="num_pixels: expected a"):
        fs.problems.lensing_maps(num_pixels=num_pixels)
    with pytest.raises(fs.ArgumentError, match="num_pixels: statistics are of the whole map"):
        fs.problems.lensing_maps(num_pixels=64, statistics=True)
