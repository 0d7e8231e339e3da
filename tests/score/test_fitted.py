"""Saving and loading: the same bits back, and typed errors for everything else."""

import pickle
import shutil

import numpy as np
import pytest
from tests.folders import arrays_of, rewrite, rewrite_arrays

import fisherscore as fs

PROBLEM = fs.problems.linear_gaussian()


@pytest.fixture(scope="module", params=["auto", "paper"])
def model(request):
    sims = fs.simulate(PROBLEM.simulator_from_latent, PROBLEM.proposal, 200, latent=PROBLEM.latent)
    recipe = fs.NetworkRecipe(num_steps=20)
    if request.param == "paper":
        recipe = fs.PaperRecipe(training=fs.Training(num_epochs=5, batch_size=None, held_out=0.0, patience=None))
    return fs.fit(sims, recipe=recipe)


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "model")
    return tmp_path / "model"


THETA, X = PROBLEM.proposal.sample(50), PROBLEM.simulator.draw(PROBLEM.proposal.sample(50))


def test_scores_are_the_same_to_the_last_bit(model, folder):
    again = fs.load(folder)
    np.testing.assert_array_equal(again.score(THETA, X), model.score(THETA, X))
    assert (again.names, again.units, again.x_shape) == (model.names, model.units, model.x_shape)
    np.testing.assert_array_equal(again.low, model.low)
    assert again.provenance["data_sha256"] == model.provenance["data_sha256"]
    assert again.provenance["versions"]["fisherscore"] == fs.__version__
    assert len(again.provenance["loss"]) == len(model.provenance["loss"])
    if model.has_density:
        np.testing.assert_array_equal(again.log_likelihood(THETA, X), model.log_likelihood(THETA, X))


def test_saving_twice_replaces_and_strangers_folders_are_left_alone(model, folder, tmp_path):
    model.save(folder)
    fs.load(folder)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(fs.ModelFolderError, match="left alone"):
        model.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", "model"]


def test_nothing_in_the_folder_is_a_pickle(folder):
    for path in folder.iterdir():
        with pytest.raises((pickle.UnpicklingError, ValueError, EOFError, KeyError, IndexError)):
            pickle.loads(path.read_bytes())  # noqa: S301


def truncate(path, keep=0.5):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])


def evil_pickle(folder):
    class Evil:
        def __reduce__(self):
            return (open, (str(folder / "owned"), "w"))

    arrays_of(folder).write_bytes(pickle.dumps(Evil()))


def symlink(folder):
    shutil.move(folder / "model.json", folder / "real.json")
    (folder / "model.json").symlink_to("real.json")


def poison(folder):
    def change(arrays):
        name = next(n for n in sorted(arrays) if n.startswith("network"))
        return arrays | {name: np.full_like(arrays[name], np.nan)}

    rewrite_arrays(folder, change)


def replaced(name, value):
    """Put another value everywhere into the array of a name."""
    return lambda folder: rewrite_arrays(folder, lambda arrays: arrays | {name: np.full_like(arrays[name], value)})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model.json").unlink(), "expected the file model.json"),
        (lambda f: arrays_of(f).unlink(), "expected the file weights-"),
        (lambda f: truncate(f / "model.json"), "not a JSON document"),
        (lambda f: truncate(arrays_of(f)), "not a safetensors file"),
        (lambda f: truncate(arrays_of(f), 0), "cannot be laid out|names, units or x_shape"),
        (lambda f: arrays_of(f).write_bytes(b"\xff" * 64), "not a safetensors file|cannot be laid out"),
        (lambda f: (f / "model.json").write_text("[]"), "was not written by fisherscore"),
        (lambda f: (f / "model.json").write_text("[" * 100_000), "not a JSON document|not written"),
        (lambda f: (f / "model.json").write_text(" " * 17 * 2**20), "settings file of fisherscore is small"),
        (lambda f: rewrite(f, version=99), "format version 99"),
        (lambda f: rewrite(f, architecture="os.system"), "unknown architecture 'os.system'"),
        (lambda f: rewrite(f, architecture=["vector_field"]), "unknown architecture"),
        (lambda f: rewrite(f, settings={"hidden": [10**9]}), "settings are missing or damaged|asks for"),
        (lambda f: rewrite(f, settings={"hidden": [999_999, 999_999], "num_features": 1}), "asks for"),
        (lambda f: rewrite(f, settings={"nonsense": 3}), "cannot be laid out"),
        (
            lambda f: rewrite(f, settings={"hidden": [65, 64], "num_features": 16}),
            "cannot be laid out|expected|holds|call for",
        ),
        (lambda f: rewrite(f, names=["a"]), "names, units or x_shape"),
        (lambda f: rewrite(f, x_shape=[-1]), "names, units or x_shape"),
        (lambda f: rewrite(f, x_shape=[3]), "has shape|call for"),
        (lambda f: rewrite(f, names=["a", "a"]), "names, units or x_shape"),
        (lambda f: rewrite(f, provenance={"weights": 3}), "says of the fit is damaged"),
        (lambda f: rewrite(f, version=1), "version 1, which it is not"),
        (lambda f: rewrite(f, arrays_sha256="../../etc/passwd"), "'arrays_sha256' is missing or damaged"),
        (poison, "NaN or infinite"),
        (replaced("standardizer.x_scale", 0.0), "no fit can have given"),
        (replaced("region.low", 1e9), "no fit can have given"),
        (evil_pickle, "not a safetensors file|cannot be laid out"),
        (symlink, "expected the file model.json"),
    ],
)
def test_damaged_foreign_and_hostile_folders(folder, damage, message):
    damage(folder)
    with pytest.raises(fs.ModelFolderError, match=message):
        fs.load(folder)
    assert not (folder / "owned").exists()


def test_a_file_and_a_number_are_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(fs.ModelFolderError):
        fs.load(tmp_path / "file")
    with pytest.raises(fs.ArgumentError, match="path: expected a folder"):
        fs.load(3)
