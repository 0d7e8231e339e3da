"""Results in the documentation are those of the benchmarks: every table is what docs/results.py makes of the JSON."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def load_results():
    spec = importlib.util.spec_from_file_location("results", ROOT / "docs" / "results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


results = load_results()
PAGES = [p for p in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if "<!-- results: " in p.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_what_the_files_say(page):
    text = page.read_text()
    assert text.count("<!-- results: ") == text.count("<!-- end -->") == len(results.MARKED.findall(text))
    assert text == results.filled(text), "run: python docs/results.py"


def test_every_table_is_shown_and_the_pages_of_results_hold_no_other():
    texts = [page.read_text() for page in PAGES]
    shown = {match["name"] for text in texts for match in results.MARKED.finditer(text)}
    assert shown == results.TABLES.keys()
    for page in (ROOT / "README.md", ROOT / "docs" / "results.md", ROOT / "docs" / "side_by_side.md"):
        without = results.MARKED.sub("", page.read_text())
        tables = [line for line in without.splitlines() if line.startswith("|") and re.search(r"\d", line)]
        assert not tables, f"{page}: tables with figures belong between comments, where docs/results.py writes them"


def test_a_figure_changed_by_hand_or_in_the_files_is_noticed(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "results.md").read_text()
    changed = text.replace("| 0.23 |", "| 0.13 |", 1)
    assert changed != text == results.filled(changed)
    for file in results.RESULTS.glob("*.json"):
        (tmp_path / file.name).write_text(file.read_text().replace('"kills": 50', '"kills": 51'))
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    assert "| coordinator | 51 |" in results.filled(text)


def test_every_file_of_results_is_used(monkeypatch):
    names, read = set(), results.read
    monkeypatch.setattr(results, "read", lambda name: (names.add(name), read(name))[1])
    for make in results.TABLES.values():
        make()
    assert names == {file.stem for file in results.RESULTS.glob("*.json")}


def figures_of_when_not(error):
    """Return the sentences of the page on when not to use it."""
    number, page = results.number, "explanation/when_not.md"

    def forecast(problem, estimator):
        wanted = {"problem": problem, "num_simulations": 1_000, "estimator": estimator}
        (row,) = (row for row in results.read("forecast_face_off")["summary"] if wanted.items() <= row.items())
        return f"{number(100 * row['error'])} %"

    def field(kind, num):
        wanted = {"field": kind, "side": 32, "num_simulations": num}
        (row,) = (row for row in results.read("fields")["rows"] if wanted.items() <= row.items())
        return number(results.mean(run["error"] for run in row["runs"]))

    def aimed(task):
        wanted = {"method": "aimed", "task": task, "num_simulations": 1_000}
        rows = [row for row in results.read("sbi_benchmark")["rows"] if wanted.items() <= row.items()]
        return f"{results.mean(row['c2st'] for row in rows if 'c2st' in row):.3f}"

    plain, bound = (forecast("weak_lensing", name) for name in ("finite differences", "ours, bound"))
    known, learned = (forecast("gaussian_covariance", name) for name in ("DerivKit", "ours, bound"))
    signs, covariance = (
        [error(problem, num, "auto") for num in (500, 20_000)] for problem in ("two_signs", "gaussian_covariance")
    )
    many = {
        case: max(abs(v - 1) for run in found["runs"] for v in run["learned"]["bound"]["sigma_over_exact"].values())
        for case, found in results.read("many_parameters")["cases"].items()
    }
    return [
        (page, f"is off by at most {100 * many['21 parameters']:.1f} % for any of them"),
        (page, f"With 40 it is off by up to {100 * many['40 parameters']:.0f} %"),
        (page, f"is off by {plain} by finite differences and by {bound} by the bound"),
        (page, f"in a Gaussian covariance, by {known} (DerivKit) and {learned}"),
        (page, f"error {signs[0]}; nothing is 1) or all information is in the covariance ({covariance[0]})"),
        (page, f"with 20,000 it has {signs[1]} and {covariance[1]}"),
        (page, f"a C2ST of {aimed('gaussian_linear')} on the Gaussian linear task"),
        (page, f"{aimed('slcp')} on SLCP"),
        (page, f"a score error of {field('gaussian', 2_000)} (Gaussian field)"),
        (page, f"see coarsely, {field('multiscale', 2_000)}, and {field('multiscale', 10_000)} with 10,000"),
    ]


def figures_in_prose():
    """Return sentences of other pages that quote results, with the figures the files say."""
    number, rows = results.number, results.read("simulation_efficiency")["rows"]

    def error(problem, num, method):
        return number(results.mean(results.errors_of(rows, problem, num, method)))

    papers = [r for r in results.read("weak_lensing")["rows"] if r["recipe"].startswith("paper")]
    paper = " and ".join(number(r["score_error"]) for r in papers)
    closed_forms = ("gaussian", "location_scale", "quasi_score", "mapped")
    best = min((error("two_signs", 20_000, form) for form in closed_forms), key=float)
    moons = results.read("two_moons")["rows"][0]
    forecasts = results.read("forecast")["forecasts"]
    bounds = [r for r in forecasts if r["estimate"] == "bound"]
    claim = max(r["largest_claim_in_standard_errors"] for r in bounds)
    noisy = {r["estimate"]: r["mean_trace_ratio"] for r in forecasts if r["score"] == "noisy (control)"}
    return [
        ("tutorials/weak_lensing.md", f"has {paper} on this problem in two fits to 100,000 simulations"),
        (
            "explanation/method.md",
            f"an error of {paper} (two fits) on weak lensing with 100,000 simulations and the default one of "
            f"{error('weak_lensing', 10_000, 'auto')} with 10,000",
        ),
        (
            "explanation/method.md",
            f"20,000 simulations) the default has an error of {error('two_signs', 20_000, 'auto')}, "
            f"the best closed form {best}",
        ),
        ("explanation/when_not.md", f"error {error('ten_parameters', 2_000, 'auto')} with 2,000 simulations"),
        (
            "explanation/when_not.md",
            f"a mean C2ST of {moons['mean_c2st']:.3f} and a worst of {max(moons['c2st']):.3f}",
        ),
        *figures_of_when_not(error),
        ("explanation/errors.md", f"the largest claim beyond the exact matrix was {claim:.1f} standard errors"),
        (
            "explanation/errors.md",
            f"the plug-in claimed {noisy['plug_in']:.2f} and the bound {noisy['bound']:.2f} of the exact information",
        ),
    ]


@pytest.mark.parametrize(("page", "sentence"), figures_in_prose())
def test_figures_quoted_in_prose_are_those_of_the_files(page, sentence):
    assert sentence in " ".join((ROOT / "docs" / page).read_text().split())
