"""The posteriors of many observations, sampled in one call."""

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from .._support.text import columns, html_table
from .posterior import Posterior

# Longer tables are cut.
_MOST_ROWS = 10


class Posteriors(Sequence[Posterior]):
    """The posteriors of many observations, in their order: a sequence of :class:`Posterior`; printed, it is a table.

    Args:
        posteriors: At least one posterior; all of the same parameters.

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> posteriors = fs.sample_many(model, [[0.5, -0.5], [0.0, 0.3], [1.0, 0.0]], num_samples=200, num_warmup=200)
    >>> posteriors
    Posteriors(theta1, theta2; 3 observations, 3 without problems)
    >>> posteriors.mean.shape, posteriors[0].samples.shape, len(posteriors[1:])
    ((3, 2), (800, 2), 2)
    """

    def __init__(self, posteriors: Sequence[Posterior]):
        self._posteriors = tuple(posteriors)

    @overload
    def __getitem__(self, index: int) -> Posterior: ...

    @overload
    def __getitem__(self, index: slice) -> "Posteriors": ...

    def __getitem__(self, index: int | slice) -> "Posterior | Posteriors":
        chosen = self._posteriors[index]
        return Posteriors(chosen) if isinstance(chosen, tuple) else chosen

    def __len__(self) -> int:
        return len(self._posteriors)

    def __iter__(self) -> Iterator[Posterior]:
        return iter(self._posteriors)

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names."""
        return self._posteriors[0].names if self._posteriors else ()

    @property
    def mean(self) -> np.ndarray:
        """Posterior means, shape (m, p)."""
        return np.array([posterior.mean for posterior in self])

    @property
    def sigma(self) -> np.ndarray:
        """Posterior standard deviations, shape (m, p)."""
        return np.array([posterior.sigma for posterior in self])

    @property
    def problems(self) -> tuple[tuple[str, ...], ...]:
        """Every reason not to trust each result, in words; empty where there is none."""
        return tuple(posterior.problems for posterior in self)

    @property
    def trusted(self) -> np.ndarray:
        """Whether each posterior has no problems, shape (m,)."""
        return np.array([posterior.trusted for posterior in self], bool)

    def __repr__(self) -> str:
        return f"Posteriors({', '.join(self.names)}; {self._counts()})"

    def __str__(self) -> str:
        rows = [("observation", *self.names, "problems")]
        rows += [(number, *values, verdict) for number, *values, verdict in self._rows()]
        cut = [f"and {len(self) - _MOST_ROWS} more"] if len(self) > _MOST_ROWS else []
        return "\n".join([self._counts(), *columns(rows), *cut])

    def _repr_html_(self) -> str:
        rows = [(number, "; ".join(values)) for number, *values in self._rows()]
        return html_table(repr(self), rows)

    def _counts(self) -> str:
        return f"{len(self):,} observations, {int(self.trusted.sum()):,} without problems"

    def _rows(self) -> list[tuple[str, ...]]:
        """Write down the first few posteriors, one row each: number, mean and error of each parameter, verdict."""
        return [
            (
                str(i),
                *(f"{mean:.4g} ± {sigma:.2g}" for mean, sigma in zip(one.mean, one.sigma, strict=True)),
                "none" if one.trusted else f"{len(one.problems)}: {one.problems[0]}",
            )
            for i, one in enumerate(self[:_MOST_ROWS])
        ]
