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
    assert "Do not trust this model" in str(diagnosis)


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
        (lambda: fs.check_calibration(0 * THETA, SAMPLES), "theta: expected parameters drawn from the prior"),
        (lambda: fs.check_calibration(THETA, np.nan * SAMPLES), "samples: expected finite"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(fs.ArgumentError, match=message):
        call()
