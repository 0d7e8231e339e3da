"""The package as a whole: exports, docstrings, the command line, pictures."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import fisherscore as fs

SOURCE = Path(fs.__file__).parent


def test_type_checkers_see_the_same_names_as_python():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If))
    imported = {a.asname for n in ast.walk(block) if isinstance(n, ast.ImportFrom) for a in n.names}
    assert imported == set(fs.__all__)
    assert set(fs.__all__) <= set(dir(fs))


def test_no_module_hides_a_function_of_the_same_name():
    modules = {p.stem for p in SOURCE.iterdir()}
    assert not {n for n in fs.__all__ if n in modules and not inspect.ismodule(getattr(fs, n))}


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="nonsense"):
        fs.nonsense  # noqa: B018


@pytest.mark.parametrize("name", fs.__all__)
def test_every_public_name_has_a_docstring_with_an_example(name):
    assert ">>> " in getattr(fs, name).__doc__


def test_import_changes_no_jax_flag_and_is_lazy():
    code = "import sys, fisherscore; assert 'jax' not in sys.modules; import jax; fisherscore.fit; "
    code += "assert not jax.config.jax_enable_x64"
    subprocess.run([sys.executable, "-c", code], check=True)


def check_toy_results(out):
    """Check what the toy experiment has written to a folder, and return its numbers."""
    written = json.loads((out / "results.json").read_text())
    assert written["score_error"]["num_pairs"] == 10_000
    assert {"median", "maximum"} <= written["field_error"].keys()
    assert written["seeds"]["simulations_and_fit"] == 0 and written["versions"]["jax"]
    assert (out / "score_field.png").read_bytes()[:4] == b"\x89PNG"
    fs.load(out / "model")
    return written


def test_the_toy_experiment_without_training_writes_everything(tmp_path, monkeypatch, call_cli):
    def closed_form(sims, recipe, **options):
        return fs.fit(sims, recipe=fs.ClosedFormRecipe("gaussian"), **options)

    monkeypatch.setattr("fisherscore.experiments.linear_gaussian.fit", closed_form)
    result = call_cli("run", "linear-gaussian", "--out", tmp_path / "o", "--num-simulations", 300)
    assert result.exit_code == 0, result.output
    assert "score error" in result.output
    assert 0 < check_toy_results(tmp_path / "o")["score_error"]["mean"] < 0.1


@pytest.mark.slow
def test_the_toy_experiment_learns_the_score_with_the_papers_network(tmp_path, call_cli):
    result = call_cli("run", "linear-gaussian", "--out", tmp_path / "o", "--num-simulations", 3000)
    assert result.exit_code == 0, result.output
    assert 0 < check_toy_results(tmp_path / "o")["score_error"]["mean"] < 0.3
    assert (tmp_path / "o" / "loss_curve.png").read_bytes()[:4] == b"\x89PNG"


def test_version_and_bad_arguments(call_cli):
    assert fs.__version__ in call_cli("--version").output
    assert call_cli("run", "nonsense", "--out", "x").exit_code == 2
    assert call_cli("run", "mine.toml", "--out", "x").exit_code == 2
    for option in (("--seed", 0), ("--num-simulations", 100)):
        assert call_cli("run", "mine.toml", *option).exit_code == 2
    for option in (
        ("--num-simulations", 100),
        ("--workers", 8),
        ("--seed", 0),
        ("--timeout", 3),
        ("--dask", "nowhere"),
    ):
        assert call_cli("simulate", "mine.toml", *option).exit_code == 2


def test_score_field_draws_two_parameters_only():
    one = fs.FunctionScore(fs.uniform(a=(0, 1)), (1,), score=lambda t, x: x - t)
    with pytest.raises(fs.ArgumentError, match="2 parameters"):
        fs.plot.score_field(one, [0.5])


def test_the_script_for_the_type_checker_uses_every_public_name():
    # It is checked by make types, which also fails on a wrong script.
    script = (Path(__file__).parent / "typing" / "user_script.py").read_text()
    unused = [name for name in fs.__all__ if f"fs.{name}" not in script]
    assert not unused, f"the script should use these too: {unused}"
