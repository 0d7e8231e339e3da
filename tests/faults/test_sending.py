"""Simulators as people write them reach worker processes, or the error names the global that cannot travel."""

import importlib.util
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import fisherscore as fs

BOX = fs.uniform(a=(0.0, 1.0))
# A package that puts an object of its own in the place of its module, as some do to warn of old names.
FACADE = """
import sys

class Facade:
    def __init__(self, module):
        self.module = module

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "module"), name)

    def __reduce__(self):
        raise TypeError("cannot pickle 'Facade' object")

def double(x):
    return 2 * x

sys.modules[__name__] = Facade(sys.modules[__name__])
"""
SCRIPT = """
import threading
import facade
import fisherscore as fs

LOCK = threading.Lock()
SCALE = 1.0

def helper(theta):
    with LOCK:
        return SCALE * theta

def simulator(theta, rng):
    return facade.double(FUNCTION(theta)) + 0 * rng.normal(size=1)

def main():
    global SCALE
    SCALE = 5.0
    try:
        sims = fs.simulate(fs.from_python(simulator), fs.uniform(a=(0.0, 1.0)), 12, workers=2)
        print((sims.x / sims.theta).ravel().tolist())
    except fs.SimulationError as error:
        print(error)

CALL
"""
GUARDED = 'if __name__ == "__main__":\n    main()'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "call", "expected"),
    [
        ("float", "main()", "[2.0, 2.0"),  # a module in disguise goes by name
        ("helper", GUARDED, "[10.0, 10.0"),  # a lock is made anew, all else is as it is when the campaign begins
        ("helper", "main()", "it uses 'LOCK', of type lock, which it reaches through helper"),
    ],
)
def test_a_script_with_what_cannot_be_pickled(tmp_path, function, call, expected):
    (tmp_path / "facade.py").write_text(FACADE)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("FUNCTION(theta)", f"{function}(theta[0])").replace("CALL", call))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert expected in done.stdout


def loaded(tmp_path, source, module="__main__"):
    """Define a simulator as if it stood in a file."""
    path = tmp_path / "user_file.py"
    path.write_text(source)
    names = {"__name__": module, "__file__": str(path)}
    exec(compile(source, path, "exec"), names)
    return fs.from_python(names["simulator"])


class Disguise:
    def __reduce__(self):
        raise TypeError("cannot be pickled")

    def __getattr__(self, name):
        return 42.0


def test_what_stands_for_a_module_goes_by_name(monkeypatch):
    from fisherscore.simulation.execution.sending import pickled

    disguise = Disguise()

    def simulator(theta, rng):
        return [disguise.anything]

    with pytest.raises(fs.SimulationError, match="it uses 'disguise', of type Disguise"):
        pickled(simulator, "simulator")
    monkeypatch.setitem(sys.modules, "a_package", disguise)
    assert pickle.loads(pickled(simulator, "simulator"))(None, None) == [42.0]  # noqa: S301  our own


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "import threading\nL = threading.Lock()\ndef simulator(t, r):\n    return bool(L)",
            "it uses 'L', of type lock",
        ),
        (
            "import threading\nclass A:\n    def __init__(self):\n        self.held = threading.Lock()\nTOOLS = [A()]\n"
            "def inner():\n    return TOOLS\ndef simulator(t, r):\n    return inner()",
            r"it uses 'held', of type lock, which it reaches through inner → TOOLS → \[0\]",
        ),
    ],
)
def test_the_global_that_cannot_travel_is_named(tmp_path, source, words):
    with pytest.raises(fs.SimulationError, match=words):
        fs.simulate(loaded(tmp_path, source), BOX, 10, workers=2)


def test_what_a_function_encloses_is_named():
    lock = threading.Lock()
    with pytest.raises(fs.SimulationError, match="it uses 'lock', of type lock"):
        fs.simulate(fs.from_python(lambda theta, rng: [bool(lock)]), BOX, 10, workers=2)


def test_a_trial_tries_what_workers_will_do():
    lock = threading.Lock()

    def simulator(theta, rng):
        with lock:
            return theta + rng.normal(size=1)

    check = fs.check_simulator(fs.from_python(simulator), BOX)
    assert any("lock" in problem and "workers" in problem for problem in check.problems)
    assert not fs.check_simulator(fs.from_python(lambda theta, rng: theta + rng.normal(size=1)), BOX).problems


MODULE = """
SCALE, TABLE, calls = 1.0, [1.0], 0

def helper(theta):
    global calls
    calls += 1
    return SCALE * theta * TABLE[0]

def simulator(theta, rng):
    return helper(theta) + rng.normal(size=1)
"""


@pytest.fixture
def users_module(tmp_path, monkeypatch):
    (tmp_path / "a_users_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("a_users_module")
    del sys.modules["a_users_module"]


def test_globals_a_script_has_set_reach_the_workers(users_module):
    from fisherscore.simulation.execution.plain_globals import plain_globals

    users_module.SCALE = 2.0
    simulator = fs.from_python(users_module.simulator)
    here = fs.simulate(simulator, BOX, 3)
    np.testing.assert_array_equal(fs.simulate(simulator, BOX, 3, workers=1).x, here.x)
    assert plain_globals(users_module.simulator) == [("a_users_module", "SCALE", 2.0)]


def test_a_trial_sees_that_workers_give_other_data(users_module):
    simulator = fs.from_python(users_module.simulator)
    assert not fs.check_simulator(simulator, BOX).problems
    users_module.TABLE[0] = 2.0
    (problem,) = fs.check_simulator(simulator, BOX).problems
    assert "a worker gives other data for the same seed" in problem


def test_a_file_loaded_by_its_path_reaches_the_workers(tmp_path, monkeypatch):
    """No name leads to it in a worker, and it holds a lock and a value that was set afterwards."""
    path = tmp_path / "a_file_somewhere.py"
    path.write_text(
        "import threading\nLOCK, SCALE = threading.Lock(), 1.0\n"
        "def simulator(theta, rng):\n    with LOCK:\n        return SCALE * theta\n"
    )
    spec = importlib.util.spec_from_file_location("a_name_of_its_own", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    spec.loader.exec_module(module)
    module.SCALE = 3.0
    sims = fs.simulate(fs.from_python(module.simulator), BOX, 3, workers=1)
    np.testing.assert_array_equal(sims.x, 3.0 * sims.theta)
