"""External programs that crash, hang, babble or write nonsense: each failure is kept with its reason."""

import os
import signal
import stat
import sys
import time

import numpy as np
import pytest

import fisherscore as fs

pytestmark = pytest.mark.slow
BOX = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))

# One program whose behaviour is chosen by its first argument. It uses the seed it is given, so it can be repeated.
PROGRAM = """
import json, os, signal, subprocess, sys, time
import numpy as np
how, given, output = sys.argv[1:4]
with open(given) as file:
    document = json.load(file)
theta = np.array(list(document["theta"].values()))
x = theta + np.random.default_rng(document["seed"]).normal(size=2)
odd = document["seed"] % 20 == 0 or how.startswith("always-")
how = how.removeprefix("always-")
if odd and how == "exits":
    sys.exit("the mesh did not converge")
if odd and how == "segfaults":
    os.kill(os.getpid(), signal.SIGSEGV)
if odd and how == "hangs":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)  # MARK"])
    time.sleep(600)
if odd and how == "babbles":
    for _ in range(1000):
        sys.stdout.write("x" * 100_000)
    sys.exit("done babbling")
if odd and how == "nan":
    x[0] = np.nan
if odd and how == "infinite":
    x[0] = np.inf
if odd and how == "shape":
    x = np.zeros(3)
if odd and how == "objects":
    x = np.array([{"a": 1}, None], dtype=object)
if odd and how == "text":
    open(output, "w").write("1.0 2.0")
    sys.exit()
if odd and how == "nothing":
    sys.exit()
np.save(output, x)
"""

EXPECTED = {
    "exits": ("nonzero_exit", "the mesh did not converge"),
    "segfaults": ("signal", "SIGSEGV"),
    "babbles": ("nonzero_exit", "done babbling"),
    "nan": ("nonfinite", "NaN"),
    "infinite": ("nonfinite", "infinite"),
    "shape": ("bad_output", "shape (3,)"),
    "objects": ("bad_output", "no .npy array"),
    "text": ("bad_output", "no .npy array"),
    "nothing": ("bad_output", "wrote no file"),
}


def command(tmp_path, how, **settings):
    path = tmp_path / "sim.py"
    path.write_text(PROGRAM)
    return fs.from_command([sys.executable, str(path), how, "{input}", "{output}"], **settings)


def processes_with(mark):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("how", EXPECTED)
def test_a_failing_program_is_recorded_with_its_reason_and_words(tmp_path, how):
    status, words = EXPECTED[how]
    sims = fs.simulate(command(tmp_path, how), BOX, 24, seed=14, workers=2, out=tmp_path / "c")
    odd = [i for i in range(24) if sims.status[i] != "ok"]
    assert 0 < len(odd) < 15 and set(sims.status[odd]) == {status}
    assert all(words in sims.messages[i] for i in odd) and all(len(m) <= 2_000 for m in sims.messages.values())
    assert np.isfinite(sims.x[sims.status == "ok"]).all() and sims.x.shape == (24, 2)


def test_a_hanging_program_is_killed_with_its_children(tmp_path):
    mark = f"MARK{os.getpid()}"
    simulator = fs.from_command(
        [sys.executable, "-c", PROGRAM.replace("MARK", mark), "hangs", "{input}", "{output}"], timeout=2.0
    )
    sims = fs.simulate(simulator, BOX, 24, seed=14, workers=2)
    odd = sims.status != "ok"
    assert odd.any() and set(sims.status[odd]) == {"timeout"}
    time.sleep(0.2)
    assert not processes_with(mark)


def test_when_every_run_fails_it_stops_early_and_shows_the_programs_words(tmp_path):
    started = time.monotonic()
    with pytest.raises(fs.SimulationError, match="the mesh did not converge"):
        fs.simulate(command(tmp_path, "always-exits"), BOX, 100_000, out=tmp_path / "c", workers=2)
    assert time.monotonic() - started < 60
    assert fs.campaign_status(tmp_path / "c").num_done == 10


@pytest.mark.parametrize("name", ["two words", "it's", 'a "quote"', "; $(touch x)", "Ωₘ", "`id`", "../x", "{input}"])
def test_odd_parameter_names_reach_the_program_as_they_are(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = (
        "import json, sys, numpy as np; d = json.load(open(sys.argv[1]));"
        "assert list(d['theta']) == [sys.argv[3]]; np.save(sys.argv[2], [d['theta'][sys.argv[3]] + d['seed'] / 2**31])"
    )
    simulator = fs.from_command([sys.executable, "-c", program, "{input}", "{output}", name.replace("{input}", "{in}")])
    if name == "{input}":  # an argument that looks like a place is one; the name itself still travels in the file
        program = program.replace("sys.argv[3]", "'{in' + 'put}'")
        simulator = fs.from_command([sys.executable, "-c", program, "{input}", "{output}"])
    sims = fs.simulate(simulator, fs.uniform({name: (0.0, 1.0)}), 3, out=tmp_path / "campaign")
    assert (sims.status == "ok").all()
    assert fs.open_campaign(tmp_path / "campaign").proposal.names == (name,)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["campaign"]


def test_the_memory_of_a_program_can_be_limited(tmp_path):
    program = "import sys; block = bytearray(3 * 2**30)"
    simulator = fs.from_command([sys.executable, "-c", program, "{input}", "{output}"], memory=1.0)
    with pytest.raises(fs.SimulationError, match="MemoryError"):
        fs.simulate(simulator, BOX, 10)


def test_arrays_can_be_given_instead_of_json():
    program = "import sys, numpy as np; np.save(sys.argv[2], np.load(sys.argv[1]) + int(sys.argv[3]) * 0)"
    simulator = fs.from_command([sys.executable, "-c", program, "{input}", "{output}", "{seed}"], input_format="npy")
    sims = fs.simulate(simulator, BOX, 4)
    np.testing.assert_array_equal(sims.x, sims.theta)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("./sim {input} {output}", "a list of words"),
        (["true", "{input}"], "{output} among them"),
        (["no-such-program-anywhere", "{input}", "{output}"], "no program"),
    ],
)
def test_a_wrong_argument_list_is_refused(arguments, words):
    with pytest.raises(fs.ArgumentError, match=f"arguments.*{words}"):
        fs.from_command(arguments)


def test_a_script_in_another_language(tmp_path):
    """A shell script that writes the .npy format by hand: no Python on the simulator's side."""
    script = tmp_path / "sim.sh"
    script.write_text(SHELL)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    sims = fs.simulate(fs.from_command([str(script), "{input}", "{output}", "{seed}"]), fs.uniform(a=(0.0, 1.0)), 12)
    assert (sims.status == "ok").all(), sims.messages
    assert np.abs(sims.x - 100 * sims.theta).max() < 20 and len(np.unique(sims.x)) > 5


SHELL = r"""#!/bin/sh
# Counts how many of 100 throws fall below a, and writes the count as one byte.
a=$(sed 's/.*"a": *\([-0-9.e]*\).*/\1/' "$1")
value=$(awk -v a="$a" -v s="$3" 'BEGIN { srand(s); for (i = 0; i < 100; i++) n += rand() < a; printf "%d", n }')
header="{'descr': '|i1', 'fortran_order': False, 'shape': (1,), }"
while [ $(( (10 + ${#header} + 1) % 64 )) -ne 0 ]; do header="$header "; done
length=$(( ${#header} + 1 ))
{
  printf '\223NUMPY\001\000'
  printf "\\$(printf '%03o' "$length")\\000"
  printf '%s\n' "$header"
  printf "\\$(printf '%03o' "$value")"
} > "$2"
"""


def test_signals_are_named():
    from fisherscore.simulation.execution.run import signal_name

    assert signal_name(signal.SIGSEGV) == "SIGSEGV" and signal_name(9999) == "signal 9999"
