"""Records: simulations as they are kept, one by one as they come in and many together as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Data of more numbers than this stay in single precision where they came in it: they take half the room.
_LARGE = 1_000


def kept_kind(kind: Any, num_numbers: int) -> type:
    """Choose the precision in which data of one observation are kept: single for large ones that came in it."""
    return np.float32 if np.dtype(kind) == np.float32 and num_numbers > _LARGE else np.float64


def stacked(rows: Sequence[np.ndarray | None], shape: tuple[int, ...]) -> np.ndarray:
    """Put data one below the other, NaN where there are none, in single precision if all came in it."""
    kinds = {x.dtype for x in rows if x is not None}
    blank = np.full(shape, np.nan, np.result_type(*kinds) if kinds else np.float64)
    return np.stack([blank if x is None else x for x in rows])


@dataclass(frozen=True, eq=False)
class Record:
    """One simulation: x is None where it failed without data, the latent is None where none was drawn."""

    index: int
    status: str
    theta: np.ndarray
    latent: np.ndarray | None
    x: np.ndarray | None
    message: str


@dataclass(frozen=True, eq=False)
class Records:
    """Many simulations as arrays; x is NaN where there are no data, messages go by the number of the record."""

    indices: np.ndarray
    status: np.ndarray
    theta: np.ndarray
    latent: np.ndarray | None
    x: np.ndarray
    messages: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.indices)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return the arrays there are."""
        optional = () if self.latent is None else (self.latent,)
        return (self.indices, self.status, self.theta, self.x, *optional)

    def take(self, rows: np.ndarray | slice) -> "Records":
        """Return the named rows, with the messages of those that failed."""
        indices = self.indices[rows]
        kept = set(np.intersect1d(indices, list(self.messages)).tolist())
        return Records(
            indices=indices,
            status=self.status[rows],
            theta=self.theta[rows],
            latent=None if self.latent is None else self.latent[rows],
            x=self.x[rows],
            messages={index: text for index, text in self.messages.items() if index in kept},
        )
