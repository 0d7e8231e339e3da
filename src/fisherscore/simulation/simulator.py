"""Simulators: x given z. Anything that turns parameters into data; never asked for a gradient.

A simulator runs a block of numbered records (``execution.run``), whatever the block they are in. Functions of
NumPy and external programs run one record at a time, here or in worker processes; JAX functions run in batches on the
device.
"""

import abc
import contextlib
import functools
import hashlib
import inspect
import io
import os
import shutil
import sys
import textwrap
import tokenize
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.arguments import as_count, as_finite, as_seed
from ..errors import ArgumentError, SimulationError
from .command import PLACES, CommandRecord
from .execution.run import (
    NONFINITE,
    OK,
    Outcome,
    PythonRecord,
    RecordFunction,
    Stream,
    mock_stream,
    refuse_changed_shape,
)

_PLAIN = (int, float, complex, str, bytes, bool, tuple, type(None))
# What may change in a source without changing what it does. (Indents are kept.)
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER)


@dataclass(frozen=True)
class Block:
    """What running some records gave: data (NaN where a record failed), status and the simulator's own words."""

    x: np.ndarray
    status: np.ndarray
    messages: dict[int, str]

    def refuse_failures(self, name: str, parameters: np.ndarray) -> None:
        """Raise an error with the words of the first failure, where there is one."""
        failed = np.flatnonzero(self.status != OK)
        if len(failed):
            first = int(failed[0])
            raise SimulationError(
                f"The simulator {name!r} failed at theta = {parameters[first].tolist()} with status "
                f"{self.status[first]!r}: {self.messages[min(self.messages)]}"
            )


class Simulator(abc.ABC):
    """Base of all simulators; made by :func:`from_python`, :func:`from_jax` or :func:`from_command`.

    >>> import fisherscore as fs
    >>> isinstance(fs.from_python(lambda theta, rng: rng.normal(theta)), fs.Simulator)
    True
    """

    name: str
    block_size: int
    code: str | None = None  # a digest of the file it was loaded from, where that is known

    @property
    @abc.abstractmethod
    def identity(self) -> dict[str, Any]:
        """Plain data by which a campaign knows that it goes on with the same simulator."""

    def with_names(self, names: Sequence[str]) -> "Simulator":
        """Return the simulator told of its parameters' names, where it passes them on."""
        del names
        return self

    @abc.abstractmethod
    def run(self, parameters: np.ndarray, indices: np.ndarray, stream: Stream) -> Block:
        """Run the records ``indices`` at ``parameters``, one row each."""

    def draw(self, theta: Any, *, seed: int = 0) -> np.ndarray:
        """Draw mock data: one observation at ``theta`` of shape (p,), n of them at shape (n, p).

        >>> import fisherscore as fs
        >>> simulator = fs.from_python(lambda theta, rng: rng.normal(theta))
        >>> simulator.draw([0.0, 1.0], seed=7).shape
        (2,)
        >>> simulator.draw([[0.0, 1.0], [2.0, 3.0]], seed=7).shape
        (2, 2)
        """
        parameters = as_finite(theta, "theta")
        if parameters.ndim not in (1, 2) or not parameters.size:
            raise ArgumentError(f"theta: expected shape (p,) or (n, p), got {parameters.shape}.")
        x = self.draw_stream(np.atleast_2d(parameters), mock_stream(as_seed(seed)))
        return x[0] if parameters.ndim == 1 else x

    def draw_stream(self, rows: np.ndarray, stream: Stream) -> np.ndarray:
        """Run one record per row; a failure is an error."""
        blocks = []
        for start in range(0, len(rows), self.block_size):
            part = rows[start : start + self.block_size]
            block = self.run(part, np.arange(start, start + len(part)), stream)
            block.refuse_failures(self.name, part)
            blocks.append(block.x)
        return np.concatenate(blocks)


class RecordSimulator(Simulator):
    """A simulator that runs one record at a time: a Python function or an external program."""

    block_size = 64

    def __init__(self, record: RecordFunction, name: str, identity: dict[str, Any], timeout: float | None = None):
        self.record = record
        self.name = name
        self.timeout = timeout
        self._identity = identity

    @property
    def identity(self) -> dict[str, Any]:
        """What it is, and of a function its source."""
        return self._identity

    @property
    def is_command(self) -> bool:
        """Whether it is an external program, which a kill of this process would leave running."""
        return isinstance(self.record, CommandRecord)

    def with_names(self, names: Sequence[str]) -> Simulator:
        """Let a program see the names of its parameters."""
        if not isinstance(self.record, CommandRecord) or self.record.names is not None:
            return self
        return RecordSimulator(replace(self.record, names=tuple(names)), self.name, self._identity)

    def run(self, parameters: np.ndarray, indices: np.ndarray, stream: Stream) -> Block:
        """Run row by row, keeping failures with their words."""
        outcomes = [
            self.record(row, stream.sequence(int(index))) for row, index in zip(parameters, indices, strict=True)
        ]
        return gathered(outcomes, indices, self.name)


def gathered(outcomes: Sequence[Outcome], indices: np.ndarray, name: str) -> Block:
    """Put outcomes of records into one block; those without data get NaN."""
    shapes = [o.x.shape for o in outcomes if o.x is not None]
    for shape in shapes:
        refuse_changed_shape(name, shapes[0], shape)
    blank = np.full(shapes[0] if shapes else (0,), np.nan)
    return Block(
        x=np.stack([blank if o.x is None else o.x for o in outcomes]),
        status=np.array([o.status for o in outcomes]),
        messages={int(i): o.message for i, o in zip(indices, outcomes, strict=True) if o.status != OK},
    )


class JaxSimulator(Simulator):
    """A JAX function of one (key, theta), batched on the device with ``batch_size`` records in memory at a time."""

    def __init__(self, function: Callable[..., Any], name: str, batch_size: int):
        self.function = function
        self.name = name
        self.batch_size = batch_size
        self.block_size = 16 * batch_size

        def records(seed_key: Any, indices: Any, parameters: Any) -> Any:
            def one(index: Any, theta: Any) -> Any:
                return jnp.atleast_1d(function(jax.random.fold_in(seed_key, index), theta))

            return jax.lax.map(lambda record: one(*record), (indices, parameters), batch_size=batch_size)

        self._records = jax.jit(records)

    @property
    def identity(self) -> dict[str, Any]:
        """The function's name and source."""
        return {"kind": "jax", "name": self.name, "source": source_digest(self.function)}

    def run(self, parameters: np.ndarray, indices: np.ndarray, stream: Stream) -> Block:
        """Run one block on the device; blocks are padded to powers of two to bound the number of compilations."""
        num = len(parameters)
        padded = min(self.block_size, 1 << max(num - 1, 0).bit_length())
        pad = np.arange(padded) % num
        x = self._records(
            stream.key(), jnp.asarray(indices[pad], jnp.uint32), jnp.asarray(parameters[pad], jnp.float32)
        )
        x = np.asarray(x[:num], dtype=np.float64)
        finite = np.isfinite(x).reshape(num, -1).all(axis=1)
        status = np.where(finite, OK, NONFINITE)
        messages = {int(i): "x has values that are NaN or infinite" for i in indices[~finite]}
        return Block(x, status, messages)


def from_python(function: Callable[..., Any], *, name: str | None = None, timeout: float | None = None) -> Simulator:
    """Make a simulator of ``function(theta, rng) -> array``; ``rng`` is a NumPy generator, seeded per record.

    In worker processes (``simulate(..., workers=4)``), a run that takes longer than ``timeout`` seconds is ended and
    recorded as a failure.

    >>> import fisherscore as fs
    >>> def coin(theta, rng):
    ...     tosses = 0
    ...     while rng.uniform() < theta[0]:
    ...         tosses += 1
    ...     return [tosses]
    >>> fs.from_python(coin).draw([0.5], seed=1).shape
    (1,)
    """
    chosen = name or _name(_callable(function))
    identity = {"kind": "python", "name": chosen, "source": source_digest(function)}
    return RecordSimulator(PythonRecord(function, chosen), chosen, identity, _seconds(timeout))


def from_command(
    arguments: Sequence[str],
    *,
    input_format: str = "json",
    timeout: float | None = None,
    memory: float | None = None,
    names: Sequence[str] | None = None,
    name: str | None = None,
) -> Simulator:
    """Make a simulator of an external program, given as a list of arguments; no shell is involved.

    ``{input}`` among the arguments stands for a file with the parameters and a seed (JSON, or with
    ``input_format="npy"`` an array of the parameters), ``{output}`` for the .npy file the program must write,
    ``{seed}`` for the seed. After ``timeout`` seconds the program and its children are killed; ``memory`` limits it to
    so many gigabytes. ``names`` of the parameters are those of the proposal unless given.

    >>> import fisherscore as fs, sys
    >>> program = "import json, sys, numpy as np; given = json.load(open(sys.argv[1]));"
    >>> program += "rng = np.random.default_rng(given['seed']);"
    >>> program += "np.save(sys.argv[2], [given['theta']['a'] + rng.normal()])"
    >>> simulator = fs.from_command([sys.executable, "-c", program, "{input}", "{output}"], names=["a"])
    >>> simulator.draw([3.0], seed=1).shape
    (1,)
    """
    if isinstance(arguments, str) or not all(isinstance(a, (str, os.PathLike)) for a in arguments) or not arguments:
        raise ArgumentError(
            f"arguments: expected a list of words such as ['./sim', '{{input}}', '{{output}}'], got {arguments!r}."
        )
    words = [str(a) for a in arguments]
    missing = [place for place in PLACES[:2] if not any(place in word for word in words)]
    if missing:
        raise ArgumentError(f"arguments: expected {' and '.join(missing)} among them, got {words}.")
    if input_format not in ("json", "npy"):
        raise ArgumentError(f'input_format: expected "json" or "npy", got {input_format!r}.')
    limit = None if memory is None else int(float(memory) * 2**30)
    if limit is not None and limit <= 0:
        raise ArgumentError(f"memory: expected gigabytes above 0, got {memory!r}.")
    record = CommandRecord(
        (_program(words[0]), *map(_existing, words[1:])),
        None if names is None else tuple(names),
        input_format,
        _seconds(timeout),
        limit,
    )
    chosen = name or Path(words[0]).name
    identity = {
        "kind": "command",
        "name": chosen,
        "arguments": words,
        "input_format": input_format,
        "names": None if names is None else list(names),
        "files": {word: _file_digest(path) for word, path in zip(words, record.arguments, strict=True)},
    }
    return RecordSimulator(record, chosen, identity)


def from_jax(function: Callable[..., Any], *, batch_size: int = 256, name: str | None = None) -> Simulator:
    """Make a simulator of ``function(key, theta) -> array`` in JAX, ``batch_size`` records in memory at a time.

    >>> import fisherscore as fs, jax
    >>> simulator = fs.from_jax(lambda key, theta: theta + jax.random.normal(key, theta.shape))
    >>> simulator.draw([0.0, 1.0], seed=7).shape
    (2,)
    """
    size = as_count(batch_size, "batch_size")
    return JaxSimulator(_callable(function), name or _name(function), size)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", "simulator"))


def _callable(function: Any) -> Callable[..., Any]:
    if not callable(function):
        raise ArgumentError(f"function: expected something that can be called, got {function!r}.")
    return function


def _seconds(timeout: Any) -> float | None:
    if timeout is not None and not (isinstance(timeout, (int, float)) and 0 < timeout < float("inf")):
        raise ArgumentError(f"timeout: expected seconds above 0, got {timeout!r}.")
    return None if timeout is None else float(timeout)


def _program(word: str) -> str:
    """Find the program now, since it will be started in another folder."""
    found = shutil.which(word)
    if found is None:
        raise ArgumentError(
            f"arguments: no program {word!r} was found. Give its path, and see that it may be executed (chmod +x)."
        )
    return os.path.abspath(found)


def _existing(word: str) -> str:
    """Make the path of a file that is there absolute, for the same reason."""
    return os.path.abspath(word) if os.path.sep in word and os.path.exists(word) else word


def _file_digest(path: str) -> str | None:
    """Return a hash of a file of the user's own; interpreters and what the system brings may be updated."""
    system = path.startswith(("/usr/", "/bin/", "/opt/")) or os.path.realpath(path) == os.path.realpath(sys.executable)
    if system or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def source_digest(function: Any) -> str | None:
    """Return a hash of a function's source, without comments and blanks; None where there is no source.

    What a partial function or a closure holds counts where it is a plain value.
    """
    if isinstance(function, functools.partial):
        held = repr([v if isinstance(v, _PLAIN) else type(v) for v in (*function.args, *function.keywords.items())])
        return hashlib.sha256(f"{source_digest(function.func)}{held}".encode()).hexdigest()[:16]
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return None
    with contextlib.suppress(tokenize.TokenError, IndentationError):  # a lambda amid a call: its lines as they are
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        source = "\n".join(t.string for t in tokens if t.type not in _LAYOUT)
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # a cell that is not filled yet
            source += repr(cell.cell_contents) if isinstance(cell.cell_contents, _PLAIN) else ""
    return hashlib.sha256(source.encode()).hexdigest()[:16]
