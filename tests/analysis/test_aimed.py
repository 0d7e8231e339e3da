"""Analysis files whose simulations follow the observation: what their checks are about, with one mode and with two."""

import json

import numpy as np
import pytest

from fisherscore.analysis.aimed import AimedCampaign, checked
from fisherscore.analysis.campaigns import AnalysisCampaign
from fisherscore.analysis.configuration import read_configuration
from fisherscore.analysis.workspace import Workspace

pytestmark = pytest.mark.slow

MODEL = """
import numpy as np

def folded(theta, rng):
    return np.array([theta[0] ** 2, theta[1]]) + 0.3 * rng.standard_normal(2)
"""
FILE = """
[simulator]
python = "model_of_rounds_{name}.py:folded"
[parameters]
a = [{low}, 3.0]
b = [-3.0, 3.0]
[budget]
rounds = "auto"
simulations = 1200
test = 800
forecast = 0
posteriors = 120
[observation]
mock = {{ a = 2.0, b = 0.3 }}
[sampler]
samples = 300
warmup = 300
"""


@pytest.fixture(scope="module")
def analyses(tmp_path_factory, call_cli):
    """One analysis with two modes, and one whose range holds but one of them."""
    found = {}
    for name, low in (("two", -3.0), ("one", 0.5)):
        folder = tmp_path_factory.mktemp(name)
        (folder / f"model_of_rounds_{name}.py").write_text(MODEL)
        (folder / "a.toml").write_text(FILE.format(name=name, low=low))
        result = call_cli("run", folder / "a.toml")
        assert result.exit_code in (0, 3), result.output
        found[name] = folder / "a.toml"
    return found


def workspace_of(path):
    return Workspace(read_configuration(path), progress=False, say=lambda line: None)


def checks_of(path):
    return json.loads((path.parent / "runs" / "a" / "check.json").read_text())["result"]


def test_two_modes_are_checked_part_by_part_and_by_what_they_weigh(analyses):
    path = analyses["two"]
    parts, result = AimedCampaign(workspace_of(path)).parts, checks_of(path)
    assert sorted(np.sign(part.sample(50, seed=0)[:, 0].mean()) for part in parts) == [-1, 1]
    names = [check["name"] for check in result["checks"]]
    assert {"zero mean", "calibration", "coverage", "parts", "observation"} <= set(names)
    assert result["passed"] and result["num_simulations"] == 800
    assert "parts" in (path.parent / "runs" / "a" / "report.html").read_text().split("<h2>Checks")[1]
    inside = [campaign.simulations().theta[:, 0] for campaign in AnalysisCampaign.tests(workspace_of(path))]
    assert all((np.sign(theta) == np.sign(theta[0])).all() and len(theta) == 400 for theta in inside)


def test_what_is_checked_is_not_done_again(analyses, call_cli):
    assert "check: done already" in call_cli("run", analyses["two"]).output


def test_a_model_that_weighs_modes_wrongly_fails_the_checks_of_the_page(analyses, monkeypatch):
    workspace = workspace_of(analyses["two"])
    fresh = [campaign.simulations() for campaign in AnalysisCampaign.tests(workspace)]
    right = workspace.model()
    assert checked(workspace, fresh)["parts"].verdict != "FAIL"

    class Tilted(type(right)):
        def log_likelihood(self, theta, x):
            return right.log_likelihood(theta, x) + 2.0 * np.sign(np.asarray(theta)[..., 0])

    tilted = Tilted(**{name: getattr(right, name) for name in right.__dataclass_fields__})
    monkeypatch.setattr(Workspace, "model", lambda self: tilted)
    assert checked(workspace, fresh)["parts"].verdict == "FAIL"


def test_one_mode_is_checked_as_it_was(analyses):
    result = checks_of(analyses["one"])
    assert "parts" not in [check["name"] for check in result["checks"]] and result["passed"]
    assert (analyses["one"].parent / "runs" / "a" / "test").is_dir()
