"""Where the rows of :class:`~fisherscore.Simulations` are kept: in memory, or in the folder of a campaign.

A store reads; it does not interpret. What it can tell without reading the data (how many rows, of what shape, which
succeeded) it tells without, so that simulations larger than memory can be used.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..errors import ArgumentError, CampaignError
from .execution.ledger import Ledger
from .execution.run import OK
from .records import Records

_CHECKED_AT_ONCE = 1_000


class Store(Protocol):
    """What :class:`~fisherscore.Simulations` asks of the place its rows are kept in."""

    @property
    def folder(self) -> Path | None:
        """The folder of the campaign; None for rows in memory."""

    @property
    def records(self) -> Records:
        """All rows, in memory; read at first use."""

    @property
    def x_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""

    @property
    def num_bytes(self) -> int:
        """Memory all rows take."""

    def __len__(self) -> int: ...

    def successes(self) -> np.ndarray:
        """Return the positions of the rows that succeeded, in order."""
        ...

    def failures(self) -> tuple[dict[str, int], str]:
        """Count failures by kind, and give the message of the first."""
        ...

    def simulator_inputs(self) -> np.ndarray:
        """Return what the simulator was run at, row by row: the latent where there is one, else θ."""
        ...

    def read(self, rows: np.ndarray) -> Records:
        """Return the rows at the given positions, without reading others."""
        ...


@dataclass(frozen=True, eq=False)
class MemoryStore:
    """Rows in memory, which cannot be written to."""

    records: Records
    folder: None = None

    def __post_init__(self) -> None:
        lengths = {len(array) for array in self.records.arrays()}
        if len(lengths) != 1:
            raise ArgumentError(f"theta, latent, x, status: expected the same number of rows, got {sorted(lengths)}.")
        _freeze(self.records)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def x_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return self.records.x.shape[1:]

    @property
    def num_bytes(self) -> int:
        """Memory all rows take."""
        return sum(array.nbytes for array in self.records.arrays())

    def successes(self) -> np.ndarray:
        """Return the positions of the rows that succeeded, in order."""
        return np.flatnonzero(self.records.status == OK)

    def failures(self) -> tuple[dict[str, int], str]:
        """Count failures by kind, and give the message of the first."""
        kinds, counts = np.unique(self.records.status[self.records.status != OK], return_counts=True)
        first = next(iter(self.records.messages.values()), "")
        return dict(zip(map(str, kinds), map(int, counts), strict=True)), first

    def simulator_inputs(self) -> np.ndarray:
        """Return the latent where there is one, else θ."""
        return self.records.theta if self.records.latent is None else self.records.latent

    def read(self, rows: np.ndarray) -> Records:
        """Return the rows at the given positions."""
        return self.records.take(rows)


@dataclass(frozen=True, eq=False)
class CampaignStore:
    """Rows in the folder of a campaign: the records with the given numbers, in order."""

    folder: Path
    indices: np.ndarray
    metadata: dict[str, Any]
    place: Path  # the folder's absolute path, which stays right when the current folder changes
    mark: str  # by which it is seen that the folder still holds what it held

    def _ledger(self) -> Ledger:
        """Open the ledger again, which must still be that of the same campaign."""
        ledger = Ledger.open(self.place)
        if ledger.mark(self.indices) != self.mark:
            ledger.close()
            raise CampaignError(
                f"path: {self.place} holds other records than when it was opened: it was replaced, or failed records "
                "were run again. Open it anew with fisherscore.open_campaign."
            )
        return ledger

    @classmethod
    def open(cls, folder: Path, *, first: int | None = None) -> "CampaignStore":
        """Open a folder; with ``first``, only the records with a number below it."""
        place = folder.absolute()
        with Ledger.open(place) as ledger:
            indices, metadata = ledger.indices(), ledger.metadata()
            chosen = indices if first is None else indices[indices < first]
            return cls(folder, chosen, metadata, place, ledger.mark(chosen))

    def __len__(self) -> int:
        return len(self.indices)

    @functools.cached_property
    def records(self) -> Records:
        """All rows, in memory; read at first use."""
        with self._ledger() as ledger:
            whole = len(self.indices) == sum(ledger.counts().values())
            records = ledger.read(None if whole else self.indices)
        _freeze(records)
        return records

    @property
    def x_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return tuple(self.metadata["x_shape"] or (0,))

    @property
    def num_bytes(self) -> int:
        """Memory all rows would take."""
        each = 8 * (self.metadata["num_parameters"] + self.metadata["num_latents"])
        return len(self) * (each + math.prod(self.x_shape) * self._bytes_a_number)

    @functools.cached_property
    def _bytes_a_number(self) -> int:
        with self._ledger() as ledger:
            return np.dtype(ledger.kind_of_x()).itemsize

    @functools.cached_property
    def _successes(self) -> np.ndarray:
        with self._ledger() as ledger:
            return np.flatnonzero(np.isin(self.indices, ledger.indices(OK), assume_unique=True))

    def successes(self) -> np.ndarray:
        """Return the positions of the rows that succeeded, in order, reading no data."""
        return self._successes

    def failures(self) -> tuple[dict[str, int], str]:
        """Count failures by kind, and give the message of the first, reading no data of successes."""
        with self._ledger() as ledger:
            kinds = [kind for kind in ledger.counts() if kind != OK]
            numbers = {kind: np.intersect1d(ledger.indices(kind), self.indices) for kind in kinds}
            failed = np.concatenate([np.zeros(0, np.int64), *numbers.values()])
            first = ledger.read(failed[[failed.argmin()]]).messages if len(failed) else {}
        return {kind: len(indices) for kind, indices in numbers.items() if len(indices)}, next(iter(first.values()), "")

    def simulator_inputs(self) -> np.ndarray:
        """Return the latent where there is one, else θ, reading no data of successes.

        Failures are checked here, since nobody reads them again; successes are whenever their data are read.
        """
        with self._ledger() as ledger:
            failed = np.setdiff1d(self.indices, ledger.indices(OK), assume_unique=True)
            for begin in range(0, len(failed), _CHECKED_AT_ONCE):
                ledger.read(failed[begin : begin + _CHECKED_AT_ONCE])
            return ledger.simulator_inputs()[np.isin(ledger.indices(), self.indices, assume_unique=True)]

    def read(self, rows: np.ndarray) -> Records:
        """Return the rows at the given positions, read in the order given."""
        with self._ledger() as ledger:
            return ledger.read(self.indices[rows])


def _freeze(records: Records) -> None:
    """Make arrays that others will share read-only."""
    arrays: Sequence[np.ndarray] = records.arrays()
    for array in arrays:
        array.setflags(write=False)
