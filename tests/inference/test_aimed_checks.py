"""Checks of aimed models around several modes: exact ones pass, and each thing that may be wrong is seen."""

import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.inference.aiming.checking import check_model, parts_of

BOX = fs.uniform(a=(-3.0, 3.0), b=(-3.0, 3.0))
NOISE = 0.3
RNG = np.random.default_rng(0)
SIGNS = np.repeat([-1.0, 1.0], 1_000)
DRAWS = np.stack([SIGNS * 2 + 0.08 * RNG.standard_normal(2_000), 0.3 + NOISE * RNG.standard_normal(2_000)], axis=1)
REGION = BOX.around(DRAWS)


def folded(theta, rng):
    """Give two data that do not know the sign of the first parameter."""
    return np.array([theta[0] ** 2, theta[1]]) + NOISE * rng.standard_normal(2)


def exact(theta, x):
    return -0.5 * ((x[0] - theta[0] ** 2) ** 2 + (x[1] - theta[1]) ** 2) / NOISE**2


WRONG = {
    "calibration": lambda theta, x: exact(theta, x) - 1.5 * ((theta[1] - x[1]) / NOISE) ** 2,
    "parts": lambda theta, x: exact(theta, x) + 1.5 * jnp.tanh(3 * theta[0]),
    "zero mean": lambda theta, x: exact(theta, x) + theta[1] / NOISE,
}


def checked(log_likelihood, **options):
    model = fs.FunctionScore(REGION, (2,), log_likelihood=log_likelihood)
    return check_model(model, fs.from_python(folded), REGION, (600, 120), 1, **options)


def test_a_region_around_two_modes_has_two_parts():
    parts = parts_of(REGION)
    assert sorted(np.sign(part.sample(10, seed=0)[:, 0]).sum() for part in parts) == [-10, 10]
    assert len(parts_of(BOX)) == 1


def test_no_corner_of_a_part_sticks_out_of_the_region():
    """Where the modes lie along the diagonal of the region's axes, corners of the boxes around them would."""
    draws = np.array([1.0, 0.8]) * DRAWS + np.outer(SIGNS, [0.0, 0.8])
    region = BOX.around(draws)
    for box, part in zip(region.parts.boxes, parts_of(region), strict=True):
        corners = np.array([[a, b] for a in (-1, 1) for b in (-1, 1)])
        assert region.axes.holds(part.axes.outer(0.999 * corners)).all()
        assert 0.5 < np.linalg.det(part.axes.factor) / np.linalg.det(0.75 * box.factor) <= 1.0 + 1e-9
    sticks_out = [not region.axes.holds(box.outer(0.75 * corners)).all() for box in region.parts.boxes]
    assert any(sticks_out)  # the control


def test_an_exact_model_passes(tmp_path):
    found = checked(exact, out=tmp_path)
    assert found.passed, str(found)
    assert [check.name for check in found.checks][-3:] == ["calibration", "coverage", "parts"]
    assert found.num_simulations == 600
    assert len(found.ranks) == len(found.coverage) == 120
    assert {folder.name for folder in tmp_path.iterdir()} == {"part-1", "part-2"}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_seen(name):
    found = checked(WRONG[name])
    assert found[name].verdict == "FAIL", str(found)
    if name == "parts":  # within each part, nothing is wrong
        assert all(check.verdict != "FAIL" for check in found.checks if check.name != name), str(found)


def test_posteriors_of_all_parts_together_are_refused():
    model = fs.FunctionScore(REGION, (2,), log_likelihood=exact)
    sims = fs.simulate(fs.from_python(folded), REGION, 200, seed=3)
    with pytest.raises(fs.ArgumentError, match=r"several parts.*num_posteriors=0"):
        fs.diagnose(model, sims)
    assert fs.diagnose(model, sims, num_posteriors=0)["zero mean"].verdict != "FAIL"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fisherscore.errors.FisherScoreWarning")
def test_an_inference_with_two_modes_passes_its_checks():
    result = fs.infer(fs.from_python(folded), [4.0, 0.3], BOX, 1_500, seed=3)
    assert len(result.rounds[-1].region.parts.boxes) >= 2
    assert result.check(1_000).passed
