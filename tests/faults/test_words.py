"""Errors in words of ours, in bounded time: odd files, absurd sizes, odd labels, too few simulations."""

import io
import json
import time
import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import fisherscore as fs
from fisherscore import plot
from fisherscore._support.drawing import legend_label, mathematics, plain
from fisherscore.analysis.configuration import read_configuration
from fisherscore.analysis.document import Document
from fisherscore.analysis.parameters import read_parameters
from fisherscore.cli import app
from fisherscore.fitting.checks import nothing_learned, refuse_too_few
from fisherscore.fitting.data import Rows

NOISE = fs.from_python(lambda theta, rng: rng.normal(theta))
BOX = fs.uniform(a=(0.0, 1.0))
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + 5_000 * "[" + 5_000 * "]", "nested too deeply"),
        ("a = " + 5_000 * "1", "not TOML: Exceeds the limit"),
        ("[parameters]\na = [0.0, 1e400]", "line 2: parameters.a: expected a finite number"),
        (f"[parameters]\na = [0, 1{400 * '0'}]", "line 2: parameters.a: expected a finite number"),
        ("[parameters]\na = [0.0, 1e-40]", "line 1: parameters: a: expected a range between"),
        ("[parameters]\na = [2459000.0, 2459000.0000001]", "line 1: parameters: a: the range .* is too narrow"),
    ],
)
def test_odd_analysis_files_are_refused_in_words(text, words, tmp_path):
    file = tmp_path / "odd.toml"
    file.write_text(text)
    with pytest.raises(fs.ConfigurationError, match=words):
        read_parameters(Document(file))


def test_a_file_of_thousands_of_lines_says_quickly_which_is_wrong(tmp_path):
    file = tmp_path / "long.toml"
    lines = "".join(f"p{i} = [0.0, 1.0]\n" for i in range(3_000))
    file.write_text(f'title = "# [ not a table"\n[parameters]\n{lines}q = """\n[\n"""\n')
    started = time.perf_counter()
    with pytest.raises(fs.ConfigurationError, match=r"line 3003: parameters\.q: expected a list of 2 numbers"):
        read_parameters(Document(file))
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fs.simulate(NOISE, BOX, 10**12), "num_simulations: expected at most 100,000,000"),
        (lambda: fs.simulate(NOISE, BOX, 10**5000), "num_simulations: expected at most"),
        (lambda: fs.simulate(NOISE, BOX, 10, seed=10**5000), "seed: expected a whole number from 0"),
        (lambda: fs.simulate(NOISE, BOX, 10, shard="²/3", out="never"), 'shard: expected "k/n"'),
        (lambda: fs.simulate(NOISE, BOX, 10, shard="1/" + 5_000 * "9", out="never"), 'shard: expected "k/n"'),
        (lambda: fs.uniform(a=(0, 1e400)), "a: expected two finite numbers"),
        (lambda: fs.uniform(a=(0, 10**400)), "a: expected two numbers"),
        (lambda: BOX.sample(10**14), "num: expected at most"),
        (lambda: BOX.inside([10**400]), "theta: expected numbers"),
    ],
)
def test_absurd_arguments_are_refused_in_words(call, words):
    with pytest.raises(fs.ArgumentError, match=words):
        call()


def test_a_configuration_of_absurd_size_is_refused(tmp_path):
    assert CliRunner().invoke(app, ["init", str(tmp_path / "a.toml")]).exit_code == 0
    text = (tmp_path / "a.toml").read_text()
    (tmp_path / "b.toml").write_text(text.replace("simulations = ", "simulations = 1000000000000 # ", 1))
    with pytest.raises(fs.ConfigurationError, match="expected at most 100,000,000"):
        read_configuration(tmp_path / "b.toml")


@pytest.mark.parametrize("document", ["[" * 100_000, '{"schema": ' + 5_000 * "9" + "}", '{"a":' * 50_000])
def test_deep_json_and_long_numbers_are_refused(document, tmp_path):
    (tmp_path / "model.json").write_text(document)
    with pytest.raises(fs.ModelFolderError):
        fs.load(tmp_path)


def test_an_exception_that_cannot_say_what_it_is_is_a_failure_like_others():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    def simulator(theta, rng):
        if theta[0] > 0.5:
            raise Mute
        return rng.normal(theta)

    sims = fs.simulate(fs.from_python(simulator), BOX, 40)
    assert 0 < sims.failure_rate < 1 and "Mute" in next(iter(sims.messages.values()))


NAMES = [r"$\frac{a$", "a_b^c", "$", "\\", "{}", "%&#~", r"\alpha", "$a", "日本"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_drawn(name):
    for label in (f"${mathematics(name, name)}$", plain(name), legend_label(name)):
        figure = Figure(figsize=(1, 1))
        figure.text(0, 0, label)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of signs that the font has not
            figure.savefig(io.BytesIO())


def test_odd_names_and_labels_are_drawn_in_a_triangle():
    proposal = fs.uniform({r"$\frac{a$": (0.0, 1.0), "$b$": (0.0, 1.0)}, units={"$b$": r"$\bad{"})
    exact = fs.FunctionScore(proposal, (2,), log_likelihood=lambda t, x: -50 * ((x - t) ** 2).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few draws, and between GetDist and Matplotlib
        posterior = fs.sample(exact, [0.5, 0.5], num_samples=50, num_warmup=50, num_chains=2)
        axes = plot.triangle(posterior, labels=[r"$\frac{a$"])
        axes[0, 0].figure.savefig(io.BytesIO())


def test_a_fit_of_too_few_simulations_is_refused_before_any_work():
    proposal = fs.uniform([(f"a{i}", (-1.0, 1.0)) for i in range(60)])
    theta = proposal.sample(500)
    started = time.perf_counter()
    with pytest.raises(fs.ArgumentError, match=r"500 simulations are too few for 60 parameters: .* at least 600"):
        fs.fit(fs.from_table(theta, theta + RNG.normal(size=theta.shape), proposal))
    assert time.perf_counter() - started < 5
    refuse_too_few(Rows(theta[:, :50], theta))


def test_data_that_depend_on_the_parameters_are_not_said_to_be_independent_of_them():
    u = RNG.uniform(-1, 1, (300, 2))
    noise = RNG.normal(size=(300, 1_000))
    dependent = nothing_learned(Rows(u, u @ RNG.normal(size=(2, 1_000)) + noise))
    assert "do depend on the parameters" in dependent and "about 2,000 or more" in dependent
    assert "check that the data depend on the parameters" in nothing_learned(Rows(u, noise))


def test_commands_tell_what_nobody_expected_in_a_few_lines(monkeypatch):
    def fails(folder):
        raise KeyError("a surprise")

    monkeypatch.setattr("fisherscore.simulation.status.campaign_status", fails)
    told = CliRunner().invoke(app, ["status", "folder"])
    assert told.exit_code == 1 and told.stderr.count("\n") < 6 and "Traceback" not in told.stderr
    assert "unexpected KeyError: 'a surprise'" in told.stderr and "--debug" in told.stderr
    monkeypatch.setenv("FISHERSCORE_DEBUG", "0")
    assert CliRunner().invoke(app, ["status", "folder"]).exit_code == 1
    shown = CliRunner().invoke(app, ["--debug", "status", "folder"])
    assert isinstance(shown.exception, KeyError)
    monkeypatch.delenv("FISHERSCORE_DEBUG")
    assert json.dumps(shown.exit_code) == "1"
