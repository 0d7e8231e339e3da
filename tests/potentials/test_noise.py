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
    return np.mean((noise.slope(z) - truth) ** 2) / np.mean(truth**2)


@pytest.mark.parametrize("freedom", [4.0, 1000.0])
def test_one_component_finds_the_tails(freedom):
    law = stats.t(freedom)
    z = law.rvs(size=20_000, random_state=1)
    fitted = fit_noise(z, first_noise(z, 1), 60)
    assert slope_error(fitted, law, law.rvs(size=5_000, random_state=2)) < 0.005
    assert abs(np.log(fitted.freedom[0] / freedom)) < np.log(1.5) if freedom < 10 else fitted.freedom[0] >= 20


def test_tails_may_differ():
    # The log of a gamma variable: one tail exponential, the other lighter than a Gaussian's.
    law = stats.loggamma(1.5)
    z = law.rvs(size=20_000, random_state=1)
    z = (z - law.mean()) / law.std()
    standard = stats.loggamma(1.5, loc=-law.mean() / law.std(), scale=1 / law.std())
    fresh = standard.rvs(size=5_000, random_state=2)
    fitted = fit_noise(z, first_noise(z, 5), 60)
    assert slope_error(fitted, standard, fresh) < 0.03
    assert slope_error(fit_noise(z, first_noise(z, 1), 60), standard, fresh) > 0.15  # one component cannot
    assert len(set(fitted.freedom)) > 1


def test_the_density_is_normalised():
    fitted = fit_noise(z := RNG.gamma(2.0, size=3_000), first_noise(z, 3), 30)
    grid = np.linspace(-400, 400, 400_001)
    assert np.exp(fitted.log_density(grid)).sum() * (grid[1] - grid[0]) == pytest.approx(1.0, abs=0.01)
