"""Compiled functions kept in a folder: used by the next process, bounded, and never in the way."""

import os
import shutil
import subprocess
import sys
import time
import warnings
import zlib
from pathlib import Path

import jax
import pytest

import fisherscore as fs
from fisherscore._support import compilation_cache
from fisherscore._support.compilation_cache import tidy

# Compiles some functions and prints how many were read from a cache and how many were written to it.
PROGRAM = """
import sys, jax, jax.numpy as jnp, fisherscore as fs
counts = {"cache_hits": 0, "cache_misses": 0}
def count(event, **_):
    name = event.split("/")[-1]
    counts[name] = counts.get(name, 0) + 1
jax.monitoring.register_event_listener(count)
folder = fs.use_compilation_cache(sys.argv[1] or None, max_gigabytes=float(sys.argv[2]))
for power in range(1, 6):
    value = jax.jit(lambda x: jnp.sin(x) ** power + x @ x.T)(jnp.eye(3))
    assert abs(float(value[0, 0]) - (jnp.sin(1.0) ** power + 1.0)) < 1e-5
print(folder, counts["cache_hits"], counts["cache_misses"])
"""


def environment(**more):
    """Return an environment in which nothing says where compiled functions are kept."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XDG_", "FISHERSCORE_"))}
    return kept | {"PYTHONPATH": os.pathsep.join(sys.path), **more}


def start(folder, max_gigabytes=1.0, **more):
    """Start a process that compiles."""
    command = [sys.executable, "-W", "always", "-c", PROGRAM, str(folder), str(max_gigabytes)]
    return subprocess.Popen(command, env=environment(**more), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process):
    """Return where it kept compiled functions, how many it found there and how many it added, and its warnings."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    folder, hits, misses = out.split()
    return folder, int(hits), int(misses), err


def entries(folder):
    return sorted(Path(folder).rglob("*-cache"))


@pytest.fixture
def untouched():
    """Let a test choose a folder in this process, and give back what JAX was told before."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache._tidied_at_exit.clear()


def test_the_second_process_compiles_nothing(tmp_path):
    folder, hits, misses, err = finish(start(tmp_path / "new"))
    assert misses >= 6 and not err
    again = finish(start(tmp_path / "new"))
    assert again == (folder, hits + misses, 0, "")
    assert Path(folder).parent == tmp_path / "new" and "jaxlib" in folder
    # A control: elsewhere nothing is found.
    assert finish(start(tmp_path / "other"))[1:3] == (hits, misses)


@pytest.mark.slow
def test_four_processes_at_once_share_a_folder(tmp_path):
    processes = [start(tmp_path) for _ in range(4)]
    results = [finish(process) for process in processes]
    total = {hits + misses for _, hits, misses, _ in results}
    assert len(total) == 1
    assert finish(start(tmp_path))[1:] == (total.pop(), 0, "")


@pytest.mark.slow
def test_garbage_in_the_folder_is_a_warning_at_most_and_is_gone_after_a_while(tmp_path):
    folder, hits, misses, _ = finish(start(tmp_path))
    for path in entries(folder):
        path.write_bytes(b"x" * 1000)
    _, found, _, err = finish(start(tmp_path))
    assert found == 0 and "Error reading persistent compilation cache" in err and "Traceback" not in err
    past = time.time() - 3600
    for path in entries(folder):
        os.utime(path, (past, past))
    (tmp_path / compilation_cache._STAMP).unlink()
    assert finish(start(tmp_path))[1:] == (hits, misses, "")


@pytest.mark.slow
def test_the_folder_stays_below_its_bound(tmp_path):
    folder, *_ = finish(start(tmp_path))
    size = sum(path.stat().st_size for path in entries(folder))
    finish(start(tmp_path, max_gigabytes=size / 2 / 1e9))
    left = entries(folder)
    assert left and sum(path.stat().st_size for path in left) <= size / 2


@pytest.mark.slow
@pytest.mark.parametrize("place", ["file", "below a file", "nobody's"])
def test_a_place_that_cannot_be_written_is_a_warning(tmp_path, place):
    (tmp_path / "file").write_text("not a folder")
    path = {"file": tmp_path / "file", "below a file": tmp_path / "file" / "in", "nobody's": "/proc/nowhere"}[place]
    folder, hits, misses, err = finish(start(path))
    assert (folder, hits, misses) == ("None", 0, 0)
    assert err.count("FisherScoreWarning") == 1 and "not kept" in err


@pytest.mark.slow
def test_the_default_folder_follows_the_environment(tmp_path):
    folder, _, misses, _ = finish(start("", XDG_CACHE_HOME=str(tmp_path)))
    assert folder.startswith(str(tmp_path / "fisherscore")) and misses
    assert finish(start("", FISHERSCORE_COMPILATION_CACHE="off"))[:3] == ("None", 0, 0)
    assert finish(start(tmp_path / "x", FISHERSCORE_COMPILATION_CACHE="off"))[0] == "None"
    assert finish(start("", FISHERSCORE_COMPILATION_CACHE=str(tmp_path / "a")))[0].startswith(str(tmp_path / "a"))
    own = tmp_path / "own"
    folder, _, misses, _ = finish(start("", max_gigabytes=1e-9, JAX_COMPILATION_CACHE_DIR=str(own)))
    assert folder == str(own) and len(entries(own)) == misses > 0  # not tidied, whatever the bound


@pytest.mark.slow
def test_the_command_line_keeps_what_it_compiles(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import jax\n\n\ndef noisy(key, theta):\n    return theta + jax.random.normal(key, (2,))\n"
    )
    (tmp_path / "a.toml").write_text(
        '[simulator]\njax = "mine.py:noisy"\nshape = 2\n\n[parameters]\na = [0.0, 1.0]\n\n[budget]\nsimulations = 100\n'
    )
    kept, other = tmp_path / "kept", tmp_path / "other"
    command = [sys.executable, "-m", "fisherscore.cli", "simulate", str(tmp_path / "a.toml")]
    subprocess.run(command, env=environment(XDG_CACHE_HOME=str(kept)), stdout=subprocess.DEVNULL, check=False)
    assert entries(kept)
    shutil.rmtree(tmp_path / "runs")
    settings = environment(XDG_CACHE_HOME=str(other), FISHERSCORE_COMPILATION_CACHE="off")
    subprocess.run(command, env=settings, stdout=subprocess.DEVNULL, check=False)
    assert not other.exists()


def test_a_folder_that_can_only_be_read_is_read(tmp_path, untouched, monkeypatch):
    monkeypatch.setattr(compilation_cache, "_is_writable", lambda folder: False)
    with pytest.warns(fs.FisherScoreWarning, match="cannot be written"):
        folder = fs.use_compilation_cache(tmp_path)
    assert jax.config.jax_compilation_cache_dir == str(folder)
    assert jax.config.jax_persistent_cache_min_compile_time_secs > 1e6
    assert not (tmp_path / compilation_cache._STAMP).exists()


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "much"])
def test_a_bound_that_is_none_is_refused(value):
    with pytest.raises(fs.ArgumentError, match="max_gigabytes"):
        fs.use_compilation_cache(max_gigabytes=value)


def test_in_use_is_told_to_workers_only_where_it_was_chosen_here(tmp_path, untouched):
    assert compilation_cache.folder_in_use() is None  # what the tests use was chosen by an environment variable
    folder = fs.use_compilation_cache(tmp_path)
    assert compilation_cache.folder_in_use() == folder


def written(folder, name, *, age, size=1000, damaged=False):
    """Write an entry of some age, in seconds."""
    data = zlib.compress(os.urandom(size))
    path = folder / f"{name}-cache"
    path.write_bytes(data[: len(data) // 2] if damaged else data)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


@pytest.fixture
def machine(tmp_path):
    folder = tmp_path / "jaxlib-1.2.3-some"
    folder.mkdir()
    return folder


def test_tidying_removes_what_was_not_used_for_longest(machine):
    old, new, newest = (written(machine, name, age=age) for name, age in (("b", 3000), ("a", 2000), ("c", 1000)))
    foreign = machine.parent / "mine-cache"
    foreign.write_bytes(b"x" * 5000)
    tidy(machine.parent, max_bytes=2 * new.stat().st_size + 50)
    assert not old.exists() and new.exists() and newest.exists()
    tidy(machine.parent, max_bytes=1)
    assert not entries(machine) and foreign.exists()  # only what is in folders of our own is removed


def test_tidying_removes_what_was_not_written_to_its_end_but_not_what_is_being_written(machine):
    good, half = written(machine, "good", age=300), written(machine, "half", age=300, damaged=True)
    being_written = written(machine, "young", age=1, damaged=True)
    tidy(machine.parent, max_bytes=10**9)
    assert good.exists() and not half.exists() and being_written.exists()
    os.utime(being_written, (time.time() - 59, time.time() - 59))
    tidy(machine.parent, max_bytes=10**9)
    assert being_written.exists()


def test_tidying_a_folder_that_is_gone_does_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tidy(tmp_path / "gone", max_bytes=1)
