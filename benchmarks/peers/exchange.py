"""What a system is given and gives back, as files: imported by the scripts that run in each system's own environment.

Nothing but NumPy is imported here. A system is a function of (given, order) that returns two functions, the logarithm
of a density over θ for pairs (θ, x), with its gradient in θ, and draws of a posterior:

    fitted = fit(given, order)
    fitted.log_density(theta, x) -> (n,)       up to a constant for each x
    fitted.score(theta, x) -> (n, p)
    fitted.draw(x, num) -> (num, p)            under the prior of the order, by the system's own sampler

A system that chooses where to simulate is asked anew for every observation, which ``order["observation"]`` holds then,
and asks for simulations by :func:`simulate`.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

Rows = np.ndarray
Fit = Callable[[dict[str, Rows], dict[str, Any]], "Fitted"]
ASKS = "simulate: "


@dataclass(frozen=True)
class Fitted:
    """What a system has learned; those that answer for one observation alone have draws of its posterior only."""

    draw: Callable[[Rows, int], Rows]
    log_density: Callable[[Rows, Rows], Rows] | None = None
    score: Callable[[Rows, Rows], Rows] | None = None


@dataclass(frozen=True)
class Coordinates:
    """Parameters in which the prior is the unit box or independent normal laws.

    Attributes:
        box: Whether it is the box; else it is normal.
        centre: θ where coordinates are zero, shape (p,).
        factor: What coordinates are multiplied by, shape (p, p).
        positive: Whether these are coordinates of log θ.
    """

    box: bool
    centre: Rows
    factor: Rows
    positive: bool

    @classmethod
    def of(cls, order: dict[str, Any]) -> "Coordinates":
        """Read those of an order."""
        told = order["prior"]
        return cls(told["box"], np.array(told["centre"]), np.array(told["factor"]), told["positive"])

    def to(self, theta: Rows) -> Rows:
        """Turn parameters into coordinates."""
        return np.linalg.solve(self.factor, ((np.log(theta) if self.positive else theta) - self.centre).T).T

    def back(self, rows: Rows) -> Rows:
        """Turn coordinates into parameters."""
        theta = self.centre + rows @ self.factor.T
        return np.exp(theta) if self.positive else theta


def simulate(theta: Rows) -> Rows:
    """Ask whoever started this process for data at these parameters."""
    with tempfile.TemporaryDirectory() as folder:
        places = [str(Path(folder) / name) for name in ("theta.npy", "x.npy")]
        np.save(places[0], theta)
        print("\n" + ASKS + json.dumps(places), flush=True)
        if not sys.stdin.readline():
            raise EOFError("Nobody answers: the process that simulates has ended.")
        return np.load(places[1])


def serve(fit: Fit, packages: tuple[str, ...]) -> None:
    """Do what the order on the command line says, write arrays to its file, and print seconds and memory."""
    order = json.loads(sys.argv[1])
    with np.load(order["given"]) as file:
        given = {name: file[name] for name in file.files}
    found: dict[str, Rows] = {}
    seconds = _each(fit, given, order, found) if order.get("aimed") else _all(fit, given, order, found)
    np.savez(order["found"], **found)
    told = {"seconds": seconds, "peak_mb": peak_mb(), "versions": {name: version(name) for name in packages}}
    print("\n" + json.dumps(told))


def peak_mb() -> int | None:
    """Return the most memory this process has had; None where the system does not say it.

    What ``getrusage`` says is no less than what the process that started this one had.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM:")), None)


def _all(fit: Fit, given: dict[str, Rows], order: dict[str, Any], found: dict[str, Rows]) -> dict[str, float]:
    """Fit once, and answer all that is asked."""
    started = time.perf_counter()
    fitted = fit(given, order)
    seconds = {"fit": time.perf_counter() - started}
    if order["num_draws"]:
        started = time.perf_counter()
        found["draws"] = np.stack([fitted.draw(x, order["num_draws"]) for x in given["observations"]])
        seconds["one_posterior"] = (time.perf_counter() - started) / len(found["draws"])
    if "test_theta" in given:
        found["scores"] = fitted.score(given["test_theta"], given["test_x"])
    if "grid" in given:
        grid, mocks = given["grid"], given["mocks"]
        found["on_grid"] = np.stack(
            [fitted.log_density(grid, np.broadcast_to(x, (len(grid), *x.shape))) for x in mocks]
        )
        found["at_truth"] = fitted.log_density(given["truths"], mocks)
    return seconds


def _each(fit: Fit, given: dict[str, Rows], order: dict[str, Any], found: dict[str, Rows]) -> dict[str, float]:
    """Fit anew for every observation; seconds are means."""
    spent, draws = {"fit": 0.0, "one_posterior": 0.0}, []
    for x in given["observations"]:
        started = time.perf_counter()
        fitted = fit(given, {**order, "observation": x})
        between = time.perf_counter()
        draws.append(fitted.draw(x, order["num_draws"]))
        spent["fit"] += (between - started) / len(given["observations"])
        spent["one_posterior"] += (time.perf_counter() - between) / len(given["observations"])
    found["draws"] = np.stack(draws)
    return spent
