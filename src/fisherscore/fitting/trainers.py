"""Networks that may join the closed forms: what is asked of a trainer, and the two there are.

For small data a density is trained (``potentials.mixture_density``): an ensemble of mixture density networks, each a
normalised density of x given θ fitted by maximum likelihood, which wastes less of a simulation than a regression does.
The average of their log-densities is less noisy than any of them, and how far they are apart says how uncertain they
are. For larger data one network is trained, by the implicit loss, on what the closed forms leave unexplained.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..potentials.base import Potential, ScoreFunction, build
from .data import Rows
from .implicit_risk import Terms, implicit_loss
from .train import History, Monitor, Task, Training, train

_BATCH_SIZES = (64, 256)


@dataclass(frozen=True, eq=False)
class TrainingRequest:
    """What a trainer is given.

    Attributes:
        rows: Standardised rows to train on.
        known: What the closed forms say of the scores of these rows, (n, p).
        metric: The metric of the implicit loss, (p, p).
        key: The random key.
        progress: Whether to show a progress bar; None shows one in a terminal.
        checkpoint: A folder for the state of the training, or None.

    """

    rows: Rows
    known: np.ndarray
    metric: np.ndarray
    key: Array
    progress: bool | None = None
    checkpoint: Path | None = None

    def monitor(self, title: str) -> Monitor:
        """Say how the training is shown and kept."""
        return Monitor(title=title, progress=self.progress, checkpoint=self.checkpoint)


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network, the factor by which its score is multiplied, and the history of its training."""

    potential: Potential
    scale: float
    history: History

    def terms(self, rows: Rows, metric: np.ndarray) -> Terms:
        """Compute the terms of the implicit loss at held-out rows."""
        return Terms.weighted_sum([(self.scale, Terms.of(self.potential, rows, metric))], rows.u.shape)


class Trainer(Protocol):
    """What trains the networks that may join the closed forms."""

    @property
    def num_members(self) -> int:
        """How many networks to train; more than one only if the first is worth it."""
        ...

    def fit(self, request: TrainingRequest) -> TrainedNetwork:
        """Train one network."""
        ...


@dataclass(frozen=True)
class DensityTrainer:
    """Trains an ensemble of mixture density networks, each a normalised density of x given θ, for up to 30 data.

    Args:
        num_members: How many networks to train; their log-densities are averaged.
        settings: Hidden sizes and number of components of the mixture density.
        training: How each is trained; the batch size follows from the number of simulations.
        num_steps: How many steps each is trained for.

    >>> import fisherscore as fs
    >>> recipe = fs.AutoRecipe(density=fs.DensityTrainer(num_members=2))
    >>> recipe.density.num_members
    2

    """

    num_members: int = 4
    settings: dict[str, Any] = field(default_factory=lambda: {"hidden": (64, 64, 64), "num_components": 8})
    training: Training = Training(learning_rate=2e-3, weight_decay=0.05, held_out=0.15)
    num_steps: int = 6_000

    def fit(self, request: TrainingRequest) -> TrainedNetwork:
        """Train one network by maximum likelihood; nothing need be known of the scores.

        Args:
            request: The rows to train on, and how.

        Returns:
            The network and the history of its training.

        """
        rows = request.rows
        build_key, train_key = jax.random.split(request.key)
        network: Any = build("mixture_density", rows.num_parameters, rows.data_size, self.settings, key=build_key)
        # Small batches are noisy, which keeps a network from learning few simulations by heart.
        batch_size = int(np.clip(len(rows) // 40, *_BATCH_SIZES))
        training = replace(self.training, batch_size=batch_size).for_steps(self.num_steps, len(rows))
        task = Task(_negative_log_likelihood, (rows.u, rows.x))
        trained, history = train(network, task, training, key=train_key, monitor=request.monitor("density"))
        return TrainedNetwork(trained, 1.0, history)


@dataclass(frozen=True)
class ResidualTrainer:
    """Trains one network, by the implicit loss, on what the closed forms leave: for data too large for a density."""

    architecture: str
    settings: dict[str, Any]
    training: Callable[[int], Training]
    num_members: int = 1

    def fit(self, request: TrainingRequest) -> TrainedNetwork:
        """Train on what the implicit loss says is missing."""
        rows, metric = request.rows, request.metric
        scale = float(1.0 / np.sqrt(np.trace(metric) / len(metric)))
        build_key, train_key = jax.random.split(request.key)
        network: Any = build(self.architecture, rows.num_parameters, rows.data_size, self.settings, key=build_key)
        task = Task(implicit_loss(metric), (rows.u, rows.x, request.known))
        trained, history = train(
            _Scaled(network, scale), task, self.training(len(rows)), key=train_key, monitor=request.monitor("fit")
        )
        return TrainedNetwork(trained.network, scale, history)


class _Scaled(eqx.Module):
    """A network whose score is multiplied by a constant, so that its own numbers are of order one."""

    network: ScoreFunction
    scale: float = eqx.field(static=True)

    def __call__(self, u: jax.Array, x: jax.Array) -> jax.Array:
        return self.scale * self.network(u, x)


def _negative_log_likelihood(network: Any, key: Array, batch: tuple[Array, ...]) -> Array:
    del key
    return -jnp.mean(jax.vmap(network.potential)(*batch))
