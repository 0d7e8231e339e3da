"""One training loop for every recipe: epochs of minibatches scanned on the device, no Python per step.

The loss of the paper, for one batch of (θ, x) with targets t = ∇θ log p(z | θ), is the mean of (s(θ, x) − t)².
Epochs run in chunks of fixed length, so that one compiled function serves the whole fit; between chunks the host draws
the progress bar, looks whether the loss is finite, and writes a checkpoint. Early stopping and the best weights so far
are kept on the device, so that they do not depend on the chunk length.
"""

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from .._support.folder import read_arrays, read_json, write_folder
from .._support.progress import progress_bar
from ..errors import ModelFolderError, TrainingError

Batch = tuple[Array, ...]
Loss = Callable[[Any, Array, Batch], Array]

_CHECKPOINT_SCHEMA = "fisherscore-checkpoint"
_CHECKPOINT_VERSION = 1


@dataclass(frozen=True)
class Training:
    """How to train: everything the loop needs but the network, the loss and the data.

    >>> import fisherscore as fs
    >>> fs.NetworkRecipe(training=fs.Training(batch_size=64, patience=None)).training.batch_size
    64
    """

    num_epochs: int = 200
    batch_size: int | None = 256  # None: all rows at once
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    decay: Literal["cosine", "none"] = "cosine"
    held_out: float = 0.1  # fraction of rows kept apart
    patience: int | None = 30  # epochs without a better held-out loss before stopping; None: never stop early

    def for_steps(self, num_steps: int, num_rows: int) -> "Training":
        """Spread so many steps over epochs, so that few rows are seen often enough and many do not take for ever."""
        rows = num_rows * (1 - self.held_out)
        num_batches = max(1.0, rows / (self.batch_size or rows))
        num_epochs = math.ceil(num_steps / num_batches)
        return replace(self, num_epochs=num_epochs, patience=math.ceil(num_epochs / 4))


@dataclass(frozen=True)
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


class _State(eqx.Module):
    """What changes from step to step; a checkpoint is this and nothing else."""

    parameters: Any
    optimiser: Any
    key: Array
    epoch: Array
    best_parameters: Any
    best_loss: Array
    best_epoch: Array


def latent_score_loss(network: Any, key: Array, batch: Batch) -> Float[Array, ""]:
    """Compute the paper's loss over a batch of standardised (θ, x, t), or (θ, x, t, weight of the record)."""
    del key
    theta, x, target, *weights = batch
    squares = (jax.vmap(network)(theta, x) - target) ** 2
    return jnp.mean(squares * weights[0][:, None] if weights else squares)


def train(
    network: Any,
    loss: Loss,
    data: tuple[np.ndarray, ...],
    settings: Training,
    *,
    key: Array,
    title: str = "fit",
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    fresh: Callable[[], tuple[np.ndarray, ...]] | None = None,
) -> tuple[Any, History]:
    """Minimise ``loss`` over ``data`` (arrays with one row a record) and return the best network and the history.

    ``fresh`` gives other rows, as many as there are in ``data``, to go on with after every hundredth of the training:
    for data that do not fit in memory. What is held out stays that of ``data``.

    With ``checkpoint``, the state is kept in that folder and a later call with the same arguments goes on from there
    with the same losses, to the last bit, as a run that was never stopped.
    """
    split_key, run_key = jax.random.split(key)
    training, held_out = _split(data, settings, split_key)
    optimiser = optax.adamw(_rate(settings, len(training[0])), weight_decay=settings.weight_decay)
    parameters, static = eqx.partition(network, eqx.is_inexact_array)
    state = _State(
        parameters=parameters,
        optimiser=optimiser.init(parameters),
        key=run_key,
        epoch=jnp.zeros((), jnp.int32),
        best_parameters=parameters,
        best_loss=jnp.asarray(jnp.inf),
        best_epoch=jnp.zeros((), jnp.int32),
    )
    chunk = max(1, math.ceil(settings.num_epochs / 100))
    keeper = _Checkpoint(checkpoint, settings, data, key) if checkpoint is not None else None
    losses: list[np.ndarray] = []
    if keeper is not None and keeper.exists():
        state, losses = keeper.read(state)

    run = eqx.filter_jit(_chunk_function(loss, static, optimiser, settings, len(training[0]), chunk))
    started = time.perf_counter()
    try:
        with progress_bar(title, settings.num_epochs, progress) as advance:
            advance(sum(map(len, losses)))
            while not _finished(state, settings):
                state, chunk_losses = run(state, training, held_out)
                rows = np.asarray(chunk_losses, dtype=np.float64)
                rows = rows[: int(state.epoch) - sum(map(len, losses))]
                losses.append(rows)
                _stop_unless_finite(losses)
                if keeper is not None:
                    keeper.write_sometimes(state, losses)
                advance(len(rows), _note(rows[-1]))
                if fresh is not None:
                    training = _swapped(training, fresh())
            if losses:
                advance(settings.num_epochs - sum(map(len, losses)), _note(losses[-1][-1]))
    finally:
        # Also on Ctrl-C: what was computed is kept.
        if keeper is not None and losses and np.isfinite(losses[-1][:, 0]).all():
            keeper.write(state, losses)
    history = np.concatenate(losses)
    kept = state.best_parameters if held_out is not None else state.parameters
    return eqx.combine(kept, static), History(
        loss=history[:, 0],
        held_out_loss=history[:, 1],
        best_epoch=int(state.best_epoch) if held_out is not None else len(history),
        seconds=time.perf_counter() - started,
        stopped_early=len(history) < settings.num_epochs,
    )


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


def _swapped(training: Batch, rows: tuple[np.ndarray, ...]) -> Batch:
    """Replace the rows to train on by as many others."""
    return tuple(jnp.asarray(new[: len(old)], jnp.float32) for old, new in zip(training, rows, strict=True))


def _batches(settings: Training, num_rows: int) -> tuple[int, int]:
    """Return batch size and number of batches an epoch; a last incomplete batch is left for a later epoch."""
    size = min(settings.batch_size or num_rows, num_rows)
    return size, num_rows // size


def _rate(settings: Training, num_rows: int) -> Any:
    if settings.decay == "none":
        return settings.learning_rate
    steps = settings.num_epochs * _batches(settings, num_rows)[1]
    return optax.cosine_decay_schedule(settings.learning_rate, steps)


def _chunk_function(
    loss: Loss, static: Any, optimiser: optax.GradientTransformation, settings: Training, num_rows: int, chunk: int
) -> Callable[[_State, Batch, Batch | None], tuple[_State, Array]]:
    """Build the function that runs ``chunk`` epochs and returns (loss, held-out loss) of each."""
    size, num_batches = _batches(settings, num_rows)

    def objective(parameters: Any, key: Array, batch: Batch) -> Array:
        return loss(eqx.combine(parameters, static), key, batch)

    def epoch(state: _State, training: Batch, held_out: Batch | None) -> tuple[_State, Array]:
        next_key, order_key, loss_key, held_out_key = jax.random.split(state.key, 4)
        if num_batches == 1 and size == num_rows:
            order = None  # all rows at once: no need to shuffle them
        else:
            order = jax.random.permutation(order_key, num_rows)[: size * num_batches].reshape(num_batches, size)

        def step(carry: tuple[Any, Any], number: Array) -> tuple[tuple[Any, Any], Array]:
            parameters, optimiser_state = carry
            batch = training if order is None else tuple(a[order[number]] for a in training)
            value, gradient = jax.value_and_grad(objective)(parameters, jax.random.fold_in(loss_key, number), batch)
            updates, optimiser_state = optimiser.update(gradient, optimiser_state, parameters)
            return (optax.apply_updates(parameters, updates), optimiser_state), value

        (parameters, optimiser_state), values = jax.lax.scan(
            step, (state.parameters, state.optimiser), jnp.arange(num_batches)
        )
        if held_out is None:
            held_out_loss = jnp.asarray(jnp.nan)
        else:
            held_out_loss = objective(parameters, held_out_key, held_out)
        better = held_out_loss < state.best_loss
        state = _State(
            parameters=parameters,
            optimiser=optimiser_state,
            key=next_key,
            epoch=state.epoch + 1,
            best_parameters=jax.tree.map(lambda a, b: jnp.where(better, a, b), parameters, state.best_parameters),
            best_loss=jnp.where(better, held_out_loss, state.best_loss),
            best_epoch=jnp.where(better, state.epoch + 1, state.best_epoch),
        )
        return state, jnp.stack([values.mean(), held_out_loss])

    def run(state: _State, training: Batch, held_out: Batch | None) -> tuple[_State, Array]:
        def one(state: _State, _: None) -> tuple[_State, Array]:
            return jax.lax.cond(
                _over(state, settings),
                lambda s: (s, jnp.full(2, jnp.nan)),
                lambda s: epoch(s, training, held_out),
                state,
            )

        return jax.lax.scan(one, state, None, length=chunk)

    return run


def _over(state: _State, settings: Training) -> Array:
    over = state.epoch >= settings.num_epochs
    if settings.patience is not None and settings.held_out:
        over |= state.epoch - state.best_epoch >= settings.patience
    return over


def _finished(state: _State, settings: Training) -> bool:
    return bool(_over(state, settings))


def _stop_unless_finite(losses: list[np.ndarray]) -> None:
    rows = losses[-1]
    if not np.isfinite(rows[:, 0]).all():
        bad = int(np.flatnonzero(~np.isfinite(rows[:, 0]))[0])
        number = sum(map(len, losses[:-1])) + bad + 1
        raise TrainingError(
            f"The loss became {rows[bad, 0]} in epoch {number}, so the fit was stopped. Lower the learning rate, or "
            "look for extreme values in x (heavy tails may need a transformation such as a logarithm)."
        )


def _note(row: np.ndarray) -> str:
    held_out = "" if np.isnan(row[1]) else f"  held-out {row[1]:.5g}"
    return f"loss {row[0]:.5g}{held_out}"


class _Checkpoint:
    """Keeps the state of a fit in a folder, and refuses to go on from that of a different fit."""

    def __init__(self, path: str | Path, settings: Training, data: tuple[np.ndarray, ...], key: Array):
        self.path = Path(path)
        self.last_write = time.perf_counter()
        digest = hashlib.sha256()
        for array in data:
            digest.update(np.ascontiguousarray(array).tobytes())
        self.identity = {
            "settings": asdict(settings),
            "data": digest.hexdigest(),
            "key": np.asarray(jax.random.key_data(key)).tolist(),
        }

    def exists(self) -> bool:
        return (self.path / "checkpoint.json").exists()

    def write_sometimes(self, state: _State, losses: list[np.ndarray], every_seconds: float = 10.0) -> None:
        if time.perf_counter() - self.last_write >= every_seconds:
            self.write(state, losses)

    def write(self, state: _State, losses: list[np.ndarray]) -> None:
        arrays = {f"{i:04d}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(_storable(state)))}
        document = {
            "schema": _CHECKPOINT_SCHEMA,
            "version": _CHECKPOINT_VERSION,
            "identity": self.identity,
            "num_epochs_done": sum(map(len, losses)),
        }
        history = {"losses": np.concatenate(losses)}
        write_folder(self.path, {"checkpoint.json": document}, {"state.safetensors": arrays | history})
        self.last_write = time.perf_counter()

    def read(self, like: _State) -> tuple[_State, list[np.ndarray]]:
        document = read_json(self.path / "checkpoint.json", _CHECKPOINT_SCHEMA, _CHECKPOINT_VERSION)
        stored = document.get("identity")
        if stored != self.identity:
            raise ModelFolderError(
                f"checkpoint: {self.path} belongs to another fit: {_difference(stored, self.identity)}. "
                "Give the same simulations, settings and seed, or another folder."
            )
        leaves, structure = jax.tree.flatten(_storable(like))
        expected: dict[str, Any] = {f"{i:04d}": (leaf.shape, leaf.dtype) for i, leaf in enumerate(leaves)}
        expected["losses"] = ((int(document["num_epochs_done"]), 2), np.float64)
        # Losses that were never measured and a best loss not yet found are stored as NaN and infinity.
        arrays = read_arrays(self.path / "state.safetensors", expected, finite=False)
        history = arrays.pop("losses")
        state = jax.tree.unflatten(structure, [jnp.asarray(arrays[k]) for k in sorted(arrays)])
        return eqx.tree_at(lambda s: s.key, state, jax.random.wrap_key_data(state.key)), [history]


def _storable(state: _State) -> _State:
    """Replace the random key by its bits, which is what a file can hold."""
    return eqx.tree_at(lambda s: s.key, state, jax.random.key_data(state.key))


def _difference(stored: Any, wanted: dict[str, Any]) -> str:
    if not isinstance(stored, dict) or not isinstance(stored.get("settings"), dict):
        return "its settings cannot be read"
    changed = [
        f"{k} was {stored['settings'].get(k)!r}, is {v!r}"
        for k, v in wanted["settings"].items()
        if stored["settings"].get(k) != v
    ]
    if changed:
        return "; ".join(changed)
    return "the seed differs" if stored.get("key") != wanted["key"] else "the simulations differ"
