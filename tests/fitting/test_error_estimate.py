"""The fit's own error: right for a mean whose variance is known, and nothing for a single network."""

import numpy as np
import pytest

from fisherscore.fitting.error_estimate import ErrorEstimate, PartialFit, closed_form_error, network_error

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("num_parts", [5, 3])
def test_parts_left_out_tell_the_variance_of_the_whole(num_parts):
    """The score of every row is a truth plus an error of its own: the mean of independent parts' errors."""
    variance = 0.1
    truth = RNG.normal(size=(20_000, 2))
    errors = np.sqrt(num_parts * variance) * RNG.normal(size=(num_parts, 20_000, 2))
    share = 1 - 1 / num_parts
    parts = [PartialFit(share, truth + np.delete(errors, k, axis=0).mean(axis=0)) for k in range(num_parts)]
    estimate = closed_form_error(truth + errors.mean(axis=0), parts).total
    # The information of the whole includes its variance; a fifth is added for what no part sees.
    assert estimate == pytest.approx(1.2 * variance / (1 + variance), rel=0.05)


def test_networks_tell_the_variance_of_one_of_them():
    truth = RNG.normal(size=(20_000, 2))
    scores = [truth + 0.3 * RNG.normal(size=truth.shape) for _ in range(4)]
    assert network_error(scores, truth).total == pytest.approx(1.5 * 0.09, rel=0.05)
    assert network_error(scores[:1], truth).total == 0.0


def test_with_many_rows_misfit_counts_beside_the_variance():
    estimate = ErrorEstimate(0.01, 0.02 * np.eye(2))
    for num in (100, 10_000):
        assert estimate.with_bias(num).total == 0.01
    many = estimate.with_bias(160_000)
    assert many.total == pytest.approx(0.02)
    assert many.covariance == pytest.approx(0.04 * np.eye(2))
