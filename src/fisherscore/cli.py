"""The command line. Heavy modules are imported inside the commands, so that ``--help`` answers at once."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from . import __version__
from .errors import ArgumentError, FisherScoreError

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
    with _errors():
        module.run(out, seed=seed, quick=quick, **{k: v for k, v in chosen.items() if v is not None})


Command = Annotated[list[str], typer.Argument(help="The program: ./sim {input} {output}, after a --.")]
Parameters = Annotated[list[str], typer.Option("--parameter", "-p", help="A parameter's range: name=low:high.")]
Timeout = Annotated[float | None, typer.Option(help="Seconds after which a run is killed.")]
InputFormat = Annotated[str, typer.Option(help="How the program is given its parameters: json or npy.")]


@app.command()
def simulate(
    command: Command,
    parameter: Parameters,
    out: Annotated[Path, typer.Option(help="Folder of the campaign; the same call again goes on where it stopped.")],
    num_simulations: Annotated[int, typer.Option(min=1, help="How many simulations the campaign has.")],
    workers: Annotated[int, typer.Option(min=1, help="How many run at a time.")] = 1,
    shard: Annotated[str | None, typer.Option(help="k/n: run the k-th of n parts, for job arrays; then merge.")] = None,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, to run there.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    timeout: Timeout = None,
    input_format: InputFormat = "json",
) -> None:
    """Run a campaign of an external simulator over a box of parameters.

    Example: fisherscore simulate -p a=0:1 --out runs/mine --num-simulations 5000 --workers 8 -- ./sim {input} {output}
    """
    with _errors():
        from .campaign import simulate as run_campaign
        from .proposal import uniform
        from .simulator import from_command
        from .stored import campaign_status

        simulator = from_command(command, timeout=timeout, input_format=input_format)
        ranges = uniform([_range(text) for text in parameter])
        engine = {"dask": dask} if dask else {"workers": workers}
        run_campaign(simulator, ranges, num_simulations, seed=seed, out=out, shard=shard, **engine)
        typer.echo(str(campaign_status(out)))


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="A campaign's folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """Say how far a campaign is, while it runs or afterwards."""
    with _errors():
        from .stored import campaign_status

        found = campaign_status(folder)
        typer.echo(json.dumps(asdict(found)) if as_json else str(found))


@app.command()
def merge(
    out: Annotated[Path, typer.Argument(help="Folder for the whole campaign.")],
    parts: Annotated[list[Path], typer.Argument(help="Folders of the shards.")],
) -> None:
    """Join the shards of a campaign, simulated as a job array, into one folder."""
    with _errors():
        from .campaign import merge_campaigns

        typer.echo(f"{out}: {len(merge_campaigns(out, parts)):,} simulations")


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="A campaign's folder.")],
    file: Annotated[Path, typer.Argument(help="A file ending in .npz, .h5 or .hdf5.")],
) -> None:
    """Write a campaign's simulations to one file that other programs read."""
    with _errors():
        from .stored import open_campaign
        from .transfer import export_simulations

        sims = open_campaign(folder)
        export_simulations(sims, file)
        typer.echo(f"{file}: {len(sims):,} simulations")


@app.command("check-simulator")
def check_simulator(
    command: Command,
    parameter: Parameters,
    num_runs: Annotated[int, typer.Option(min=2, help="How many runs to try.")] = 5,
    num_simulations: Annotated[int | None, typer.Option(min=1, help="Estimate the cost of so many.")] = None,
    timeout: Timeout = None,
    input_format: InputFormat = "json",
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")] = False,
) -> None:
    """Run an external simulator a few times: does it work, is it repeatable, what will a campaign cost?

    Example: fisherscore check-simulator -p a=0:1 -p b=2:3 -- ./sim {input} {output}
    """
    with _errors():
        from .preflight import check_simulator as check
        from .proposal import uniform
        from .simulator import from_command

        simulator = from_command(command, timeout=timeout, input_format=input_format)
        ranges = [_range(text) for text in parameter]
        found = check(simulator, uniform(ranges), num_runs=num_runs, num_simulations=num_simulations)
        typer.echo(json.dumps(found.as_dict()) if as_json else str(found))
        if found.problems:
            raise typer.Exit(1)


def _range(text: str) -> tuple[str, tuple[float, float]]:
    name, _, limits = text.rpartition("=")
    low, _, high = limits.partition(":")
    try:
        return name, (float(low), float(high))
    except ValueError:
        raise ArgumentError(f"--parameter: expected name=low:high such as omega=0.1:0.5, got {text!r}.") from None


@contextmanager
def _errors() -> Iterator[None]:
    """Print errors of ours as one line, without a traceback."""
    try:
        yield
    except FisherScoreError as error:
        typer.echo(f"fisherscore: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("fisherscore: stopped. What is done is kept; the same command goes on from here.", err=True)
        raise typer.Exit(130) from None
