"""JAX functions as simulators: run in batches on the device, in the precision asked for."""

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

from .._support.arguments import as_count, brief_text
from .._support.keys import key_of, short_key_of
from .._support.precision import double_precision, single_precision
from ..errors import ArgumentError, FisherScoreError, FisherScoreWarning, SimulationError
from .execution.run import NONFINITE, OK, Stream
from .identity import source_digest
from .reads import Reads, read_by_function
from .records import kept_kind
from .simulator import Block, Simulator, checked_function, name_of

# A function in single precision needs so many of its numbers in a range, and none beyond the largest.
_MIN_NUMBERS, _LARGEST = 1_000, float(np.finfo(np.float32).max)


class JaxSimulator(Simulator):
    """A JAX function of one (key, theta), batched on the device with ``batch_size`` records in memory at a time.

    It runs in the precision asked for, whatever JAX is set to: its random numbers depend on that.
    """

    def __init__(self, function: Callable[..., Any], name: str, batch_size: int, *, double: bool = False):
        self.function = function
        self.name = name
        self.batch_size = batch_size
        self.double = double
        self.block_size = 16 * batch_size
        self._records, self._records_at_one_point = _compiled(function)

    @property
    def identity(self) -> dict[str, Any]:
        """The function's name and source, and its precision where that is double."""
        precision = {"precision": "double"} if self.double else {}
        return {"kind": "jax", "name": self.name, "source": source_digest(self.function), **precision}

    @property
    def reads(self) -> Reads:
        """Digests of what it reads besides its own code, by name."""
        return read_by_function(self.function)

    def run(self, parameters: np.ndarray, indices: np.ndarray, stream: Stream) -> Block:
        """Run one block on the device in batches of one size; fewer records are padded to a power of two."""
        num = len(parameters)
        size = min(self.batch_size, 1 << max(num - 1, 0).bit_length())
        pad = np.arange(-(-num // size) * size) % num
        numbers, theta = np.asarray(indices[pad], np.uint32), self._in_its_precision(parameters[pad])
        one_point = bool((theta == theta[0]).all())
        records = self._records_at_one_point if one_point else self._records
        batches: list[np.ndarray] = []
        with double_precision() if self.double else single_precision():
            key = short_key_of(stream.seed) if stream.short_keys else key_of(stream.seed)
            for start in range(0, len(pad), size):  # in turn: only one batch is in the memory of the device at a time
                part = slice(start, start + size)
                batch = records(key, np.uint32(stream.purpose), numbers[part], theta[0] if one_point else theta[part])
                batches.append(np.asarray(batch, dtype=kept_kind(batch.dtype, math.prod(batch.shape[1:]))))
        x = np.concatenate(batches)[:num]
        finite = np.isfinite(x).reshape(num, -1).all(axis=1)
        status = np.where(finite, OK, NONFINITE)
        messages = {int(i): "x has values that are NaN or infinite" for i in indices[~finite]}
        return Block(x, status, messages)

    def refuse_region(self, low: np.ndarray, high: np.ndarray, names: Sequence[str]) -> None:
        """Refuse a region in which single precision has few numbers, or none."""
        if self.double:
            return
        largest = np.maximum(np.abs(low), np.abs(high))
        spacing = np.spacing(np.minimum(largest, _LARGEST).astype(np.float32)).astype(np.float64)
        for k in map(int, np.flatnonzero((largest > _LARGEST) | (high - low < _MIN_NUMBERS * spacing))):
            raise ArgumentError(
                f"simulator: {self.name!r} runs in single precision, which cannot tell apart values of {names[k]} from "
                f'{float(low[k])!r} to {float(high[k])!r}. Pass precision="double" to fisherscore.from_jax, or measure '
                f"{names[k]} from a point inside this range."
            )

    def index_beyond_an_axis(self, theta: np.ndarray) -> str | None:
        """Run one record with every index checked, which JAX otherwise clamps: ``theta[5]`` of three is the last one.

        Args:
            theta: Parameters, shape (p,).

        Returns:
            What JAX says of the first index out of range, or None.
        """
        checked = checkify.checkify(self.function, errors=checkify.index_checks)
        with double_precision() if self.double else single_precision():
            error, _ = jax.jit(checked)(jax.random.key(0), jnp.asarray(self._in_its_precision(theta)))
        found: str | None = error.get()
        return None if found is None else found.splitlines()[0]

    def _in_its_precision(self, parameters: np.ndarray) -> np.ndarray:
        """Return parameters as the function gets them."""
        if not self.double and np.any(np.abs(parameters) > _LARGEST):
            raise ArgumentError(
                f"theta: {self.name!r} runs in single precision, which cannot hold {np.abs(parameters).max():g}. Pass "
                'precision="double" to fisherscore.from_jax.'
            )
        return np.asarray(parameters, np.float64 if self.double else np.float32)


def _compiled(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compile a function of one record for batches: at many points, and at one, as forecasts need them.

    At one point, what depends on θ alone is computed once a batch. Simulators made of the same function share what is
    compiled.
    """
    try:
        return _compiled_once(function)
    except TypeError:  # an object that is called like a function, and cannot be told from another
        return _compiled_once.__wrapped__(function)


@functools.lru_cache(maxsize=32)
def _compiled_once(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def records(axis: int | None, seed_key: Any, purpose: Any, indices: Any, parameters: Any) -> Any:
        key = jax.random.fold_in(seed_key, purpose)

        def one(index: Any, theta: Any) -> Any:
            return _data_of(function, jax.random.fold_in(key, index), theta)

        return jax.vmap(one, in_axes=(0, axis))(indices, parameters)

    return jax.jit(functools.partial(records, 0)), jax.jit(functools.partial(records, None))


def _data_of(function: Callable[..., Any], key: Any, theta: Any) -> Any:
    """Call a function while JAX traces it; what it returns must be an array of real numbers."""
    try:
        x = jnp.atleast_1d(function(key, theta))
    except Exception as error:
        if isinstance(error, MemoryError | FisherScoreError):
            raise
        raise SimulationError(
            f"The simulator {name_of(function)!r} cannot be traced by JAX: {type(error).__name__}: "
            f"{brief_text(error)}. It is called with a key and theta, and must return one array; functions of NumPy go "
            "to from_python."
        ) from error
    real = any(jnp.issubdtype(x.dtype, kind) for kind in (jnp.bool_, jnp.integer, jnp.floating))
    if not real or not x.size:
        raise SimulationError(
            f"The simulator {name_of(function)!r} must return an array of real numbers, got {x.dtype} of shape "
            f"{x.shape}. Of complex numbers return real and imaginary parts side by side."
        )
    return x


def from_jax(
    function: Callable[..., Any], *, batch_size: int = 256, name: str | None = None, precision: str | None = None
) -> Simulator:
    """Make a simulator of a JAX function, run in batches on the device.

    Args:
        function: Called as ``function(key, theta)`` with a JAX key and the parameters, shape (p,); returns the data as
            an array. It is compiled and vectorised.
        batch_size: Runs in the memory of the device at a time.
        name: Name in reports and campaigns; by default that of the function.
        precision: "single", the default, or "double": what it computes in, whatever ``jax_enable_x64`` is. The random
            numbers of a key depend on it.

    Returns:
        A simulator.

    >>> import fisherscore as fs, jax
    >>> simulator = fs.from_jax(lambda key, theta: theta + jax.random.normal(key, theta.shape))
    >>> simulator.draw([0.0, 1.0], seed=7).shape
    (2,)
    """
    size = as_count(batch_size, "batch_size")
    if precision not in (None, "single", "double"):
        raise ArgumentError(f'precision: expected "single" or "double", got {precision!r}.')
    if precision is None and jax.dtypes.canonicalize_dtype(np.float64) == np.float64:
        warnings.warn(
            "precision: JAX is set to double precision, but this simulator will compute in single precision, as it "
            'does without that setting. Pass precision="double", or "single" to say that this is meant.',
            FisherScoreWarning,
            stacklevel=2,
        )
    return JaxSimulator(checked_function(function), name or name_of(function), size, double=precision == "double")
