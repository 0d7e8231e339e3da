"""Calibration of one's own samples: exact posteriors pass, wrong ones fail."""

import numpy as np
import pytest

import fisherscore as fs
from fisherscore.inference.calibration import uniformity


def own_samples(widths=1.0, shift=0.0, num=400, num_draws=200, seed=0):
    """Posteriors of θ ~ N(0, 1), x | θ ~ N(θ, 0.5²), two parameters; right ones for widths=1 and shift=0."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(num, 2))
    x = theta + 0.5 * rng.normal(size=(num, 2))
    sigma = np.sqrt(0.25 / 1.25)
    mean = x / 1.25 + shift * sigma
    return theta, mean[:, None] + widths * sigma * rng.normal(size=(num, num_draws, 2))


def test_exact_posteriors_pass():
    for seed in range(3):
        diagnosis = fs.check_calibration(*own_samples(seed=seed), names=("a", "b"))
        assert [c.verdict for c in diagnosis.checks] == ["pass", "pass"]
    assert diagnosis.names == ("a", "b") and diagnosis.num_simulations == 400
    assert diagnosis.ranks.shape == (400, 2) and diagnosis.coverage.shape == (400,)
    assert "All 2 checks passed on 400 simulations" in str(diagnosis)


def test_posteriors_that_are_too_narrow_fail_both_checks():
    diagnosis = fs.check_calibration(*own_samples(widths=0.7))
    assert diagnosis["calibration"].verdict == diagnosis["coverage"].verdict == "FAIL"
    assert diagnosis["calibration"].value > 0.2  # normal scores of the truth spread too widely
    assert "Do not trust these posteriors: posteriors are miscalibrated" in str(diagnosis)
    far_off = fs.check_calibration(*own_samples(widths=0.1))
    assert "p < 1e-10" in str(far_off) and "p = 0)" not in str(far_off)


def discrete_samples(shift=0, num=400, seed=0):
    """Posteriors of θ in 0, 1, 2, 3 with equal chances, from x that is θ or, as often, anything; right for shift=0."""
    rng = np.random.default_rng(seed)
    theta = rng.integers(4, size=(num, 1))
    x = np.where(rng.random(theta.shape) < 0.5, theta, rng.integers(4, size=theta.shape))[:, None]
    size = (num, 100, 1)
    return theta, np.where(rng.random(size) < 0.5, x, rng.integers(4, size=size)) + shift * (rng.random(size) < 0.4)


def test_discrete_parameters_have_their_ties_broken_at_random():
    """Strict ranks would call these posteriors wrong, since most draws equal the truth."""
    for seed in range(4):
        diagnosis = fs.check_calibration(*discrete_samples(seed=seed))
        assert [c.verdict for c in diagnosis.checks] == ["pass", "pass"]
    again = fs.check_calibration(*discrete_samples(seed=seed))
    np.testing.assert_array_equal(again.ranks, diagnosis.ranks)
    np.testing.assert_array_equal(again.coverage, diagnosis.coverage)
    assert fs.check_calibration(*discrete_samples(shift=1))["calibration"].verdict == "FAIL"  # the control


def test_posteriors_that_are_shifted_fail():
    diagnosis = fs.check_calibration(*own_samples(shift=0.4))
    assert diagnosis["calibration"].verdict == "FAIL" and not diagnosis.passed


def test_few_posteriors_are_called_unclear_not_passed():
    assert fs.check_calibration(*own_samples(num=30))["calibration"].verdict == "unclear"


def test_uniformity_has_the_stated_level_and_power():
    rng = np.random.default_rng(0)
    p_values = [uniformity(rng.uniform(size=300)) for _ in range(300)]
    assert np.mean(np.array(p_values) < 0.05) < 0.09
    assert uniformity(rng.beta(0.8, 0.8, size=300)) < 0.05
    assert uniformity(rng.beta(1.4, 1.0, size=300)) < 0.005


def test_picture_and_short_texts():
    diagnosis = fs.check_calibration(*own_samples())
    axes = diagnosis.plot()
    assert axes.shape == (1,) and axes[0].get_ylabel() == "fraction of simulations"
    assert repr(diagnosis) == "Diagnosis(calibration: pass, coverage: pass; 400 simulations)"
    assert "<th>coverage</th><td>pass" in diagnosis._repr_html_()


THETA, SAMPLES = own_samples(num=60)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fs.check_calibration(THETA[0], SAMPLES), "theta: expected shape"),
        (lambda: fs.check_calibration(THETA, SAMPLES[:-1]), r"samples: expected shape \(60, draws, 2\)"),
        (lambda: fs.check_calibration(THETA, SAMPLES[..., :1]), "samples: expected shape"),
        (lambda: fs.check_calibration(THETA, SAMPLES[:, :5]), "at least 20 draws"),
        (lambda: fs.check_calibration(THETA, SAMPLES, names=["a"]), "names: expected 2 names"),
        (lambda: fs.check_calibration(THETA, SAMPLES, names="ab"), "names: expected 2 names.*got 'ab'"),
        (lambda: fs.check_calibration(THETA, SAMPLES, names=[1, 2]), "names: expected 2 names"),
        (lambda: fs.check_calibration(THETA, SAMPLES, names=3), "names: expected 2 names"),
        (lambda: fs.check_calibration(THETA, SAMPLES, names=["a", "a"]), "names: a parameter is named twice"),
        (lambda: fs.check_calibration(THETA[:1], SAMPLES[:1]), "theta: .*simulate more observations, at least 50"),
        (lambda: fs.check_calibration(0 * THETA, SAMPLES), "theta: expected parameters drawn from the prior"),
        (lambda: fs.check_calibration(THETA, np.nan * SAMPLES), "samples: expected finite"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(fs.ArgumentError, match=message):
        call()
