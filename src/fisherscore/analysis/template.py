"""What ``fisherscore init`` writes: a complete analysis that runs, to be changed into one's own.

The texts stand in the folder ``templates`` as they are written, but for the words after a $.
"""

from importlib.resources import files
from pathlib import Path
from string import Template

from .._support.whole_file import write_whole
from ..errors import ConfigurationError


def read_template(name: str) -> str:
    """Return the text of a file in the folder ``templates``."""
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")


def write_template(path: Path) -> list[Path]:
    """Write a commented analysis file, and beside it a simulator to start from unless there is one."""
    if path.suffix != ".toml":
        raise ConfigurationError(f"FILE: expected a name ending in .toml, got {path}.")
    if path.exists():
        raise ConfigurationError(f"FILE: {path} exists and is left alone. Choose another name.")
    path.parent.mkdir(parents=True, exist_ok=True)
    analysis = Template(read_template("analysis.toml")).substitute(file=path.name, stem=path.stem)
    write_whole(path, analysis)
    simulator = path.with_name("simulator.py")
    if simulator.exists():
        return [path]
    write_whole(simulator, read_template("simulator.py.txt"))
    return [path, simulator]
