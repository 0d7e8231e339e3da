"""One training loop for every recipe: epochs of minibatches scanned on the device, no Python per step.

The loss of the paper, for one batch of (θ, x) with targets t = ∇θ log p(z | θ), is the mean of (s(θ, x) − t)².
Epochs run in chunks of fixed length, so that one compiled function serves the whole fit; between chunks the host draws
the progress bar, looks whether the loss is finite, and writes a checkpoint. Early stopping and the best weights so far
are kept on the device, so that they do not depend on the chunk length.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from .._support.progress import progress_bar
from ..errors import TrainingError
from .checkpoint import Checkpoint, State

Batch = tuple[Array, ...]
Loss = Callable[[Any, Array, Batch], Array]


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
    """What is minimised: a loss over rows of data, given as arrays with one row a record.

    ``fresh`` gives other rows, the same number as in ``data``, to go on with after every hundredth of the training: for
    data that do not fit in memory. What is held out stays that of ``data``.
    """

    loss: Loss
    data: tuple[np.ndarray, ...]
    fresh: Callable[[], tuple[np.ndarray, ...]] | None = None


@dataclass(frozen=True)
class Monitor:
    """How a training is shown, and in which folder its state is kept."""

    title: str = "fit"
    progress: bool | None = None
    checkpoint: str | Path | None = None


_DEFAULT_MONITOR = Monitor()


def latent_score_loss(function: Any, key: Array, batch: Batch) -> Float[Array, ""]:
    """Compute the paper's loss over a batch of standardised (θ, x, t), or (θ, x, t, weight of the record)."""
    del key
    theta, x, target, *weights = batch
    squares = (jax.vmap(function)(theta, x) - target) ** 2
    return jnp.mean(squares * weights[0][:, None] if weights else squares)


def train(
    function: Any, task: Task, settings: Training, *, key: Array, monitor: Monitor = _DEFAULT_MONITOR
) -> tuple[Any, History]:
    """Minimise a loss and return the best function and the history.

    With a checkpoint, the state is kept in that folder and a later call with the same arguments goes on from there
    with the same losses, to the last bit, as a run that was never stopped.
    """
    split_key, run_key = jax.random.split(key)
    training, held_out = _split(task.data, settings, split_key)
    num_rows = len(training[0])
    optimiser = optax.adamw(_rate(settings, num_rows), weight_decay=settings.weight_decay)
    parameters, static = eqx.partition(function, eqx.is_inexact_array)
    checkpoint = None
    if monitor.checkpoint is not None:
        checkpoint = Checkpoint(monitor.checkpoint, settings, task.data, key)
    run = _Run(State.first(parameters, optimiser, run_key), settings, checkpoint)
    epochs = _Epochs(lambda p, k, batch: task.loss(eqx.combine(p, static), k, batch), optimiser, settings, num_rows)
    compiled = eqx.filter_jit(epochs.chunk)
    started = time.perf_counter()
    try:
        with progress_bar(monitor.title, settings.num_epochs, monitor.progress) as advance:
            advance(run.num_epochs_done)
            while not _is_over(run.state, settings):
                num_new = run.extend(*compiled(run.state, training, held_out))
                advance(num_new, run.note())
                if task.fresh is not None:
                    training = _replaced(training, task.fresh())
            if run.losses:
                advance(settings.num_epochs - run.num_epochs_done, run.note())
    finally:
        # Also on Ctrl-C: what was computed is kept.
        run.keep()
    best = run.state.best_parameters if held_out is not None else run.state.parameters
    return eqx.combine(best, static), run.history(held_out is not None, time.perf_counter() - started)


@dataclass(eq=False)
class _Run:
    """A training on the host: its state, the (loss, held-out loss) of every chunk of epochs, and its checkpoint."""

    state: State
    settings: Training
    checkpoint: Checkpoint | None
    losses: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.checkpoint is not None and self.checkpoint.exists():
            self.state, self.losses = self.checkpoint.read(self.state)

    @property
    def num_epochs_done(self) -> int:
        return sum(map(len, self.losses))

    def extend(self, state: State, chunk_losses: Array) -> int:
        """Take over the results of a chunk and return how many epochs it ran."""
        rows = np.asarray(chunk_losses, dtype=np.float64)[: int(state.epoch) - self.num_epochs_done]
        self.state = state
        self.losses.append(rows)
        self._stop_unless_finite()
        if self.checkpoint is not None:
            self.checkpoint.write_sometimes(state, self.losses)
        return len(rows)

    def keep(self) -> None:
        """Write the checkpoint, unless the last losses are not finite."""
        if self.checkpoint is not None and self.losses and np.isfinite(self.losses[-1][:, 0]).all():
            self.checkpoint.write(self.state, self.losses)

    def note(self) -> str:
        """Give the last losses in words."""
        loss, held_out = self.losses[-1][-1]
        return f"loss {loss:.5g}" + ("" if np.isnan(held_out) else f"  held-out {held_out:.5g}")

    def history(self, has_held_out: bool, seconds: float) -> History:
        """Sum up."""
        losses = np.concatenate(self.losses)
        return History(
            loss=losses[:, 0],
            held_out_loss=losses[:, 1],
            best_epoch=int(self.state.best_epoch) if has_held_out else len(losses),
            seconds=seconds,
            stopped_early=len(losses) < self.settings.num_epochs,
        )

    def _stop_unless_finite(self) -> None:
        rows = self.losses[-1]
        if not np.isfinite(rows[:, 0]).all():
            bad = int(np.flatnonzero(~np.isfinite(rows[:, 0]))[0])
            number = sum(map(len, self.losses[:-1])) + bad + 1
            raise TrainingError(
                f"The loss became {rows[bad, 0]} in epoch {number}, so the fit was stopped. Lower the learning rate, "
                "or look for extreme values in x (heavy tails may need a transformation such as a logarithm)."
            )


@dataclass(frozen=True, eq=False)
class _Epochs:
    """The loop on the device: ``objective`` is the loss as a function of parameters, a key and a batch."""

    objective: Callable[[Any, Array, Batch], Array]
    optimiser: optax.GradientTransformation
    settings: Training
    num_rows: int

    def chunk(self, state: State, training: Batch, held_out: Batch | None) -> tuple[State, Array]:
        """Run a hundredth of all epochs, or what is left; return (loss, held-out loss) of each."""

        def one(state: State, _: None) -> tuple[State, Array]:
            return jax.lax.cond(
                _over(state, self.settings),
                lambda s: (s, jnp.full(2, jnp.nan)),
                lambda s: self.epoch(s, training, held_out),
                state,
            )

        length = max(1, math.ceil(self.settings.num_epochs / 100))
        return jax.lax.scan(one, state, None, length=length)

    def epoch(self, state: State, training: Batch, held_out: Batch | None) -> tuple[State, Array]:
        """See all rows once, in batches drawn at random."""
        next_key, order_key, loss_key, held_out_key = jax.random.split(state.key, 4)
        parameters, optimiser, values = self._steps(state, training, (order_key, loss_key))
        if held_out is None:
            held_out_loss = jnp.asarray(jnp.nan)
        else:
            held_out_loss = self.objective(parameters, held_out_key, held_out)
        better = held_out_loss < state.best_loss
        state = State(
            parameters=parameters,
            optimiser=optimiser,
            key=next_key,
            epoch=state.epoch + 1,
            best_parameters=jax.tree.map(lambda a, b: jnp.where(better, a, b), parameters, state.best_parameters),
            best_loss=jnp.where(better, held_out_loss, state.best_loss),
            best_epoch=jnp.where(better, state.epoch + 1, state.best_epoch),
        )
        return state, jnp.stack([values.mean(), held_out_loss])

    def _steps(self, state: State, training: Batch, keys: tuple[Array, Array]) -> tuple[Any, Any, Array]:
        """Take one step a batch; return parameters, the optimiser's state and the loss of every step."""
        order_key, loss_key = keys
        size, num_batches = self.settings.batches(self.num_rows)
        if num_batches == 1 and size == self.num_rows:
            order = None  # all rows at once: no need to shuffle them
        else:
            order = jax.random.permutation(order_key, self.num_rows)[: size * num_batches].reshape(num_batches, size)

        def step(carry: tuple[Any, Any], number: Array) -> tuple[tuple[Any, Any], Array]:
            parameters, optimiser_state = carry
            batch = training if order is None else tuple(a[order[number]] for a in training)
            step_key = jax.random.fold_in(loss_key, number)
            value, gradient = jax.value_and_grad(self.objective)(parameters, step_key, batch)
            updates, optimiser_state = self.optimiser.update(gradient, optimiser_state, parameters)
            return (optax.apply_updates(parameters, updates), optimiser_state), value

        first = (state.parameters, state.optimiser)
        (parameters, optimiser_state), values = jax.lax.scan(step, first, jnp.arange(num_batches))
        return parameters, optimiser_state, values


def _split(data: tuple[np.ndarray, ...], settings: Training, key: Array) -> tuple[Batch, Batch | None]:
    """Put rows on the device, some of them held out."""
    arrays = tuple(jnp.asarray(a, jnp.float32) for a in data)
    num = len(data[0])
    num_held_out = min(round(settings.held_out * num), num - 1)
    if not num_held_out:
        return arrays, None
    order = jax.random.permutation(key, num)
    return (
        tuple(a[order[num_held_out:]] for a in arrays),
        tuple(a[order[:num_held_out]] for a in arrays),
    )


def _replaced(training: Batch, rows: tuple[np.ndarray, ...]) -> Batch:
    """Replace the rows to train on by the same number of others."""
    return tuple(jnp.asarray(new[: len(old)], jnp.float32) for old, new in zip(training, rows, strict=True))


def _rate(settings: Training, num_rows: int) -> Any:
    if settings.decay == "none":
        return settings.learning_rate
    steps = settings.num_epochs * settings.batches(num_rows)[1]
    return optax.cosine_decay_schedule(settings.learning_rate, steps)


def _over(state: State, settings: Training) -> Array:
    """Say, on the device, whether the training is over."""
    over = state.epoch >= settings.num_epochs
    if settings.patience is not None and settings.held_out:
        over |= state.epoch - state.best_epoch >= settings.patience
    return over


def _is_over(state: State, settings: Training) -> bool:
    return bool(_over(state, settings))
