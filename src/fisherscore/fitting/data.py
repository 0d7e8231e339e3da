"""Rows as fits see them: data drawn at parameters scaled to [−1, 1]."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..potentials.base import ScoreFunction


@dataclass(frozen=True, eq=False)
class Rows:
    """Standardised data x (n, d), drawn at parameters u (n, p) in [−1, 1]^p."""

    u: np.ndarray
    x: np.ndarray

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
        u, x = jnp.asarray(self.u, jnp.float32), jnp.asarray(self.x, jnp.float32)
        return np.asarray(_evaluate(function, u, x), np.float64)


@eqx.filter_jit
def _evaluate(function: ScoreFunction, u: Any, x: Any) -> Any:
    return jax.vmap(function)(u, x)
