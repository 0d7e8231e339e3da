"""Noise of free shape: tails and skewness found from samples, each tail by itself."""

import numpy as np
import pytest
from scipy import stats

from fisherscore.potentials.noise import first_noise, fit_noise

RNG = np.random.default_rng(3)


def slope_error(noise, law, z):
    """Compare −d log density / dz with the truth, relative to the truth's information."""
    step = 1e-4
    truth = -(law.logpdf(z + step) - law.logpdf(z - step)) / (2 * step)
    return np.mean((noise.slope(z[:, None])[:, 0] - truth) ** 2) / np.mean(truth**2)


def fitted_to(z, num_components, num_steps):
    return fit_noise(z[:, None], first_noise(z[:, None], num_components), num_steps)


@pytest.mark.parametrize("freedom", [4.0, 1000.0])
def test_one_component_finds_the_tails(freedom):
    law = stats.t(freedom)
    z = law.rvs(size=20_000, random_state=1)
    fitted = fitted_to(z, 1, 60)
    assert slope_error(fitted, law, law.rvs(size=5_000, random_state=2)) < 0.005
    assert abs(np.log(fitted.freedom[0, 0] / freedom)) < np.log(1.5) if freedom < 10 else fitted.freedom[0, 0] >= 20


def test_tails_may_differ():
    # The log of a gamma variable: one tail exponential, the other lighter than a Gaussian's.
    law = stats.loggamma(1.5)
    z = law.rvs(size=20_000, random_state=1)
    z = (z - law.mean()) / law.std()
    standard = stats.loggamma(1.5, loc=-law.mean() / law.std(), scale=1 / law.std())
    fresh = standard.rvs(size=5_000, random_state=2)
    fitted = fitted_to(z, 5, 60)
    assert slope_error(fitted, standard, fresh) < 0.03
    assert slope_error(fitted_to(z, 1, 60), standard, fresh) > 0.15  # one component cannot
    assert len(set(fitted.freedom[0])) > 1


def test_the_density_is_normalised():
    fitted = fitted_to(RNG.gamma(2.0, size=3_000), 3, 30)
    grid = np.linspace(-400, 400, 400_001)
    assert np.exp(fitted.log_density(grid[:, None])).sum() * (grid[1] - grid[0]) == pytest.approx(1.0, abs=0.01)


def test_groups_of_neighbours_tell_the_shape_as_all_rows_do(monkeypatch):
    z = stats.skewnorm(4).rvs(size=5_000, random_state=1)
    grouped = fitted_to(z, 3, 60)
    monkeypatch.setattr("fisherscore.potentials.noise._NUM_GROUPS", 10_000)
    grid = np.linspace(-1, 3, 200)[:, None]
    plain = fitted_to(z, 3, 60).slope(grid)
    assert np.abs(grouped.slope(grid) - plain).max() < 0.02 * np.abs(plain).max()


def test_all_data_are_fitted_at_once_as_each_by_itself():
    z = np.stack([RNG.normal(size=900), RNG.standard_t(3, size=900)], axis=1)
    together = fit_noise(z, first_noise(z, 2), 20)
    for i in range(2):
        alone = fitted_to(z[:, i], 2, 20)
        np.testing.assert_allclose(together.centres[i], alone.centres[0], rtol=1e-9)
        np.testing.assert_array_equal(together.freedom[i], alone.freedom[0])


def test_the_derivative_of_the_slope():
    noise = fitted_to(RNG.gamma(2.0, size=2_000), 3, 30)
    z = np.linspace(-1, 8, 50)[:, None]
    slope, steepness = noise.slopes(z)
    numeric = (noise.slope(z + 1e-5) - noise.slope(z - 1e-5)) / 2e-5
    np.testing.assert_allclose(steepness, numeric, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(slope, noise.slope(z))
