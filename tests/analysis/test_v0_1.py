"""The folder of an analysis run by version 0.1.0: it is taken as done, shown, and gone on with."""

import json
import shutil
from pathlib import Path

import pytest

import fisherscore as fs

OLD = Path(__file__).parents[1] / "fixtures" / "v0_1" / "analysis"


@pytest.fixture
def old(tmp_path):
    shutil.copytree(OLD, tmp_path / "old")
    return tmp_path / "old" / "analysis.toml"


def test_its_stages_are_done_and_its_results_are_shown(old, call_cli):
    result = call_cli("run", old)
    assert result.output.count("done already") == 4, result.output
    shown = json.loads(call_cli("report", old, "--json").stdout)
    for stage, document in shown["stages"].items():
        assert document == json.loads((OLD / "run" / f"{stage}.json").read_text())
    assert list(shown["stages"]) == ["fit", "forecast", "sample", "check"]
    assert "A decaying source" in (old.parent / "run" / "report.html").read_text()


def test_its_campaigns_are_gone_on_with_as_they_were_begun(old, call_cli):
    old.write_text(old.read_text().replace("simulations = 200", "simulations = 230"))
    assert call_cli("simulate", old).exit_code == 0
    longer, before = (fs.open_campaign(folder / "run" / "campaign") for folder in (old.parent, OLD))
    assert len(longer) == 230 and isinstance(longer.latent_model, fs.AdditiveLatent)
    assert (longer.x[:200] == before.x).all()
    # What depends on the simulations is no longer up to date.
    assert json.loads(call_cli("report", old, "--json").stdout)["stages"] == {}
