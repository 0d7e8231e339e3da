"""What a system is given and gives back, as files: imported by the scripts that run in each system's own environment.

Nothing but NumPy is imported here. A system is a function of (given, order) that returns two functions, the logarithm
of a density over θ for pairs (θ, x), with its gradient in θ, and draws of a posterior:

    fitted = fit(given, order)
    fitted.log_density(theta, x) -> (n,)       up to a constant for each x
    fitted.score(theta, x) -> (n, p)
    fitted.draw(x, num) -> (num, p)            under the uniform prior over the box, by the system's own sampler
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

Rows = np.ndarray


@dataclass(frozen=True)
class Fitted:
    """What a system has learned."""

    log_density: Callable[[Rows, Rows], Rows]
    score: Callable[[Rows, Rows], Rows]
    draw: Callable[[Rows, int], Rows]


def serve(fit: Callable[[dict[str, Rows], dict[str, Any]], Fitted], packages: tuple[str, ...]) -> None:
    """Do what the order on the command line says, write arrays to its file, and print seconds and memory."""
    order = json.loads(sys.argv[1])
    with np.load(order["given"]) as file:
        given = {name: file[name] for name in file.files}
    started = time.perf_counter()
    fitted = fit(given, order)
    seconds = {"fit": time.perf_counter() - started}
    found = {}
    if order["num_draws"]:
        started = time.perf_counter()
        found["draws"] = np.stack([fitted.draw(x, order["num_draws"]) for x in given["observations"]])
        seconds["one_posterior"] = (time.perf_counter() - started) / len(found["draws"])
    if "test_theta" in given:
        found["scores"] = fitted.score(given["test_theta"], given["test_x"])
    if "grid" in given:
        grid, mocks = given["grid"], given["mocks"]
        found["on_grid"] = np.stack([fitted.log_density(grid, np.tile(x, (len(grid), 1))) for x in mocks])
        found["at_truth"] = fitted.log_density(given["truths"], mocks)
    np.savez(order["found"], **found)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    told = {"seconds": seconds, "peak_mb": round(peak), "versions": {name: version(name) for name in packages}}
    print("\n" + json.dumps(told))
