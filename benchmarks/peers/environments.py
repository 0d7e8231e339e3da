"""Environments of the peers: made once, with pinned versions, in a folder of the user's cache."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

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


def ask(python: Path, script: str, order: dict[str, Any]) -> Any:
    """Run a script of this folder by an interpreter, with an order as JSON, and read the JSON of its last line."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    if python == Path(sys.executable):  # ours, which may be found by that path alone
        kept = dict(os.environ)
    command = [str(python), str(HERE / script), json.dumps(order)]
    with tempfile.TemporaryDirectory() as folder:  # some leave files where they run
        done = subprocess.run(command, env=kept, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"{script} failed:\n{done.stdout[-500:]}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])
