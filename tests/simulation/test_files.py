"""Simulations to and from files, the preflight, and the commands around campaigns."""

import json
import sys

import numpy as np
import pytest

import fisherscore as fs

BOX = fs.uniform({"a": (0.0, 1.0), "b": (2.0, 3.0)}, units={"b": "km/s"})
PROGRAM = (
    "import json, sys, numpy as np; d = json.load(open(sys.argv[1]));"
    "np.save(sys.argv[2], [sum(d['theta'].values()) + np.random.default_rng(d['seed']).normal()])"
)


def sometimes(theta, rng):
    if rng.uniform() < 0.1:
        raise ValueError("odd")
    return theta + rng.normal(size=2)


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".hdf5"])
@pytest.mark.parametrize("latent", [None, "additive", fs.GaussianLatent([0.1, 0.1])], ids=["none", "additive", "own"])
def test_what_is_exported_comes_back(tmp_path, suffix, latent):
    sims = fs.simulate(fs.from_python(sometimes), BOX, 50, latent=latent)
    fs.export_simulations(sims, tmp_path / f"s{suffix}")
    back = fs.import_simulations(tmp_path / f"s{suffix}")
    for name in ("theta", "x", "status"):
        np.testing.assert_array_equal(getattr(back, name), getattr(sims, name))
    assert back.messages == sims.messages and back.origin == sims.origin
    assert type(back.latent_model) is type(sims.latent_model)
    assert back.proposal.names == BOX.names and back.proposal.units == BOX.units
    if latent is None:
        assert back.latent is None and sims.latent is None
    else:
        np.testing.assert_array_equal(back.latent, sims.latent)
        np.testing.assert_allclose(back.latent_score(), sims.latent_score())
    assert [p.name for p in tmp_path.iterdir()] == [f"s{suffix}"]


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(fs.ArgumentError, match="ending in"):
        fs.import_simulations(tmp_path / "s.csv")
    with pytest.raises(fs.ArgumentError, match="there is no file"):
        fs.import_simulations(tmp_path / "s.npz")
    (tmp_path / "s.npz").write_bytes(b"nonsense")
    with pytest.raises(fs.ArgumentError, match="cannot be read"):
        fs.import_simulations(tmp_path / "s.npz")
    np.savez(tmp_path / "s.npz", theta=np.array([object()]), x=np.zeros(1))
    with pytest.raises(fs.ArgumentError, match="cannot be read"):
        fs.import_simulations(tmp_path / "s.npz")
    np.savez(tmp_path / "s.npz", theta=np.zeros((3, 2)), x=np.zeros((3, 1)))
    with pytest.raises(fs.ArgumentError, match="Pass a proposal"):
        fs.import_simulations(tmp_path / "s.npz")


def test_the_preflight_finds_what_is_wrong():
    assert not fs.check_simulator(fs.from_python(lambda t, rng: t + rng.normal(size=2)), BOX).problems
    bad = {
        "same seed gives different data": lambda t, rng: t + np.random.default_rng().normal(size=2),
        "two seeds at the same parameters": lambda t, rng: t,
        "a run failed": lambda t, rng: t / None,
        "x changes its shape": lambda t, rng: rng.normal(size=rng.integers(1, 9)),
    }
    for words, function in bad.items():
        problems = fs.check_simulator(fs.from_python(function), BOX, num_runs=8).problems
        assert any(words in p for p in problems), (words, problems)


@pytest.mark.slow
def test_the_commands_around_a_campaign(tmp_path, call_cli):
    command = [sys.executable, "-c", PROGRAM, "{input}", "{output}"]
    found = call_cli("check-simulator", "-p", "a=0:1", "-p", "b=2:3", "--num-simulations", "5000", "--", *command)
    assert found.exit_code == 0 and "fit for a campaign" in found.output and "5,000 simulations" in found.output
    as_json = call_cli("check-simulator", "--json", "-p", "a=0:1", "--", *command)
    assert json.loads(as_json.output)["x_shape"] == [1]
    silent = [sys.executable, "-c", "pass", "{input}", "{output}"]
    assert call_cli("check-simulator", "-p", "a=0:1", "--", *silent).exit_code == 3
    assert "expected name=low:high" in call_cli("check-simulator", "-p", "a", "--", *command).stderr

    for k in "12":
        options = ["-p", "a=0:1", "-p", "b=2:3", "--num-simulations", "12", "--out", tmp_path / k]
        done = call_cli("simulate", *options, "--shard", f"{k}/2", "--workers", "2", "--", *command)
        assert done.exit_code == 0 and "finished, 6 of 6" in done.output
    whole = fs.simulate(fs.from_command(command), BOX, 12)
    assert "12 simulations" in call_cli("merge", tmp_path / "all", tmp_path / "1", tmp_path / "2").output
    assert "finished, 12 of 12" in call_cli("status", tmp_path / "all").output
    assert json.loads(call_cli("status", "--json", tmp_path / "1").output)["counts"] == {"ok": 6}
    assert "finished, 6 of 6" in call_cli("status", tmp_path / "1").output
    assert call_cli("export", tmp_path / "all", tmp_path / "all.h5").exit_code == 0
    np.testing.assert_array_equal(fs.import_simulations(tmp_path / "all.h5").x, whole.x)
    missing = call_cli("status", tmp_path)
    assert missing.exit_code == 1 and "expected a campaign's folder" in missing.stderr
