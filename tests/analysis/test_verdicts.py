"""One verdict for the page, the command and everything printed: right, not constrained by the data, badly learned."""

import json
import re

import pytest

pytestmark = pytest.mark.slow

MODEL = """
import numpy as np

FIRST, SECOND = np.array([1.0, 0.6, -0.4, 0.3, 0.8]), np.array([0.2, -0.7, 0.9, 0.5, -0.1])

def signal(theta, rng):
    return np.tanh(theta[0]) * FIRST + np.tanh(theta[1]) * SECOND + 0.15 * rng.normal(size=5)

def added(theta, rng):
    return theta.sum() * FIRST + 0.15 * rng.normal(size=5)

def noise(theta, rng):
    return rng.normal(size=5)

def decades(theta, rng):
    a, b = 10.0**theta
    return np.array([a, b, a + b, a - b]) + 0.1 * rng.normal(size=4)
"""
FILE = """
[simulator]
python = "{module}.py:{function}"
[parameters]
a = [-{half}, {half}]
b = [-{half}, {half}]
[budget]
simulations = {number}
test = 1000
forecast = 2000
posteriors = 50
[observation]
{observed}
[sampler]
samples = 400
warmup = 300
{more}
"""
RIGHT, FREE, BADLY, STRANGE = (
    "Nothing speaks against",
    "not constrained by the data",
    "badly learned",
    "unlike anything",
)
WIDER = re.compile(r"widen|larger region")


@pytest.fixture(scope="module")
def run(tmp_path_factory, call_cli):
    """Run an analysis once for each of its settings; return exit code, what was printed, and the words of the page."""
    known = {}

    def once(function, *, number=400, half=1.0, more="", observed="mock = { a = 0.1, b = -0.2 }"):
        key = function, number, half, more, observed
        if key not in known:
            folder = tmp_path_factory.mktemp("verdict")
            module = f"model_of_verdict_{len(known)}"
            (folder / f"{module}.py").write_text(MODEL)
            names = {"module": module, "function": function, "observed": observed}
            text = FILE.format(**names, number=number, half=half, more=more)
            (folder / "v.toml").write_text(text)
            result = call_cli("run", folder / "v.toml")
            assert result.exit_code in (0, 3), result.output
            page = (folder / "runs" / "v" / "report.html").read_text()
            words = re.sub(r"data:image/png;base64,[^\"]*", "", page.split("To reproduce it")[0])
            known[key] = result.exit_code, result.stdout, words, json.loads((folder / "runs/v/fit.json").read_text())
        return known[key]

    return once


def test_a_good_analysis_is_right_everywhere(run):
    """The control: nothing that is said elsewhere is said of it."""
    code, printed, page, _ = run("signal")
    assert code == 0 and RIGHT in page
    for word in (FREE, BADLY, "do not trust", "cut off"):
        assert word not in printed.lower() and word not in page.lower(), word


def test_a_prior_that_cures_a_free_combination_makes_a_good_analysis(run):
    code, printed, page, _ = run("added", more="[prior]\na = { normal = [0.0, 0.1] }")
    assert code == 0 and RIGHT in page and BADLY not in page.lower()
    # Fit, forecast, best fit and posterior name it, and so do the verdict of the command and of the page.
    assert len(re.findall(r"\+1 a -(?:1|0\.9\d?) b|\+0\.9\d? a -1 b", printed)) >= 6
    assert FREE in page.split("What was learned")[0].lower() and "narrower prior" in page
    assert "of the data alone, and with the prior of the file" in printed and not WIDER.search(printed)


def test_data_that_say_nothing_end_in_a_page_that_says_so(run):
    code, printed, page, _ = run("noise")
    assert code == 3 and FREE in printed and FREE in page.lower() and "check that the data depend" in page
    assert "forecast: left out, since nothing was learned" in printed and "Not done" not in page


def test_few_simulations_are_badly_learned(run):
    code, printed, page, fit = run("decades", number=100, half=1.0)
    assert code == 3 and BADLY in printed and BADLY in page.lower() and not WIDER.search(printed + page)
    assert fit["result"]["outcome"] == BADLY and "some " in printed and "simulations (there are 100)" in printed


def test_a_range_far_too_wide_is_not_told_to_widen(run):
    code, printed, page, _ = run("decades", half=3.0)
    assert code == 3 and BADLY in printed and BADLY in page.lower() and "narrower range" in page
    assert not WIDER.search(printed) and not WIDER.search(page)


def test_an_observation_far_outside_is_no_fault_of_the_fit(run):
    code, printed, page, fit = run("signal", observed="values = [4.0, 4.0, 4.0, 4.0, 4.0]")
    assert code == 3 and fit["result"]["outcome"] == "right" and BADLY not in (printed + page).lower()
    assert STRANGE in printed and STRANGE in page and not re.search(r"some [\d,]+ simulations", printed)
