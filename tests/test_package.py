"""The package as a whole: exports, docstrings, the command line, pictures."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fisherscore as fs
from fisherscore.cli import app

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


def test_the_toy_experiment_runs_and_writes_everything(tmp_path):
    arguments = ["run", "linear-gaussian", "--out", str(tmp_path / "o"), "--num-simulations", "3000"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "score error" in result.output
    written = json.loads((tmp_path / "o" / "results.json").read_text())
    assert written["score_error"]["num_pairs"] == 10_000 and 0 < written["score_error"]["mean"] < 1
    assert {"median", "maximum"} <= written["field_error"].keys()
    assert written["seeds"]["simulations_and_fit"] == 0 and written["versions"]["jax"]
    for name in ("score_field.png", "loss_curve.png"):
        assert (tmp_path / "o" / name).read_bytes()[:4] == b"\x89PNG"
    fs.load(tmp_path / "o" / "model")


def test_version_and_bad_arguments():
    assert fs.__version__ in CliRunner().invoke(app, ["--version"]).output
    assert CliRunner().invoke(app, ["run", "nonsense", "--out", "x"]).exit_code == 2


def test_score_field_draws_two_parameters_only():
    one = fs.FunctionScore(fs.uniform(a=(0, 1)), (1,), score=lambda t, x: x - t)
    with pytest.raises(fs.ArgumentError, match="2 parameters"):
        fs.plot.score_field(one, [0.5])


def test_a_users_script_passes_the_type_checker_in_strict_mode(tmp_path):
    script = Path(__file__).parent / "typing" / "user_script.py"
    unused = [n for n in fs.__all__ if f"fs.{n}" not in script.read_text()]
    assert not unused, f"the script should use these too: {unused}"
    bad = tmp_path / "bad.py"
    bad.write_text("import fisherscore as fs\n\nposterior: fs.Forecast = fs.sample(1, [0.0], no_such_option=2)\n")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file", "/dev/null", "--cache-dir", str(tmp_path)]
    good = subprocess.run([*mypy, str(script)], check=False, capture_output=True, text=True)
    assert good.returncode == 0, good.stdout
    control = subprocess.run([*mypy, str(bad)], check=False, capture_output=True, text=True)
    assert control.returncode == 1 and control.stdout.count("error:") == 3, control.stdout
