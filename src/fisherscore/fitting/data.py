"""Rows as fits see them: data drawn at parameters scaled to [−1, 1]."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from .._support.compiling import quickly_compiled
from .._support.rows import rows_in_turn
from ..potentials.base import ClosedForm, Evaluation, Frame, ScoreFunction
from ..potentials.points import Points
from ..potentials.stack import Stack

# Rows of one compiled evaluation. An accelerator is done with few of them before the next can be sent.
_ROWS_AT_ONCE, _ROWS_ON_ACCELERATOR = 4_096, 16_384
# In NumPy, rows are gone through so many numbers (rows × data × parameters) at a time, and no fewer rows than these.
_NUMBERS_AT_ONCE, _MIN_ROWS = 1e6, 64
# From this many of them on, a compiled evaluation repays its compilation.
_MANY_NUMBERS, _MANY_ON_ACCELERATOR = 2e7, 2e6


@dataclass(frozen=True, eq=False)
class Rows:
    """Standardised data x (n, d), drawn at parameters u (n, p) in [−1, 1]^p."""

    u: np.ndarray
    x: np.ndarray

    @cached_property
    def points(self) -> Points:
        """The parameters, with what closed forms need of them."""
        return Points(self.u)

    def __len__(self) -> int:
        return len(self.u)

    @property
    def num_parameters(self) -> int:
        """The number of parameters p."""
        return self.u.shape[1]

    @property
    def data_size(self) -> int:
        """The number of data d."""
        return self.x.shape[1]

    def take(self, rows: Any) -> "Rows":
        """Return the named rows."""
        return Rows(self.u[rows], self.x[rows])

    def without(self, rows: np.ndarray) -> "Rows":
        """Return all rows but the named ones."""
        return self.take(np.setdiff1d(np.arange(len(self)), rows))

    def scores(self, function: ScoreFunction) -> np.ndarray:
        """Evaluate a score at every row, shape (n, p)."""
        if self.is_evaluated_in_numpy(function):
            return self.evaluate(function, Frame(np.eye(self.num_parameters))).scores
        arrays = (np.asarray(self.u, np.float32), np.asarray(self.x, np.float32))
        return np.asarray(compiled_in_turn(lambda *part: _evaluate(function, *part), arrays), np.float64)

    def is_evaluated_in_numpy(self, function: ScoreFunction) -> bool:
        """Say whether a function is made of closed forms alone, and the rows so few that compiling does not pay."""
        members = function.members if isinstance(function, Stack) else (function,)
        most = _MANY_NUMBERS if jax.default_backend() == "cpu" else _MANY_ON_ACCELERATOR
        return all(isinstance(m, ClosedForm) for m in members) and self.x.size * self.num_parameters < most

    def evaluate(self, function: Any, frame: Frame) -> Evaluation:
        """Evaluate closed forms, or a weighted sum of them, in NumPy and in bounded memory."""
        size = max(_MIN_ROWS, int(_NUMBERS_AT_ONCE / (self.data_size * self.num_parameters)))
        if len(self) > size:
            parts = [self.take(slice(k, k + size)).evaluate(function, frame) for k in range(0, len(self), size)]
            return Evaluation(*map(np.concatenate, zip(*parts, strict=True)))
        if not isinstance(function, Stack):
            return function.evaluate(self.points, self.x, frame)
        members: Any = function.members
        parts = [member.evaluate(self.points, self.x, frame) for member in members]
        weights = np.asarray(function.weights, np.float64)
        return Evaluation(
            sum((w * part.scores for w, part in zip(weights, parts, strict=True)), np.zeros(self.u.shape)),
            sum((w * part.traces for w, part in zip(weights, parts, strict=True)), np.zeros(len(self))),
        )


def compiled_in_turn(function: Callable[..., Any], rows: tuple[Any, ...]) -> np.ndarray:
    """Apply a compiled function to rows, so many at a time as suit the device."""
    at_once = _ROWS_AT_ONCE if jax.default_backend() == "cpu" else _ROWS_ON_ACCELERATOR
    return rows_in_turn(function, rows, at_once, largest=at_once)


@quickly_compiled
def _evaluate(function: ScoreFunction, u: Any, x: Any) -> Any:
    return jax.vmap(function)(u, x)
