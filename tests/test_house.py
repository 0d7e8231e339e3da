"""The house keeps its order: rooms in one direction, few files at the top, nothing too long to read."""

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fisherscore"
FILES = sorted(SOURCE.rglob("*.py"))
SCRIPTS = sorted([*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "docs").glob("*.py")])

MOST_FILES_AT_THE_TOP = 10
MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 60
MOST_POSITIONAL_ARGUMENTS = 5


def name_of(path):
    return str(path.relative_to(ROOT))


def too_long(tree):
    """Name the functions with more lines than fit a screen."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return [f.name for f in functions if f.end_lineno - f.lineno + 1 > MOST_LINES_OF_A_FUNCTION]


def crowded_calls(tree):
    """List the lines of calls with more positional arguments than a reader can tell apart."""
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call))
    return [c.lineno for c in calls if len(c.args) > MOST_POSITIONAL_ARGUMENTS]


def lint_imports(folder):
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--config", folder / "pyproject.toml"]
    return subprocess.run(command, cwd=folder / "src", check=False, capture_output=True, text=True)


def test_few_files_stand_at_the_top():
    assert len(list(SOURCE.glob("*.py"))) <= MOST_FILES_AT_THE_TOP


@pytest.mark.parametrize("path", [*FILES, *SCRIPTS], ids=name_of)
def test_a_file_is_short_and_says_what_it_is_for(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert text.count("\n") <= MOST_LINES_OF_A_FILE
    assert ast.get_docstring(tree)
    assert not too_long(tree)
    assert not crowded_calls(tree)


def test_long_functions_and_crowded_calls_are_noticed():
    body = "\n".join(["def f():", *["    g(1, 2, 3, 4, 5, 6)"] * MOST_LINES_OF_A_FUNCTION])
    tree = ast.parse(body)
    assert too_long(tree) == ["f"] and len(crowded_calls(tree)) == MOST_LINES_OF_A_FUNCTION


def test_rooms_import_downwards_only_and_a_planted_import_upwards_is_caught(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(SOURCE, tmp_path / "src" / "fisherscore")
    good = lint_imports(tmp_path)
    assert good.returncode == 0, good.stdout
    planted = tmp_path / "src" / "fisherscore" / "score" / "model.py"
    planted.write_text(planted.read_text() + "\n\ndef planted():\n    from ..inference import posterior\n")
    bad = lint_imports(tmp_path)
    assert bad.returncode != 0 and "fisherscore.score.model -> fisherscore.inference.posterior" in bad.stdout


def load_rooms():
    spec = importlib.util.spec_from_file_location("rooms", ROOT / "docs" / "rooms.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_architecture_lists_every_file_as_it_is():
    rooms = load_rooms()
    page = rooms.PAGE.read_text()
    assert page == rooms.filled(page), "run: python docs/rooms.py"
    folders = {path.parent for path in FILES} - {SOURCE}
    assert folders == {SOURCE / room for room in rooms.ROOMS}


def test_architecture_names_files_and_functions_that_exist():
    page = (ROOT / "ARCHITECTURE.md").read_text()
    section = page[page.index("## Where the paper lives") : page.index("## The rooms, file by file")]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for _, files, names in rows:
        texts = [(SOURCE / name).read_text() for name in re.findall(r"`(\S+?\.py)`", files)]
        for name in re.findall(r"`(\w+)[`(]", names):
            assert any(re.search(rf"(def|class) {name}\b", text) for text in texts), (files, name)
    for path in set(re.findall(r"`([a-z_]+/(?:[a-z_]+/)?[a-z_]+\.py)`", page)):
        assert any((root / path).exists() for root in (SOURCE, SOURCE / "simulation", ROOT)), path
