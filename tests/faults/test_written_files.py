"""Every file that is written is written whole or not at all, and what an analysis reads back is checked."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest

import fisherscore as fs
from fisherscore._support.versions import write_json
from fisherscore._support.whole_file import write_whole
from fisherscore.analysis.configuration import read_configuration
from fisherscore.analysis.page import Page
from fisherscore.analysis.workspace import Workspace

FILE = """
[simulator]
python = "toy.py:draw"
[parameters]
a = [0.0, 1.0]
[budget]
simulations = 100
[observation]
mock = { a = 0.5 }
"""


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "toy.py").write_text("def draw(theta, rng):\n    return theta + rng.normal(size=3)\n")
    (tmp_path / "a.toml").write_text(FILE)
    return Workspace(read_configuration(tmp_path / "a.toml"))


class Full(Exception):
    pass


def no_more_space(*_):
    raise Full


def test_nothing_is_written_by_halves(tmp_path, monkeypatch):
    figure = plt.figure()
    writers = {
        "a.json": lambda path: write_json({"a": 1}, path),
        "a.html": lambda path: Page("title").write(path),
        "a.png": lambda path: fs.plot.save_figure(figure.add_subplot(), path),
        "a.txt": lambda path: write_whole(path, "text"),
    }
    for name, write in writers.items():
        write(tmp_path / name)
        before = (tmp_path / name).read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", no_more_space)
            with pytest.raises(Full):
                write(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before and before
    plt.close(figure)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(writers)


def test_a_mock_observation_is_kept_whole(workspace, monkeypatch):
    """On 0.1.0 a file of no bytes is left by a kill, and "Aborted." is all that is said ever after."""
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", no_more_space)
        with pytest.raises(Full):
            workspace.observation()
    assert not list(workspace.out.iterdir())
    x = workspace.observation()
    np.testing.assert_array_equal(workspace.observation(), x)
    (file,) = workspace.out.glob("mock-*.npy")
    clean = file.read_bytes()
    for damaged in (b"", clean[:-1], clean[:-8] + np.float64(7.0).tobytes(), b"PK\x03\x04"):
        file.write_bytes(damaged)
        with pytest.raises(fs.ConfigurationError, match="Delete it: the same observation"):
            workspace.observation()
    file.unlink()
    np.testing.assert_array_equal(workspace.observation(), x)


def test_a_mock_observation_of_version_0_1_is_used_or_refused(workspace):
    name = f"mock-{workspace.observation_key()[:12]}.npy"
    workspace.out.mkdir(parents=True)
    np.save(workspace.out / name, [1.0, 2.0, 3.0])
    assert workspace.observation().tolist() == [1.0, 2.0, 3.0]
    (workspace.out / name).write_bytes(b"")
    with pytest.raises(fs.ConfigurationError, match="Delete it"):
        workspace.observation()


def test_documents_of_stages_are_checked(workspace):
    workspace.out.mkdir(parents=True)
    workspace.write("fit", key="k", result={"estimated_error": 0.125})
    assert workspace.read("fit")["result"] == {"estimated_error": 0.125}
    path = workspace.out / "fit.json"
    text = path.read_text()
    document = json.loads(text)
    for damaged in (
        text.replace("0.125", "0.25"),
        text[:-20],
        "",
        json.dumps({k: v for k, v in document.items() if k != "checksum"}),
        json.dumps(document | {"version": 1}),
        text.replace("0.125", "9" * 5_000),
        "[" * 100_000,
    ):
        path.write_text(damaged)
        with pytest.raises(fs.ConfigurationError, match="First run: fisherscore fit"):
            workspace.read("fit")
    workspace.write("check", key="k", result={})
    path.write_text('{"mine": 1}')
    with pytest.raises(fs.ConfigurationError, match="left alone"):
        workspace.write("fit", key="k", result={})
    assert path.read_text() == '{"mine": 1}'


def test_a_new_analysis_replaces_nothing_of_somebody_elses(workspace, call_cli):
    workspace.out.mkdir(parents=True)
    (workspace.out / "report.html").write_text("precious")
    refused = call_cli("simulate", workspace.configuration.document.path)
    assert refused.exit_code == 1 and "report.html from elsewhere" in refused.stderr
    assert [path.name for path in workspace.out.iterdir()] == ["report.html"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00\x76\x00" + b"(" * 118])
def test_an_observation_in_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "toy.py").write_text("def draw(theta, rng):\n    return theta\n")
    (tmp_path / "x.npy").write_bytes(content)
    (tmp_path / "a.toml").write_text(FILE.replace("mock = { a = 0.5 }", 'file = "x.npy"'))
    with pytest.raises(fs.ConfigurationError, match=r"expected numbers in a \.npy"):
        read_configuration(tmp_path / "a.toml")
