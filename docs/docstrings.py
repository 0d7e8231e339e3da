"""A Griffe extension that prepares the package's docstrings for the reference.

Docstrings are in Google style: prose, sections such as ``Args:`` and ``Returns:``, and examples starting with ``>>>``.
Griffe makes tables of the sections. Before it does, roles such as :func:`fisherscore.fit` become links to the reference
where it has the name, examples become code blocks, and returns are given the type of the signature.
"""

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(func|class|meth|mod):`~?([\w.]+)`")
_INTERNAL = "fisherscore."


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is rendered."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one module, class or function."""
        if obj.docstring is not None:
            obj.docstring.value = _fenced(_with_return_type(_linked(obj.docstring.value, obj), obj))


def _linked(text: str, obj: griffe.Object) -> str:
    """Replace roles by names in code, linked where the name is one the package exports."""
    exported = _exported(obj)

    def link(match: re.Match[str]) -> str:
        role, path = match.groups()
        name = path.removeprefix(_INTERNAL)
        if role != "mod" and name in exported:
            return f"[`fs.{name}`][fisherscore.{name}]"
        return f"`{path if role == 'mod' else name}`"

    return _ROLE.sub(link, text)


def _exported(obj: griffe.Object) -> set[str]:
    top: Any = obj
    while top.parent is not None:
        top = top.parent
    return {name for name, member in top.members.items() if member.is_alias}


def _with_return_type(text: str, obj: griffe.Object) -> str:
    """Put the annotated type before the words on what is returned; Griffe takes any words before a colon for a type."""
    annotation = getattr(obj, "returns", None)
    return text if annotation is None else re.sub(r"(?m)^Returns:\n +", rf"\g<0>{annotation}: ", text)


def _fenced(text: str) -> str:
    """Put examples, which run from ``>>>`` to a blank line, into code blocks."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside and line.startswith(">>> "):
            inside = True
            lines += ["", "```pycon"]
        if inside and not line.strip():
            inside = False
            lines.append("```")
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)
