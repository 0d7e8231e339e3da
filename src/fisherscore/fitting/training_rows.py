"""Rows as trainings see them: split, shuffled on the host, and put on the device filled up to one of few sizes."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._support import host_random
from .epochs import Batch, Sets

_MIN_ROWS = 64


@dataclass(frozen=True)
class Sizes:
    """How many rows are held out, how many are trained on, and in batches of which size; None sees all at once."""

    num_held_out: int
    num_rows: int
    batch_size: int | None
    num_batches: int


class TrainingRows:
    """Rows of one or several trainings, each split by its own key, and the orders in which its epochs see them.

    What belongs to several trainings has one more axis, the first.
    """

    def __init__(self, data: tuple[np.ndarray, ...], sizes: Sizes, keys: Sequence[np.ndarray], mesh: Mesh | None):
        self._sizes, self._mesh, self.num_trainings = sizes, mesh, len(keys)
        pairs = [host_random.split(key) for key in keys]
        self._run_keys = [pair[1] for pair in pairs]
        num, num_held_out = len(data[0]), sizes.num_held_out
        orders = [host_random.permutation(pair[0], num) if num_held_out else np.arange(num) for pair in pairs]
        self.training = self._placed([tuple(a[order[num_held_out:]] for a in data) for order in orders])
        self.held_out: Batch | None = None
        if num_held_out:
            self.held_out = self._placed([tuple(a[order[:num_held_out]] for a in data) for order in orders])

    def sets(self, constants: Sequence[np.ndarray]) -> Sets:
        """Give what the compiled function takes."""
        return Sets(self.training, self.held_out, tuple(np.asarray(a, np.float32) for a in constants))

    def replace(self, rows: tuple[np.ndarray, ...]) -> None:
        """Go on with the same number of other rows."""
        fresh = tuple(new[: self._sizes.num_rows] for new in rows)
        self.training = self._placed([fresh] * self.num_trainings)

    def orders(self, num_at_once: int, num_done: int) -> Iterator[np.ndarray]:
        """Give the orders of so many epochs at a time, (epochs, rows), of those that are not done."""
        num = self._sizes.num_rows
        # All rows at once need not be shuffled.
        filled = 0 if self._sizes.batch_size is None else self._filled_size(num)
        keys = list(self._run_keys) if filled else []
        orders = np.zeros((self.num_trainings, num_at_once, filled), np.int32)
        for epoch in itertools.count():
            for number, key in enumerate(keys):
                keys[number], order_key = host_random.split(key, 4)[:2]
                if epoch >= num_done:
                    orders[number, epoch % num_at_once, :num] = host_random.permutation(order_key, num)
            if (epoch + 1) % num_at_once == 0 and epoch >= num_done:
                yield orders.copy() if self.num_trainings > 1 else orders[0].copy()

    def on_devices(self, arrays: Any) -> Any:
        """Put arrays on the device, or on all that share the training."""
        if self._mesh is None:
            return jax.device_put(arrays)
        return jax.device_put(arrays, NamedSharding(self._mesh, PartitionSpec()))  # type: ignore[no-untyped-call]

    def _placed(self, sets: list[tuple[np.ndarray, ...]]) -> Batch:
        size = self._filled_size(len(sets[0][0]))
        filled = [[_filled(np.asarray(a, np.float32), size) for a in arrays] for arrays in sets]
        joined = filled[0] if len(sets) == 1 else [np.stack(arrays) for arrays in zip(*filled, strict=True)]
        return tuple(self.on_devices(joined))

    def _filled_size(self, num: int) -> int:
        # A step that sees all rows would have to see those that fill up.
        size = num if self._sizes.batch_size is None and num == self._sizes.num_rows else few_sizes(num)
        num_devices = 1 if self._mesh is None else self._mesh.size
        return -(-size // num_devices) * num_devices


def few_sizes(num: int) -> int:
    """Round a number of rows up, by an eighth at most, so that many numbers share a size."""
    step = 1 << max(0, (num - 1).bit_length() - 4)
    return max(_MIN_ROWS, -(-num // step) * step)


def shared_by(devices: Sequence[Any] | None, batch_size: int | None) -> Mesh | None:
    """Lay out several devices that can share the rows of a batch; by default all accelerators."""
    if devices is None:
        devices = jax.devices()
        if devices[0].platform == "cpu":
            return None
    if len(devices) < 2 or (batch_size or 0) % len(devices):
        return None
    return Mesh(np.asarray(devices), ("rows",))


def _filled(rows: np.ndarray, size: int) -> np.ndarray:
    """Repeat the first row at the end until there are ``size`` rows."""
    missing = size - len(rows)
    return np.concatenate([rows, np.repeat(rows[:1], missing, axis=0)]) if missing else rows
