"""Analysis files: what is wrong with one is said with its line and the remedy, before anything is simulated."""

import re

import numpy as np
import pytest

import fisherscore as fs
from fisherscore.analysis.configuration import read_configuration
from fisherscore.analysis.document import Document
from fisherscore.analysis.priors import PRIORS, described
from fisherscore.analysis.template import write_template

GOOD = """
title = "A test"
out = "results"
seed = 3

[budget]
simulations = 300
test = 0

[simulator]
python = "model_of_test.py:draw"
shape = 2

[engine]
workers = 2

[parameters]
a = [0.0, 1.0]
b = { range = [2.0, 3.0], unit = "km" }

[observation]
values = [0.5, 2.5]

[prior]
a = { normal = [0.5, 0.1] }

[forecast]
theta0 = { a = 0.5, b = 2.5 }
"""
MODEL = """
import pathlib

def draw(theta, rng):
    (pathlib.Path(__file__).parent / "was_run").touch()
    return theta + rng.normal(size=2)

def other():
    return 1
"""


@pytest.fixture
def write(tmp_path):
    """Write the good file with some text replaced, and return its path."""
    (tmp_path / "model_of_test.py").write_text(MODEL)

    def writer(old="", new=""):
        assert old in GOOD
        path = tmp_path / "analysis.toml"
        path.write_text(GOOD.replace(old, new, 1))
        return path

    yield writer
    assert not (tmp_path / "was_run").exists()  # nothing was simulated


def test_a_good_file_is_read(write, tmp_path):
    c = read_configuration(write())
    assert c.title == "A test" and c.out == tmp_path / "results" and c.seed == 3
    assert c.proposal.names == ("a", "b") and c.proposal.units == ("", "km")
    assert (c.num_simulations, c.num_test, c.num_forecast) == (300, 0, 300)
    assert c.engine == {"workers": 2} and c.forecast_theta0 == {"a": 0.5, "b": 2.5} and c.recipe == "auto"
    assert float(c.prior["a"].scale) == pytest.approx(0.1)
    np.testing.assert_array_equal(c.observation.x, [0.5, 2.5])


WRONG = {
    "unknown key": ("seed = 3", "sede = 3", "sede", "Did you mean 'seed'"),
    "unknown table": ("[engine]", "[engines]", "engines", "Did you mean 'engine'"),
    "unknown key in a table": ("workers = 2", "worker = 2", "engine.worker", "Did you mean 'workers'"),
    "not TOML": ('"A test"', "A test", "not TOML", "line 2"),
    "required key misspelled": ("simulations =", "simulatons =", "budget.simulatons", "Did you mean 'simulations'"),
    "wrong type": ("simulations = 300", 'simulations = "many"', "budget.simulations", "whole number of at least 100"),
    "a flag is no number": ("seed = 3", "seed = true", "seed", "whole number"),
    "too few": ("simulations = 300", "simulations = 3", "budget.simulations", "at least 100"),
    "missing key": ("simulations = 300", "", "budget", "expected a key 'simulations'"),
    "missing table": ("[budget]\nsimulations = 300\ntest = 0\n", "", "budget", "Add it"),
    "missing simulator file": ("model_of_test.py", "nowhere.py", "simulator.python", "relative to this file"),
    "no such function": (":draw", ":drawn", "simulator.python", "It has draw, other"),
    "no colon": (":draw", "", "simulator.python", 'expected "file.py:function"'),
    "two simulators": ("shape = 2", 'command = ["sh"]', "simulator", "python and command"),
    "missing program": (
        'python = "model_of_test.py:draw"',
        'command = ["./nowhere", "{input}", "{output}"]',
        "simulator.command",
        "chmod",
    ),
    "no place for the output": (
        'python = "model_of_test.py:draw"',
        'command = ["sh", "{input}"]',
        "simulator.command",
        "{output}",
    ),
    "low above high": ("[0.0, 1.0]", "[1.0, 0.0]", "parameters.a", "low < high"),
    "not two numbers": ("[0.0, 1.0]", "[1.0]", "parameters.a", "2 numbers"),
    "no parameters": ('a = [0.0, 1.0]\nb = { range = [2.0, 3.0], unit = "km" }', "", "parameters", "at least one"),
    "missing observation": ("values = [0.5, 2.5]", 'file = "x.npy"', "observation.file", "relative to this file"),
    "observation of the wrong shape": ("[0.5, 2.5]\n\n[prior]", "[0.5]\n\n[prior]", "observation.values", "(2,)"),
    "i.i.d. forgotten": ("[0.5, 2.5]\n\n[prior]", "[[0.5, 1], [2, 3]]\n\n[prior]", "observation.values", "iid = true"),
    "observation not finite": ("values = [0.5, 2.5]", "values = [0.5, nan]", "observation.values", "finite"),
    "mock outside": ("values = [0.5, 2.5]", "mock = { a = 0.5, b = 9 }", "observation.mock", "2 to 3"),
    "mock incomplete": ("values = [0.5, 2.5]", "mock = { a = 0.5 }", "observation.mock", "values of a, b"),
    "prior outside the region": ("normal = [0.5, 0.1]", "normal = [5, 0.1]", "prior.a", "Narrow the prior"),
    "uniform prior beyond": ("normal = [0.5, 0.1]", "uniform = [0, 2]", "prior.a", "50% of the prior"),
    "prior of nothing": ("a = { normal", "c = { normal", "prior.c", "Known are a, b"),
    "prior unknown": ("normal = [0.5, 0.1]", "cauchy = [0.5, 0.1]", "prior.a", "{ normal = ["),
    "prior senseless": ("normal = [0.5, 0.1]", "normal = [0.5, -0.1]", "prior.a", "scales above 0"),
    "forecast outside": ("b = 2.5 }", "b = 5 }", "forecast.theta0", "widen the range"),
    "forecast at two points": ("theta0 = {", "at = { a = 0.1, b = 2.5 }\ntheta0 = {", "forecast.at", "Leave at out"),
    "two engines": ("workers = 2", 'workers = 2\ndask = "tcp://x:1"', "engine.dask", "Leave one out"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_line_and_the_remedy(write, case):
    old, new, where, remedy = WRONG[case]
    path = write(old, new)
    with pytest.raises(fs.ConfigurationError) as caught:
        read_configuration(path)
    message = str(caught.value)
    assert str(path) in message and where in message and remedy in message, message
    if case != "not TOML":
        line = int(re.search(r", line (\d+): ", message)[1])
        text = path.read_text().splitlines()[line - 1]
        assert where.split(".")[-1] in text or where in text or case == "missing table", (line, text)


def test_the_point_of_a_forecast_may_have_its_older_name(write):
    assert read_configuration(write("theta0 = {", "at = {")).forecast_theta0 == {"a": 0.5, "b": 2.5}


def test_lines_of_values_that_span_lines_and_of_text_that_looks_like_a_table(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('x = """\n[trap]\nkey = 1\n"""\n# key = 3\n[trap]\n\nkey = [\n  1,\n  2,\n]\nlast = 5\n')
    document = Document(path)
    assert (
        document.line(["trap"]) == 6 and document.line(["trap", "key"]) == 8 and document.line(["trap", "last"]) == 12
    )
    assert document.line(["trap", "none"]) == 6


def test_workers_for_a_jax_simulator_are_refused(write):
    path = write("python =", "jax =")
    with pytest.raises(fs.ConfigurationError, match="batches on the device"):
        read_configuration(path)


def test_observations_are_read_from_files(write, tmp_path):
    np.save(tmp_path / "x.npy", [1.0, 2.0])
    np.savetxt(tmp_path / "x.csv", [[1.0, 2.0]], delimiter=",")
    (tmp_path / "x.txt").write_text("1.0\n2.0\n")
    for name in ("x.npy", "x.csv", "x.txt"):
        observation = read_configuration(write("values = [0.5, 2.5]", f'file = "{name}"')).observation
        np.testing.assert_array_equal(observation.x, [1.0, 2.0])
    np.save(tmp_path / "bad.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(fs.ConfigurationError, match=r"observation\.file"):
        read_configuration(write("values = [0.5, 2.5]", 'file = "bad.npy"'))


@pytest.mark.parametrize("name", PRIORS)
def test_every_prior_can_be_written(write, name):
    values = {"uniform": "[0, 1]", "halfnormal": "0.3", "truncated_normal": "[0.5, 0.2, 0, 1]", "gamma": "[2, 5]"}
    given = values.get(name, "[-1, 0.3]" if name == "lognormal" else "[0.5, 0.2]")
    law = read_configuration(write("normal = [0.5, 0.1]", f"{name} = {given}")).prior["a"]
    assert np.isfinite(float(law.log_prob(0.4)))


JOINT = "a = { normal = [0.5, 0.1] }"


def test_joint_priors_draws_and_regions_can_be_written(write, tmp_path):
    law = '"b, a" = { mean = [2.5, 0.5], covariance = [[0.01, 0.002], [0.002, 0.01]] }'
    c = read_configuration(write(JOINT, f'{law}\nwhere = ["b >= 2 + a"]'))
    assert c.prior.where == ["b >= 2 + a"] and c.prior_files == []
    np.testing.assert_allclose(c.prior.prior[("b", "a")].covariance_matrix[0, 1], 0.002, rtol=1e-5)
    assert described(c.document.tree["prior"]).endswith("where b >= 2 + a")
    draws = np.random.default_rng(0).multivariate_normal([0.5, 2.5], [[0.01, 0.002], [0.002, 0.01]], 1000)
    np.savetxt(tmp_path / "draws.csv", draws, delimiter=",", header="x,b", comments="")
    np.savez(tmp_path / "draws.npz", samples=draws, names=np.array(["a", "b"]))
    np.save(tmp_path / "draws.npy", draws)
    for given in ('"draws.csv", columns = ["x", "b"]', '"draws.npz"', '"draws.npy"'):
        c = read_configuration(write(JOINT, f'"a, b" = {{ draws = {given} }}'))
        np.testing.assert_allclose(c.prior[("a", "b")].mean, draws.mean(axis=0), rtol=1e-5)
    before = c.prior_files
    np.save(tmp_path / "draws.npy", draws[::-1])
    assert len(before) == 1 and read_configuration(c.document.path).prior_files != before


WRONG_JOINT = {
    "not positive": ('"a, b" = { mean = [0.5, 2.5], covariance = [[1, 2], [2, 1]] }', "positive definite"),
    "wrong shape": ('"a, b" = { mean = [0.5], covariance = [[1]] }', "expected 2 numbers"),
    "outside": ('"a, b" = { mean = [9, 9], covariance = [[1, 0], [0, 1]] }', "0 to 1, 2 to 3"),
    "no such file": ('"a, b" = { draws = "nothing.csv" }', "no such file"),
    "unknown in a joint one": ('"a, z" = { draws = "nothing.csv" }', "no such parameter"),
    "neither": ('"a, b" = { normal = [0, 1] }', "expected { mean"),
    "not linear": ('where = ["a * b <= 1"]', "sums of numbers"),
    "no text": ("where = 3", "linear inequalities such as"),
}


@pytest.mark.parametrize("case", WRONG_JOINT)
def test_what_is_wrong_with_a_joint_prior_is_said(write, case):
    text, message = WRONG_JOINT[case]
    path = write(JOINT, text)
    with pytest.raises(fs.ConfigurationError) as caught:
        read_configuration(path)
    assert message in str(caught.value) and f"{path}, line" in str(caught.value)


def test_the_template_is_right_and_never_overwrites(tmp_path):
    path = tmp_path / "mine.toml"
    assert [p.name for p in write_template(path)] == ["mine.toml", "simulator.py"]
    c = read_configuration(path)
    assert c.simulator.draw([300.0, 1.0]).shape == c.shape == (8,)
    with pytest.raises(fs.ConfigurationError, match="left alone"):
        write_template(path)
    with pytest.raises(fs.ConfigurationError, match=r"\.toml"):
        write_template(tmp_path / "mine.yaml")
    (tmp_path / "simulator.py").write_text("mine = 1\n")
    write_template(tmp_path / "other.toml")
    assert (tmp_path / "simulator.py").read_text() == "mine = 1\n"


def test_every_commented_line_of_the_template_works_when_uncommented(tmp_path):
    path = tmp_path / "t.toml"
    write_template(path)
    lines = path.read_text().splitlines()
    options = [n for n, line in enumerate(lines) if re.match(r"# (\w+ = |\[\w+\])", line)]
    assert len(options) > 10 and any(line.startswith("# recipe") for line in lines)
    exclusive = ("# jax", "# command", "# values", "# file", "# iid", "# dask", "# memory")
    for n in options:
        if not lines[n].startswith(exclusive):
            lines[n] = lines[n][2:]
    path.write_text("\n".join(lines))
    c = read_configuration(path)
    assert c.engine == {"workers": 8} and c.sampler["num_chains"] == 4 and c.forecast_theta0 is not None
