"""Building blocks of a self-contained HTML page: verdict, tables, figures, settings. No network needed.

Everything that comes from the user or a simulator is escaped; figures are embedded.
"""

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from .._support.whole_file import write_whole
from .template import read_template


class Page:
    """Collects the parts of a report in the order they are added, and writes them to one file.

    >>> from fisherscore.analysis.page import Page
    >>> page = Page("A <title>")
    >>> page.verdict("All is well.", good=True)
    >>> "A &lt;title&gt;" in page.html()
    True
    """

    def __init__(self, title: str):
        self.title = title
        self.parts: list[str] = []

    def verdict(self, text: str, *, good: bool | None) -> None:
        """Add a sentence that says whether to trust the results; None is for results nobody has checked."""
        kind = {True: "good", False: "bad", None: "open"}[good]
        self.parts.append(f'<p class="verdict {kind}">{html.escape(text)}</p>')

    def paragraph(self, text: str) -> None:
        """Add a paragraph."""
        self.parts.append(f"<p>{html.escape(text)}</p>")

    def list(self, texts: Sequence[str]) -> None:
        """Add a list of sentences."""
        self.parts.append("<ul>" + "".join(f"<li>{html.escape(text)}</li>" for text in texts) + "</ul>")

    def section(self, title: str, text: str = "") -> None:
        """Start a section, with a sentence under its title."""
        self.parts.append(f"<h2>{html.escape(title)}</h2>")
        if text:
            self.paragraph(text)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "numbers") -> None:
        """Add a table: of numbers, which scroll rather than wrap, or of settings, which wrap."""
        top = "".join(f"<th scope='col'>{html.escape(cell)}</th>" for cell in head)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
        inner = f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
        self.parts.append(f"<div class='scroll'><table class='{kind}'>{inner}</table></div>")

    def figure(self, path: Path, caption: str) -> None:
        """Embed a PNG with a caption, which is also its alternative text; one that was not drawn is left out."""
        if not path.exists():
            return
        data = base64.b64encode(path.read_bytes()).decode()
        escaped = html.escape(caption)
        image = f'<img alt="{escaped}" src="data:image/png;base64,{data}">'
        self.parts.append(f"<figure>{image}<figcaption>{escaped}</figcaption></figure>")

    def preformatted(self, text: str) -> None:
        """Add preformatted text, such as a printed table."""
        self.parts.append(f"<pre>{html.escape(text)}</pre>")

    def settings(self, settings: Mapping[str, object]) -> None:
        """Add a table of names and values."""
        self.table(("setting", "value"), [(k, str(v)) for k, v in settings.items()], "settings")

    def html(self) -> str:
        """Return the whole page."""
        style = read_template("report.css")
        return (
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
            "<meta name='viewport' content='width=device-width, initial-scale=1'>"
            f"<title>{html.escape(self.title)}</title><style>{style}</style></head>"
            f"<body><h1>{html.escape(self.title)}</h1>{''.join(self.parts)}</body></html>\n"
        )

    def write(self, path: Path) -> None:
        """Write the page to a file, whole or not at all."""
        write_whole(path, self.html())
