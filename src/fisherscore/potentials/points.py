"""Parameters at which data were drawn, with what all closed forms need of them computed once.

Every closed form fits smooth functions of the same parameters, in the same polynomials: their values at the points, and
the Gram matrix of these in units of every prior (``potentials.shrinkage``), are shared. So are fits from which others
start.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .._support.legendre import Basis
from .shrinkage import Spectra

_Value = TypeVar("_Value")


class Points:
    """Parameters u (n, p) in [−1, 1]^p.

    ``whole`` are the points of which these are a part: fits to a part start from what is known of the whole.
    """

    def __init__(self, u: np.ndarray, whole: "Points | None" = None):
        self.u = np.asarray(u, np.float64)
        self.whole = whole
        self._known: dict[Any, Any] = {}

    @classmethod
    def of(cls, u: "np.ndarray | Points") -> "Points":
        """Take parameters as an array, or points as they are."""
        return u if isinstance(u, Points) else cls(u)

    def __len__(self) -> int:
        return len(self.u)

    @property
    def num_parameters(self) -> int:
        """The number of parameters p."""
        return self.u.shape[1]

    def values(self, basis: Basis) -> np.ndarray:
        """Evaluate polynomials at every point, (n, terms)."""
        return self.once(("values", basis), lambda: basis(self.u))

    def spectra(self, basis: Basis) -> Spectra:
        """Diagonalise the Gram matrix of polynomials for every prior."""

        def make() -> Spectra:
            design = self.values(basis)
            return Spectra.of(design.T @ design, basis)

        return self.once(("spectra", basis), make)

    def once(self, key: Any, make: Callable[[], _Value]) -> _Value:
        """Make something the first time it is asked for."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def known_of_whole(self, key: Any) -> Any:
        """Return what was made for the whole of which these points are a part, or None."""
        return None if self.whole is None else self.whole._known.get(key)
