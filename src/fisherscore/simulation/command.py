"""External programs as simulators: parameters in a file, data in a file, nothing through a shell.

Every run has a private folder, in which the program is started and which is removed afterwards. The program is told by
its argument list where to read and where to write:

    {input}     a file with the parameters: JSON {"theta": {name: value, ...}, "seed": n} or, with
                input_format="npy", an array of their values
    {output}    the .npy file it must write
    {seed}      a whole number below 2**31, different for every record: the program's only source of randomness

A timeout, and the death of whoever waits for it, end the program with all its children.
"""

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, SimulationError
from .execution.run import (
    BAD_OUTPUT,
    LOST,
    NONZERO_EXIT,
    SIGNAL,
    TIMEOUT,
    Outcome,
    failure,
    is_of_the_machine,
    outcome_of,
    signal_name,
)
from .execution.running_time import RunningTime

PLACEHOLDERS = ("{input}", "{output}", "{seed}")
# Of what a program prints, the end is kept for messages; the rest is thrown away as it comes.
_MAX_KEPT_OUTPUT = 4_096
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Program:
    """Runs a program once, in a folder of its own."""

    arguments: tuple[str, ...]
    names: tuple[str, ...] | None
    input_format: str
    timeout: float | None
    memory: int | None

    def __call__(self, theta: np.ndarray, sequence: np.random.SeedSequence) -> Outcome:
        """Run the program in a private folder and read what it wrote."""
        private = None
        try:
            private = Path(tempfile.mkdtemp(prefix="fisherscore-"))
            return self._run(private, theta, int(sequence.generate_state(1)[0]) & 0x7FFFFFFF)
        except (OSError, MemoryError) as error:
            if not is_of_the_machine(error):
                raise
            # Every other run would meet the same, so nothing is recorded and the campaign stops here.
            raise SimulationError(
                f"The program could not be run, which is no fault of its own: {type(error).__name__}: {error}. Make "
                "room and run the same call again; what was recorded before is kept."
            ) from error
        finally:
            if private is not None:
                shutil.rmtree(private, ignore_errors=True)

    def _run(self, private: Path, theta: np.ndarray, seed: int) -> Outcome:
        input_file, output_file = private / f"input.{self.input_format}", private / "output.npy"
        self._write_input(input_file, theta, seed)
        values = {"{input}": str(input_file), "{output}": str(output_file), "{seed}": str(seed)}
        arguments = [_filled(argument, values) for argument in self.arguments]
        try:
            exit_code, printed = self._wait(arguments, private)
        except _ForgottenError:
            return failure(LOST, "was stopped, by a signal or a debugger, for so long that it was ended.")
        except OSError as error:
            if is_of_the_machine(error):
                raise
            return failure(NONZERO_EXIT, f"could not be started: {error}")
        said = f"It said: {printed}" if printed else "It printed nothing."
        if exit_code is None:
            return failure(TIMEOUT, f"took more than {self.timeout:g} s and was killed. {said}")
        if exit_code < 0:
            return failure(SIGNAL, f"was ended by {signal_name(-exit_code)}. {said}")
        if exit_code > 0:
            return failure(NONZERO_EXIT, f"exit status {exit_code}. {said}")
        return _read_output(output_file, said)

    def _write_input(self, path: Path, theta: np.ndarray, seed: int) -> None:
        if self.input_format == "npy":
            np.save(path, np.asarray(theta, np.float64))
            return
        names = self.names or tuple(f"theta{i}" for i in range(len(theta)))
        values = dict(zip(names, map(float, theta), strict=True))
        path.write_text(json.dumps({"theta": values, "seed": seed}), encoding="utf-8")

    def _wait(self, arguments: list[str], private: Path) -> tuple[int | None, str]:
        """Start the program in a process group of its own; return its exit status, None when it took too long."""
        with subprocess.Popen(  # noqa: S603  an argument list of the user's own
            arguments,
            cwd=private,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        ) as process:
            try:
                _limit_memory(process.pid, self.memory)
                return _read_until_end(process, self.timeout)
            finally:
                # Also when all went well: a program must leave nothing running behind.
                _kill_group(process.pid)


class _ForgottenError(Exception):
    """A program was stopped and nobody has continued it."""


def _read_until_end(process: subprocess.Popen, timeout: float | None) -> tuple[int | None, str]:
    """Read what the program prints, keeping only its end, until it has ended or its time is over.

    Its time is what it has been running: not while it, or this process, was stopped, or while the machine slept.
    """
    assert process.stdout is not None
    clock = RunningTime(timeout)
    pipe, printed, is_open = process.stdout.fileno(), b"", True
    while True:
        # Polled before reading: a child left behind may hold the pipe open, and print, for ever.
        ended = process.poll() is not None
        clock.look(process.pid)
        if not ended and clock.is_over:
            return None, _text(printed)
        if not ended and clock.is_forgotten:
            raise _ForgottenError
        if is_open and select.select([pipe], [], [], 0 if ended else _POLL_SECONDS)[0]:
            part = os.read(pipe, 1 << 16)
            is_open = bool(part)
            printed = (printed + part)[-_MAX_KEPT_OUTPUT:]
        if ended:
            return process.returncode, _text(printed)
        if not is_open:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_SECONDS if timeout is None else clock.tick)


def _text(printed: bytes) -> str:
    return printed.decode("utf-8", errors="replace").strip()[-1000:]


def _read_output(path: Path, said: str) -> Outcome:
    """Read the program's data; an array of objects is refused, since reading one would run code."""
    if path.is_symlink() or not path.is_file():
        return failure(BAD_OUTPUT, f"ended well but wrote no file at {{output}}. {said}")
    try:
        # Mapped, so that a file which claims to be larger than it is costs nothing.
        value = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # noqa: BLE001  a file from elsewhere can be wrong in any way
        return failure(BAD_OUTPUT, f"wrote a file that is no .npy array of numbers ({error}). {said}")
    if not isinstance(value, np.ndarray):
        return failure(BAD_OUTPUT, f"wrote an archive instead of one .npy array. {said}")
    surplus = path.stat().st_size - int(getattr(value, "offset", 0)) - value.nbytes
    if isinstance(value, np.memmap) and surplus:
        return failure(
            BAD_OUTPUT,
            f"wrote {surplus:,} bytes more than one array to {{output}}. Save all data as one array, into a new file. "
            f"{said}",
        )
    return outcome_of(value, "The program")


def _filled(argument: str, values: dict[str, str]) -> str:
    for placeholder, value in values.items():
        argument = argument.replace(placeholder, value)
    return argument


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _limit_memory(process: int, num_bytes: int | None) -> None:
    if num_bytes is None:
        return
    if not hasattr(resource, "prlimit"):
        raise SimulationError("memory: a limit can only be set on Linux. Leave it out here.")
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(process, resource.RLIMIT_AS, (num_bytes, num_bytes))


def checked_words(arguments: Any) -> list[str]:
    """Return a list of arguments as text, with placeholders for input and output among them."""
    given = [] if isinstance(arguments, str) or not isinstance(arguments, Iterable) else list(arguments)
    if not given or not all(map(_is_word, given)):
        raise ArgumentError(
            f"arguments: expected a list of words such as ['./sim', '{{input}}', '{{output}}'], got {arguments!r}."
        )
    words = [os.fspath(a) for a in given]
    missing = [text for text in PLACEHOLDERS[:2] if not any(text in word for word in words)]
    if missing:
        raise ArgumentError(f"arguments: expected {' and '.join(missing)} among them, got {words}.")
    return words


def _is_word(value: Any) -> bool:
    """Say whether a value is text that a program can be started with and a file can hold."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    return isinstance(text, str) and not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text)


def program_path(word: str) -> str:
    """Find the program now, since it will be started in another folder."""
    path = shutil.which(word)
    if path is None:
        raise ArgumentError(
            f"arguments: no program {word!r} was found. Give its path, and see that it may be executed (chmod +x)."
        )
    return os.path.abspath(path)


def existing_path(word: str) -> str:
    """Make the path of a file that is there absolute, for the same reason."""
    return os.path.abspath(word) if os.path.sep in word and os.path.exists(word) else word
