"""What other libraries and programs give is taken for what it is: tables with names, arrays, files, command lines."""

import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import typer

import fisherscore as fs
from fisherscore._support.commands import told_errors

BOX = fs.uniform(a=(0.0, 1.0), b=(0.0, 1.0))
THETA = np.random.default_rng(0).uniform(size=(50, 2))


class Table:
    """A table with named columns, as pandas and polars have them."""

    def __init__(self, array, columns):
        self.array, self.columns, self.shape, self.ndim = np.asarray(array), columns, np.shape(array), np.ndim(array)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype)

    def __getitem__(self, name):
        return self.array[..., self.columns.index(name)]


class Series(Table):
    """One row of such a table."""

    def __init__(self, array, names):
        super().__init__(array, names)
        self.index, self.columns = names, None

    def to_numpy(self):
        return self.array

    def __getitem__(self, name):
        return self.array[self.index.index(name)]


def test_columns_with_names_are_put_in_the_order_of_the_parameters():
    swapped = Table(THETA[:, ::-1], ["b", "a"])
    assert np.array_equal(fs.from_table(swapped, THETA, BOX).theta, THETA)
    assert np.array_equal(
        BOX.inside(Table(THETA + np.array([0, 5]), [0, 1])), np.zeros(50, bool)
    )  # numbers are no names
    wide = fs.uniform(a=(0.0, 1.0), b=(5.0, 6.0))
    assert wide.inside(Series([5.5, 0.5], ["b", "a"])) and not wide.inside([5.5, 0.5])


@pytest.mark.parametrize("columns", [["u", "v"], ["a", "a"], ["a", "B"]])
def test_columns_of_other_names_are_refused(columns):
    with pytest.raises(fs.ArgumentError, match="theta: expected columns called a, b"):
        fs.from_table(Table(THETA, columns), THETA, BOX)


def noise(key):
    return jax.random.normal(key, (2,))


JAX_FUNCTIONS = {
    "complex": (lambda key, theta: theta + 1j * noise(key), "array of real numbers, got complex64"),
    "empty": (lambda key, theta: noise(key)[:0], "array of real numbers"),
    "key": (lambda key, theta: key, "array of real numbers"),
    "tuple": (lambda key, theta: (theta, noise(key)), "must return one array"),
    "dict": (lambda key, theta: {"x": theta}, "must return one array"),
    "branch": (lambda key, theta: theta if theta[0] > 0 else -theta, "cannot be traced"),
    "raises": (lambda key, theta: 1 / 0, "ZeroDivisionError: division by zero"),
    "signature": (lambda theta: theta, "called with a key and theta"),
}


@pytest.mark.parametrize("case", JAX_FUNCTIONS)
def test_what_is_no_function_of_jax_is_refused_in_words(case):
    function, words = JAX_FUNCTIONS[case]
    with pytest.raises(fs.SimulationError, match=words):
        fs.simulate(fs.from_jax(function), BOX, 12)


@pytest.mark.parametrize("function", [lambda k, t: noise(k) > 0, lambda k, t: noise(k).astype(jnp.float16)])
def test_numbers_of_other_types_are_data(function):
    assert fs.simulate(fs.from_jax(function), BOX, 12).status.tolist() == ["ok"] * 12


def program(tmp_path, body, **options):
    path = tmp_path / "program.py"
    path.write_text(f"import json, sys, numpy as np\ngiven, o = json.load(open(sys.argv[1])), sys.argv[2]\n{body}")
    return fs.from_command([sys.executable, str(path), "{input}", "{output}"], **options)


@pytest.mark.parametrize("names", [["b", "a"], ["a"], ["a", "b", "c"]])
def test_a_program_is_not_given_a_parameter_under_the_name_of_another(tmp_path, names):
    simulator = program(tmp_path, "np.save(o, list(given['theta'].values()))", names=names)
    with pytest.raises(fs.ArgumentError, match="names: expected names of the parameters a, b"):
        fs.simulate(simulator, BOX, 4)


@pytest.mark.parametrize("names", [["a", "a"], 5, "ab", [1, 2], ["a", " "]])
def test_names_that_are_none_are_refused(tmp_path, names):
    with pytest.raises(fs.ArgumentError, match="names"):
        program(tmp_path, "", names=names)


def test_a_program_may_have_names_of_its_own(tmp_path):
    simulator = program(tmp_path, "np.save(o, [given['theta']['u'], given['theta']['v']])", names=["u", "v"])
    sims = fs.simulate(simulator, BOX, 4)
    assert np.array_equal(sims.x, sims.theta)


@pytest.mark.parametrize("body", ["f = open(o, 'wb'); np.save(f, [1.0]); np.save(f, [2.0])", None])
def test_more_than_one_array_in_a_file_is_no_data(tmp_path, body):
    body = body or "np.save(o, [1.0]); open(o, 'ab').write(b'junk')"
    with pytest.raises(fs.SimulationError, match="bytes more than one array"):
        fs.simulate(program(tmp_path, body), BOX, 4)


@pytest.mark.parametrize("body", ["np.save(o, np.asfortranarray(np.ones((2, 3))))", "np.save(o, np.float32(1))"])
def test_arrays_of_any_layout_are_data(tmp_path, body):
    assert (fs.simulate(program(tmp_path, body), BOX, 4).x == 1).all()


@pytest.mark.parametrize("memory", ["a", float("nan"), float("inf"), -1, 1e-12, True])
def test_what_is_no_memory_is_refused(tmp_path, memory):
    with pytest.raises(fs.ArgumentError, match="memory: expected gigabytes"):
        program(tmp_path, "", memory=memory)


@pytest.mark.parametrize("arguments", [5, None, [], "sim {input} {output}", [1], ["{input}", "{output}", "a\0b"]])
def test_what_is_no_list_of_words_is_refused(arguments):
    with pytest.raises(fs.ArgumentError, match="arguments: expected a list of words"):
        fs.from_command(arguments)
    with pytest.raises(fs.ArgumentError, match="arguments: expected a list of words"):
        fs.from_command([sys.executable, "{input}", "{output}", os.fsdecode(b"\xff")])


class Ends:
    def __array__(self, dtype=None, copy=None):
        raise SystemExit("bye")


def raises_group(theta, rng):
    raise ExceptionGroup("parts failed", [ValueError("no"), MemoryError("out of memory")])


def test_an_array_that_ends_the_process_is_no_data_and_lack_of_memory_is_seen_in_groups():
    with pytest.raises(fs.SimulationError, match="array of real numbers: bye"):
        fs.simulate(fs.from_python(lambda theta, rng: Ends()), BOX, 12)
    with pytest.raises(fs.SimulationError, match="The machine, not the simulator"):
        fs.simulate(fs.from_python(raises_group), BOX, 12)


@pytest.mark.parametrize("value", ["19", b"19", {1.0, 9.0}, {1.0: "a", 9.0: "b"}])
def test_two_numbers_without_an_order_are_no_range(value):
    with pytest.raises(fs.ArgumentError, match="a: expected two numbers"):
        fs.uniform(a=value)
    with pytest.raises(fs.ArgumentError, match="a: expected two numbers"):
        fs.normal(a=value)


def test_an_export_does_not_wait_at_a_pipe(tmp_path):
    sims = fs.simulate(fs.from_python(lambda theta, rng: theta + rng.normal(size=2)), BOX, 12)
    for suffix in (".npz", ".h5"):
        os.mkfifo(tmp_path / f"pipe{suffix}")
        with pytest.raises(fs.ArgumentError, match="left alone"):
            fs.export_simulations(sims, tmp_path / f"pipe{suffix}")


@pytest.mark.parametrize("end", [typer.Exit(3), typer.Abort(), typer.BadParameter("no")])
def test_commands_end_as_they_say_whatever_the_version_of_typer(end, capsys):
    with pytest.raises(type(end)) as caught, told_errors():
        raise end
    assert caught.value is end and "fault of fisherscore" not in capsys.readouterr().err
