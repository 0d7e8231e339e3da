"""What other tools are measured by has closed forms to hold to, and something wrong is seen."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

ROOT = Path(__file__).parents[2]


def load(name, *folders):
    path = ROOT.joinpath(*folders, f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


measures = load("measures", "benchmarks", "peers")
face_off = load("forecast_face_off", "benchmarks")
tables = load("results_peers", "docs")


def gaussians(grid, means, sigma):
    return -0.5 * ((grid[:, 0] - means[:, None]) / sigma) ** 2


@pytest.fixture(scope="module")
def mocks():
    grid, rng = measures.grid_of(np.array([-8.0]), np.array([8.0])), np.random.default_rng(0)
    truths = rng.normal(size=4_000) * 0.5
    means = truths + rng.normal(size=4_000)
    return grid, truths, means


def test_what_is_exact_is_not_told_apart_and_what_is_off_is_as_it_must(mocks):
    grid, _, means = mocks
    exact = gaussians(grid, means, 1.0)
    same = measures.compare(grid, exact, {"on_grid": exact + 7.0, "at_truth": exact[:, 0]})
    assert same["c2st"] == pytest.approx(0.5) and same["mean_error"] == pytest.approx(0, abs=1e-9)
    off = {"on_grid": gaussians(grid, means + 0.6, 1.0), "at_truth": exact[:, 0]}
    found = measures.compare(grid, exact, off)
    assert found["mean_error"] == pytest.approx(0.6, rel=1e-3)
    assert found["c2st"] == pytest.approx(norm.cdf(0.3), abs=2e-3)  # ½ + ½ of the total variation, 2 Φ(δ/2) − 1
    wide = {"on_grid": gaussians(grid, means, 1.5), "at_truth": exact[:, 0]}
    assert measures.compare(grid, exact, wide)["width_error"] == pytest.approx(0.5, rel=1e-2)


def test_calibrated_posteriors_pass_and_narrow_ones_do_not(mocks):
    grid, truths, means = mocks
    for sigma, right in ((1.0, True), (0.6, False), (1.6, False)):
        densities, at_truth = gaussians(grid, means, sigma), -0.5 * ((truths - means) / sigma) ** 2
        levels = np.sort(measures.levels(densities, measures.masses(densities), at_truth))
        assert (measures.calibration(levels.tolist()) < 1.63 / np.sqrt(len(truths)) + 0.02) == right


def test_what_is_not_a_number_has_no_mass():
    assert measures.masses(np.array([[0.0, np.nan, -np.inf, 0.0]])).tolist() == [[0.5, 0.0, 0.0, 0.5]]


def test_finite_differences_have_the_information_of_a_line_and_claims_are_counted():
    rng = np.random.default_rng(1)
    noise, slope = rng.normal(size=(20_000, 3)), np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -1.0]])
    ends = np.stack([[noise - row, noise + row] for row in slope])
    matrix, truth = face_off.plain(noise, ends), slope @ slope.T
    np.testing.assert_allclose(matrix, truth, atol=0.05)
    row = face_off.row_of(("weak_lensing", 1_000, 0), "finite differences", 1.5 * truth, truth)
    assert row["largest_claim"] == pytest.approx(0.5)
    np.testing.assert_allclose(row["sigma_over_exact"], 1 / np.sqrt(1.5))
    assert "sigma_over_exact" not in face_off.row_of(("weak_lensing", 1_000, 0), "x", truth - 9 * np.eye(2), truth)
    (line,) = face_off.summary([row])
    assert (line["claims"], line["num_seeds"]) == (1, 1) and line["error"] == pytest.approx(1 - 1 / np.sqrt(1.5))
    assert next(face_off.summary([row | {"sigma_over_exact": [0.99, 1.2]}]))["claims"] == 0


def test_how_many_more_simulations_are_needed():
    curve = [(num, 100 / num) for num in (200, 1_000, 10_000)]
    assert tables.times_more(0.05, 500, curve) == "4"
    assert tables.times_more(0.001, 500, curve) == "over 20"
    assert tables.times_more(0.9, 500, curve) == "under 0.4"


def test_where_another_does_better_is_said():
    def row(system, error):
        return {"problem": "two_signs", "num_simulations": 1_000, "system": system, "score_error": error}

    assert "nowhere" in tables.losses([row("ours", 0.1), row("sbi NLE", 0.2), row("exact", 0.0)])
    told = tables.losses([row("ours", 0.3), row("sbi NLE", 0.2), row("sbi NPE", 0.25)])
    assert "score error, sbi NLE 0.2 against 0.3" in told and "NPE" not in told
