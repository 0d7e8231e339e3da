"""Exported files: changed ones are refused, nothing outside them is read, and what they claim is checked first."""

import json
import os
import resource
import shutil
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

import fisherscore as fs
from fisherscore._support.documents import signed

OLD = Path(__file__).parents[1] / "fixtures" / "v0_1" / "exported.npz"
BOX = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))


def noise(theta, rng):
    if rng.uniform() < 0.1:
        raise ValueError("odd")
    return theta + rng.normal(size=2)


@pytest.fixture(scope="module")
def sims():
    return fs.simulate(fs.from_python(noise), BOX, 40)


@pytest.fixture
def file(sims, tmp_path):
    fs.export_simulations(sims, tmp_path / "s.npz")
    return tmp_path / "s.npz"


@pytest.fixture
def hdf5(sims, tmp_path):
    fs.export_simulations(sims, tmp_path / "s.h5")
    return tmp_path / "s.h5"


def edit(file, **changes):
    """Change arrays of a .npz file; None takes one away."""
    with np.load(file) as archive:
        arrays = {**archive, **changes}
    np.savez(file, **{name: array for name, array in arrays.items() if array is not None})


def forge(file, **changes):
    """Change entries of the description with its checksum."""
    with np.load(file) as archive:
        about = json.loads(str(archive["about"]))
    edit(file, about=np.array(json.dumps(signed(about | changes))))


def refused(file, match, **options):
    with pytest.raises(fs.ArgumentError, match=match):
        fs.import_simulations(file, **options)


# ---------------------------------------------------------------------- point 15


@pytest.mark.parametrize(
    "changes",
    [
        lambda s: {"x": np.roll(s.x, 1, axis=0)},
        lambda s: {"x": s.x.astype(np.float32)},
        lambda s: {"theta": s.theta[:, :1]},
        lambda s: {"theta": s.theta[:, ::-1]},
        lambda s: {"status": np.full(len(s), b"ok")},
        lambda s: {"weights": np.ones(len(s))},
        lambda s: {"latent": s.theta},
        lambda s: {"status": None},
    ],
)
def test_an_export_changed_by_hand_is_refused(file, sims, changes):
    """On 0.1.0 it is imported without a word."""
    edit(file, **changes(sims))
    refused(file, r"changed after it was exported.*from_table")
    edit(file, about=None, theta=sims.ok().theta, x=np.ones((len(sims.ok()), 2)))  # the way that is named
    assert len(fs.import_simulations(file, proposal=BOX)) == len(sims.ok())


def test_a_description_changed_by_hand_is_refused(file):
    with np.load(file) as archive:
        about = json.loads(str(archive["about"]))
    for changes in ({"origin": about["origin"] | {"seed": 7}}, {"version": 1}, {"checksum": None}, {"sha256": {}}):
        edit(file, about=np.array(json.dumps(about | changes)))
        refused(file, "changed after it was exported")
    for name in ("checksum", "version", "origin", "proposal", "sha256"):
        edit(file, about=np.array(json.dumps({k: v for k, v in about.items() if k != name})))
        refused(file, "changed after it was exported")


def test_an_hdf5_file_changed_by_hand_is_refused(hdf5, sims):
    with h5py.File(hdf5, "r+") as file:
        file["x"][3, 0] = 7.0
    refused(hdf5, "does not agree with its checksum")
    # Neither does it help to take away the block that holds the checksum.
    content = bytearray(hdf5.read_bytes())
    content[:512] = b"\0" * 512
    hdf5.write_bytes(content)
    refused(hdf5, "cannot be read|changed")


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_only_an_earlier_export_is_replaced(sims, tmp_path, suffix):
    target = tmp_path / f"data{suffix}"
    (tmp_path / f".data{suffix}").write_text("precious")
    for _ in range(2):
        fs.export_simulations(sims, target)
    target.write_text("precious")
    with pytest.raises(fs.ArgumentError, match="left alone"):
        fs.export_simulations(sims, target)
    np.savez(target.with_suffix(".npz"), theta=1.0)
    with pytest.raises(fs.ArgumentError, match="left alone"):
        fs.export_simulations(sims, target.with_suffix(".npz"))
    assert (tmp_path / f".data{suffix}").read_text() == "precious"


def test_an_export_of_version_0_1_is_replaced(sims, tmp_path):
    shutil.copyfile(OLD, tmp_path / "s.npz")
    fs.export_simulations(sims, tmp_path / "s.npz")
    assert len(fs.import_simulations(tmp_path / "s.npz")) == len(sims)


# ---------------------------------------------------------------------- point 17


def test_hdf5_reads_nothing_outside_the_file(tmp_path):
    """On 0.1.0 the bytes of any file that can be read come back as x."""
    secret = tmp_path / "secret"
    secret.write_bytes(np.arange(40.0).tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["x"] = np.arange(40.0).reshape(20, 2)

    def external_storage(file):
        file.create_dataset("x", (20, 2), "f8", external=[(str(secret), 0, 320)])

    def external_link(file):
        file["x"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "x")

    def soft_link(file):
        file["y"], file["x"] = np.ones((20, 2)), h5py.SoftLink("/y")

    def virtual(file):
        layout = h5py.VirtualLayout((20, 2), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (20, 2))
        file.create_virtual_dataset("x", layout)

    def group(file):
        file.create_group("x")

    def objects(file):
        file.create_dataset("x", (20, 2), h5py.string_dtype())

    def nothing_stored(file):
        file.create_dataset("x", (10**12, 2), "f8")

    def expands(file):
        file.create_dataset("x", (10**7, 20), "f8", chunks=(10**5, 20), compression="gzip")

    cases = (external_storage, external_link, soft_link, virtual, group, objects, nothing_stored, expands)
    for number, make in enumerate(cases):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            file["theta"] = np.full((20, 2), [0.5, 2.5])
            make(file)
        refused(path, "cannot be read", proposal=BOX)
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["theta"] = np.full((20, 2), [0.5, 2.5])
        file.create_dataset("x", data=np.ones((20, 2)), chunks=(5, 2), compression="gzip", shuffle=True)
    assert len(fs.import_simulations(tmp_path / "plain.h5", proposal=BOX)) == 20


# ---------------------------------------------------------------------- point 18


def archive(path, members, *, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)


def npy(shape, content=b"", dtype="<f8"):
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + content


def test_only_what_is_needed_is_read(tmp_path, sims):
    """On 0.1.0 a member nobody needs, which claims 40 GB, ends in a MemoryError."""
    theta, x = np.full((20, 2), [0.5, 2.5]), np.ones((20, 3))
    members = {"theta.npy": npy((20, 2), theta.tobytes()), "x.npy": npy((20, 3), x.tobytes())}
    huge = npy((5 * 10**9,))
    archive(tmp_path / "s.npz", members | {"notes.npy": huge, "readme.txt": b"hello"})
    np.testing.assert_array_equal(fs.import_simulations(tmp_path / "s.npz", proposal=BOX).x, x)
    for bad in (
        {"x.npy": huge},
        {"x.npy": npy((20, 10**30))},
        {"x.npy": npy((-20, 3), x.tobytes())},
        {"x.npy": npy((20, 3), x.tobytes() + b"more")},
        {"x.npy": npy("(" * 2_000)},
        {"x.npy": npy((20, 3), x.tobytes(), dtype="|O")},
        {"x.npy": npy((20, 3), x.tobytes(), dtype="<M8[s]")},
        {"x.npy": npy((20, 3), x.tobytes() * 2, dtype="<c16")},
        {"x.npy": npy((20,) + (1,) * 40, x.tobytes()[:160])},
        {"x.npy": b""},
        {"x.npy": b"\x93NUMPY\x03\x00"},
        {"about.npy": npy((), dtype="<U0")},
        {"about.npy": npy((), b"\xff" * 8, dtype="<U2")},
    ):
        archive(tmp_path / "bad.npz", members | bad)
        refused(tmp_path / "bad.npz", "cannot be read|is damaged", proposal=BOX)


def test_what_expands_a_thousandfold_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "s.npz", "w", zipfile.ZIP_DEFLATED) as file:
        with file.open("x.npy", "w") as member:
            member.write(npy((200 * 2**17, 1)))
            for _ in range(200):
                member.write(bytes(2**20))
        file.writestr("theta.npy", npy((20, 2), bytes(320)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(tmp_path / "s.npz", "claim to expand", proposal=BOX)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 2**10


# ---------------------------------------------------------------------- point 26


def test_nan_marked_ok_is_refused(file, tmp_path):
    """In files of version 0.1.0, which have no checksums; there it ends in "SVD did not converge"."""
    for name in ("x", "theta", "latent"):
        shutil.copyfile(OLD, tmp_path / "old.npz")
        with np.load(OLD) as arrays:
            changed, ok = arrays[name].copy(), int(np.argmax(arrays["status"] == b"ok"))
        changed[ok] = np.nan
        edit(tmp_path / "old.npz", **{name: changed})
        refused(tmp_path / "old.npz", rf"row {ok} is 'ok', and has NaN")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"status": np.full(30, b"fine")}, "a status is unknown"),
        ({"theta": np.ones((30, 1))}, "do not fit together|numbers of rows"),
        ({"x": np.ones((3, 1))}, "numbers of rows"),
        ({"about": np.array("[]")}, "does not say what it holds"),
        ({"about": np.array("1" * 5_000)}, "5,000 digits"),
        ({"about": np.array("[" * 100_000)}, "nested too deeply"),
        ({"about": np.array(["{}"])}, "no single text"),
    ],
)
def test_files_of_version_0_1_are_checked_as_far_as_they_can_be(tmp_path, changes, match):
    shutil.copyfile(OLD, tmp_path / "old.npz")
    edit(tmp_path / "old.npz", **changes)
    refused(tmp_path / "old.npz", match)


@pytest.mark.parametrize(
    "proposal",
    [
        None,
        {"names": ["a", "a"]},
        {"names": ["b", "a"], "units": []},
        {"low": [5.0, 5.0]},
        {"distributions": [{"name": "Normal", "loc": 0.0, "scale": -1.0}] * 2},
        {"distributions": [{"name": "Uniform", "low": 1.0, "high": 0.0}] * 2},
        {"distributions": [{"name": "Uniform", "low": "0", "high": 1.0}] * 2},
        {"distributions": [{"name": "Uniform", "nonsense": 1.0}] * 2},
        {"distributions": [{"name": ["Uniform"], "low": 0.0}] * 2},
        {"distributions": 3},
    ],
)
def test_a_forged_proposal_is_refused(file, sims, proposal):
    with np.load(file) as archive:
        known = json.loads(str(archive["about"]))["proposal"]
    forge(file, proposal=None if proposal is None else known | proposal)
    refused(file, "proposal: .*damaged|cannot be made anew|is damaged")


def test_masked_entries_of_tables_are_refused():
    theta, x = np.full((20, 2), [0.5, 2.5]), np.ma.masked_array(np.ones((20, 2)), fill_value=-999.0)
    x[3, 1] = np.ma.masked
    with pytest.raises(fs.ArgumentError, match=r"x: expected finite numbers, got nan at index \(3, 1\)"):
        fs.from_table(theta, x, BOX)


def test_a_file_is_never_half_written(sims, tmp_path, monkeypatch):
    def fails(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(fs.ArgumentError, match=r"cannot be written: .*No space"):
        fs.export_simulations(sims, tmp_path / "s.npz")
    assert not list(tmp_path.iterdir())
    for call in (lambda name: fs.export_simulations(sims, name), fs.import_simulations):
        with pytest.raises(fs.ArgumentError, match="can be no file: File name too long"):
            call(tmp_path / ("a" * 300 + ".npz"))
