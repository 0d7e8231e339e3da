"""One training loop for every recipe: epochs of minibatches run on the device, no Python per step.

The loss of the paper, for one batch of (θ, x) with targets t = ∇θ log p(z | θ), is the mean of (s(θ, x) − t)².
Epochs (``fitting.epochs``) run in chunks; between chunks the host draws the progress bar, looks whether the loss is
finite, and writes a checkpoint. Early stopping and the best weights so far are kept on the device, so that they do not
depend on the chunk length. Rows are shuffled on the host, by random numbers that need no compilation.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support import host_random
from .._support.layout import Layout
from .._support.progress import progress_bar
from ..errors import TrainingError
from .checkpoint import Checkpoint, State
from .epochs import Batch, Loss, Numbers, Program, is_over, run_epochs, run_epochs_of_many
from .training_rows import Sizes, TrainingRows, shared_by

# A call of the compiled function makes at least this many steps, or as many epochs as there are ``_MAX_EPOCHS``.
_MIN_STEPS = 8
_MAX_EPOCHS = 8


@dataclass(frozen=True)
class Training:
    """How to train: everything the loop needs but the network, the loss and the data.

    Args:
        num_epochs: How often every row is seen.
        batch_size: Rows in one step; None takes all at once.
        learning_rate: The rate of Adam at the start.
        weight_decay: The decoupled weight decay of AdamW; 0 is plain Adam.
        decay: How the rate falls over the training: along a cosine to zero, or not at all.
        held_out: The fraction of rows kept apart; weights of the epoch with their smallest loss are kept.
        patience: Epochs without a better held-out loss before stopping; None never stops early.

    >>> import fisherscore as fs
    >>> fs.NetworkRecipe(training=fs.Training(batch_size=64, patience=None)).training.batch_size
    64

    """

    num_epochs: int = 200
    batch_size: int | None = 256
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    decay: Literal["cosine", "none"] = "cosine"
    held_out: float = 0.1
    patience: int | None = 30

    def for_steps(self, num_steps: int, num_rows: int) -> "Training":
        """Count the budget in steps, so that few rows are seen often enough and many do not take for ever.

        Args:
            num_steps: How many steps to take.
            num_rows: How many rows there are, held out ones included.

        Returns:
            The same training with the epochs these steps make, and a patience of a quarter of them.

        """
        rows = num_rows * (1 - self.held_out)
        num_batches = max(1.0, rows / (self.batch_size or rows))
        num_epochs = math.ceil(num_steps / num_batches)
        return replace(self, num_epochs=num_epochs, patience=math.ceil(num_epochs / 4))

    def batches(self, num_rows: int) -> tuple[int, int]:
        """Divide rows into batches.

        Args:
            num_rows: How many rows there are to train on.

        Returns:
            The size of a batch and the number of batches an epoch; a last incomplete one is left for a later epoch.

        """
        size = min(self.batch_size or num_rows, num_rows)
        return size, num_rows // size


@dataclass(frozen=True, eq=False)
class History:
    """Loss of every epoch that was run, and which epoch's weights were kept."""

    loss: np.ndarray
    held_out_loss: np.ndarray
    best_epoch: int
    seconds: float
    stopped_early: bool

    @property
    def num_epochs(self) -> int:
        """How many epochs were run."""
        return len(self.loss)

    def as_dict(self) -> dict[str, Any]:
        """Return what a model's provenance keeps of its training."""
        return {
            "num_epochs": self.num_epochs,
            "best_epoch": self.best_epoch,
            "stopped_early": self.stopped_early,
            "fit_seconds": self.seconds,
            "loss": self.loss,
            "held_out_loss": self.held_out_loss,
        }


@dataclass(frozen=True, eq=False)
class Task:
    """What is minimised: the mean of a loss over rows of data, given as arrays with one row a record.

    The loss takes the function, rows and the ``constants``, and gives that of every row. ``fresh`` gives other rows,
    the same number as in ``data``, to go on with after every hundredth of the training: for data that do not fit in
    memory. What is held out stays that of ``data``.
    """

    loss: Loss
    data: tuple[np.ndarray, ...]
    fresh: Callable[[], tuple[np.ndarray, ...]] | None = None
    constants: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Review:
    """Whether to give up before the patience is spent.

    When no held-out loss has become better for ``share`` of all epochs, which is a while, ``is_hopeless`` is asked
    about the best functions so far; it is asked again only about better ones.
    """

    is_hopeless: Callable[[list[Any]], bool]
    share: float = 1 / 24
    min_epochs: int = 4

    def wait(self, num_epochs: int) -> int:
        """Count the epochs without a better loss before it is asked."""
        return max(self.min_epochs, math.ceil(self.share * num_epochs))


@dataclass(frozen=True)
class Monitor:
    """How a training is shown, in which folder its state is kept, when it is given up, and devices that share it.

    None are all accelerators there are, if more than one.
    """

    title: str = "fit"
    progress: bool | None = None
    checkpoint: str | Path | None = None
    review: Review | None = None
    devices: Sequence[Any] | None = None


_DEFAULT_MONITOR = Monitor()


def latent_score_loss(function: Any, rows: Batch) -> Float[Array, " rows"]:
    """Compute the paper's loss of standardised rows (θ, x, t), or (θ, x, t, weight of the record)."""
    theta, x, target, *weights = rows
    squares = jnp.mean((jax.vmap(function)(theta, x) - target) ** 2, axis=1)
    return squares * weights[0] if weights else squares


def train(
    function: Any, task: Task, settings: Training, *, key: Any, monitor: Monitor = _DEFAULT_MONITOR
) -> tuple[Any, History]:
    """Minimise a loss and return the best function and the history.

    With a checkpoint, the state is kept in that folder and a later call with the same arguments goes on from there
    with the same losses, to the last bit, as a run that was never stopped.
    """
    return train_together([function], task, settings, keys=[key], monitor=monitor)[0]


def train_together(
    functions: Sequence[Any], task: Task, settings: Training, *, keys: Sequence[Any], monitor: Monitor
) -> list[tuple[Any, History]]:
    """Train functions of one structure as one batch on the device, each from its key as if it were alone.

    Only a training that is alone keeps a checkpoint.
    """
    words = [host_random.words_of(key) for key in keys]
    checkpoint = None
    if monitor.checkpoint is not None and len(functions) == 1:
        checkpoint = Checkpoint(monitor.checkpoint, settings, task.data, words[0])
    run = _Run(functions, task, settings, words, devices=monitor.devices, checkpoint=checkpoint)
    started = time.perf_counter()
    try:
        with progress_bar(monitor.title, settings.num_epochs, monitor.progress) as advance:
            advance(run.num_done)
            while not (run.is_over() or run.is_hopeless(monitor.review)):
                advance(run.next_chunk(), run.note())
            if run.losses:
                advance(settings.num_epochs - run.num_done, run.note())
    finally:
        # Also on Ctrl-C: what was computed is kept.
        run.keep()
    return run.results(time.perf_counter() - started)


class _Run:
    """Trainings on the host: their states, the losses of every chunk (epochs, trainings, 2), and a checkpoint."""

    def __init__(
        self,
        functions: Sequence[Any],
        task: Task,
        settings: Training,
        keys: Sequence[np.ndarray],
        *,
        devices: Sequence[Any] | None,
        checkpoint: Checkpoint | None,
    ):
        self.task, self.settings, self.checkpoint = task, settings, checkpoint
        self.sizes = _sizes(settings, len(task.data[0]))
        mesh = shared_by(devices, self.sizes.batch_size)
        self.rows = TrainingRows(task.data, self.sizes, keys, mesh)
        self.program = Program(Layout.of(functions[0]), task.loss, self.sizes.batch_size, mesh)
        self.numbers = _numbers(settings, self.sizes)
        vectors = np.stack([self.program.layout.vector(f) for f in functions])
        state = State.first(vectors if len(functions) > 1 else vectors[0])
        self.losses: list[np.ndarray] = []
        if checkpoint is not None and checkpoint.exists():
            state, losses = checkpoint.read(state)
            self.losses = [losses[:, None]]
        self.state = self.rows.on_devices(state)
        self.num_chunk = max(1, math.ceil(settings.num_epochs / 100))
        # Epochs of few steps are run several at a time.
        few = self.sizes.num_batches < _MIN_STEPS and task.fresh is None
        self.num_at_once = 1 << (min(_MAX_EPOCHS, self.num_chunk).bit_length() - 1) if few else 1
        self.reviewed_at = np.array(-1)
        self.orders = _Ahead(self.rows.orders(self.num_at_once, self.num_done))

    @property
    def num_done(self) -> int:
        return sum(map(len, self.losses))

    @property
    def is_alone(self) -> bool:
        return self.rows.num_trainings == 1

    def is_over(self) -> bool:
        """Whether all trainings are over."""
        return bool(np.all(is_over(jax.tree.map(np.asarray, self.state), self.numbers)))

    def is_hopeless(self, review: Review | None) -> bool:
        """Ask a review about the best so far, if they have been that for a while and it was not asked before."""
        if review is None or not self.sizes.num_held_out:
            return False
        best, now = np.asarray(self.state.best_epoch), np.asarray(self.state.epoch)
        if np.min(now - best) < review.wait(self.settings.num_epochs) or np.array_equal(best, self.reviewed_at):
            return False
        self.reviewed_at = best
        return review.is_hopeless([function for function, _ in self.results(0.0)])

    def next_chunk(self) -> int:
        """Run a hundredth of all epochs, or what is left, and return how many that were."""
        compiled = run_epochs if self.is_alone else run_epochs_of_many
        parts, sets = [], self.rows.sets(self.task.constants)
        for _ in range(math.ceil(self.num_chunk / self.num_at_once)):
            self.state, losses = compiled(self.state, sets, self.orders.take(), self.numbers, program=self.program)
            self.orders.prepare()
            parts.append(losses)
        losses = np.concatenate([np.asarray(p, np.float64).reshape(-1, self.num_at_once, 2) for p in parts], axis=1)
        num_new = int(np.max(np.asarray(self.state.epoch))) - self.num_done
        self.losses.append(np.swapaxes(losses, 0, 1)[:num_new])
        self._stop_unless_finite()
        if self.checkpoint is not None:
            self.checkpoint.write_sometimes(self.state, self._own_losses())
        if self.task.fresh is not None:
            self.rows.replace(self.task.fresh())
        return num_new

    def keep(self) -> None:
        """Write the checkpoint, unless the last losses are not finite."""
        if self.checkpoint is not None and self.losses and np.isfinite(self.losses[-1][..., 0]).all():
            self.checkpoint.write(self.state, self._own_losses())

    def note(self) -> str:
        """Give the last losses in words."""
        loss, held_out = np.nanmean(self.losses[-1][-1], axis=0) if self.sizes.num_held_out else self.losses[-1][-1, 0]
        return f"loss {loss:.5g}" + ("" if np.isnan(held_out) else f"  held-out {held_out:.5g}")

    def results(self, seconds: float) -> list[tuple[Any, History]]:
        """Give the best functions and the histories."""
        state = jax.tree.map(lambda a: np.asarray(a) if not self.is_alone else np.asarray(a)[None], self.state)
        vectors = state.best_parameters if self.sizes.num_held_out else state.parameters
        losses = np.concatenate(self.losses)
        histories = [
            History(
                loss=losses[:num, number, 0],
                held_out_loss=losses[:num, number, 1],
                best_epoch=int(best) if self.sizes.num_held_out else int(num),
                seconds=seconds / len(vectors),
                stopped_early=bool(num < self.settings.num_epochs),
            )
            for number, (num, best) in enumerate(zip(state.epoch, state.best_epoch, strict=True))
        ]
        return [(self.program.layout.function(v, np), h) for v, h in zip(vectors, histories, strict=True)]

    def _own_losses(self) -> list[np.ndarray]:
        return [losses[:, 0] for losses in self.losses]

    def _stop_unless_finite(self) -> None:
        epochs = self.num_done - len(self.losses[-1]) + 1 + np.arange(len(self.losses[-1]))
        ran = epochs[:, None] <= np.asarray(self.state.epoch).reshape(1, -1)
        bad = np.argwhere(ran & ~np.isfinite(self.losses[-1][..., 0]))
        if len(bad):
            raise TrainingError(
                f"The loss became {self.losses[-1][*bad[0], 0]} in epoch {epochs[bad[0, 0]]}, so the fit was stopped. "
                "Lower the learning rate, or look for extreme values in x (heavy tails may need a transformation such "
                "as a logarithm)."
            )


class _Ahead:
    """Takes from an iterator, and prepares the next while the device is busy with the last."""

    def __init__(self, iterator: Iterator[np.ndarray]):
        self._iterator = iterator
        self._ready: np.ndarray | None = None

    def take(self) -> np.ndarray:
        self.prepare()
        taken, self._ready = self._ready, None
        assert taken is not None
        return taken

    def prepare(self) -> None:
        if self._ready is None:
            self._ready = next(self._iterator)


def _sizes(settings: Training, num: int) -> Sizes:
    """Divide so many rows into those held out and batches of the others."""
    num_held_out = min(round(settings.held_out * num), num - 1)
    num_rows = num - num_held_out
    size, num_batches = settings.batches(num_rows)
    return Sizes(num_held_out, num_rows, None if size == num_rows else size, num_batches)


def _numbers(settings: Training, sizes: Sizes) -> Numbers:
    """Give the settings as the compiled function takes them."""
    patience = settings.patience if settings.patience is not None and sizes.num_held_out else np.iinfo(np.int32).max
    num_decay_steps = math.inf if settings.decay == "none" else settings.num_epochs * sizes.num_batches
    return Numbers(
        learning_rate=np.float32(settings.learning_rate),
        weight_decay=np.float32(settings.weight_decay),
        num_decay_steps=np.float32(num_decay_steps),
        num_epochs=np.int32(settings.num_epochs),
        patience=np.int32(patience),
        num_batches=np.int32(sizes.num_batches),
        num_rows=np.int32(sizes.num_rows),
        num_held_out=np.int32(sizes.num_held_out),
    )
