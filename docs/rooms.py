"""Write the list of files into ARCHITECTURE.md, from the first line of each file: ``python docs/rooms.py``.

The list stands between the comments ``<!-- rooms -->`` and ``<!-- end -->``. A test holds it against the files.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fisherscore"
PAGE = ROOT / "ARCHITECTURE.md"
MARKED = re.compile(r"(<!-- rooms -->).*?(<!-- end -->)", re.DOTALL)
# From the bottom of the house to its top.
ROOMS = (
    "_support",
    "simulation",
    "simulation/execution",
    "potentials",
    "score",
    "fitting",
    "inference",
    "inference/priors",
    "inference/aiming",
    "problems",
    "analysis",
    "experiments",
)
ROLE = re.compile(r":\w+:`~?([^`]+)`")


def first_line(path: Path) -> str:
    """Return the first line of a file's docstring, as Markdown for a cell of a table."""
    text = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]
    return ROLE.sub(r"`\1`", text).replace("``", "`").replace("|", "\\|").rstrip(".")


def listing(title: str, folder: Path, purpose: str) -> str:
    """List the files of one folder."""
    files = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    rows = [f"| `{path.name}` | {first_line(path)} |" for path in files]
    return "\n".join([f"**{title}** {purpose}", "", "| file | what it is for |", "|---|---|", *rows])


def rooms() -> str:
    """List all rooms with their files."""
    top = listing("At the top:", SOURCE, "what every room may raise, and what users see of the house.")
    parts = [listing(f"`{room}/`", SOURCE / room, first_line(SOURCE / room / "__init__.py") + ".") for room in ROOMS]
    return "\n\n".join([top, *parts])


def filled(text: str) -> str:
    """Return the page with the list as it should be."""
    return MARKED.sub(lambda match: f"{match[1]}\n\n{rooms()}\n\n{match[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
