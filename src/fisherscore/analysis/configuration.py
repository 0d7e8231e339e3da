"""One TOML file per analysis: simulator, parameters, budget, engine, prior, observation.

Everything is looked at before anything is simulated. Paths are relative to the file. Tables that need more than a few
lines to read have files of their own: ``parameters``, ``observation``, ``priors``, and ``user_code`` for the functions
a file names; ``template`` writes a file to start from.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ArgumentError
from ..simulation.continuing import NUM_CHECKED
from ..simulation.jax_simulator import from_jax
from ..simulation.proposal import Proposal
from ..simulation.simulator import Simulator, from_command, from_python
from .document import Document, Section, WrongKind, anything, by_name, choice, flag, positive, sizes, text, whole, words
from .observation import Observation, read_observation
from .parameters import check_point, read_parameters
from .priors import prior_files, read_priors
from .user_code import load_function

_MIN_TESTS = 100
_MOST_ROUNDS = 50
# A forecast simulates at its point, and at one on either side of it for each parameter.
_MIN_AT_EACH_POINT = 20


@dataclass(frozen=True, eq=False)
class Configuration:
    """An analysis file that has been read and checked."""

    document: Document
    title: str
    out: Path
    seed: int
    simulator: Simulator
    shape: tuple[int, ...] | None
    proposal: Proposal
    num_simulations: int
    rounds: str | int | None
    num_test: int
    num_forecast: int
    num_posteriors: int
    num_checked: int
    engine: dict[str, Any]
    recipe: str
    allow_failures: bool
    observation: Observation | None
    prior: Any
    prior_files: list[str]
    forecast_theta0: dict[str, float] | None
    sampler: dict[str, Any]

    def check_observation(self, shape: tuple[int, ...]) -> None:
        """Refuse an observation that does not have the shape of what the simulator returns."""
        observation = self.observation
        if observation is None or observation.x is None:
            return
        observed = observation.x.shape
        if (observed[1:] if observation.iid else observed) == shape:
            return
        expected = f"(n, {', '.join(map(str, shape))})" if observation.iid else str(shape)
        hint = " For independent draws set iid = true." if not observation.iid and observed[1:] == shape else ""
        raise self.document.error(
            ("observation", observation.source),
            f"expected shape {expected}, since the simulator returns {shape}, got {observed}.{hint} "
            "Observation and simulator must give the same numbers in the same order.",
        )


def read_configuration(path: str | Path) -> Configuration:
    """Read an analysis file, or say what is wrong with it and where."""
    document = Document(Path(path))
    top = Section(document, (), document.tree)
    folder = Path(path).resolve().parent
    for name in ("simulator", "parameters", "budget", "engine", "fit", "observation", "prior", "forecast", "sampler"):
        top.take(name, anything, None)  # tables, read one by one below
    title = top.take("title", text, Path(path).stem)
    out = folder / top.take("out", text, f"runs/{Path(path).stem}")
    seed = top.take("seed", whole(0, most=2**62), 0)
    top.finish()
    proposal = read_parameters(document)
    simulator, shape = _simulator(document, folder)
    configuration = Configuration(
        document=document,
        title=title,
        out=out,
        seed=seed,
        simulator=simulator,
        shape=shape,
        proposal=proposal,
        **_budget(document, proposal),
        engine=_engine(document),
        **_fit(document),
        observation=read_observation(document, folder, proposal),
        prior=read_priors(document, proposal, folder),
        prior_files=prior_files(document, folder),
        forecast_theta0=_forecast(document, proposal),
        sampler=_sampler(document),
    )
    if shape is not None:
        configuration.check_observation(shape)
    return configuration


def _simulator(document: Document, folder: Path) -> tuple[Simulator, tuple[int, ...] | None]:
    """Read the simulator, and the shape of its data if the file gives it."""
    section = document.section("simulator", required=True)
    kinds = [k for k in ("python", "jax", "command") if k in section]
    if len(kinds) != 1:
        raise section.error(
            (), f'expected one of python = "file.py:function", jax or command, got {" and ".join(kinds) or "none"}.'
        )
    shape = section.take("shape", sizes, None)
    if kinds == ["command"]:
        return _program(section, folder), shape
    function, code = load_function(section, kinds[0], folder)
    if kinds == ["python"]:
        simulator = from_python(function, timeout=section.take("timeout", positive, None))
    else:
        simulator = from_jax(
            function,
            batch_size=section.take("batch_size", whole(1), 256),
            precision=section.take("precision", choice("single", "double"), "single"),
        )
    simulator.code = code
    section.finish()
    return simulator, shape


def _program(section: Section, folder: Path) -> Simulator:
    """Read a simulator that is a program; its path is relative to the file."""
    command = section.take("command", words)
    options = {
        "timeout": section.take("timeout", positive, None),
        "memory": section.take("memory", positive, None),
        "input_format": section.take("input_format", choice("json", "npy"), "json"),
    }
    section.finish()
    try:
        with contextlib.chdir(folder):
            return from_command(command, **options)
    except ArgumentError as error:
        raise section.error(("command",), str(error).removeprefix("arguments: ")) from None


def _budget(document: Document, proposal: Proposal) -> dict[str, Any]:
    """Read how many simulations each part of the analysis gets."""
    section = document.section("budget", required=True)
    min_forecast = _MIN_AT_EACH_POINT * (2 * proposal.num_parameters + 1)
    num = section.take("simulations", whole(100))
    values = {
        "num_simulations": num,
        "rounds": section.take("rounds", _rounds, None),
        "num_test": section.take("test", whole(_MIN_TESTS, or_zero=True), max(1000, num // 2)),
        "num_forecast": section.take("forecast", whole(min_forecast, or_zero=True), max(min_forecast, num)),
        "num_posteriors": section.take("posteriors", whole(50, or_zero=True), 100),
        "num_checked": section.take("checked", whole(0), NUM_CHECKED),
    }
    section.finish()
    observed = document.tree.get("observation")
    if values["rounds"] is not None and (not isinstance(observed, dict) or observed.get("iid")):
        raise section.error(
            ("rounds",), "expected an [observation], of one draw: rounds of simulations follow its posterior."
        )
    return values


def _rounds(value: Any) -> str | int:
    """Accept how many rounds of simulations follow the observation."""
    if value == "auto":
        return "auto"
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_ROUNDS:
        return value
    raise WrongKind(f'"auto", or a whole number from 1 to {_MOST_ROUNDS}')


def _engine(document: Document) -> dict[str, Any]:
    """Read where simulations run, as arguments of ``simulate``."""
    section = document.section("engine")
    workers = section.take("workers", whole(1), None)
    dask = section.take("dask", text, None)
    section.finish()
    if dask is not None and workers is not None:
        raise section.error(("dask",), "expected workers or dask, got both. Leave one out.")
    if "jax" in document.tree["simulator"] and (dask or workers):
        raise section.error((), "a JAX simulator runs in batches on the device, without workers. Leave [engine] out.")
    return {"dask": dask} if dask else ({"workers": workers} if workers else {})


def _fit(document: Document) -> dict[str, Any]:
    """Read how the score is learned."""
    section = document.section("fit")
    values = {
        "recipe": section.take("recipe", choice("auto", "paper"), "auto"),
        "allow_failures": section.take("allow_failures", flag, False),
    }
    section.finish()
    return values


def _sampler(document: Document) -> dict[str, Any]:
    """Read the settings of the sampler, as arguments of ``sample``."""
    section = document.section("sampler")
    values = {
        "method": section.take("method", choice("nuts", "smc"), "nuts"),
        "num_samples": section.take("samples", whole(10), 1000),
        "num_warmup": section.take("warmup", whole(1), 500),
        "num_chains": section.take("chains", whole(1), 4),
    }
    section.finish()
    return values


def _forecast(document: Document, proposal: Proposal) -> dict[str, float] | None:
    """Read where to forecast: ``theta0``, or ``at``, the name it had in version 0.1."""
    section = document.section("forecast")
    points = {key: section.take(key, by_name, None) for key in ("theta0", "at")}
    section.finish()
    given = {key: point for key, point in points.items() if point is not None}
    if len(given) > 1:
        raise section.error(("at",), "expected theta0 or at, which is its older name, got both. Leave at out.")
    for key, point in given.items():
        check_point(section, key, point, proposal)
        return point
    return None
