"""One run of a simulator: its random numbers, its data, and what became of it.

The outcome of a record is a pure function of (stream, index, parameters), wherever and whenever it is run. A stream is
a seed and a purpose: training simulations, mock data and forecasts with the same seed must not share their noise, or a
model would be judged on the noise it was trained on.

This module and :mod:`fisherscore.simulation.command` import nothing heavy, since every worker process imports them.
"""

import enum
import errno
import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..._support.masks import with_nan_for_masked
from ...errors import SimulationError
from ..records import kept_kind

# What can become of a record. All but the first and the last are failures of the simulator itself, which are kept and
# never run again with other random numbers; a record is lost when its worker was killed from outside too often, or when
# the machine failed it (see `is_of_the_machine`): it is run again, with the same random numbers, by the next call.
OK = "ok"
RAISED, NONZERO_EXIT, SIGNAL, TIMEOUT = "raised", "nonzero_exit", "signal", "timeout"
BAD_OUTPUT, NONFINITE, LOST = "bad_output", "nonfinite", "lost"
STATUSES = (OK, RAISED, NONZERO_EXIT, SIGNAL, TIMEOUT, BAD_OUTPUT, NONFINITE, LOST)

_MAX_MESSAGE_LENGTH = 2_000
# From here on double precision does not hold every whole number.
_LARGEST_WHOLE = 2**53
# What to do with arrays of other kinds, by NumPy's code.
_INSTEAD = {
    "M": ": dates as numbers in a unit of your choice, such as days",
    "m": ": spans of time divided by a unit, such as np.timedelta64(1, 's')",
    "c": ": real and imaginary parts side by side",
    "O": ": perhaps its rows have different lengths, or an entry is None",
}
# No memory, processes, files or disk space left, or a disk or network file system that cannot be reached: whoever runs
# the same again on another day, or on another machine, will not see it.
_MACHINE_ERRORS = {
    number
    for name in ("ENOMEM", "EAGAIN", "EMFILE", "ENFILE", "ENOSPC", "EDQUOT", "EIO", "ESTALE", "ENOLCK")
    if (number := getattr(errno, name, None)) is not None
}


class Purpose(enum.IntEnum):
    """What random numbers are for; every purpose has streams of its own."""

    TRAINING = 1
    MOCK = 2
    FORECAST = 3
    PREFLIGHT = 4
    PREDICTIVE = 5


@dataclass(frozen=True)
class Stream:
    """A source of random numbers: a seed, and what they are for.

    Keys of JAX are made of all 64 bits of the seed; in campaigns of version 0.1.0, of the lower 32 (``short_keys``).
    """

    seed: int
    purpose: Purpose
    short_keys: bool = False

    def sequence(self, index: int) -> np.random.SeedSequence:
        """Return the seed sequence of record ``index``."""
        return np.random.SeedSequence(self.seed, spawn_key=(int(self.purpose), index))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one run gave: its status, its data where it has any, and the simulator's own message where it failed."""

    status: str
    x: np.ndarray | None = None
    message: str = ""


class RunOnce(Protocol):
    """Runs a simulator once; sent to worker processes, so it holds nothing but plain data and the user's function."""

    def __call__(self, theta: np.ndarray, sequence: np.random.SeedSequence) -> Outcome:
        """Run the simulator once."""
        ...


@dataclass(frozen=True)
class PythonFunction:
    """Calls a function of (theta, NumPy generator)."""

    function: Callable[..., Any]
    name: str

    def __call__(self, theta: np.ndarray, sequence: np.random.SeedSequence) -> Outcome:
        """Call the function; whatever it raises is a recorded failure, of its own or of the machine."""
        process = os.getpid()
        try:
            value = self.function(np.array(theta), np.random.default_rng(sequence))
        except BaseException as error:
            _end_copy(process, error)
            # An interrupt is for whoever runs this process to judge: it may be the user's own Ctrl-C.
            if isinstance(error, KeyboardInterrupt):
                raise
            status = LOST if is_of_the_machine(error) else RAISED
            return failure(status, f"{type(error).__name__}: {text_of(error)}{_where(error)}")
        _end_copy(process)
        return outcome_of(value, f"The simulator {self.name!r}")


def _end_copy(process: int, error: BaseException | None = None) -> None:
    """End a copy of this process that the simulator has made and that returned as well, as if it were the original.

    A copy that went on would answer for records a second time, write to the campaign, or run the user's script to its
    end.
    """
    if os.getpid() == process:
        return
    if isinstance(error, SystemExit):
        code = error.code
        os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))
    os._exit(0 if error is None else 1)


def interrupted(error: KeyboardInterrupt) -> Outcome:
    """Make the outcome of a run that raised an interrupt which nobody had sent."""
    return failure(RAISED, f"KeyboardInterrupt: raised by the simulator itself, nobody interrupted it{_where(error)}")


def is_of_the_machine(error: BaseException) -> bool:
    """Say whether an error, or one that led to it, is the machine's and not the simulator's: no memory, no space.

    What failed for such a reason is run again, with the same random numbers; a failure of the simulator is kept.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, MemoryError) or (isinstance(current, OSError) and current.errno in _MACHINE_ERRORS):
            return True
        jax_error = type(current).__name__ in ("XlaRuntimeError", "JaxRuntimeError")
        if jax_error and "RESOURCE_EXHAUSTED" in text_of(current):  # no memory on the device
            return True
        waiting.append(current.__cause__ or (None if current.__suppress_context__ else current.__context__))
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
    return False


def text_of(error: BaseException) -> str:
    """Return an error's own words, also where it cannot tell them."""
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001  the user's own classes may do anything
        return f"(its text cannot be shown: {type(second).__name__})"


def _where(error: BaseException) -> str:
    """Name the file and line that raised; an error of the call itself means that the signature is wrong."""
    frames = traceback.extract_tb(error.__traceback__)
    if len(frames) > 1:
        return f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})"
    return " (a simulator is called with theta and a generator)" if isinstance(error, TypeError) else ""


def outcome_of(value: Any, who: str) -> Outcome:
    """Judge what a simulator returned: an array of finite real numbers is data, all else a failure."""
    try:
        array = np.asarray(with_nan_for_masked(value))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  arrays of other libraries raise what they like
        status = LOST if is_of_the_machine(error) else BAD_OUTPUT
        return failure(status, f"{who} must return an array of real numbers: {text_of(error)}")
    if array.dtype.kind in "Mm" and np.isnat(array).any():
        return failure(NONFINITE, f"x has {np.isnat(array).sum()} dates or spans of time that are none (NaT)")
    if array.size == 0 or array.dtype.kind not in "biuf":
        return failure(
            BAD_OUTPUT,
            f"{who} must return an array of real numbers, got {type(value).__name__} of dtype {array.dtype} and shape "
            f"{array.shape}. Return a NumPy array of floats{_INSTEAD.get(array.dtype.kind, '')}.",
        )
    with np.errstate(over="ignore"):  # longer floats may become infinite, which is found
        x: np.ndarray = np.atleast_1d(array.astype(kept_kind(array.dtype, array.size)))
    if array.dtype.kind in "iu" and np.abs(x).max() >= _LARGEST_WHOLE:
        return failure(
            BAD_OUTPUT,
            f"x has whole numbers of 2**53 and more, such as {array.flat[np.abs(x).argmax()]}, which double "
            "precision would round. Subtract a constant, or return floats if rounding is meant.",
        )
    bad = int((~np.isfinite(x)).sum())
    if bad:
        return Outcome(NONFINITE, x, f"x has {bad} values that are NaN, infinite or masked")
    return Outcome(OK, x)


def failure(status: str, message: str) -> Outcome:
    """Make the outcome of a run without data; a long message is cut."""
    # Names of files may hold bytes that are no text, which a ledger cannot store.
    clean = message.encode("utf-8", "backslashreplace").decode()
    short = clean if len(clean) <= _MAX_MESSAGE_LENGTH else clean[: _MAX_MESSAGE_LENGTH - 4] + " ..."
    return Outcome(status, None, short)


def signal_name(number: int) -> str:
    """Name a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def check_same_shape(name: str, expected: tuple[int, ...], got: tuple[int, ...]) -> None:
    """Stop when a simulator's data change their shape: no array can hold them."""
    if expected != got:
        raise SimulationError(
            f"The simulator {name!r} returned x of changing shape: {sorted({expected, got})}. Every x must have the "
            "same shape; pad it, or return summaries of fixed length."
        )
