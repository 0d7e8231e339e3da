"""Analyses from one file: stages, what is done again and what is not, kills, shards, and the page in a real browser."""

import json
import shutil
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

import fisherscore as fs
from fisherscore.analysis.configuration import read_configuration
from fisherscore.analysis.stages import STAGES, ResultStage
from fisherscore.analysis.workspace import Workspace

MODEL = """
import pathlib, time

LOG = pathlib.Path(__file__).parent / "runs.log"

def draw(theta, rng):
    with LOG.open("a") as log:
        log.write("x\\n")
    time.sleep(PAUSE)
    return theta + 0.1 * rng.normal(size=2)
"""
FILE = """
title = "A <script>alert(1)</script> & more"
seed = 1
[simulator]
python = "model_of_analysis.py:draw"
[parameters]
"<b>a</b>" = [0.0, 1.0]
b = [2.0, 3.0]
[budget]
simulations = 400
test = 400
forecast = 200
[observation]
mock = { "<b>a</b>" = 0.5, b = 2.5 }
[sampler]
samples = 300
warmup = 300
"""


def prepare(folder, pause=0.0, file=FILE):
    (folder / "model_of_analysis.py").write_text(MODEL.replace("PAUSE", str(pause)))
    (folder / "a.toml").write_text(file)
    return folder / "a.toml"


@pytest.fixture(scope="module")
def analysis(tmp_path_factory, call_cli):
    """A whole analysis, run once; tests must leave it as it is."""
    path = prepare(tmp_path_factory.mktemp("analysis"))
    return path, call_cli("run", path, "--json")


@pytest.fixture
def copied(analysis, tmp_path):
    """The file of a copy of the whole analysis, to be changed at will."""
    shutil.copytree(analysis[0].parent, tmp_path / "copy")
    return tmp_path / "copy" / "a.toml"


def num_runs(path):
    return len((path.parent / "runs.log").read_text().splitlines())


# ---------------------------------------------------------------------- stages as objects


class Counting(ResultStage):
    """A stage that needs no others, counts how often it works, and warns."""

    name = "counting"

    def __init__(self):
        self.depends_on, self.num_worked = "first", 0

    def key(self, workspace):
        return self.depends_on

    def check_inputs(self, workspace):
        """It has none."""

    def work(self, workspace):
        self.num_worked += 1
        warnings.warn("beware", fs.FisherScoreWarning, stacklevel=1)
        return {"answer": self.num_worked, "table": f"answer {self.num_worked}"}


def test_a_stage_works_once_for_each_key_and_keeps_its_warnings(tmp_path):
    lines = []
    workspace = Workspace(read_configuration(prepare(tmp_path)), say=lines.append)
    stage = Counting()
    assert stage.document(workspace) is None
    stage.run(workspace)
    assert lines[:3] == ["counting ...", "warning: beware", "answer 1"] and lines[3].startswith("counting: done in")
    assert stage.document(workspace)["result"]["answer"] == 1 and stage.document(workspace)["warnings"] == ["beware"]
    stage.run(workspace)
    assert lines[4:] == ["counting: done already"] and stage.num_worked == 1
    stage.depends_on = "second"
    assert not stage.is_done(workspace)
    stage.run(workspace)
    assert stage.num_worked == 2 and workspace.read("counting")["key"] == "second"


def test_a_document_of_somebody_else_is_not_taken_for_ours(tmp_path):
    workspace = Workspace(read_configuration(prepare(tmp_path)))
    workspace.out.mkdir(parents=True)
    for text in ("not JSON", "[1]", '{"schema": "fisherscore.stage", "stage": "fit"}'):
        (workspace.out / "counting.json").write_text(text)
        assert not Counting().is_done(workspace)
        with pytest.raises(fs.ConfigurationError, match="First run: fisherscore counting"):
            workspace.read("counting")


def test_stages_the_file_does_not_ask_for_are_left_out_with_the_reason(tmp_path):
    file = FILE.replace("test = 400", "test = 0").replace("forecast = 200", "forecast = 0")
    file = file.replace('[observation]\nmock = { "<b>a</b>" = 0.5, b = 2.5 }\n', "")
    lines = []
    workspace = Workspace(read_configuration(prepare(tmp_path, file=file)), say=lines.append)
    for name in ("forecast", "sample", "check"):
        STAGES[name].run(workspace)
    assert lines == [
        "forecast: left out, since budget.forecast = 0",
        "sample: left out, since there is no [observation]",
        "check: left out, since budget.test = 0",
    ]


# ---------------------------------------------------------------------- whole analyses


@pytest.mark.slow
def test_a_file_becomes_a_posterior_and_a_page(analysis):
    path, result = analysis
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["trusted"] is True and list(summary["stages"]) == ["fit", "forecast", "sample", "check"]
    posterior, forecast = (summary["stages"][s]["result"] for s in ("sample", "forecast"))
    # Known answers: σ is 0.1 for each parameter, and the posterior is centred on the data.
    np.testing.assert_allclose(forecast["sigma"], 0.1, rtol=0.2)
    np.testing.assert_allclose(posterior["mean"], posterior["x"], atol=0.04)
    np.testing.assert_allclose(posterior["sd"], 0.1, rtol=0.2)
    out = path.parent / "runs" / "a"
    for name in ("posterior.png", "score_field.png", "forecast.png", "checks.png", "coverage.png", "report.html"):
        assert (out / name).exists(), name
    assert np.load(out / "posterior.npz")["chains"].shape == (4, 300, 2)
    np.testing.assert_allclose(fs.Posterior.load(out / "posterior").mean, posterior["mean"])
    np.testing.assert_allclose(fs.Forecast.load(out / "forecast").sigma, forecast["sigma"])
    assert fs.load(out / "model").names == ("<b>a</b>", "b")
    page = (out / "report.html").read_text()
    assert "<script>" not in page and "<b>" not in page and "http" not in page
    assert page.index("Nothing speaks against") < page.index("Parameters") < page.index("To reproduce it")


@pytest.mark.slow
def test_what_is_done_is_not_done_again_and_a_changed_prior_simulates_nothing(copied, call_cli):
    path = copied
    before = num_runs(path)
    again = call_cli("run", path)
    assert again.exit_code == 0 and again.output.count("done already") == 4
    assert num_runs(path) == before + 4  # two records of either campaign, to see that the simulator is the same
    path.write_text(path.read_text() + "[prior]\nb = { normal = [2.2, 0.02] }\n")
    results = json.loads(call_cli("report", path, "--json").stdout)["stages"]
    assert "sample" not in results and "fit" in results  # a posterior under another prior is not shown
    changed = call_cli("run", path)
    # The forecast is made anew under the prior, of the simulations it has.
    assert changed.output.count("done already") == 2 and "forecast ..." in changed.output
    assert "sample ..." in changed.output and num_runs(path) == before + 8
    assert "normal [2.2, 0.02]" in (path.parent / "runs" / "a" / "report.html").read_text()
    path.write_text(path.read_text().replace("simulations = 400", "simulations = 450"))
    early = call_cli("fit", path)
    assert early.exit_code == 1 and "400 of 450" in early.output and f"fisherscore simulate {path}" in early.output
    assert call_cli("simulate", path).exit_code == 0 and num_runs(path) == before + 12 + 50
    stale = call_cli("forecast", path)
    assert stale.exit_code == 1 and f"First run: fisherscore fit {path}" in stale.output


@pytest.mark.slow
def test_a_posterior_not_to_be_trusted_gives_exit_code_3(copied, call_cli):
    path = copied
    path.write_text(path.read_text().replace('mock = { "<b>a</b>" = 0.5, b = 2.5 }', "values = [40.0, -70.0]"))
    result = call_cli("sample", path)
    assert result.exit_code == 3 and "do not trust this" in result.output
    assert call_cli("report", path).exit_code == 0
    assert "Do not trust this analysis" in (path.parent / "runs" / "a" / "report.html").read_text()


def test_stages_need_those_before_them(tmp_path, call_cli):
    path = prepare(tmp_path)
    for stage in ("fit", "check"):
        result = call_cli(stage, path)
        assert result.exit_code == 1 and f"First run: fisherscore simulate {path}" in result.output
    for stage in ("forecast", "sample"):
        result = call_cli(stage, path)
        assert result.exit_code == 1 and "First run: fisherscore" in result.output
    assert not (tmp_path / "runs.log").exists()


def test_a_wrong_shape_is_found_by_a_trial_and_no_campaign_begins(tmp_path, call_cli):
    path = prepare(tmp_path, file=FILE.replace('mock = { "<b>a</b>" = 0.5, b = 2.5 }', "values = [1, 2, 3]"))
    result = call_cli("run", path)
    assert result.exit_code == 1 and "line 14" in result.output and "(2,)" in result.output
    assert not (tmp_path / "runs").exists()
    path = prepare(tmp_path, file=FILE.replace("[parameters]", "shape = 3\n[parameters]"))
    assert "what the simulator returns, [2], got [3]" in call_cli("run", path).output


@pytest.mark.slow
def test_shards_are_joined_and_give_the_same_data(tmp_path, call_cli):
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole, parts = prepare(tmp_path / "whole"), prepare(tmp_path / "parts")
    assert call_cli("simulate", whole).exit_code == 0
    for k in (1, 2, 3):
        assert call_cli("simulate", parts, "--shard", f"{k}/3").exit_code == 0
    joined = call_cli("simulate", parts)
    assert "3 shards joined" in joined.output and joined.exit_code == 0
    for kind in ("campaign", "test"):
        a, b = (fs.open_campaign(p.parent / "runs" / "a" / kind) for p in (whole, parts))
        np.testing.assert_array_equal(a.x, b.x)


@pytest.mark.slow
def test_ctrl_c_loses_nothing(tmp_path, call_cli):
    path = prepare(tmp_path, pause=0.02)
    # Started in the background, tests have the signal ignored, and so would everything they start.
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program = [sys.executable, "-c", listening + "from fisherscore.cli import app; app()", "simulate", str(path)]
    process = subprocess.Popen(program, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "runs.log").exists() or num_runs(path) < 100:
        time.sleep(0.05)
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "the same command goes on from here" in said
    assert "Traceback" not in said and "\x1b" not in said  # no bars and no colours where nobody looks
    kept = fs.campaign_status(tmp_path / "runs" / "a" / "campaign").num_done
    assert kept >= 50
    before = num_runs(path)
    assert call_cli("simulate", path).exit_code == 0
    # Two records are run again before the campaign is gone on with, and the first of the second one.
    assert num_runs(path) - before == 800 - kept + 3


# ---------------------------------------------------------------------- the page, in a browser


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    program = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    if program is None:
        pytest.skip("no Chromium on this machine")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=flags)
        yield started
        started.close()


VIEWS = {
    "wide": {"viewport": {"width": 1300, "height": 900}},
    "narrow": {"viewport": {"width": 380, "height": 800}, "device_scale_factor": 2, "is_mobile": True},
    "dark": {"viewport": {"width": 1300, "height": 900}, "color_scheme": "dark"},
}


def look(page, path):
    """Open a page and return what went wrong on it."""
    wrong = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
    page.on("request", lambda request: wrong.append(request.url) if request.url.startswith("http") else None)
    page.goto(path.as_uri())
    if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        wrong.append("wider than the window")
    missing = page.evaluate("[...document.images].filter(i => !i.naturalWidth || !i.alt).length")
    return wrong + (["pictures missing or without words"] if missing else [])


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.slow
def test_the_page_in_a_browser(analysis, browser, view, tmp_path):
    path = analysis[0].parent / "runs" / "a" / "report.html"
    context = browser.new_context(**VIEWS[view])
    page = context.new_page()
    assert look(page, path) == []
    assert page.evaluate("document.images.length") == 6
    assert page.inner_text("h1") == "A <script>alert(1)</script> & more"
    shade = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, shade[4:-1].split(","))) < 150) == (view == "dark")
    page.screenshot(path=str(tmp_path / f"{view}.png"), full_page=True)
    context.close()


@pytest.mark.slow
def test_the_page_prints(analysis, browser, tmp_path):
    page = browser.new_page()
    page.goto((analysis[0].parent / "runs" / "a" / "report.html").as_uri())
    page.pdf(path=str(tmp_path / "page.pdf"))
    assert (tmp_path / "page.pdf").stat().st_size > 10_000
    page.close()


@pytest.mark.slow
def test_a_broken_page_is_seen_to_be_broken(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='nowhere.png'><div style='width:5000px'>x</div><script>nothing()</script>")
    page = browser.new_page()
    assert len(look(page, bad)) >= 3
    page.close()


@pytest.mark.slow
def test_failures_are_refused_in_words_of_the_file(tmp_path, call_cli):
    path = prepare(tmp_path)
    body = "if theta[0] > 0.9:\n        raise ValueError('too far')\n    return rng.normal(theta)"
    (tmp_path / "model_of_analysis.py").write_text(f"def draw(theta, rng):\n    {body}\n")
    result = call_cli("simulate", path)
    assert result.exit_code == 1 and "allow_failures = true under [fit]" in result.output
    assert "too far (model_of_analysis.py, line 3)" in result.output
    assert fs.campaign_status(tmp_path / "runs" / "a" / "campaign").num_done == 100  # and not all 400
    path.write_text(path.read_text() + "[fit]\nallow_failures = true\n")
    assert call_cli("simulate", path).exit_code == 0


def test_no_campaign_begins_with_a_simulator_that_cannot_work(tmp_path, call_cli):
    path = prepare(tmp_path)
    for body, words in (("return theta", "has no noise"), ("return 1 / 0", "No trial run")):
        (tmp_path / "model_of_analysis.py").write_text(f"def draw(theta, rng):\n    {body}\n")
        result = call_cli("run", path)
        assert result.exit_code == 1 and words in result.output
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_the_page_says_what_is_missing(copied, call_cli):
    path = copied
    (path.parent / "runs" / "a" / "check.json").unlink()
    summary = json.loads(call_cli("report", path, "--json").stdout)
    assert summary["trusted"] is None and summary["reasons"] == ["The checks have not been run."]
    assert "Run: fisherscore check a.toml" in (path.parent / "runs" / "a" / "report.html").read_text()
    assert call_cli("report", path).exit_code == 0
