"""Saved folders: nothing else is deleted, a kill loses nothing, and what was changed is not loaded."""

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.folders import arrays_of, rewrite

import fisherscore as fs

OLD = Path(__file__).parents[1] / "fixtures" / "v0_1"
X = np.linspace(-1.0, 1.0, 8)[None]


@pytest.fixture(scope="module")
def model():
    return fs.load(OLD / "model_gaussian")


@pytest.fixture(scope="module")
def other():
    return fs.load(OLD / "model_location_scale")


def scores(model):
    return np.asarray(model.score((model.low + model.high) / 2, X))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# ---------------------------------------------------------------------- point 1


def test_saving_over_a_model_keeps_everything_else_in_the_folder(model, other, tmp_path):
    """On 0.1.0 thesis.tex is gone."""
    model.save(tmp_path / "r")
    for precious in ("thesis.tex", "weights-of-the-apples.safetensors", ".hidden"):
        (tmp_path / "r" / precious).write_text("precious")
        with pytest.raises(fs.ModelFolderError, match="left alone"):
            other.save(tmp_path / "r")
        assert (tmp_path / "r" / precious).read_text() == "precious"
        np.testing.assert_array_equal(scores(fs.load(tmp_path / "r")), scores(model))
        (tmp_path / "r" / precious).unlink()
    other.save(tmp_path / "r")
    np.testing.assert_array_equal(scores(fs.load(tmp_path / "r")), scores(other))
    assert len(names(tmp_path / "r")) == 2


@pytest.mark.parametrize("content", ['{"layers": 3}', '{"schema": "keras"}', "", "[" * 100_000, "1" * 5_000])
def test_a_file_that_happens_to_be_called_model_json_is_left_alone(model, tmp_path, content):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "model.json").write_text(content)
    with pytest.raises(fs.ModelFolderError, match="left alone"):
        model.save(tmp_path / "r")
    assert (tmp_path / "r" / "model.json").read_text() == content and names(tmp_path / "r") == ["model.json"]


def test_a_model_of_version_0_1_is_replaced_whole(model, tmp_path):
    shutil.copytree(OLD / "model_mapped", tmp_path / "r")
    model.save(tmp_path / "r")
    assert len(names(tmp_path / "r")) == 2
    np.testing.assert_array_equal(scores(fs.load(tmp_path / "r")), scores(model))
    # Beside it, a file of the same name that is something else.
    (tmp_path / "r" / "provenance.json").write_text('{"wine": "1961"}')
    with pytest.raises(fs.ModelFolderError, match=r"provenance\.json, which was not written"):
        model.save(tmp_path / "r")


# ---------------------------------------------------------------------- point 12


class Killed(BaseException):
    pass


def killed_after(num_steps, monkeypatch):
    """End a process before a certain step of its work with files: from then on, nothing is done any more."""
    done = [0]

    def step(function):
        def one(*args, **kwargs):
            done[0] += 1
            if done[0] > num_steps:
                raise Killed
            return function(*args, **kwargs)

        return one

    for name in ("replace", "rename", "unlink", "rmdir", "mkdir", "fsync"):
        monkeypatch.setattr(os, name, step(getattr(os, name)))
    write = Path.write_bytes

    def half(path, content):
        write(path, content[: len(content) // 2])
        step(write)(path, content)

    monkeypatch.setattr(Path, "write_bytes", half)


@pytest.mark.parametrize("old", ["saved", "version 0.1", "nothing"])
def test_a_kill_at_any_moment_of_saving_leaves_a_model(model, other, old, tmp_path, monkeypatch):
    """On 0.1.0 a kill between two renames leaves nothing where the model was."""
    found = set()
    for num_steps in range(20):
        folder = tmp_path / str(num_steps) / "model"
        folder.parent.mkdir()
        if old == "saved":
            model.save(folder)
        elif old == "version 0.1":
            shutil.copytree(OLD / "model_gaussian", folder)
        with monkeypatch.context() as patch:
            killed_after(num_steps, patch)
            try:
                other.save(folder)
            except Killed:
                finished = False
            else:
                finished = True
        if old != "nothing" or (folder / "model.json").exists():
            now = scores(fs.load(folder))
            assert any(np.array_equal(now, scores(m)) for m in (model, other))
            found.add("new" if np.array_equal(now, scores(other)) else "old")
        assert names(folder.parent) in (["model"], [])
        other.save(folder)  # the next save works, and tidies up
        assert len(names(folder)) == 2
        np.testing.assert_array_equal(scores(fs.load(folder)), scores(other))
        if finished:
            break
    assert finished and found == ({"new"} if old == "nothing" else {"old", "new"})


def test_two_processes_save_one_after_the_other(model, tmp_path):
    import fcntl

    model.save(tmp_path / "r")
    handle = os.open(tmp_path / "r", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fisherscore._support.folder._SECONDS_TO_WAIT", 0.05)
        with pytest.raises(fs.ModelFolderError, match="another process is writing"):
            model.save(tmp_path / "r")
    os.close(handle)
    model.save(tmp_path / "r")


# ---------------------------------------------------------------------- point 7


def test_flipped_bits_are_never_loaded(model, tmp_path):
    """On 0.1.0 flipped weights give other scores."""
    model.save(tmp_path / "r")
    rng, refused = np.random.default_rng(0), 0
    for path in sorted((tmp_path / "r").iterdir()):
        clean = path.read_bytes()
        for _ in range(60):
            damaged = bytearray(clean)
            damaged[rng.integers(len(clean))] ^= 1 << int(rng.integers(8))
            path.write_bytes(bytes(damaged))
            try:
                loaded = fs.load(tmp_path / "r")
            except fs.ModelFolderError:
                refused += 1
            else:  # white space, for one, is not content
                np.testing.assert_array_equal(scores(loaded), scores(model))
                assert (loaded.names, loaded.provenance["data_sha256"]) == (
                    model.names,
                    model.provenance["data_sha256"],
                )
        path.write_bytes(clean)
    fs.load(tmp_path / "r")
    assert refused > 100


def test_swapped_names_and_swapped_weights_are_refused(model, other, tmp_path):
    model.save(tmp_path / "r")
    other.save(tmp_path / "s")
    text = (tmp_path / "r" / "model.json").read_text()
    swapped = json.loads(text) | {"names": list(model.names[::-1])}
    (tmp_path / "r" / "model.json").write_text(json.dumps(swapped))
    with pytest.raises(fs.ModelFolderError, match="does not agree with its checksum"):
        fs.load(tmp_path / "r")
    (tmp_path / "r" / "model.json").write_text(text)
    shutil.copyfile(arrays_of(tmp_path / "s"), arrays_of(tmp_path / "r"))
    with pytest.raises(fs.ModelFolderError, match=r"not a safetensors file of|checksum"):
        fs.load(tmp_path / "r")


@pytest.mark.parametrize(
    ("name", "value"),
    [("standardizer.theta_scale", 0.0), ("standardizer.score_scale", -1.0), ("region.low", 1e6)],
)
def test_numbers_no_fit_gives_are_refused_without_checksums_too(tmp_path, name, value):
    """Models of version 0.1.0 have no checksums; there they load and give NaN."""
    shutil.copytree(OLD / "model_gaussian", tmp_path / "r")
    arrays = load_file(arrays_of(tmp_path / "r"))
    save_file(arrays | {name: np.full_like(arrays[name], value)}, arrays_of(tmp_path / "r"))
    with pytest.raises(fs.ModelFolderError, match=f"{name}.*no fit can have given"):
        fs.load(tmp_path / "r")


# ---------------------------------------------------------------------- point 16


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"degree": 1_000_000}},
        {"settings": {"degree": 40}, "names": [f"p{i}" for i in range(60)], "units": [""] * 60},
        {"settings": {"degree": 2}, "names": [f"p{i}" for i in range(3_000)], "units": [""] * 3_000},
        {"architecture": "vector_field", "settings": {"hidden": [1_000_000] * 64}},
        {"architecture": "mixture_density", "settings": {"hidden": [1_000, 1_000], "num_components": 1_000_000}},
        {"architecture": "mapped", "settings": {"num_knots": 1_000_000, "inner": {}}},
        {"x_shape": [10**9] * 20},
        {"x_shape": [1] * 5_000},
    ],
)
def test_absurd_sizes_cost_nothing(model, tmp_path, changes):
    """On 0.1.0 loading takes for ever."""
    model.save(tmp_path / "r")
    rewrite(tmp_path / "r", **changes)
    started = time.perf_counter()
    with pytest.raises(fs.ModelFolderError):
        fs.load(tmp_path / "r")
    assert time.perf_counter() - started < 2.0


def test_functions_inside_each_other_are_counted(model, tmp_path):
    description = {"architecture": "gaussian_baseline", "settings": {"degree": 2}}
    for _ in range(2):
        description = {"architecture": "stack", "settings": {"members": [description] * 40}}
    model.save(tmp_path / "r")
    rewrite(tmp_path / "r", **description)
    with pytest.raises(fs.ModelFolderError, match=r"members|inside too many others"):
        fs.load(tmp_path / "r")


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"a":' * 50_000, '{"version": ' + "9" * 5_000 + "}", "[" + "[]," * 2_000_000 + "[]]", "\xff\xfe"],
)
def test_json_is_bounded(model, tmp_path, text):
    """Depth, digits and lists; on 0.1.0 a number of 5,000 digits raises an error of Python's own."""
    model.save(tmp_path / "r")
    (tmp_path / "r" / "model.json").write_text(text)
    with pytest.raises(fs.ModelFolderError, match="is not a JSON document"):
        fs.load(tmp_path / "r")
