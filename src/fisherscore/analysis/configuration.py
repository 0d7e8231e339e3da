"""One TOML file per analysis: simulator, parameters, budget, engine, prior, observation.

Everything is looked at before anything is simulated. Paths are relative to the file. ``TEMPLATE`` is what
``fisherscore init`` writes: a complete analysis that runs, to be changed into one's own.
"""

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import jax
import numpy as np
import numpyro.distributions as dist

from ..errors import ArgumentError, ConfigurationError
from ..simulation.identity import source_digest
from ..simulation.proposal import Proposal, uniform
from ..simulation.simulator import Simulator, from_command, from_jax, from_python
from .document import (
    Document,
    Section,
    Unfit,
    anything,
    by_name,
    choice,
    flag,
    numbers,
    positive,
    sizes,
    text,
    whole,
    words,
)

_FEWEST_TESTS = 100
# A prior with less of its mass in the training region than this asks about places nobody has simulated.
_SMALLEST_MASS = 0.5
# Names of modules that are files of users, loaded here: another analysis may bring another file of that name.
_LOADED: set[str] = set()

PRIORS: dict[str, tuple[int, str, Callable[..., dist.Distribution]]] = {
    "uniform": (2, "low, high", dist.Uniform),
    "normal": (2, "mean, standard deviation", dist.Normal),
    "lognormal": (2, "mean and standard deviation of the logarithm", dist.LogNormal),
    "halfnormal": (1, "scale", dist.HalfNormal),
    "gamma": (2, "shape, rate", dist.Gamma),
    "truncated_normal": (
        4,
        "mean, standard deviation, low, high",
        lambda mean, deviation, low, high, **options: dist.TruncatedNormal(
            mean, deviation, low=low, high=high, **options
        ),
    ),
}


@dataclass(frozen=True)
class Observation:
    """What was observed: an array, or the parameters of a mock observation still to be drawn."""

    x: np.ndarray | None
    mock: dict[str, float] | None
    iid: bool
    source: str


@dataclass(frozen=True)
class Configuration:
    """An analysis file that has been read and found right."""

    document: Document
    title: str
    out: Path
    seed: int
    simulator: Simulator
    shape: tuple[int, ...] | None
    proposal: Proposal
    num_simulations: int
    num_test: int
    num_forecast: int
    num_posteriors: int
    engine: dict[str, Any]
    recipe: str
    allow_failures: bool
    observation: Observation | None
    prior: dict[str, dist.Distribution]
    forecast_at: dict[str, float] | None
    sampler: dict[str, Any]

    def check_observation(self, shape: tuple[int, ...]) -> None:
        """Refuse an observation that does not have the shape of what the simulator returns."""
        found = self.observation
        if found is None or found.x is None:
            return
        one = found.x.shape[1:] if found.iid else found.x.shape
        if one != shape:
            expected = f"(n, {', '.join(map(str, shape))})" if found.iid else str(shape)
            hint = "" if found.iid or found.x.shape[1:] != shape else " For independent draws set iid = true."
            raise self.document.error(
                ("observation", found.source),
                f"expected shape {expected}, since the simulator returns {shape}, got {found.x.shape}.{hint} "
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
    seed = top.take("seed", whole(0), 0)
    top.finish()
    proposal = _parameters(document)
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
        observation=_observation(document, folder, proposal),
        prior=_prior(document, proposal),
        forecast_at=_forecast(document, proposal),
        sampler=_sampler(document),
    )
    if shape is not None:
        configuration.check_observation(shape)
    return configuration


def _parameters(document: Document) -> Proposal:
    section = document.section("parameters", required=True)
    ranges, units = {}, {}
    for name, value in section.tree.items():
        ranges[name] = section.take(name, _range)
        if isinstance(value, dict):
            units[name] = value.get("unit", "")
    if not ranges:
        raise section.error((), "expected at least one parameter such as amplitude = [0.0, 1.0], got none.")
    try:
        return uniform(ranges, units=units)
    except ArgumentError as error:
        raise section.error((), str(error)) from None


def _range(value: Any) -> tuple[float, float]:
    """Accept [low, high], or { range = [low, high], unit = "km" }."""
    if isinstance(value, dict):
        if not {"range"} <= value.keys() <= {"range", "unit"} or not isinstance(value.get("unit", ""), str):
            raise Unfit('[low, high], or { range = [low, high], unit = "km" }')
        value = value["range"]
    low, high = numbers(2)(value)
    if low >= high:
        raise Unfit("low < high")
    return low, high


def _simulator(document: Document, folder: Path) -> tuple[Simulator, tuple[int, ...] | None]:
    section = document.section("simulator", required=True)
    kinds = [k for k in ("python", "jax", "command") if k in section]
    if len(kinds) != 1:
        raise section.error(
            (), f'expected one of python = "file.py:function", jax or command, got {" and ".join(kinds) or "none"}.'
        )
    kind = kinds[0]
    shape = section.take("shape", sizes, None)
    if kind == "command":
        options = {
            "timeout": section.take("timeout", positive, None),
            "memory": section.take("memory", positive, None),
            "input_format": section.take("input_format", choice("json", "npy"), "json"),
        }
        given = section.take("command", words)
        section.finish()
        try:
            with contextlib.chdir(folder):
                return from_command(given, **options), shape
        except ArgumentError as error:
            raise section.error(("command",), str(error).removeprefix("arguments: ")) from None
    function, code = _function(section, kind, folder)
    if kind == "python":
        simulator = from_python(function, timeout=section.take("timeout", positive, None))
    else:
        simulator = from_jax(function, batch_size=section.take("batch_size", whole(1), 256))
    simulator.code = code
    section.finish()
    return simulator, shape


def _function(section: Section, kind: str, folder: Path) -> tuple[Callable[..., Any], str | None]:
    """Load ``file.py:function``, and return it with a digest of the file's code."""
    given = section.take(kind, text)
    file, _, name = given.rpartition(":")
    path = folder / file
    if not file.endswith(".py") or not name.isidentifier():
        raise section.error((kind,), f'expected "file.py:function", got {given!r}.')
    if not path.is_file():
        raise section.error(
            (kind,), f"expected a Python file at {path}, there is none. Paths are relative to this file."
        )
    module = _module(section, kind, path)
    function = getattr(module, name, None)
    if not callable(function):
        known = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
        raise section.error((kind,), f"{file} has no function {name!r}. It has {', '.join(known) or 'none'}.")
    return function, source_digest(module)


def _module(section: Section, kind: str, path: Path) -> Any:
    """Import the user's file under its own name; worker processes are sent what it defines by value."""
    if path.stem in sys.modules and path.stem not in _LOADED:
        raise section.error((kind,), f"a module named {path.stem!r} is loaded already. Rename {path.name}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    _LOADED.add(path.stem)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # for files beside it
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001  whatever the user's file raises
        del sys.modules[path.stem]
        raise section.error((kind,), f"{path.name} cannot be imported: {type(error).__name__}: {error}") from None
    cloudpickle.register_pickle_by_value(module)
    return module


def _budget(document: Document, proposal: Proposal) -> dict[str, Any]:
    section = document.section("budget", required=True)
    least = 20 * (2 * proposal.num_parameters + 1)
    num = section.take("simulations", whole(100))
    found = {
        "num_simulations": num,
        "num_test": section.take("test", whole(_FEWEST_TESTS, or_zero=True), max(1000, num // 2)),
        "num_forecast": section.take("forecast", whole(least, or_zero=True), max(least, num)),
        "num_posteriors": section.take("posteriors", whole(50, or_zero=True), 100),
    }
    section.finish()
    return found


def _engine(document: Document) -> dict[str, Any]:
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
    section = document.section("fit")
    found = {
        "recipe": section.take("recipe", choice("auto", "paper"), "auto"),
        "allow_failures": section.take("allow_failures", flag, False),
    }
    section.finish()
    return found


def _sampler(document: Document) -> dict[str, Any]:
    section = document.section("sampler")
    found = {
        "method": section.take("method", choice("nuts", "smc"), "nuts"),
        "num_samples": section.take("samples", whole(10), 1000),
        "num_warmup": section.take("warmup", whole(1), 500),
        "num_chains": section.take("chains", whole(1), 4),
    }
    section.finish()
    return found


def _forecast(document: Document, proposal: Proposal) -> dict[str, float] | None:
    section = document.section("forecast")
    at = section.take("at", by_name, None)
    section.finish()
    if at is not None:
        _check_point(section, "at", at, proposal)
    return at


def _check_point(section: Section, key: str, point: Mapping[str, float], proposal: Proposal) -> None:
    """Refuse a point that does not name all parameters, or lies outside the training region."""
    if set(point) != set(proposal.names):
        raise section.error((key,), f"expected values of {', '.join(proposal.names)}, got {', '.join(point)}.")
    for name, low, high in zip(proposal.names, proposal.low, proposal.high, strict=True):
        if not low < point[name] < high:
            raise section.error(
                (key,),
                f"expected {name} inside its training region, {low:g} to {high:g}, got {point[name]:g}. "
                "Move it, or widen the range under [parameters].",
            )


def _observation(document: Document, folder: Path, proposal: Proposal) -> Observation | None:
    if "observation" not in document.tree:
        return None
    section = document.section("observation")
    kinds = [k for k in ("file", "values", "mock") if k in section]
    if len(kinds) != 1:
        raise section.error((), f"expected one of file, values and mock, got {' and '.join(kinds) or 'none'}.")
    iid = section.take("iid", flag, False)
    x = mock = None
    if kinds == ["mock"]:
        mock = section.take("mock", by_name)
        _check_point(section, "mock", mock, proposal)
        if iid:
            raise section.error(("iid",), "a mock observation is one draw. Leave iid out.")
    elif kinds == ["values"]:
        x = section.take("values", _array)
    else:
        x = _read_array(section, folder / section.take("file", text))
    section.finish()
    return Observation(x, mock, iid, kinds[0])


def _array(value: Any) -> np.ndarray:
    try:
        array = np.atleast_1d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError):
        raise Unfit("numbers, in lists of the same length") from None
    if not array.size or not np.isfinite(array).all():
        raise Unfit("finite numbers")
    return array


def _read_array(section: Section, path: Path) -> np.ndarray:
    """Read an observation from .npy, or from text with numbers in columns."""
    if not path.is_file():
        raise section.error(("file",), f"expected a file at {path}, got none. Paths are relative to this file.")
    try:
        if path.suffix == ".npy":
            return _array(np.load(path, allow_pickle=False))
        return _array(np.loadtxt(path, delimiter="," if path.suffix == ".csv" else None))
    except (ValueError, OSError, Unfit) as error:
        raise section.error(
            ("file",), f"expected numbers in a .npy, .csv or .txt file, got {path} ({error})."
        ) from None


def _prior(document: Document, proposal: Proposal) -> dict[str, dist.Distribution]:
    section = document.section("prior")
    laws = {name: section.take(name, _law) for name in section.tree if name in proposal.names}
    if unknown := [n for n in section.tree if n not in proposal.names]:
        raise section.error((unknown[0],), f"no such parameter. Known are {', '.join(proposal.names)}.")
    for name, law in laws.items():
        i = proposal.names.index(name)
        low, high = float(proposal.low[i]), float(proposal.high[i])
        inside = _mass(law, low, high)
        bounded = isinstance(law, dist.Uniform)
        if inside < (1.0 - 1e-6 if bounded else _SMALLEST_MASS):
            raise section.error(
                (name,),
                f"{1 - inside:.0%} of the prior lies outside the training region, {low:g} to {high:g}, where the score "
                "is unknown. Narrow the prior, or widen the range under [parameters].",
            )
    return laws


def _law(value: Any) -> dist.Distribution:
    """Accept { normal = [mean, sd] } and its like."""
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in PRIORS:
        raise Unfit("one of " + ", ".join(f"{{ {k} = [{meaning}] }}" for k, (_, meaning, _) in PRIORS.items()))
    name, given = next(iter(value.items()))
    count, meaning, law = PRIORS[name]
    listed = [given] if count == 1 and not isinstance(given, list) else given
    try:
        return law(*numbers(count)(listed), validate_args=True)
    except (Unfit, ValueError):
        raise Unfit(f"{{ {name} = [{meaning}] }}, scales above 0 and low below high") from None


def _mass(law: dist.Distribution, low: float, high: float) -> float:
    """Return how much of a distribution lies between two values."""
    if isinstance(law, dist.Uniform):
        a, b = float(law.low), float(law.high)
        return max(0.0, min(high, b) - max(low, a)) / (b - a)
    draws = np.asarray(law.sample(jax.random.key(0), (20_000,)))
    return float(np.mean((draws >= low) & (draws <= high)))


TEMPLATE = """\
# An analysis, from a simulator to a posterior:   fisherscore run {file}
# Everything is checked before anything is simulated. Paths are relative to this file.

title = "A decaying source"
out = "runs/{stem}"        # everything is written here; a run that was stopped goes on from here
seed = 0

[simulator]
python = "{simulator}:simulate"      # file.py:function, with function(theta, rng) -> array
# jax = "{simulator}:simulate"       # function(key, theta) -> array in JAX, run in batches on the device
# command = ["./sim", "{{input}}", "{{output}}", "{{seed}}"]   # a program: JSON in, .npy out
# timeout = 60.0                     # seconds after which a run is ended and counted as failed
# memory = 4.0                       # gigabytes a program may use
shape = 8                            # of the array the simulator returns; [16, 16] for an image

[parameters]                         # where to learn: name = [low, high]. This is not a prior.
amplitude = [100.0, 600.0]
lifetime = {{ range = [0.5, 2.5], unit = "s" }}

[budget]
simulations = 2000                   # to train on
test = 2000                          # fresh ones, to check the result; 0 for none
forecast = 2000                      # fresh ones, for the Fisher forecast; 0 for none
# posteriors = 100                   # sampled to check their calibration, the longest part of the checks; 0 for none

# [engine]                           # without it, simulations run in this process
# workers = 8                        # worker processes on this machine
# dask = "tcp://scheduler:8786"      # or a Dask cluster

[observation]                        # leave the table out for a forecast alone
mock = {{ amplitude = 300.0, lifetime = 1.2 }}   # a simulated observation, to try things out
# values = [112, 70, 47, 35, 23, 12, 12, 9]
# file = "observed.npy"              # or .csv, .txt
# iid = true                         # the rows are independent draws at the same parameters

[prior]                              # parameters not named here are uniform over their range
amplitude = {{ normal = [300.0, 100.0] }}
# also: uniform, lognormal, halfnormal, gamma, truncated_normal

# [forecast]
# at = {{ amplitude = 300.0, lifetime = 1.2 }}   # by default the best fit, or the middle of the region

# [fit]
# recipe = "auto"                    # or "paper"
# allow_failures = false             # true: go on with more than 1 % of failed simulations

# [sampler]
# method = "nuts"                    # or "smc", for several modes
# samples = 1000                     # per chain
# warmup = 500
# chains = 4
"""

STARTER = '''\
"""The simulator of the analysis beside this file. Replace it with your own."""

import numpy as np


def simulate(theta, rng):
    """Count the decays of a source in eight time bins, over a background of five counts a bin."""
    amplitude, lifetime = theta
    edges = np.linspace(0.0, 4.0, 9)
    decayed = amplitude * -np.diff(np.exp(-edges / lifetime))
    return rng.poisson(decayed + 5.0)
'''


def write_template(path: Path) -> list[Path]:
    """Write a commented analysis file, and beside it a simulator to start from unless there is one."""
    if path.suffix != ".toml":
        raise ConfigurationError(f"FILE: expected a name ending in .toml, got {path}.")
    if path.exists():
        raise ConfigurationError(f"FILE: {path} exists and is left alone. Choose another name.")
    path.parent.mkdir(parents=True, exist_ok=True)
    simulator = path.with_name("simulator.py")
    path.write_text(TEMPLATE.format(file=path.name, stem=path.stem, simulator=simulator.name), encoding="utf-8")
    if simulator.exists():
        return [path]
    simulator.write_text(STARTER, encoding="utf-8")
    return [path, simulator]
