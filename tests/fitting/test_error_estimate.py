"""The fit's own error: right for a mean whose variance is known, and nothing for a single network."""

import numpy as np
import pytest

from fisherscore.fitting.error_estimate import ErrorEstimate, PartialFit, closed_form_error, misfit, network_error

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


def kinds(errors, *, shared=0.0):
    """Give scores whose errors are independent but for what they share, and their best weights."""
    truth = RNG.normal(size=(50_000, 2))
    common = np.sqrt(shared) * RNG.normal(size=truth.shape)
    scores = [truth + common + np.sqrt(e) * RNG.normal(size=truth.shape) for e in errors]
    return truth, scores, (1 / np.array(errors)) / np.sum(1 / np.array(errors))


@pytest.mark.parametrize("errors", [(0.1, 0.1), (0.02, 0.2), (0.05, 0.1, 0.4)])
def test_members_of_different_kinds_tell_the_error_of_their_mean(errors):
    truth, scores, weights = kinds(errors)
    delta = sum(w * s for w, s in zip(weights, scores, strict=True)) - truth
    assert misfit(scores, weights) == pytest.approx(delta.T @ delta / len(delta), abs=0.05 / sum(1 / np.array(errors)))
    # Weights need not add up to one.
    assert misfit(scores, 0.7 * weights) == pytest.approx(misfit(scores, weights))


def test_what_members_share_and_one_member_alone_show_no_misfit():
    """The controls: an error in all members alike is not seen, whatever its size, and one member shows none."""
    _, scores, weights = kinds((0.1, 0.1), shared=1.0)
    assert np.trace(misfit(scores, weights)) / 2 == pytest.approx(0.05, rel=0.05)
    assert not misfit(scores[:1], [1.0]).any()


def test_misfit_counts_where_it_is_larger_than_the_scatter():
    scatter, metric = ErrorEstimate(0.01, np.diag([0.01, 0.01])), np.eye(2)
    assert scatter.with_misfit(np.diag([0.01, 0.005]), metric) is scatter
    both = scatter.with_misfit(np.diag([0.16, 0.0]), metric)
    assert np.trace(both.covariance) == pytest.approx(0.02 * 8 ** (2 / 3))
    assert both.total == pytest.approx(0.01 * 8 ** (2 / 3))
    assert both.covariance[1, 1] == 0.01 < both.covariance[0, 0]
    nothing = ErrorEstimate(0.0, np.zeros((2, 2)))
    assert nothing.with_misfit(np.eye(2), metric) is nothing
