"""The documentation names everything: every exported name in the reference, every page in the navigation."""

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

import fisherscore as fs

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def documented():
    """Return what mkdocstrings is asked to describe, over all pages of the reference."""
    pages = (DOCS / "reference").glob("*.md")
    return {name for page in pages for name in re.findall(r"^::: fisherscore\.(\S+)", page.read_text(), re.MULTILINE)}


def navigation():
    """Return the pages named in the navigation, read as text: PyYAML comes with the documentation's tools only."""
    text = (ROOT / "mkdocs.yml").read_text()
    nav = text[text.index("\nnav:\n") :].split("\n\n")[0]
    return re.findall(r": (\S+\.md)$", nav, re.MULTILINE)


@pytest.mark.parametrize("name", fs.__all__)
def test_every_exported_name_is_in_the_reference(name):
    assert name in documented()


def test_the_reference_names_nothing_that_is_not_there():
    for name in documented():
        assert resolve_name(f"fisherscore.{name}") is not None


def test_the_navigation_names_every_page_once():
    pages = navigation()
    assert len(pages) == len(set(pages)) > 20
    assert set(pages) == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
