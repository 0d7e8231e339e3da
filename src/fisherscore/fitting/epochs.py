"""Epochs of a training on the device: one compiled function for all trainings of a network and a size.

The network's structure, the loss and the size of a batch are compiled in. All else is an argument: rates, how many rows
there are, when to stop. So other members of an ensemble, and other fits of about as many rows, run the same code. All
parameters stand in one vector, which keeps the graph of the optimiser small.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from .._support.layout import Layout
from .checkpoint import State

Batch = tuple[Array, ...]
# A loss takes a function, rows and what else it needs to know, and gives the loss of every row.
Loss = Callable[..., Array]

# Those of Adam (Kingma and Ba 2015).
_DECAYS = (0.9, 0.999)
_EPSILON = 1e-8


class Numbers(NamedTuple):
    """What may differ from training to training without compiling anew."""

    learning_rate: np.float32
    weight_decay: np.float32
    num_decay_steps: np.float32  # over which the rate falls along a cosine; infinite for a constant rate
    num_epochs: np.int32
    patience: np.int32
    num_batches: np.int32
    num_rows: np.int32
    num_held_out: np.int32


@dataclass(frozen=True)
class Program:
    """What is compiled in: the function's layout, the loss, rows in a step (None: all), and devices to share them."""

    layout: Layout
    loss: Loss
    batch_size: int | None
    mesh: Mesh | None = None

    def mean_loss(self, vector: Array, rows: Batch, num: Any, constants: tuple[Any, ...]) -> Float[Array, ""]:
        """Average the loss of rows, of the first ``num`` of them where others only fill up the array."""
        losses = self.loss(self.layout.function(vector), rows, *constants)
        if num is None:
            return jnp.mean(losses)
        return jnp.sum(jnp.where(jnp.arange(len(losses)) < num, losses, 0.0)) / num

    def shared(self, rows: Batch) -> Batch:
        """Share rows out among the devices; gradients are then added up over them."""
        if self.mesh is None:
            return rows
        sharding = NamedSharding(self.mesh, PartitionSpec(self.mesh.axis_names[0]))  # type: ignore[no-untyped-call]
        constrain: Callable[..., Array] = jax.lax.with_sharding_constraint
        return tuple(constrain(a, sharding) for a in rows)


class Sets(NamedTuple):
    """Rows to train on and rows held out (None: none are), both filled up to one of few sizes, and constants."""

    training: Batch
    held_out: Batch | None
    constants: tuple[Any, ...]


def is_over(state: State, numbers: Numbers) -> Any:
    """Say whether a training is over; on the device or on the host."""
    return (state.epoch >= numbers.num_epochs) | (state.epoch - state.best_epoch >= numbers.patience)


@partial(jax.jit, static_argnames="program")
def run_epochs(state: State, rows: Sets, orders: Array, numbers: Numbers, *, program: Program) -> tuple[State, Array]:
    """Run as many epochs as there are ``orders`` of rows, or what is left; return (loss, held-out loss) of each."""
    return _run_epochs(state, rows, orders, numbers, program)


@partial(jax.jit, static_argnames="program")
def run_epochs_of_many(
    states: State, rows: Sets, orders: Array, numbers: Numbers, *, program: Program
) -> tuple[State, Array]:
    """Run epochs of several trainings as one batch; each ends for itself."""

    def one(state: State, training: Batch, held_out: Batch | None, order: Array) -> tuple[State, Array]:
        return _run_epochs(state, Sets(training, held_out, rows.constants), order, numbers, program)

    return jax.vmap(one)(states, rows.training, rows.held_out, orders)


def _run_epochs(state: State, rows: Sets, orders: Array, numbers: Numbers, program: Program) -> tuple[State, Array]:
    num = orders.shape[0]

    def goes_on(carry: tuple[Array, State, Array]) -> Array:
        count, state, _ = carry
        return (count < num) & ~is_over(state, numbers)

    def one(carry: tuple[Array, State, Array]) -> tuple[Array, State, Array]:
        count, state, losses = carry
        state, own = _epoch(state, rows, orders[count], numbers, program)
        return count + 1, state, losses.at[count].set(own)

    start = (jnp.zeros((), jnp.int32), state, jnp.full((num, 2), jnp.nan))
    return jax.lax.while_loop(goes_on, one, start)[1:]


def _epoch(state: State, rows: Sets, order: Array, numbers: Numbers, program: Program) -> tuple[State, Array]:
    """See all rows once, in batches of the given order."""
    state, loss = _steps(state, rows, order, numbers, program)
    if rows.held_out is None:
        held_out_loss = jnp.asarray(jnp.nan)
    else:
        held_out = program.shared(rows.held_out)
        held_out_loss = program.mean_loss(state.parameters, held_out, numbers.num_held_out, rows.constants)
    better = held_out_loss < state.best_loss
    epoch = state.epoch + 1
    best = (
        jnp.where(better, state.parameters, state.best_parameters),
        jnp.where(better, held_out_loss, state.best_loss),
        jnp.where(better, epoch, state.best_epoch),
    )
    where = lambda s: (s.epoch, s.best_parameters, s.best_loss, s.best_epoch)  # noqa: E731
    return eqx.tree_at(where, state, (epoch, *best)), jnp.stack([loss, held_out_loss])


def _steps(state: State, rows: Sets, order: Array, numbers: Numbers, program: Program) -> tuple[State, Array]:
    """Take one step a batch; return the state and the mean of the losses."""
    size = program.batch_size
    shuffled = (
        rows.training if size is None else tuple(a.at[order].get(mode="promise_in_bounds") for a in rows.training)
    )

    def step(number: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        state, total = carry
        if size is None:
            batch, num = shuffled, numbers.num_rows
        else:
            batch, num = tuple(jax.lax.dynamic_slice_in_dim(a, number * size, size) for a in shuffled), None
        batch = program.shared(batch)
        value, gradient = jax.value_and_grad(program.mean_loss)(state.parameters, batch, num, rows.constants)
        return _moved(state, gradient, numbers), total + value

    state, total = jax.lax.fori_loop(0, numbers.num_batches, step, (state, jnp.zeros(())))
    return state, total / numbers.num_batches


def _moved(state: State, gradient: Array, numbers: Numbers) -> State:
    """Take a step of Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""
    first = _DECAYS[0] * state.first_moment + (1 - _DECAYS[0]) * gradient
    second = _DECAYS[1] * state.second_moment + (1 - _DECAYS[1]) * gradient**2
    done = state.step.astype(jnp.float32)
    unbiased = (first / (1 - _DECAYS[0] ** (done + 1)), second / (1 - _DECAYS[1] ** (done + 1)))
    update = unbiased[0] / (jnp.sqrt(unbiased[1]) + _EPSILON) + numbers.weight_decay * state.parameters
    rate = numbers.learning_rate * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(done / numbers.num_decay_steps, 1.0)))
    where = lambda s: (s.parameters, s.first_moment, s.second_moment, s.step)  # noqa: E731
    return eqx.tree_at(where, state, (state.parameters - rate * update, first, second, state.step + 1))
