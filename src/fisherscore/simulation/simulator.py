"""Simulators: x given z. Anything that turns parameters into data; never asked for a gradient.

A simulator runs numbered records (``execution.run``), a block of them at a time; what a record gives does not depend on
the block. Functions of NumPy and external programs run one record at a time, here or in worker processes; JAX functions
run in batches on the device.
"""

import abc
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._support.arguments import as_finite, as_names, as_seed
from ..errors import ArgumentError, SimulationError
from .command import Program, checked_words, existing_path, program_path
from .execution.run import OK, Outcome, Purpose, PythonFunction, RunOnce, Stream, check_same_shape
from .identity import current_identity, source_digest
from .reads import Reads, read_by_function, read_by_program
from .records import stacked


@dataclass(frozen=True, eq=False)
class Block:
    """What running some records gave: data (NaN where a record failed), status and the simulator's own messages."""

    x: np.ndarray
    status: np.ndarray
    messages: dict[int, str]

    def refuse_failures(self, name: str, parameters: np.ndarray) -> None:
        """Raise an error with the message of the first failure, where there is one."""
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
    def needs_worker(self) -> bool:
        """Whether it must run in a worker process: it could outlive this one, or has a time limit."""
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    @property
    @abc.abstractmethod
    def identity(self) -> dict[str, Any]:
        """Plain data by which a campaign knows that it goes on with the same simulator."""

    @property
    def reads(self) -> Reads:
        """Digests of what it reads besides its own code, by name."""
        return {"constants": {}, "state": {}}

    def with_names(self, names: Sequence[str]) -> "Simulator":
        """Tell the simulator the names of its parameters, which programs are passed.

        Args:
            names: Names, in the order of the parameters.

        Returns:
            A simulator that knows them, or itself where names make no difference.
        """
        del names
        return self

    def refuse_region(self, low: np.ndarray, high: np.ndarray, names: Sequence[str]) -> None:
        """Refuse a region whose parameters the simulator cannot be given as they are; by default none.

        Args:
            low: Lower ends of the region, shape (p,).
            high: Upper ends of the region, shape (p,).
            names: Names of the parameters.
        """
        del low, high, names

    def index_beyond_an_axis(self, theta: np.ndarray) -> str | None:
        """Look for an index out of range where the simulator's own language would not tell; by default there is none.

        Args:
            theta: Parameters, shape (p,).

        Returns:
            What is read or written where there is nothing, or None.
        """
        del theta
        return None

    @abc.abstractmethod
    def run(self, parameters: np.ndarray, indices: np.ndarray, stream: Stream) -> Block:
        """Run some records.

        Args:
            parameters: What to run them at, one row each.
            indices: Their numbers, on which their random numbers depend.
            stream: The seed, and what the random numbers are for.

        Returns:
            Data, status and messages.
        """

    def draw(self, theta: Any, *, seed: int = 0) -> np.ndarray:
        """Draw mock data; a failure is an error.

        Args:
            theta: Parameters of one observation, shape (p,), or of n of them, shape (n, p).
            seed: Seed of the data. They share no random numbers with training data of the same seed.

        Returns:
            One observation, or n of them along the first axis.

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
        x = self.draw_stream(np.atleast_2d(parameters), Stream(as_seed(seed), Purpose.MOCK))
        return x[0] if parameters.ndim == 1 else x

    def draw_stream(self, rows: np.ndarray, stream: Stream) -> np.ndarray:
        """Run the simulator once per row; a failure is an error.

        Args:
            rows: Parameters, shape (n, p).
            stream: The seed, and what the random numbers are for.

        Returns:
            n observations along the first axis.
        """
        blocks = []
        for start in range(0, len(rows), self.block_size):
            part = rows[start : start + self.block_size]
            block = self.run(part, np.arange(start, start + len(part)), stream)
            block.refuse_failures(self.name, part)
            blocks.append(block.x)
        return np.concatenate(blocks)


class OneByOneSimulator(Simulator):
    """A simulator that runs one record at a time: a Python function or an external program."""

    block_size = 64

    def __init__(self, run_once: RunOnce, name: str, identity: dict[str, Any], timeout: float | None = None):
        self.run_once = run_once
        self.name = name
        self.timeout = timeout
        self._identity = identity

    @property
    def identity(self) -> dict[str, Any]:
        """What it is, of a function its source, and of a program its files as they are now."""
        program = self.run_once if isinstance(self.run_once, Program) else None
        return current_identity(self._identity, program.arguments) if program else self._identity

    @property
    def reads(self) -> Reads:
        """Digests of what it reads besides its own code, by name."""
        if isinstance(self.run_once, Program):
            return read_by_program(self.run_once.arguments)
        return read_by_function(getattr(self.run_once, "function", None))

    @property
    def needs_worker(self) -> bool:
        """Whether it is a program, which a kill of this process would leave running, or has a time limit."""
        return isinstance(self.run_once, Program) or self.timeout is not None

    def with_names(self, names: Sequence[str]) -> Simulator:
        """Let a program see the names of its parameters."""
        if not isinstance(self.run_once, Program):
            return self
        if (own := self.run_once.names) is not None:
            if len(own) != len(names) or (own != tuple(names) and set(own) == set(names)):
                raise ArgumentError(
                    f"names: expected names of the parameters {', '.join(names)}, in this order, got {', '.join(own)}. "
                    "Leave names out where the program knows them by the names of the proposal."
                )
            return self
        return OneByOneSimulator(replace(self.run_once, names=tuple(names)), self.name, self._identity)

    def run(self, parameters: np.ndarray, indices: np.ndarray, stream: Stream) -> Block:
        """Run row by row, keeping failures with their messages."""
        outcomes = [
            self.run_once(row, stream.sequence(int(index))) for row, index in zip(parameters, indices, strict=True)
        ]
        return block_of(outcomes, indices, self.name)


def block_of(outcomes: Sequence[Outcome], indices: np.ndarray, name: str) -> Block:
    """Put outcomes of records into one block; those without data get NaN."""
    found = [o.x for o in outcomes if o.x is not None]
    for x in found:
        check_same_shape(name, found[0].shape, x.shape)
    return Block(
        x=stacked([o.x for o in outcomes], found[0].shape if found else (0,)),
        status=np.array([o.status for o in outcomes]),
        messages={int(i): o.message for i, o in zip(indices, outcomes, strict=True) if o.status != OK},
    )


def from_python(function: Callable[..., Any], *, name: str | None = None, timeout: float | None = None) -> Simulator:
    """Make a simulator of a Python function.

    Args:
        function: Called as ``function(theta, rng)`` with the parameters, shape (p,), and a NumPy generator that is
            seeded anew for every run; returns the data as an array of any fixed shape.
        name: Name in reports and campaigns; by default that of the function.
        timeout: A run that takes longer than this many seconds is ended and recorded as a failure; time during which
            it, or the campaign, is stopped does not count.

    Returns:
        A simulator.

    >>> import fisherscore as fs
    >>> def coin(theta, rng):
    ...     tosses = 0
    ...     while rng.uniform() < theta[0]:
    ...         tosses += 1
    ...     return [tosses]
    >>> fs.from_python(coin).draw([0.5], seed=1).shape
    (1,)
    """
    chosen = name or name_of(checked_function(function))
    identity = {"kind": "python", "name": chosen, "source": source_digest(function)}
    return OneByOneSimulator(PythonFunction(function, chosen), chosen, identity, _seconds(timeout))


def from_command(
    arguments: Sequence[str],
    *,
    input_format: str = "json",
    timeout: float | None = None,
    memory: float | None = None,
    names: Sequence[str] | None = None,
    name: str | None = None,
) -> Simulator:
    """Make a simulator of an external program; no shell is involved.

    Args:
        arguments: The program and its arguments. Among these ``{input}`` stands for a file with the parameters and a
            seed, ``{output}`` for the .npy file the program must write, ``{seed}`` for the seed.
        input_format: "json", or "npy" for a file with an array of the parameters and nothing else.
        timeout: After running for this many seconds the program and its children are killed; the run has failed.
        memory: Most gigabytes it may use.
        names: Names of the parameters in the JSON file; by default those of the proposal.
        name: Name in reports and campaigns; by default that of the program.

    Returns:
        A simulator.

    >>> import fisherscore as fs, sys
    >>> program = "import json, sys, numpy as np; given = json.load(open(sys.argv[1]));"
    >>> program += "rng = np.random.default_rng(given['seed']);"
    >>> program += "np.save(sys.argv[2], [given['theta']['a'] + rng.normal()])"
    >>> simulator = fs.from_command([sys.executable, "-c", program, "{input}", "{output}"], names=["a"])
    >>> simulator.draw([3.0], seed=1).shape
    (1,)
    """
    words = checked_words(arguments)
    if input_format not in ("json", "npy"):
        raise ArgumentError(f'input_format: expected "json" or "npy", got {input_format!r}.')
    limit = _bytes(memory)
    called = None if names is None else as_names(names, len(names) if isinstance(names, Sized) else 1)
    program = Program(
        arguments=(program_path(words[0]), *map(existing_path, words[1:])),
        names=called,
        input_format=input_format,
        timeout=_seconds(timeout),
        memory=limit,
    )
    chosen = name or Path(words[0]).name
    identity = {
        "kind": "command",
        "name": chosen,
        "arguments": words,
        "input_format": input_format,
        "names": None if called is None else list(called),
    }
    return OneByOneSimulator(program, chosen, identity)


def name_of(function: Any) -> str:
    """Name a function."""
    return str(getattr(function, "__name__", "simulator"))


def checked_function(function: Any) -> Callable[..., Any]:
    """Return a function, or say that it is none."""
    if not callable(function):
        raise ArgumentError(f"function: expected something that can be called, got {function!r}.")
    return function


def _bytes(memory: Any) -> int | None:
    is_number = isinstance(memory, (int, float)) and not isinstance(memory, bool)
    if memory is not None and not (is_number and 1 <= memory * 2**30 < float("inf")):
        raise ArgumentError(f"memory: expected gigabytes above 0, got {memory!r}.")
    return None if memory is None else int(memory * 2**30)


def _seconds(timeout: Any) -> float | None:
    if timeout is not None and not (isinstance(timeout, (int, float)) and 0 < timeout < float("inf")):
        raise ArgumentError(f"timeout: expected seconds above 0, got {timeout!r}.")
    return None if timeout is None else float(timeout)
