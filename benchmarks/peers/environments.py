"""Environments of the peers: made once, with pinned versions, in a folder of the user's cache."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .exchange import ASKS

PACKAGES = {
    "forecasts": ("numpy==2.2.6", "CompressedFisher==0.1.0", "derivkit==1.4.0"),
    "sbi": ("torch==2.13.0", "sbi==0.27.0"),
    "flowjax": ("jax==0.10.2", "flowjax==19.1.2"),
}
HERE = Path(__file__).resolve().parent


def cache() -> Path:
    """Return the folder in which environments are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fisherscore-peers"


def interpreter(name: str, given: Path | None = None) -> Path:
    """Return an interpreter that has a peer: the one that is given, or that of an environment made here."""
    if given is not None:
        return given.absolute()
    packages = PACKAGES[name]
    mark = hashlib.sha256(" ".join((*packages, sys.version)).encode()).hexdigest()[:12]
    folder = cache() / f"{name}-{mark}"
    python, done = folder / "bin" / "python", folder / "complete"
    if not done.exists():
        print(f"an environment with {', '.join(packages)}: {folder}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run(  # noqa: S603
            [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], check=True
        )
        done.touch()
    return python


class TooLong(Exception):
    """A system was ended after the seconds it had."""


class SystemFailed(Exception):
    """A system ended with an error."""


def ask(
    python: Path,
    script: str,
    order: dict[str, Any],
    simulator: Callable[[np.ndarray], np.ndarray] | None = None,
    *,
    limit: float | None = None,
) -> Any:
    """Run a script of this folder by an interpreter, with an order as JSON, and read the JSON of its last line.

    Args:
        python: The interpreter.
        script: The name of the script.
        order: What it is told.
        simulator: What answers where it asks for simulations.
        limit: After how many seconds it is ended.

    Returns:
        What it says.
    """
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    if python == Path(sys.executable):  # ours, which may be found by that path alone
        kept = dict(os.environ)
    command = [str(python), str(HERE / script), json.dumps(order)]
    pipe, ended = subprocess.PIPE, threading.Event()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:  # some leave files there
        with subprocess.Popen(  # noqa: S603
            command, env=kept, cwd=folder, stdin=pipe, stdout=pipe, stderr=errors, text=True
        ) as process:
            timer = threading.Timer(limit or threading.TIMEOUT_MAX, lambda: (ended.set(), process.kill()))
            timer.daemon = True
            timer.start()
            try:
                last = _last_line(process, simulator)
                process.wait()
            finally:  # also when this process is interrupted, or simulations asked for fail
                timer.cancel()
                process.kill()
        if ended.is_set():
            raise TooLong(f"not finished after {limit:.0f} s")
        if process.returncode:
            errors.seek(0)
            raise SystemFailed(f"{script} failed:\n{last[-500:]}\n{errors.read()[-3000:]}")
    return json.loads(last)


def _last_line(process: Any, simulator: Callable[[np.ndarray], np.ndarray] | None) -> str:
    """Read to the end, answer what is asked for on the way, and return the last line."""
    last = ""
    for line in process.stdout:
        if simulator is not None and line.startswith(ASKS):
            theta, x = json.loads(line[len(ASKS) :])
            np.save(x, np.asarray(simulator(np.load(theta)), np.float64))
            with suppress(BrokenPipeError):  # it was ended meanwhile
                process.stdin.write("done\n")
                process.stdin.flush()
        elif line.strip():
            last = line
    return last
