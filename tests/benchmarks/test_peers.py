"""What other tools are measured by has closed forms to hold to, and something wrong is seen."""

import importlib
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


sys.path.insert(0, str(ROOT / "benchmarks"))
comparisons = importlib.import_module("peers.comparisons")
exchange = importlib.import_module("peers.exchange")
sys.path.pop(0)


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
        place = {"problem": "two_signs", "num_simulations": 1_000, "system": system, "seed": 0}
        return place | {"score_error": error}

    assert "nowhere" in tables.losses([row("ours", 0.1), row("sbi NLE", 0.2), row("exact", 0.0)])
    told = tables.losses([row("ours", 0.3), row("sbi NLE", 0.2), row("sbi NPE", 0.25)])
    assert "score error, sbi NLE 0.2 against 0.3" in told and "NPE" not in told


def test_where_another_does_better_is_judged_on_seeds_that_both_have():
    def row(system, seed, error):
        place = {"problem": "two_signs", "num_simulations": 1_000, "system": system, "seed": seed}
        return place | {"score_error": error}

    ours = [row("ours", 0, 0.3), row("ours", 1, 0.1)]
    assert "sbi NLE 0.2 against 0.3" in tables.losses([*ours, row("sbi NLE", 0, 0.2)])
    assert "nowhere" in tables.losses([*ours, row("sbi NLE", 1, 0.2)])
    ended = {**row("sbi NLE", 0, 0.2), "unfinished": "not finished after 9 s"}
    assert "nowhere" in tables.losses([*ours, ended])


def test_the_peer_that_needs_fewest_simulations_is_the_one_compared_with():
    def curve(error):
        return [(num, error * 100 / num) for num in (500, 2_000, 10_000)]

    assert tables.best_of({"a": curve(1.0), "b": curve(0.5)}, 0.02, 500) == "5 b"
    assert tables.best_of({"a": curve(1.0), "b": curve(0.5)}, 0.001, 500) == "over 20"
    short = curve(0.1)[:2]  # it may get there with the next one
    assert tables.best_of({"a": curve(1.0), "b": short}, 0.001, 500) == "over 4"


def scores(problem, system, errors):
    place = {"comparison": "scores", "problem": problem, "system": system, "seed": 0}
    return [place | {"num_simulations": num, "score_error": error} for num, error in errors.items()]


def test_peers_measured_with_too_few_simulations_do_not_count():
    own = [{**row, "method": "auto"} for row in scores("two_signs", "", {500: 0.2, 2_000: 0.1})]
    nle = [{**row, "method": "nle"} for row in scores("two_signs", "", {500: 0.8, 2_000: 0.4, 10_000: 0.2})]
    few = scores("two_signs", "sbi NLE tuned", {500: 0.1})
    many = scores("two_signs", "FlowJAX NLE", {500: 0.6, 2_000: 0.2, 10_000: 0.1})

    def line(rows):
        text = tables.simulations_needed({"rows": [*own, *nle]}, {"rows": rows})
        return next(line for line in text.splitlines() if "two signs" in line)

    assert line(few).endswith("| sbi NLE | 20 sbi NLE | over 5 |")
    assert line(many).endswith("| sbi NLE, FlowJAX NLE | 4 FlowJAX NLE | 5 FlowJAX NLE |")


def task_row(system, *values):
    return {
        **{"comparison": "tasks", "problem": "sir", "num_simulations": 1_000, "system": system, "seed": 0},
        **{"c2st": float(np.mean(values)), "c2st_of_observations": list(values), "seconds": {"fit": 3.0}},
        "hardware": "x",
    }


def test_tasks_say_where_the_aimed_inference_loses_on_observations_both_have():
    text = tables.tasks_beside({"rows": [task_row("ours, aimed", 0.6, 0.9), task_row("sbi SNLE", 0.7)]})
    assert "in 0 of 1 cases" in text and "0.700 (3 s, 1 obs.)" in text
    text = tables.tasks_beside({"rows": [task_row("ours, aimed", 0.8, 0.5), task_row("sbi SNLE", 0.7)]})
    assert "in 1 of 1 cases" in text and "sbi SNLE 0.700 against 0.800" in text
    ended = {**task_row("sbi SNLE", 0.5), "unfinished": "not finished after 9 s"}
    text = tables.tasks_beside({"rows": [task_row("ours, aimed", 0.8), ended]})
    assert "in 0 of 0 cases" in text and "not finished after 9 s" in text


def test_coordinates_make_the_prior_a_box_or_normal():
    for name, make in (("sir", "lognormal"), ("gaussian_linear", "normal"), ("bernoulli_glm", "normal")):
        task = comparisons.TASKS[name]()
        coordinates = exchange.Coordinates.of({"prior": comparisons.prior_of(task)})
        theta = task.sample_prior(20_000, seed=1)
        rows = coordinates.to(theta)
        np.testing.assert_allclose(coordinates.back(rows), theta, rtol=1e-6, atol=1e-9)
        assert not coordinates.box and coordinates.positive == (make == "lognormal")
        p = rows.shape[1]
        np.testing.assert_allclose(rows.mean(axis=0), np.zeros(p), atol=5 / np.sqrt(len(rows)))
        np.testing.assert_allclose(np.cov(rows.T), np.eye(p), atol=7 / np.sqrt(len(rows)))
    box = exchange.Coordinates.of({"prior": comparisons.prior_of(comparisons.TASKS["slcp"]())})
    assert box.box and box.to(np.full((1, 5), 3.0)) == pytest.approx(1.0)
    assert box.back(np.zeros((1, 5))) == pytest.approx(-3.0)


def test_sigma_is_that_of_the_inverse_covariance_of_scores():
    fisher = np.array([[4.0, 1.0], [1.0, 2.0]])
    scores = np.random.default_rng(0).multivariate_normal(np.zeros(2), fisher, size=40_000)
    exact = np.sqrt(np.diag(np.linalg.inv(fisher)))
    np.testing.assert_allclose(comparisons.sigma_of(np.vstack([scores, [[np.inf, 0]]])), exact, rtol=0.02)
    assert np.abs(comparisons.sigma_of(1.2 * scores) / exact - 1).min() > 0.1


SYSTEM = """
import sys, time, numpy as np
sys.path.insert(0, {folder!r})
from exchange import Fitted, serve, simulate

def fit(given, order):
    {first}
    x = simulate(np.full((3, 1), order["observation"][0]))
    return Fitted(lambda _, num: np.resize(x, (num, 1)))

serve(fit, ("numpy",))
"""


def ask(tmp_path, first="pass", **options):
    """Let a system of one file simulate for each of two observations."""
    script = tmp_path / "by_test.py"
    script.write_text(SYSTEM.format(folder=str(ROOT / "benchmarks" / "peers"), first=first))
    np.savez(tmp_path / "given.npz", observations=np.array([[1.0], [5.0]]))
    order = {"given": str(tmp_path / "given.npz"), "found": str(tmp_path / "found.npz"), "num_draws": 2, "aimed": True}
    told = comparisons.ask(Path(sys.executable), str(script), order, lambda theta: 10 * theta, **options)
    return told, np.load(tmp_path / "found.npz")["draws"]


def test_a_system_that_aims_is_given_the_simulations_it_asks_for(tmp_path):
    told, draws = ask(tmp_path)
    assert draws.tolist() == [[[10.0], [10.0]], [[50.0], [50.0]]]
    assert told["seconds"]["fit"] > 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say what memory was used")
def test_memory_is_that_of_the_system_and_not_of_who_started_it(tmp_path):
    block = np.ones(40_000_000)  # 320 MB
    assert ask(tmp_path)[0]["peak_mb"] < 200
    assert ask(tmp_path, "order['block'] = np.ones(40_000_000)")[0]["peak_mb"] > 300
    assert block[0]


def test_a_system_that_fails_or_takes_too_long_is_a_row(tmp_path):
    def row(first, **options):
        return comparisons.done({"system": "x"}, lambda: ask(tmp_path, first, **options))

    assert row("time.sleep(60)", limit=1.5) == {"system": "x", "unfinished": "not finished after 2 s"}
    assert "ValueError: no" in row("raise ValueError('no')")["failed"]
    with pytest.raises(ZeroDivisionError):  # what is wrong on our side is no result
        comparisons.done({}, lambda: 1 / 0)
