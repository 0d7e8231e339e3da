"""Which engine runs a simulator, and random numbers that are never shared between purposes."""

import errno
import sys

import jax
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.simulation.execution.dispatch import engine_for
from fisherscore.simulation.execution.engine import Here
from fisherscore.simulation.execution.processes import Workers
from fisherscore.simulation.execution.run import Purpose, PythonFunction, Stream, is_of_the_machine


def noise(theta, rng):
    return theta + rng.normal(size=1)


@pytest.mark.parametrize(
    ("simulator", "engine"),
    [
        (fs.from_python(noise), Here()),
        (fs.from_jax(lambda key, theta: theta), Here()),
        (fs.from_python(noise, timeout=3.0), Workers(1)),
        (fs.from_command([sys.executable, "{input}", "{output}"]), Workers(1)),
    ],
)
def test_what_could_outlive_this_process_or_has_a_time_limit_runs_in_a_worker(simulator, engine):
    assert engine_for(simulator) == engine
    assert engine_for(simulator, workers=3) == Workers(3)


def test_two_engines_are_refused():
    with pytest.raises(fs.ArgumentError, match="workers, dask: expected one of the two"):
        engine_for(fs.from_python(noise), workers=2, dask="tcp://somewhere")


def test_purposes_share_no_random_numbers():
    streams = [Stream(0, purpose) for purpose in Purpose]
    draws = [np.random.default_rng(stream.sequence(5)).uniform() for stream in streams]
    of_key = fs.from_jax(lambda key, theta: jax.random.key_data(key).astype(float))
    keys = [of_key.run(np.zeros((1, 1)), np.array([5]), stream).x[0].tolist() for stream in streams]
    assert len(set(draws)) == len(set(map(tuple, keys))) == len(Purpose)
    # The numbers behind the names are part of what a seed means, so they must not change.
    assert [int(purpose) for purpose in Purpose] == [1, 2, 3, 4, 5]


def chained(cause, *, explicitly):
    try:
        try:
            raise cause
        except MemoryError as error:
            raise RuntimeError("the solver failed") from (error if explicitly else None)
    except RuntimeError as outer:
        return outer


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOSPC, "no space"), True),
        (chained(MemoryError(), explicitly=True), True),
        (chained(MemoryError(), explicitly=False), False),  # it says itself that this was not the cause
        (FileNotFoundError(errno.ENOENT, "no such file"), False),
        (ValueError("a fault of its own"), False),
        (SystemExit(3), False),
    ],
)
def test_failures_of_the_machine_are_told_from_those_of_the_simulator(error, expected):
    assert is_of_the_machine(error) == expected

    def failing(theta, rng):
        raise error

    outcome = PythonFunction(failing, "failing")(np.zeros(1), np.random.SeedSequence(0))
    assert outcome.status == ("lost" if expected else "raised")
