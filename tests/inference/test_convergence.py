import arviz
import numpy as np
import pytest
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

from fisherscore.inference.convergence import convergence


def chains_of(correlation, shift=0.0, shape=(4, 500, 3)):
    rng = np.random.default_rng(2)
    chains = rng.normal(size=shape)
    for i in range(1, shape[1]):
        chains[:, i] = correlation * chains[:, i - 1] + np.sqrt(1 - correlation**2) * chains[:, i]
    return chains + shift * np.arange(shape[0])[:, None, None]


@pytest.mark.parametrize(("correlation", "shift"), [(0.0, 0.0), (0.9, 0.0), (0.5, 1.0), (-0.5, 0.0)])
@pytest.mark.parametrize("shape", [(4, 500, 3), (1, 333, 2), (2, 10, 1)])
def test_the_numbers_are_numpyro_s_and_close_to_arviz_s(correlation, shift, shape):
    chains = chains_of(correlation, shift, shape)
    r_hat, effective = convergence(chains)
    np.testing.assert_allclose(r_hat, split_gelman_rubin(chains), rtol=1e-9)
    np.testing.assert_allclose(effective, effective_sample_size(chains), rtol=1e-9)
    if shape[1] > 400 and not shift:  # ArviZ splits chains also for the effective number
        data = arviz.convert_to_dataset({"a": chains})
        np.testing.assert_allclose(r_hat, arviz.rhat(data, method="split")["a"], rtol=1e-2)
        np.testing.assert_allclose(effective, arviz.ess(data, method="mean")["a"], rtol=0.15)


def test_posteriors_side_by_side():
    chains = np.stack([chains_of(0.5), chains_of(0.9)], axis=2)
    r_hat, effective = convergence(chains)
    assert r_hat.shape == effective.shape == (2, 3)
    for i in range(2):
        np.testing.assert_allclose(r_hat[i], convergence(chains[:, :, i])[0])
        np.testing.assert_allclose(effective[i], convergence(chains[:, :, i])[1])


def test_a_parameter_that_never_moves_has_neither():
    r_hat, effective = convergence(np.ones((4, 100, 1)))
    assert np.isnan(r_hat).all() and not np.isfinite(effective).all()
