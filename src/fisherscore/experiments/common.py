"""What all experiments share: timing, comparison with the exact score, and the settings every result begins with."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np

from .. import __version__
from .._support.versions import versions
from ..accuracy import field_error, score_error
from ..problems import Problem
from ..score.fitted import FittedScore


class Stopwatch:
    """Names each part of an experiment as it starts, and keeps how long it took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def time(self, part: str) -> Iterator[None]:
        """Time what is done inside the ``with`` block."""
        print(f"{part} ...", flush=True)
        started = time.perf_counter()
        yield
        self.seconds[part] = round(time.perf_counter() - started, 2)


def settings(experiment: str, *, recipe: str, num_simulations: int, seed: int) -> dict[str, Any]:
    """Return what identifies a run: the experiment, its options, and the versions it was run with."""
    return {
        "experiment": experiment,
        "fisherscore": __version__,
        "recipe": recipe,
        "num_simulations": num_simulations,
        "seed": seed,
        "versions": versions(),
    }


def compare_with_exact(
    model: FittedScore, problem: Problem, x_obs: np.ndarray, *, num_pairs: int = 10_000, seed: int = 0
) -> dict[str, Any]:
    """Measure the error of a model against the exact score: over the proposal, and for one observation over θ."""
    error = score_error(model, problem, num_pairs=num_pairs, seed=seed)
    return {"score_error": asdict(error), "field_error": asdict(field_error(model, problem, x_obs))}
