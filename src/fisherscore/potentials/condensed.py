"""Potentials of few linear combinations of many data, and how the combinations are found.

Statistics of a map are hundreds of numbers, most of which say the same thing or nothing. Polynomials of θ are regressed
on them, so that each polynomial has one summary, the best linear guess of it (together they span the linear compression
to scores, Alsing and Wandelt 2018, over the whole region at once). A closed form is then fitted to the summaries.

A summary knows the simulations by which it was found: on those it is sharper than on others, and what is fitted to it
there would trust it too much. So closed forms are fitted to summaries of each fifth of the simulations by regressions
on the other four; the regression on all, which new data see, differs from these by far less than its error.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.legendre import Basis
from .base import ClosedForm, Evaluation, Frame, Jets, Potential, build_potential, describe, multiply, register
from .log_gamma import LogGamma
from .points import Points

_NUM_FOLDS = 5
# So many summaries in all are worth their noise.
_MOST_SUMMARIES = 30
_RIDGES = np.logspace(-5, 1, 13)


@register("condensed")
class Condensed(ClosedForm):
    """A closed form of x A + b with a matrix A."""

    max_data: ClassVar[int] = 4_000

    matrix: Float[Array, "data summaries"]
    offset: Float[Array, " summaries"]
    inner: Potential

    def __init__(
        self,
        num_parameters: int,
        data_size: int,
        *,
        num_summaries: int,
        inner: Mapping[str, Any],
        key: Array | None = None,
    ):
        self.matrix, self.offset = jnp.zeros((data_size, num_summaries)), jnp.zeros(num_summaries)
        key = jax.random.key(0) if key is None else key
        self.inner = build_potential(inner, num_parameters, num_summaries, key=key)

    @classmethod
    def fit(cls, u: np.ndarray | Points, rows: np.ndarray) -> Self:
        """Raise an error: a form has to be chosen, by :class:`CondensedFitter`."""
        raise NotImplementedError("a condensed form is fitted by CondensedFitter or PowerFitter")

    @classmethod
    def of(cls, matrix: np.ndarray, offset: np.ndarray, inner: ClosedForm, num_parameters: int) -> Self:
        """Put a fitted form behind a matrix."""
        settings = {"num_summaries": matrix.shape[1], "inner": describe(inner)}
        form = cls._filled(num_parameters, len(matrix), settings=settings, matrix=matrix, offset=offset)
        return eqx.tree_at(lambda f: f.inner, form, inner)

    def evaluate(self, points: Points, x: np.ndarray, frame: Frame) -> Evaluation:
        """Give scores and the trace of their Jacobians, those of the inner form of the summaries."""
        assert isinstance(self.inner, ClosedForm)
        summaries = x @ np.asarray(self.matrix, np.float64) + np.asarray(self.offset, np.float64)
        return self.inner.evaluate(points, summaries, frame)

    def value_and_score(
        self, theta: Float[Array, " params"], x: Float[Array, " ..."], jets: Jets | None = None
    ) -> tuple[Float[Array, ""], Float[Array, " params"]]:
        """Give the inner potential of the summaries and its gradient."""
        return self.inner.value_and_score(theta, multiply(x.ravel(), self.matrix) + self.offset, jets)

    @property
    def settings(self) -> dict[str, Any]:
        """The number of summaries and the inner potential."""
        return {"num_summaries": self.matrix.shape[1], "inner": describe(self.inner)}


@dataclass(frozen=True)
class PowerFitter:
    """Fits gamma distributions to logarithms of powers at some places; ``scale`` undoes their standardisation."""

    start: int
    stop: int
    scale: tuple[float, ...]

    @property
    def max_data(self) -> int:
        """The largest data it is for: any, where its own places are not too many."""
        return _any_if(self.stop - self.start <= LogGamma.max_data)

    def fit(self, points: Points, rows: np.ndarray) -> Condensed:
        """Fit rows (n, d) drawn at points."""
        matrix = np.zeros((rows.shape[1], self.stop - self.start))
        matrix[np.arange(self.start, self.stop), np.arange(self.stop - self.start)] = self.scale
        inner = LogGamma.fit(points, rows @ matrix)
        return Condensed.of(matrix, np.zeros(matrix.shape[1]), inner, points.num_parameters)


@dataclass(frozen=True)
class PartFitter:
    """Fits a closed form to data at some places."""

    form: type[ClosedForm]
    start: int
    stop: int

    @property
    def max_data(self) -> int:
        """The largest data it is for: any, where its own places are not too many."""
        return _any_if(self.stop - self.start <= self.form.max_data)

    def fit(self, points: Points, rows: np.ndarray) -> Condensed:
        """Fit rows (n, d) drawn at points."""
        matrix = np.eye(rows.shape[1])[:, self.start : self.stop]
        known = points.once(("points of", self.start, self.stop), lambda: Points(points.u))
        inner = self.form.fit(known, rows[:, self.start : self.stop])
        return Condensed.of(matrix, np.zeros(matrix.shape[1]), inner, points.num_parameters)


@dataclass(frozen=True)
class CondensedFitter:
    """Condenses data at some places into few summaries, and fits a closed form to them."""

    form: type[ClosedForm]
    places: tuple[int, ...]

    @property
    def max_data(self) -> int:
        """The largest data it is for: any, where its own places are not too many."""
        return _any_if(len(self.places) <= Condensed.max_data)

    def fit(self, points: Points, rows: np.ndarray) -> Condensed:
        """Fit rows (n, d) drawn at points."""
        summaries = points.once(("summaries", self.places), lambda: _summarised(points, rows, self.places))
        inner = self.form.fit(summaries.points, summaries.rows)
        return Condensed.of(summaries.matrix, summaries.offset, inner, points.num_parameters)


def _any_if(is_possible: bool) -> int:
    """Give the largest data of a form that looks at some places only, however many others there are."""
    return sys.maxsize if is_possible else 0


@dataclass(frozen=True, eq=False)
class _Summaries:
    """Summaries (n, k) of rows by regressions that have not seen them, and the matrix and offset for new data."""

    points: Points
    rows: np.ndarray
    matrix: np.ndarray
    offset: np.ndarray


def _summarised(points: Points, rows: np.ndarray, places: Sequence[int]) -> _Summaries:
    """Condense data at some places, and scale the summaries to unit variance."""
    targets = _targets(points)
    parts = np.array_split(np.random.default_rng(0).permutation(len(rows)), _NUM_FOLDS)
    own, summaries, offset = _regressed(rows[:, list(places)], targets, parts)
    spread, centre = summaries.std(axis=0), summaries.mean(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    matrix = np.zeros((rows.shape[1], own.shape[1]))
    matrix[list(places)] = own / scale
    return _Summaries(Points(points.u), (summaries - centre) / scale, matrix, (offset - centre) / scale)


def _targets(points: Points) -> np.ndarray:
    """Choose what is regressed: polynomials of the second degree, or of the first where they would be too many."""
    p = points.num_parameters
    second = Basis(p, 2)
    return points.values(second if len(second) - 1 <= _MOST_SUMMARIES else Basis(p, 1))[:, 1:]


def _regressed(
    x: np.ndarray, targets: np.ndarray, parts: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Regress targets (n, t) on x (n, d): coefficients (d, t) by all rows, guesses (n, t) by the others, and offsets.

    The ridge is the one whose guesses of rows it has not seen are the best.
    """
    solve = _by_rows if len(x) < x.shape[1] else _by_columns
    ridges = solve(x, targets, [*parts, np.zeros(0, int)])
    guesses = np.zeros((len(_RIDGES), *targets.shape))
    for part, ridge in zip(parts, ridges, strict=False):
        for number, solution in enumerate(ridge.solutions):
            guesses[number, part] = (x[part] - ridge.centre) @ solution + ridge.level
    best = ((guesses - targets) ** 2).mean(axis=1).argmin(axis=0)
    whole = ridges[-1]
    own = np.stack([whole.solutions[b][:, t] for t, b in enumerate(best)], axis=1)
    unseen = np.stack([guesses[b][:, t] for t, b in enumerate(best)], axis=1)
    return own, unseen, whole.level - whole.centre @ own


class _Ridge(NamedTuple):
    """Means of data and targets, and the coefficients (d, t) of every ridge."""

    centre: np.ndarray
    level: np.ndarray
    solutions: list[np.ndarray]


def _by_columns(x: np.ndarray, targets: np.ndarray, parts: list[np.ndarray]) -> list[_Ridge]:
    """Regress with each part left out by the covariance of columns: that of all rows is computed once."""
    sums, gram, products = x.sum(axis=0), x.T @ x, x.T @ targets
    totals, found = targets.sum(axis=0), []
    for part in parts:
        own, wanted, rest = x[part], targets[part], len(x) - len(part)
        centre, level = (sums - own.sum(axis=0)) / rest, (totals - wanted.sum(axis=0)) / rest
        matrix = (gram - own.T @ own) / rest - np.outer(centre, centre)
        right = (products - own.T @ wanted) / rest - np.outer(centre, level)
        found.append(_Ridge(centre, level, _ridge(matrix, right)))
    return found


def _by_rows(x: np.ndarray, targets: np.ndarray, parts: list[np.ndarray]) -> list[_Ridge]:
    """Do the same by the products of rows, which are a smaller matrix where there are fewer rows than columns."""
    found = []
    for part in parts:
        own, wanted = np.delete(x, part, axis=0), np.delete(targets, part, axis=0)
        centre, level = own.mean(axis=0), wanted.mean(axis=0)
        own = own - centre
        spread = np.sqrt(np.maximum((own**2).mean(axis=0), 1e-30))
        own = own / spread
        values, vectors = np.linalg.eigh(own @ own.T / len(own))
        inner = vectors.T @ (wanted - level) / len(own)
        each = [vectors @ (inner / (np.maximum(values, 0.0) + r)[:, None]) for r in _RIDGES]
        found.append(_Ridge(centre, level, [(own.T @ one) / spread[:, None] for one in each]))
    return found


def _ridge(matrix: np.ndarray, right: np.ndarray) -> list[np.ndarray]:
    """Solve for every ridge, in units of each column's variance."""
    spread = np.sqrt(np.maximum(np.diagonal(matrix), 1e-30))
    values, vectors = np.linalg.eigh(matrix / np.outer(spread, spread))
    inner = vectors.T @ (right / spread[:, None])
    return [(vectors @ (inner / (np.maximum(values, 0.0) + r)[:, None])) / spread[:, None] for r in _RIDGES]
