"""A worker process: reads tasks from one pipe and writes outcomes to another, until the first is closed.

It is started fresh, never forked, and does not import the user's main module: the simulator comes through the pipe. A
worker leads a session of its own, so that whoever waits for it can end it with everything it has started.
"""

import os
import pickle
import struct
import sys
import traceback
from pathlib import Path
from typing import Any, BinaryIO

_LENGTH = struct.Struct("<Q")


def send(pipe: BinaryIO, message: Any) -> None:
    """Write one message."""
    send_bytes(pipe, pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))


def send_bytes(pipe: BinaryIO, data: bytes) -> None:
    """Write one message that is pickled already."""
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: BinaryIO) -> Any:
    """Read one message that the other end of a private pipe has written; EOFError when it is gone."""
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    return pickle.loads(_exactly(pipe, length))  # noqa: S301  from our own process


def _exactly(pipe: BinaryIO, num: int) -> bytes:
    """Read ``num`` bytes from a pipe without a buffer, which may give fewer at a time."""
    parts, missing = [], num
    while missing:
        part = pipe.read(missing)
        if not part:
            raise EOFError
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def main(task_pipe: int, result_pipe: int, compiled_folder: str = "") -> None:
    """Read the simulator, report whether that worked, then run records until the pipe is closed.

    A simulator that has imported JAX keeps what it compiles where the coordinator does, if that keeps it at all.
    """
    tasks = os.fdopen(task_pipe, "rb", buffering=0)
    results = os.fdopen(result_pipe, "wb")
    try:
        run_once = pickle.loads(receive(tasks))  # noqa: S301  from our own process
        if compiled_folder and "jax" in sys.modules:
            from ..._support.compilation_cache import use_folder

            use_folder(Path(compiled_folder))
    except BaseException:  # noqa: BLE001  whatever happens, the coordinator must be told
        send(results, traceback.format_exc(limit=-3))
        return
    send(results, None)
    while True:
        try:
            records = receive(tasks)
        except EOFError:
            return
        for index, theta, stream in records:
            try:
                outcome = run_once(theta, stream.sequence(index))
            except Exception:  # noqa: BLE001  not a fault of the simulator, whose own are outcomes: this run cannot go on
                send(results, (None, traceback.format_exc(limit=-2)))
                return
            send(results, (index, outcome))
