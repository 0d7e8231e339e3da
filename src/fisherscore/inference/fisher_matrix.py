"""A Fisher matrix with named parameters and errors of its own: marginalise, fix, add, invert, print.

Errors of everything derived from it (covariances, marginal σ) come from ``draws``, matrices that scatter as the
estimate does, carried through the same arithmetic.
"""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from .._support.arguments import as_finite, as_indices, as_names, check_names
from .._support.text import columns, html_table, with_errors
from ..errors import ArgumentError

# Relative to a unit diagonal, eigenvalues below this are rounding errors of single precision.
_SINGULAR = 1e-6


@dataclass(frozen=True, eq=False)
class FisherMatrix:
    """An information matrix F over named parameters; printed, it is a table of errors.

    Attributes:
        names: Parameter names.
        matrix: The matrix, shape (p, p).
        draws: Bootstrap replicates of the matrix, shape (num, p, p), from which all errors come; None where there are
            none.

    >>> import fisherscore as fs, numpy as np
    >>> fisher = fs.FisherMatrix(("a", "b"), np.array([[4.0, 1.0], [1.0, 1.0]]))
    >>> fisher.marginalize("b").matrix.tolist(), fisher.fix("b").matrix.tolist()
    ([[3.0]], [[4.0]])
    >>> fisher.add({"b": 0.5}).matrix.tolist()  # a Gaussian prior of standard deviation 0.5 on b
    [[4.0, 1.0], [1.0, 5.0]]
    """

    names: tuple[str, ...]
    matrix: np.ndarray
    draws: np.ndarray | None = None

    def __post_init__(self) -> None:
        matrix = as_finite(self.matrix, "matrix")
        p = max(1, len(self.names)) if isinstance(self.names, Sized) else 1
        object.__setattr__(self, "names", as_names(self.names, p))
        if matrix.shape != (p, p) or not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-9 * np.abs(matrix).max()):
            raise ArgumentError(f"matrix: expected a symmetric matrix of shape ({p}, {p}), got {matrix.shape}.")
        object.__setattr__(self, "matrix", matrix)
        if self.draws is not None:
            draws = np.asarray(self.draws)
            if draws.ndim != 3 or draws.shape[1:] != (p, p):
                raise ArgumentError(f"draws: expected replicates of shape (num, {p}, {p}), got {draws.shape}.")
            object.__setattr__(self, "draws", draws)

    @property
    def error(self) -> np.ndarray | None:
        """Standard error of each entry."""
        return None if self.draws is None else self.draws.std(axis=0, ddof=1)

    @property
    def covariance(self) -> np.ndarray:
        """The inverse: the smallest covariance an unbiased estimate can have."""
        self._refuse_singular()
        return _inverse(self.matrix)

    @property
    def covariance_error(self) -> np.ndarray | None:
        """Standard error of each entry of the covariance."""
        self._refuse_singular()
        return self._scatter(_inverse)

    @property
    def sigma(self) -> np.ndarray:
        """Marginal errors: one σ per parameter with all others free."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def sigma_error(self) -> np.ndarray | None:
        """Standard error of the marginal errors."""
        self._refuse_singular()
        return self._scatter(lambda m: np.sqrt(np.abs(np.diagonal(_inverse(m), axis1=-2, axis2=-1))))

    @property
    def conditional_sigma(self) -> np.ndarray:
        """Conditional errors: one σ per parameter with all others known."""
        return 1 / np.sqrt(np.diagonal(self.matrix))

    @property
    def correlation(self) -> np.ndarray:
        """Correlations of the parameters' errors."""
        sigma = self.sigma
        return self.covariance / np.outer(sigma, sigma)

    def figure_of_merit(self, names: Sequence[str] | None = None) -> float:
        """Compute the figure of merit, 1 / √det of a covariance.

        Args:
            names: The parameters whose covariance is meant, all by default; the others are free.

        Returns:
            The figure of merit.
        """
        kept = as_indices(self.names if names is None else names, self.names)
        return float(1 / np.sqrt(np.linalg.det(self.covariance[np.ix_(kept, kept)])))

    def marginalize(self, names: Sequence[str] | str) -> "FisherMatrix":
        """Let parameters be free and drop them: the Schur complement of their block.

        Args:
            names: One parameter name or several.

        Returns:
            The Fisher matrix of the other parameters.
        """
        gone, kept = self._split(names)

        def schur(m: np.ndarray) -> np.ndarray:
            block = m[..., gone[:, None], gone]
            mixed = m[..., kept[:, None], gone]
            return m[..., kept[:, None], kept] - mixed @ np.linalg.solve(block, np.swapaxes(mixed, -1, -2))

        FisherMatrix(tuple(self.names[i] for i in gone), self.matrix[np.ix_(gone, gone)])._refuse_singular()
        return self._mapped(schur, kept)

    def fix(self, names: Sequence[str] | str) -> "FisherMatrix":
        """Take parameters as known and drop them.

        Args:
            names: One parameter name or several.

        Returns:
            The Fisher matrix of the other parameters.
        """
        _, kept = self._split(names)
        return self._mapped(lambda m: m[..., kept[:, None], kept], kept)

    def add(self, other: Any) -> "FisherMatrix":
        """Add independent information.

        Args:
            other: Another Fisher matrix; a Gaussian prior as standard deviations by parameter name; or a prior in any
                form :func:`sample` takes, as what :func:`prior_information` makes of it.

        Returns:
            The sum, over the parameters of both, which are matched by name.
        """
        if isinstance(other, Mapping) and all(isinstance(width, Real | np.ndarray) for width in other.values()):
            check_names(other, self.names, "other")
            widths = as_finite(list(other.values()), "other")
            if not (widths > 0).all():
                raise ArgumentError(f"other: expected standard deviations above 0, got {dict(other)}.")
            other = FisherMatrix(tuple(other), np.diag(widths**-2.0))
        if not isinstance(other, FisherMatrix):
            other = _of_prior(other, self.names)
        names = self.names + tuple(n for n in other.names if n not in self.names)
        total = _embed(self.matrix, self.names, names) + _embed(other.matrix, other.names, names)
        draws = _add_draws(self, other, names)
        return FisherMatrix(names, total, draws)

    def times(self, number: float) -> "FisherMatrix":
        """Return the information in many independent observations like this one.

        Args:
            number: How many: a number above 0.

        Returns:
            ``number`` times this matrix.
        """
        if isinstance(number, bool) or not isinstance(number, Real) or not 0 < number < np.inf:
            raise ArgumentError(f"number: expected a number above 0, got {number!r}.")
        return self._mapped(lambda m: number * m, np.arange(len(self.names)))

    def degenerate_direction(self) -> str | None:
        """Name the combination of parameters the matrix leaves unconstrained, or None."""
        diagonal = np.diagonal(self.matrix)
        if (diagonal <= 0).any():
            return str(self.names[int(np.argmin(diagonal))])
        scale = np.sqrt(diagonal)
        values, vectors = np.linalg.eigh(self.matrix / np.outer(scale, scale))
        if values[0] > _SINGULAR:
            return None
        direction = vectors[:, 0] / scale
        direction = direction / np.abs(direction).max()
        terms = [f"{v:+.3g} {n}" for v, n in zip(direction, self.names, strict=True) if abs(v) > 1e-3]
        return " ".join(terms)

    def __str__(self) -> str:
        direction = self.degenerate_direction()
        if direction is not None:
            return f"Fisher matrix of {', '.join(self.names)}\nsingular: the data do not constrain {direction}"
        rows: list[Sequence[str]] = [("parameter", "σ", "σ conditional")]
        rows += [(name, *cells) for name, cells in zip(self.names, self._cells(), strict=True)]
        return "\n".join([f"Fisher matrix of {', '.join(self.names)}", *columns(rows)])

    def __repr__(self) -> str:
        replicates = "" if self.draws is None else f"; {len(self.draws)} replicates"
        return f"FisherMatrix({', '.join(self.names)}{replicates})"

    def _repr_html_(self) -> str:
        if self.degenerate_direction() is not None:
            return html_table(str(self), [])
        rows = [(name, f"σ = {sigma}") for name, (sigma, _) in zip(self.names, self._cells(), strict=True)]
        return html_table("Fisher matrix", rows)

    def _cells(self) -> list[tuple[str, str]]:
        """Write marginal and conditional errors, one pair a parameter."""
        marginal = with_errors(self.sigma, self.sigma_error)
        return list(zip(marginal, with_errors(self.conditional_sigma), strict=True))

    def _refuse_singular(self) -> None:
        direction = self.degenerate_direction()
        if direction is not None:
            raise ArgumentError(
                f"The Fisher matrix is singular: the data do not constrain the combination {direction}. Add a prior "
                "with .add, drop a parameter with .fix, or use other data."
            )

    def _split(self, names: Sequence[str] | str) -> tuple[np.ndarray, np.ndarray]:
        gone = np.array(as_indices(names, self.names), dtype=int)
        kept = np.setdiff1d(np.arange(len(self.names)), gone)
        if not len(kept) or not len(gone):
            raise ArgumentError(f"names: expected some but not all of {list(self.names)}, got {names!r}.")
        return gone, kept

    def _mapped(self, function: Any, kept: np.ndarray) -> "FisherMatrix":
        draws = None if self.draws is None else function(self.draws)
        return FisherMatrix(tuple(self.names[i] for i in kept), function(self.matrix), draws)

    def _scatter(self, function: Any) -> np.ndarray | None:
        return None if self.draws is None else function(self.draws).std(axis=0, ddof=1)


def _of_prior(prior: Any, names: tuple[str, ...]) -> FisherMatrix:
    """Return what a prior is worth; the training region is not known here."""
    from .priors.given import Parameters  # which need JAX, that a matrix does without
    from .priors.information import information

    if prior is None or isinstance(prior, str | Real | np.ndarray):
        raise ArgumentError(f"other: expected a Fisher matrix, a mapping or a prior, got {type(prior).__name__}.")
    unknown = np.full(len(names), np.nan)
    named, matrix = information(prior, Parameters(names, unknown, unknown))
    return FisherMatrix(named, matrix)


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Invert after scaling to a unit diagonal, so that units 1e-9 and 1e9 together do no harm."""
    scale = np.sqrt(np.abs(np.diagonal(matrix, axis1=-2, axis2=-1)))
    outer = scale[..., :, None] * scale[..., None, :]
    return np.linalg.inv(matrix / outer) / outer


def _embed(matrix: np.ndarray, own: tuple[str, ...], names: tuple[str, ...]) -> np.ndarray:
    places = np.array([names.index(n) for n in own])
    whole = np.zeros((*matrix.shape[:-2], len(names), len(names)))
    whole[..., places[:, None], places] = matrix
    return whole


def _add_draws(a: FisherMatrix, b: FisherMatrix, names: tuple[str, ...]) -> np.ndarray | None:
    if a.draws is None and b.draws is None:
        return None
    num = min(len(m.draws) for m in (a, b) if m.draws is not None)
    parts = [_embed(m.matrix if m.draws is None else m.draws[:num], m.names, names) for m in (a, b)]
    return parts[0] + parts[1]
