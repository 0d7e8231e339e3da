"""Every public name explains itself: an example, every argument by name, what is returned.

Docstrings are in Google style. The reference of the documentation is made of them.
"""

import inspect
import re
import types
from pathlib import Path

import pytest

import fisherscore as fs

ROOT = Path(__file__).parents[1]
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def members_in_reference(module):
    """Return the functions and classes of a module that the reference shows."""
    text = "\n".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    block = text[text.index(f"::: fisherscore.{module}\n") :]
    return re.search(r"members: \[(.*?)\]", block)[1].split(", ")


def public():
    """Return all public things by the name users write."""
    things = {name: getattr(fs, name) for name in fs.__all__}
    for module, names in (
        ("plot", members_in_reference("plot")),
        ("accuracy", members_in_reference("accuracy")),
        ("problems", fs.problems.__all__),
    ):
        things |= {f"{module}.{name}": getattr(getattr(fs, module), name, None) for name in names}
    return things


def section(doc, title):
    """Return the lines of a section, without their common indentation, or None."""
    match = re.search(rf"^{title}:\n((?:[ ]+\S.*\n|\n)+)", doc + "\n", re.MULTILINE)
    return inspect.cleandoc(match[1]) if match else None


def named(doc, *titles):
    """Return the names described in sections such as ``Args``."""
    text = "\n".join(section(doc, title) or "" for title in titles)
    heads = re.findall(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: \(.*?\))?:", text, re.MULTILINE)
    return {name.lstrip("*") for head in heads for name in head.split(", ")}


def parameters(thing, *, variadic=True):
    """Return the names of a callable's public parameters."""
    kept = inspect.signature(thing).parameters.values()
    return [p.name for p in kept if not p.name.startswith("_") and (variadic or p.kind not in VARIADIC)]


def returns_nothing(function):
    return inspect.signature(function).return_annotation in (None, "None")


def misses_of_function(function, *, first=0):
    """Return what a docstring lacks; ``first`` leading parameters (self) are not described."""
    doc, wanted = inspect.getdoc(function) or "", parameters(function)[first:]
    missing = [f"argument {name}" for name in wanted if name not in named(doc, "Args")]
    return missing + ([] if returns_nothing(function) or section(doc, "Returns") else ["Returns"])


def misses_of_class(cls):
    """Return what the docstrings of a class and of its own public methods lack."""
    doc = inspect.getdoc(cls) or ""
    wanted = [] if issubclass(cls, Exception) else parameters(cls, variadic=False)
    missing = [f"argument or attribute {name}" for name in wanted if name not in named(doc, "Args", "Attributes")]
    for name, method in inspect.getmembers_static(cls):
        function = getattr(method, "__func__", method)  # of a classmethod or staticmethod
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if not function.__module__.startswith("fisherscore"):
            continue
        if not inspect.getdoc(getattr(cls, name)):
            missing.append(f"{name}: docstring")
        first = 0 if isinstance(method, staticmethod) else 1
        if parameters(function)[first:]:
            missing += [f"{name}: {miss}" for miss in misses_of_function(function, first=first)]
    return missing


def misses(thing):
    """Return what the docstring of a public thing lacks."""
    doc = inspect.getdoc(thing)
    if thing is None:
        return ["the thing itself, which the reference names and the package does not have"]
    if not doc:
        return ["docstring"]
    missing = [] if ">>> " in doc else ["example"]
    if isinstance(thing, types.ModuleType):
        return missing
    return missing + (misses_of_class(thing) if inspect.isclass(thing) else misses_of_function(thing))


@pytest.mark.parametrize(("name", "thing"), public().items(), ids=public())
def test_a_public_name_has_an_example_arguments_and_returns(name, thing):
    missing = misses(thing)
    assert not missing, f"the docstring of fs.{name} lacks: {', '.join(missing)}"


def complete(a, *rows, b=1, **options) -> int:
    """Add.

    Args:
        a: The first: a number, described
            on two lines.
        *rows: More.
        b (int): Another.
        **options: Others.

    Returns:
        The sum.

    >>> complete(1)
    2
    """
    return a + b


def without_sections(a, b=1) -> int:
    """Add, which a colon follows: a, b.

    >>> without_sections(1)
    2
    """
    return a + b


def prints(a) -> None:  # noqa: D417
    """Print.

    Args:
        other: Not its name.
    """


class Half:
    """Half described.

    Attributes:
        a: One.

    >>> Half(1, 2).times(3)
    3
    """

    def __init__(self, a, b):
        self.a, self.b = a, b

    def times(self, factor) -> float:
        """Multiply."""
        return self.a * factor

    @classmethod
    def make(cls, a) -> "Half":
        """Make one.

        Args:
            a: Both.

        Returns:
            A half.
        """
        return cls(a, a)

    def shown(self) -> str:
        """Show; no arguments, one line will do."""
        return str(self.a)


@pytest.mark.parametrize(
    ("thing", "missing"),
    [
        (complete, []),
        (without_sections, ["argument a", "argument b", "Returns"]),
        (prints, ["example", "argument a"]),
        (lambda: None, ["docstring"]),
        (Half, ["argument or attribute b", "times: argument factor", "times: Returns"]),
    ],
    ids=["complete", "without_sections", "prints", "nothing", "Half"],
)
def test_what_is_missing_is_reported(thing, missing, monkeypatch):
    if inspect.isclass(thing):
        for method in ("times", "shown"):
            monkeypatch.setattr(getattr(thing, method), "__module__", "fisherscore.example")
        monkeypatch.setattr(thing.make.__func__, "__module__", "fisherscore.example")
    assert misses(thing) == missing
