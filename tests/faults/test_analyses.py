"""An analysis is of one simulator and of one file: what either was before is not taken for what it is now."""

import json
import shutil

import pytest

FILE = """
out = "runs"
[simulator]
python = "model.py:draw"
[parameters]
a = [0.0, 1.0]
b = { range = [0.0, 1.0], unit = "s" }
[budget]
simulations = 300
test = 0
forecast = 300
[observation]
mock = { a = 0.4, b = 0.5 }
[sampler]
samples = 100
warmup = 100
chains = 2
"""
MODEL = """
import pathlib
NOISE = pathlib.Path(__file__).parent / "noise.txt"

def draw(theta, rng):
    return [theta[0], 3 * theta[1], theta.sum()] + float(NOISE.read_text()) * rng.normal(size=3)
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory, call_cli):
    folder = tmp_path_factory.mktemp("analysis")
    for name, text in (("a.toml", FILE), ("model.py", MODEL), ("noise.txt", "0.1")):
        (folder / name).write_text(text)
    for stage in ("simulate", "fit", "forecast"):
        assert call_cli(stage, folder / "a.toml").exit_code == 0
    return folder


@pytest.fixture
def folder(done, tmp_path):
    shutil.copytree(done, tmp_path / "copy")
    return tmp_path / "copy"


def edit(folder, old, new):
    text = (folder / "a.toml").read_text()
    assert old in text
    (folder / "a.toml").write_text(text.replace(old, new))


def test_a_forecast_is_not_simulated_with_what_the_simulator_has_become(folder, call_cli):
    (folder / "noise.txt").write_text("0.3")
    edit(folder, "[sampler]", "[forecast]\ntheta0 = { a = 0.5, b = 0.5 }\n[sampler]")
    result = call_cli("forecast", folder / "a.toml")
    assert result.exit_code == 1 and "was run again" in result.output
    edit(folder, "simulations = 300", "simulations = 300\nchecked = 0")  # the user knows better
    assert call_cli("forecast", folder / "a.toml").exit_code == 0


def test_an_observation_is_not_simulated_with_what_the_simulator_has_become(folder, call_cli):
    (folder / "noise.txt").write_text("0.3")
    edit(folder, "a = 0.4", "a = 0.41")
    result = call_cli("sample", folder / "a.toml")
    assert result.exit_code == 1 and "was run again" in result.output
    assert not list((folder / "runs").glob("posterior*"))


def test_a_model_of_simulations_that_were_replaced_is_fitted_anew(folder, call_cli):
    def sigma():
        return json.loads((folder / "runs" / "forecast.json").read_text())["result"]["sigma"][0]

    (folder / "noise.txt").write_text("0.3")
    shutil.rmtree(folder / "runs" / "campaign")
    before = sigma()
    for stage in ("simulate", "fit", "forecast"):
        assert "done already" not in call_cli(stage, folder / "a.toml").output
    assert sigma() > 2 * before


@pytest.mark.parametrize(("old", "new"), [("a = [0.0, 1.0]", "a = [0.0, 2.0]"), ('unit = "s"', 'unit = "ms"')])
def test_results_for_another_file_are_not_shown_as_if_they_were_for_this_one(folder, call_cli, old, new):
    assert "done already" in call_cli("forecast", folder / "a.toml").output
    edit(folder, old, new)
    for stage in ("forecast", "sample"):
        result = call_cli(stage, folder / "a.toml")
        assert result.exit_code == 1 and "another configuration" in result.output
    assert json.loads(call_cli("report", folder / "a.toml", "--json").stdout)["stages"] == {}


def test_a_mark_at_the_beginning_of_a_file_is_no_mistake(folder, call_cli):
    (folder / "a.toml").write_text("\ufeff" + (folder / "a.toml").read_text(), encoding="utf-8")
    assert "done already" in call_cli("forecast", folder / "a.toml").output
