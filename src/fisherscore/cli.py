"""The command line. Heavy modules are imported inside the commands, so that ``--help`` answers at once."""

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import asdict
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from . import __version__
from ._support.commands import DEBUG, told_errors
from .errors import ArgumentError, FisherScoreWarning

app = typer.Typer(
    help="Learn the Fisher score of any simulator, and put it to work.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)

# Exit codes: 0 done; 1 an error, told in a line; 2 wrong usage; 3 done, but not to be trusted; 130 interrupted.
UNTRUSTED = 3


class Experiment(StrEnum):
    """The experiments that can be run by name."""

    lensing_maps = "lensing-maps"
    linear_gaussian = "linear-gaussian"
    weak_lensing = "weak-lensing"


class RecipeName(StrEnum):
    """The recipes that can be named."""

    auto = "auto"
    paper = "paper"


def _version(show: bool) -> None:
    """Print the version if asked to."""
    if show:
        typer.echo(f"fisherscore {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error comes from (or set FISHERSCORE_DEBUG=1).")
    ] = False,
) -> None:
    """Learn the Fisher score of any simulator, and put it to work."""
    if debug:
        os.environ[DEBUG] = "1"


AsJson = Annotated[bool, typer.Option("--json", help="Write the result as JSON, for machines; all else to stderr.")]
File = Annotated[Path, typer.Argument(help="An analysis file; fisherscore init writes one.", metavar="FILE")]


def _complete_target(incomplete: str) -> list[str]:
    """Complete the name of an experiment, or of an analysis file in this folder."""
    return [n for n in (*Experiment, *map(str, Path().glob("*.toml"))) if n.startswith(incomplete)]


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="Name of the new file.", metavar="FILE")] = Path("analysis.toml"),
) -> None:
    """Write a commented analysis file, and beside it a small simulator to start from; both run as they are."""
    with told_errors():
        from .analysis.template import write_template

        written = write_template(file)
        typer.echo(f"wrote {' and '.join(map(str, written))}. Next: fisherscore run {file}")


@app.command()
def run(
    target: Annotated[
        str,
        typer.Argument(
            help="An analysis file (.toml), or an experiment of the paper: weak-lensing or linear-gaussian.",
            metavar="FILE|EXPERIMENT",
            autocompletion=_complete_target,
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Folder of an experiment's results.")] = None,
    num_simulations: Annotated[
        int | None, typer.Option(min=100, help="Number of simulations an experiment trains on.")
    ] = None,
    recipe: Annotated[RecipeName | None, typer.Option(help="How an experiment fits.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of everything random in an experiment.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Let an experiment compare and check with less.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a whole analysis: simulate, fit, forecast, sample, check and report. Stages that are done are not run again.

    Exit code 3 means that it ran, and that its own checks advise against trusting it.
    """
    options = {"num_simulations": num_simulations, "recipe": recipe and recipe.value, "seed": seed, "quick": quick}
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    if target in list(Experiment):
        if out is None:
            raise typer.BadParameter("an experiment needs a folder for its results.", param_hint="--out")
        _run_experiment(Experiment(target), out, given, as_json)
        return
    if not target.endswith(".toml"):
        known = ", ".join(Experiment)
        raise typer.BadParameter(f"expected a file ending in .toml, or one of {known}; got {target!r}.")
    if out is not None or given:
        raise typer.BadParameter("an analysis file says all this itself; options are for the experiments.")
    _run_stages(Path(target), None, as_json)


def _run_experiment(experiment: Experiment, out: Path, options: dict[str, Any], as_json: bool) -> None:
    """Run an experiment."""
    with _computing():
        module = import_module(f".experiments.{experiment.name}", __package__)
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            result = module.run(out, **options)
        if as_json:
            typer.echo(json.dumps(result))


def _run_stages(file: Path, stages: tuple[str, ...] | None, as_json: bool) -> None:
    """Run stages of an analysis file; the exit code says whether they advise against trusting it."""
    with _computing():
        from .analysis.configuration import read_configuration
        from .analysis.report import verdict
        from .analysis.stages import STAGES, run_stages
        from .analysis.workspace import Workspace

        configuration = read_configuration(file)
        workspace = Workspace(configuration, say=lambda line: typer.echo(line, err=as_json))
        results = run_stages(workspace, stages or STAGES)
        good, reasons = verdict(configuration, results)
        if as_json:
            typer.echo(json.dumps({"trusted": good, "reasons": reasons, "stages": results}))
        elif stages != ("report",):
            typer.echo(" ".join(reasons))
        if good is False and (stages is None or {"fit", "check", "sample"} & set(stages)):
            raise typer.Exit(UNTRUSTED)


Command = Annotated[list[str], typer.Argument(help="The program: ./sim {input} {output}, after a --.")]
Parameters = Annotated[list[str], typer.Option("--parameter", "-p", help="A parameter's range: name=low:high.")]
Timeout = Annotated[float | None, typer.Option(help="Seconds after which a run is killed.")]
NumChecked = Annotated[
    int | None,
    typer.Option(
        min=0, help="Stored runs repeated before a campaign is gone on with, to see that it is the same program."
    ),
]
InputFormat = Annotated[str, typer.Option(help="How the program is given its parameters: json or npy.")]


@app.command()
def simulate(
    command: Annotated[
        list[str], typer.Argument(help="An analysis file; or a program after a --: ./sim {input} {output}.")
    ],
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", help="A parameter's range: name=low:high.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the campaign; the same call again goes on where it stopped.")
    ] = None,
    num_simulations: Annotated[int | None, typer.Option(min=1, help="Number of simulations in the campaign.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of simulations run at a time; by default 1.")
    ] = None,
    shard: Annotated[str | None, typer.Option(help="k/n: run the k-th of n parts, for job arrays.")] = None,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, to run there.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of everything random; by default 0.")] = None,
    num_checked: NumChecked = None,
    timeout: Timeout = None,
    input_format: Annotated[
        str | None, typer.Option(help="How the program is given its parameters: json or npy; by default json.")
    ] = None,
) -> None:
    """Run the simulations of an analysis file, or a campaign of an external program over a box of parameters.

    With an analysis file only --shard may be given; shards are joined by the next simulate or run without --shard.

    Example: fisherscore simulate analysis.toml

    Example: fisherscore simulate -p a=0:1 --out runs/mine --num-simulations 5000 --workers 8 -- ./sim {input} {output}
    """
    if len(command) == 1 and command[0].endswith(".toml"):
        others = (parameter, out, num_simulations, workers, dask, seed, num_checked, timeout, input_format)
        if any(value is not None for value in others):
            raise typer.BadParameter("an analysis file says all this itself; only --shard may be given.")
        with _computing():
            from .analysis.campaigns import run_campaigns
            from .analysis.configuration import read_configuration
            from .analysis.workspace import Workspace

            run_campaigns(Workspace(read_configuration(command[0]), say=typer.echo), shard)
        return
    if parameter is None or out is None or num_simulations is None:
        raise typer.BadParameter("a program needs --parameter, --out and --num-simulations.")
    with _computing():
        from .simulation.campaign import simulate as run_campaign
        from .simulation.proposal import uniform
        from .simulation.simulator import from_command
        from .simulation.status import campaign_status

        simulator = from_command(command, timeout=timeout, input_format=input_format or "json")
        ranges = uniform([_range(text) for text in parameter])
        engine = {"dask": dask} if dask else {"workers": workers or 1}
        checked: dict[str, Any] = {} if num_checked is None else {"num_checked": num_checked}
        run_campaign(simulator, ranges, num_simulations, seed=seed or 0, out=out, shard=shard, **checked, **engine)
        typer.echo(str(campaign_status(out)))


@app.command()
def retry(
    target: Annotated[str, typer.Argument(help="An analysis file, or the folder of a program's campaign.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="The program of that campaign, after a --: ./sim {input} {output}.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", "-k", help="A kind of failures, such as timeout; by default all.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of simulations run at a time.")] = None,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, to run there.")] = None,
    num_checked: NumChecked = None,
    timeout: Timeout = None,
) -> None:
    """Run failed simulations again, at the same parameters and with the same seeds; it stays known that they were.

    Example: fisherscore retry analysis.toml --kind timeout

    Example: fisherscore retry runs/mine --kind timeout --timeout 600 -- ./sim {input} {output}
    """
    kinds = kind or ["all"]
    checked: dict[str, Any] = {} if num_checked is None else {"num_checked": num_checked}
    with _computing():
        from .simulation.campaign import failure_kinds
        from .simulation.retrying import retry_program
        from .simulation.status import campaign_status

        if not target.endswith(".toml"):
            retry_program(Path(target), command, kinds, timeout=timeout, workers=workers, dask=dask, **checked)
            typer.echo(str(campaign_status(target)))
            return
        from .analysis.campaigns import run_campaigns
        from .analysis.configuration import read_configuration
        from .analysis.workspace import Workspace

        if command or any(value is not None for value in (workers, dask, num_checked, timeout)):
            raise typer.BadParameter("an analysis file says all this itself; only --kind may be given.")
        workspace = Workspace(read_configuration(target), say=typer.echo)
        run_campaigns(workspace, retry=failure_kinds(kinds, workspace.out))


def _add_stage(stage: str, description: str) -> None:
    """Add a command that runs one stage of an analysis alone."""

    @app.command(stage, help=description)
    def command(file: File, as_json: AsJson = False) -> None:
        _run_stages(file, (stage,), as_json)


_add_stage("fit", "Learn the score from the simulations of an analysis.")
_add_stage("forecast", "Forecast the errors of an analysis: Fisher matrix, plug-in and conservative.")
_add_stage("sample", "Find the best fit and sample the posterior of the observation.")
_add_stage("check", "Check the score on simulations it has not seen. Exit code 3: a check failed.")
_add_stage("report", "Write the page of an analysis, with all that is done so far.")


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="A campaign's folder.")],
    as_json: AsJson = False,
) -> None:
    """Show the progress of a campaign, while it runs or afterwards."""
    with told_errors():
        from .simulation.status import campaign_status

        state = campaign_status(folder)
        typer.echo(json.dumps(asdict(state)) if as_json else str(state))


@app.command()
def merge(
    out: Annotated[Path, typer.Argument(help="Folder for the whole campaign.")],
    parts: Annotated[list[Path], typer.Argument(help="Folders of the shards.")],
    num_checked: NumChecked = None,
) -> None:
    """Join the shards of a campaign, simulated as a job array, into one folder."""
    with told_errors():
        from .simulation.merging import merge_campaigns

        checked: dict[str, Any] = {} if num_checked is None else {"num_checked": num_checked}
        typer.echo(f"{out}: {len(merge_campaigns(out, parts, **checked)):,} simulations")


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="A campaign's folder.")],
    file: Annotated[Path, typer.Argument(help="A file ending in .npz, .h5 or .hdf5.")],
) -> None:
    """Write a campaign's simulations to one file that other programs read."""
    with told_errors():
        from .simulation.campaign import open_campaign
        from .simulation.files import export_simulations

        sims = open_campaign(folder)
        export_simulations(sims, file)
        typer.echo(f"{file}: {len(sims):,} simulations")


@app.command("check-simulator")
def check_simulator(
    command: Command,
    parameter: Parameters,
    num_runs: Annotated[int, typer.Option(min=2, help="Number of trial runs.")] = 5,
    num_simulations: Annotated[
        int | None, typer.Option(min=1, help="Estimate the cost of this many simulations.")
    ] = None,
    timeout: Timeout = None,
    input_format: InputFormat = "json",
    as_json: AsJson = False,
) -> None:
    """Run an external simulator a few times: does it work, is it repeatable, what will a campaign cost?

    Example: fisherscore check-simulator -p a=0:1 -p b=2:3 -- ./sim {input} {output}
    """
    with _computing():
        from .simulation.preflight import check_simulator as check
        from .simulation.proposal import uniform
        from .simulation.simulator import from_command

        simulator = from_command(command, timeout=timeout, input_format=input_format)
        ranges = [_range(text) for text in parameter]
        trial = check(simulator, uniform(ranges), num_runs=num_runs, num_simulations=num_simulations)
        typer.echo(json.dumps(trial.as_dict()) if as_json else str(trial))
        if trial.problems:
            raise typer.Exit(UNTRUSTED)


def _range(text: str) -> tuple[str, tuple[float, float]]:
    """Read name=low:high."""
    name, _, limits = text.rpartition("=")
    low, _, high = limits.partition(":")
    try:
        return name, (float(low), float(high))
    except ValueError:
        raise ArgumentError(f"--parameter: expected name=low:high such as omega=0.1:0.5, got {text!r}.") from None


@contextmanager
def _computing() -> Iterator[None]:
    """Treat errors likewise, and keep what is compiled for the next command."""
    with told_errors():
        from ._support.compilation_cache import use_compilation_cache

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FisherScoreWarning)  # nobody asked for it, so nobody misses it
            use_compilation_cache()
        yield


if __name__ == "__main__":
    app()
