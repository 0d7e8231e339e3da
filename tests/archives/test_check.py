"""The check of archives notices a file that is missing or changed, and finds README's ten lines."""

import importlib.util
import zipfile
from pathlib import Path

import pytest

import fisherscore as fs

ROOT = Path(__file__).parents[2]


def load_check():
    spec = importlib.util.spec_from_file_location("check_archives", Path(__file__).with_name("check.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = load_check()


def wheel_of(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_a_file_that_is_missing_or_changed_is_noticed(tmp_path):
    files = {"a.py": "1", "b.py": "2"}
    whole = wheel_of(tmp_path / "whole.whl", files)
    assert check.differences(whole, wheel_of(tmp_path / "same.whl", files)) == []
    assert check.differences(whole, wheel_of(tmp_path / "less.whl", {"a.py": "1"})) == ["b.py"]
    assert check.differences(whole, wheel_of(tmp_path / "other.whl", files | {"a.py": "3"})) == ["a.py"]


def test_the_ten_lines_are_found_and_a_page_without_them_is_refused():
    lines = check.ten_lines((ROOT / "README.md").read_text())
    compile(lines, "README.md", "exec")
    assert "fs.fit(" in lines and "fs.sample(" in lines
    with pytest.raises(SystemExit, match="Ten lines"):
        check.ten_lines("# a page\n\n```python\nprint()\n```\n")


def test_version_citation_and_changelog_say_the_same():
    citation = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {fs.__version__}" in citation
    (released,) = (line.removeprefix("date-released: ") for line in citation if line.startswith("date-released: "))
    heading = next(line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## "))
    assert heading == f"## {fs.__version__} ({released})"
