"""Turn the tutorials into scripts that open as notebooks: ``python docs/to_script.py`` writes ``examples/NAME.py``.

Each ``docs/tutorials/NAME.md`` becomes a script in percent format, which VS Code, Spyder, PyCharm and JupyterLab (with
jupytext) show as a notebook. Python blocks become code cells; everything else, shell commands and shown output
included, becomes markdown cells, as comments. The page is the original: edit it, then run this again.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent
LINE_LENGTH = 120
# Links of a page to other pages and pictures, which a script reaches by another way.
RELATIVE_LINK = re.compile(r"\]\((?!https?:|#)")
OPENING = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<language>[\w+-]*)(?: +title=\"(?P<title>[^\"]*)\")?")


@dataclass(frozen=True)
class Block:
    """A part of a page: code without its fences, or prose (language ``None``), its first line and its title."""

    language: str | None
    line: int
    text: str
    title: str | None = None


def blocks(page: str) -> Iterator[Block]:
    """Split a page into fenced blocks, which may be indented inside lists and tabs, and the prose between them."""
    kept: list[str] = []
    start, opening = 1, None
    for number, line in enumerate(page.splitlines(), 1):
        if opening is None and (match := OPENING.match(line)):
            yield Block(None, start, "\n".join(kept))
            kept, start, opening = [], number + 1, match
        elif opening is not None and re.fullmatch(rf" *{opening['fence'][0]}{{{len(opening['fence'])},}} *", line):
            yield Block(opening["language"], start, textwrap.dedent("\n".join(kept)), opening["title"])
            kept, start, opening = [], number + 1, None
        else:
            kept.append(line)
    if opening is not None:
        raise ValueError(f"the block that starts in line {start} is not closed")
    yield Block(None, start, "\n".join(kept))


def cells(page: str) -> Iterator[tuple[str, str]]:
    """Group a page into cells, code or markdown in turn, with other blocks put back among the prose."""
    prose: list[str] = []
    for block in blocks(page):
        if block.language == "python":
            if text := "\n\n".join(prose).strip():
                yield "markdown", text
            prose = []
            yield "code", block.text.strip("\n")
        elif block.text.strip():
            text = block.text.strip("\n")
            prose.append(text if block.language is None else f"```{block.language}\n{text}\n```")
    if text := "\n\n".join(prose).strip():
        yield "markdown", text


def script(page: str, name: str) -> str:
    """Write a page as a script in percent format, laid out as ruff would."""
    about = f'"""The tutorial docs/tutorials/{name}.md as a script; made from it by docs/to_script.py."""'
    parts, gap = [about], "\n\n"
    for kind, text in cells(page):
        parts.append(gap + (code_cell(text) if kind == "code" else markdown_cell(text)))
        # What comes before the first statement is set apart by one blank line; after it two are right everywhere.
        gap = "\n\n\n" if kind == "code" else gap
    whole = "".join(parts) + "\n"
    too_long = any(len(line) > LINE_LENGTH for line in whole.splitlines())
    return ("# ruff: noqa: E501\n" if too_long else "") + whole


def code_cell(text: str) -> str:
    """Mark code as a cell."""
    return f"# %%\n{text}"


def markdown_cell(text: str) -> str:
    """Write prose as comments, with links that lead from the script to where they led from the page."""
    linked = RELATIVE_LINK.sub("](../docs/tutorials/", text)
    return "\n".join(f"# {line}".rstrip() for line in ["%% [markdown]", *linked.splitlines()])


def main() -> None:
    """Write the script of every tutorial."""
    for page in sorted((DOCS / "tutorials").glob("*.md")):
        target = DOCS.parent / "examples" / f"{page.stem}.py"
        target.write_text(script(page.read_text(), page.stem))
        print(target.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
