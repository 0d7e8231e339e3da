"""One self-contained HTML page for an analysis: verdict first, then tables, figures and settings. No network needed.

Everything that comes from the user or a simulator is escaped; figures are embedded.
"""

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #d0d7de; --soft: #f6f8fa;
  --good: #1a7f37; --bad: #b42318; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d; --soft: #161b22;
  --good: #3fb950; --bad: #ff7b72; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 62rem; padding: 1rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); }
.verdict { border-left: 6px solid; padding: .6rem 1rem; background: var(--soft); font-weight: 600; }
.good { border-color: var(--good); } .bad { border-color: var(--bad); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .95rem; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); }
td { font-variant-numeric: tabular-nums; }
figure { margin: 1.2rem 0; } figure img { max-width: 100%; height: auto; background: #ffffff; border-radius: 4px; }
figcaption { font-size: .92rem; opacity: .85; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; font-size: .85rem; }
@media print { body { max-width: none; } figure, table, pre { break-inside: avoid; } }
"""


class Page:
    """Collects the parts of a report in the order they are added, and writes them to one file.

    >>> from fisherscore.report import Page
    >>> page = Page("A <title>")
    >>> page.verdict("All is well.", good=True)
    >>> "A &lt;title&gt;" in page.html()
    True
    """

    def __init__(self, title: str):
        self.title = title
        self.parts: list[str] = []

    def verdict(self, text: str, *, good: bool) -> None:
        """Add a sentence that says whether to believe the rest."""
        self.parts.append(f'<p class="verdict {"good" if good else "bad"}">{html.escape(text)}</p>')

    def section(self, title: str, text: str = "") -> None:
        """Start a section, with a sentence under its title."""
        self.parts.append(f"<h2>{html.escape(title)}</h2>")
        if text:
            self.parts.append(f"<p>{html.escape(text)}</p>")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table."""
        top = "".join(f"<th scope='col'>{html.escape(cell)}</th>" for cell in head)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
        self.parts.append(
            f"<div class='scroll'><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def figure(self, path: Path, caption: str) -> None:
        """Embed a PNG with a caption, which is also its alternative text."""
        data = base64.b64encode(path.read_bytes()).decode()
        words = html.escape(caption)
        self.parts.append(
            f'<figure><img alt="{words}" src="data:image/png;base64,{data}"><figcaption>{words}</figcaption></figure>'
        )

    def text(self, words: str) -> None:
        """Add preformatted text, such as a printed table."""
        self.parts.append(f"<pre>{html.escape(words)}</pre>")

    def settings(self, facts: Mapping[str, object]) -> None:
        """Add a table of names and values."""
        self.table(("setting", "value"), [(k, str(v)) for k, v in facts.items()])

    def html(self) -> str:
        """Return the whole page."""
        return (
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
            "<meta name='viewport' content='width=device-width, initial-scale=1'>"
            f"<title>{html.escape(self.title)}</title><style>{_STYLE}</style></head>"
            f"<body><h1>{html.escape(self.title)}</h1>{''.join(self.parts)}</body></html>\n"
        )

    def write(self, path: Path) -> None:
        """Write the page to a file."""
        path.write_text(self.html(), encoding="utf-8")
