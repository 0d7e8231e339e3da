"""Records: simulations as they are kept, one by one as they come in and many together as arrays."""

from dataclasses import dataclass, field

import numpy as np


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
