"""Simulators: x given z. Anything that turns parameters into data; never asked for a gradient.

A simulator runs a block of numbered records. Record i is a pure function of (stream, i, parameters), whatever the block
it runs in. A stream is a seed and a purpose: training simulations, mock data and forecasts with the same seed must not
share their noise, or a model would be judged on the noise it was trained on.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .arguments import as_count, as_finite, as_seed
from .errors import ArgumentError, SimulationError

OK, RAISED, NONFINITE = "ok", "raised", "nonfinite"


@dataclass(frozen=True)
class Stream:
    """A source of random numbers: a seed, and what they are for."""

    seed: int
    purpose: int

    def generator(self, index: int) -> np.random.Generator:
        """Return the NumPy generator of record ``index``."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.purpose, index)))

    def key(self) -> Any:
        """Return the JAX key that is folded with the index of each record."""
        return jax.random.fold_in(jax.random.key(self.seed), self.purpose)


def training_stream(seed: int) -> Stream:
    """Return the stream of training simulations."""
    return Stream(seed, 1)


def mock_stream(seed: int) -> Stream:
    """Return the stream of mock data."""
    return Stream(seed, 2)


def forecast_stream(seed: int) -> Stream:
    """Return the stream of the simulations behind a forecast."""
    return Stream(seed, 3)


@dataclass(frozen=True)
class Block:
    """What running some records gave: data (NaN where a record failed), status and the simulator's own words."""

    x: np.ndarray
    status: np.ndarray
    messages: dict[int, str]


class Simulator(abc.ABC):
    """Base of all simulators; made by :func:`from_python` or :func:`from_jax`."""

    name: str
    block_size: int

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
            failed = np.flatnonzero(block.status != OK)
            if len(failed):
                first = int(failed[0])
                raise SimulationError(
                    f"The simulator {self.name!r} failed at theta = {part[first].tolist()} with status "
                    f"{block.status[first]!r}: {block.messages[start + first]}"
                )
            blocks.append(block.x)
        return np.concatenate(blocks)


class PythonSimulator(Simulator):
    """A plain Python function, called once a record."""

    block_size = 64

    def __init__(self, function: Callable[..., Any], name: str):
        self.function = function
        self.name = name

    def run(self, parameters: np.ndarray, indices: np.ndarray, stream: Stream) -> Block:
        """Call the function row by row, keeping failures with their words."""
        rows: list[np.ndarray | None] = []
        status, messages = [], {}
        for row, index in zip(parameters, indices, strict=True):
            try:
                value = self.function(np.array(row), stream.generator(int(index)))
            except Exception as error:  # noqa: BLE001  whatever the user's code raises is a recorded failure
                rows.append(None)
                status.append(RAISED)
                messages[int(index)] = f"{type(error).__name__}: {error}"
                continue
            x = _as_row(value, self.name)
            finite = bool(np.isfinite(x).all())
            rows.append(x)
            status.append(OK if finite else NONFINITE)
            if not finite:
                messages[int(index)] = f"x has {int((~np.isfinite(x)).sum())} values that are NaN or infinite"
        return Block(_stack(rows, self.name), np.array(status), messages)


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


def from_python(function: Callable[..., Any], *, name: str | None = None) -> Simulator:
    """Make a simulator of ``function(theta, rng) -> array``; ``rng`` is a NumPy generator, seeded per record.

    >>> import fisherscore as fs
    >>> def coin(theta, rng):
    ...     tosses = 0
    ...     while rng.uniform() < theta[0]:
    ...         tosses += 1
    ...     return [tosses]
    >>> fs.from_python(coin).draw([0.5], seed=1).shape
    (1,)
    """
    return PythonSimulator(_callable(function), name or _name(function))


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


def _as_row(value: Any, name: str) -> np.ndarray:
    array = np.asarray(value)
    if array.size == 0 or not (np.issubdtype(array.dtype, np.number) or array.dtype == bool) or np.iscomplexobj(array):
        raise SimulationError(
            f"The simulator {name!r} must return an array of real numbers, got {type(value).__name__} of dtype "
            f"{array.dtype} and shape {array.shape}. Return a NumPy array of floats."
        )
    return np.atleast_1d(array.astype(np.float64))


def _stack(rows: list[np.ndarray | None], name: str) -> np.ndarray:
    shapes = {row.shape for row in rows if row is not None}
    if len(shapes) > 1:
        raise SimulationError(
            f"The simulator {name!r} returned x of changing shape: {sorted(shapes)[:3]}. Every x must have the same "
            "shape; pad it, or return summaries of fixed length."
        )
    blank = np.full(shapes.pop() if shapes else (0,), np.nan)
    return np.stack([blank if row is None else row for row in rows])
