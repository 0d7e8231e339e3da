"""The command line. Heavy modules are imported inside the commands, so that ``--help`` answers at once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from . import __version__
from .errors import FisherScoreError

app = typer.Typer(
    help="Learn the Fisher score of any simulator, and put it to work.", no_args_is_help=True, add_completion=True
)


class Experiment(StrEnum):
    """The experiments that can be run by name."""

    linear_gaussian = "linear-gaussian"
    weak_lensing = "weak-lensing"


class RecipeName(StrEnum):
    """The recipes that can be named."""

    auto = "auto"
    paper = "paper"


def _version(show: bool) -> None:
    if show:
        typer.echo(f"fisherscore {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Learn the Fisher score of any simulator, and put it to work."""


@app.command()
def run(
    experiment: Annotated[Experiment, typer.Argument(help="Which experiment to run.")],
    out: Annotated[Path, typer.Option(help="Folder for figures, numbers and the model.")],
    num_simulations: Annotated[
        int | None, typer.Option(min=100, help="How many simulations to train on.  [default: the experiment's own]")
    ] = None,
    recipe: Annotated[
        RecipeName | None, typer.Option(help="How to fit.  [default: paper for linear-gaussian, else auto]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Compare and check with less, for a first look.")] = False,
) -> None:
    """Run a complete experiment: simulate, fit, compare with the truth, and write figures and numbers."""
    from importlib import import_module

    module = import_module(f".experiments.{experiment.name}", __package__)
    chosen = {"num_simulations": num_simulations, "recipe": recipe and recipe.value}
    try:
        module.run(out, seed=seed, quick=quick, **{k: v for k, v in chosen.items() if v is not None})
    except FisherScoreError as error:
        typer.echo(f"fisherscore: {error}", err=True)
        raise typer.Exit(1) from None
