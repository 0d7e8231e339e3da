"""How one network that guesses parameters is trained: on the device, on maps that are moved about in every step.

The loss is that of a normal distribution of the parameters given the data: its mean is then the posterior mean, the
summary that loses least where the parameters are best known. What is kept are the numbers with the smallest loss of
simulations that no network is trained on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from .._support.layout import Layout
from .._support.precision import in_single_precision
from ..errors import TrainingError
from ..summaries.base import rows_at_once
from ..summaries.field_shape import FieldShape
from ..summaries.learned import negative_log_density
from ..summaries.symmetries import Symmetries

# The training is looked at so many times, and ends when so many of them in turn saw nothing better.
_NUM_LOOKS, _PATIENCE = 60, 20
_NUM_WARM = 50
_LARGEST_GRADIENT = 1.0
# What is looked at, and kept, is a running mean of the numbers, which forgets this little of itself in a step (Polyak).
_MEMORY = 0.98


@dataclass(frozen=True)
class SummaryTraining:
    """Steps, rows in each, the rate of Adam and the decay of weights."""

    num_steps: int
    batch_size: int
    learning_rate: float
    weight_decay: float

    @property
    def optimizer(self) -> Any:
        """Adam with decoupled weight decay, a rate that rises and then falls along a cosine, and bounded gradients."""
        warm = min(_NUM_WARM, self.num_steps // 4)
        rate = optax.warmup_cosine_decay_schedule(0.0, self.learning_rate, warm, self.num_steps)
        clip = optax.clip_by_global_norm(_LARGEST_GRADIENT)
        return optax.chain(clip, optax.adamw(rate, weight_decay=self.weight_decay))


@dataclass(frozen=True)
class Program:
    """What is compiled in: the layout of the network, how it is trained, and how observations may be moved about."""

    layout: Layout
    training: SummaryTraining
    symmetries: Symmetries = Symmetries()
    field: FieldShape | None = None

    def moved(self, keys: Array, x: Array) -> Array:
        """Move observations about at random; with ``field`` they have the shape of data, else channels come first."""
        if self.symmetries == Symmetries():
            return x
        field = self.field
        if field is None:
            return jax.vmap(self.symmetries.moved)(keys, x)
        return jax.vmap(lambda key, one: self.symmetries.moved_as_given(key, one, field))(keys, x)


class Guessed(NamedTuple):
    """Observations (n, ...) and the parameters (n, p) they were drawn at, in [−1, 1]."""

    x: Any
    u: Any


class _State(NamedTuple):
    vector: Array
    average: Array
    moments: Any
    key: Array


@in_single_precision
def train_guesser(
    program: Program,
    vector: np.ndarray,
    rows: Guessed,
    others: list[Guessed],
    *,
    own: np.ndarray,
    seed: int,
    advance: Callable[[int], None],
) -> np.ndarray:
    """Train a network, given as a vector, on its own of the rows; keep what guesses the other rows best.

    Of the others there are parts, each small enough to be looked at as one.
    """
    training, rng = program.training, np.random.default_rng(seed)
    begin = jax.device_put(np.asarray(vector, np.float32))
    state = _State(begin, begin, training.optimizer.init(begin), jax.random.key(seed))
    size = min(training.batch_size, len(own))
    steps = max(1, training.num_steps // _NUM_LOOKS)
    best, best_loss, since = np.asarray(vector, np.float32), np.inf, 0
    order = _Order(own, rng)
    for _ in range(-(-training.num_steps // steps)):
        state = _advanced(state, rows, order.batches(steps, size), program=program)
        loss = _mean_loss(program.layout, state.average, others)
        advance(steps)
        since += 1
        if loss < best_loss:
            best, best_loss, since = np.asarray(state.average), loss, 0
        if since >= _PATIENCE or not np.isfinite(loss):
            break
    if not np.isfinite(best_loss):
        raise TrainingError(
            "embedding: the loss of the network is not finite from the first steps on. It is given data as they are: "
            "let the module scale them to order one, or pass fisherscore.LearnedSummary with a smaller learning_rate."
        )
    return best


class _Order:
    """Rows in random order, over and over."""

    def __init__(self, own: np.ndarray, rng: np.random.Generator):
        self.own, self.rng, self.left = own, rng, np.zeros(0, np.int32)

    def batches(self, num: int, size: int) -> np.ndarray:
        """Give the rows of the next steps (num, size)."""
        while len(self.left) < num * size:
            self.left = np.concatenate([self.left, self.rng.permutation(self.own).astype(np.int32)])
        now, self.left = self.left[: num * size], self.left[num * size :]
        return now.reshape(num, size)


@partial(jax.jit, static_argnames="program")
def _advanced(state: _State, rows: Guessed, batches: Any, *, program: Program) -> _State:
    """Take a step for each batch."""
    optimizer = program.training.optimizer

    def step(state: _State, batch: Array) -> tuple[_State, None]:
        key, own = jax.random.split(state.key)
        x, u = rows.x[batch], rows.u[batch]
        x = program.moved(jax.random.split(own, len(batch)), x)
        gradient = jax.grad(lambda vector: jnp.mean(_losses(program.layout, vector, x, u)))(state.vector)
        updates, moments = optimizer.update(gradient, state.moments, state.vector)
        vector = optax.apply_updates(state.vector, updates)
        average = _MEMORY * state.average + (1.0 - _MEMORY) * vector
        return _State(vector, average, moments, key), None

    return jax.lax.scan(step, state, batches)[0]


def _losses(layout: Layout, vector: Array, x: Array, u: Array) -> Array:
    network = layout.function(vector)
    return jax.vmap(lambda one, parameters: negative_log_density(network(one), parameters))(x, u)


_losses_of_part = jax.jit(_losses, static_argnames="layout")


def parts_on_device(x: np.ndarray, u: np.ndarray) -> list[Guessed]:
    """Put rows where networks are, once for all looks at them, in parts of one size or two."""
    size = rows_at_once(x.shape[1:])
    starts = range(0, len(x), size)
    return [Guessed(jax.device_put(x[k : k + size]), jax.device_put(u[k : k + size])) for k in starts]


def _mean_loss(layout: Layout, vector: Array, parts: list[Guessed]) -> float:
    """Average the loss over rows, a part of them at a time; nothing is waited for before all are under way."""
    losses = [_losses_of_part(layout, vector, *part) for part in parts]
    return float(np.mean(np.concatenate([np.asarray(part) for part in losses])))
