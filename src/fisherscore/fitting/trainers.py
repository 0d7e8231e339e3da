"""Networks that may join the closed forms: what is asked of a trainer, and the two there are.

For small data a density is trained (``potentials.mixture_density``): an ensemble of mixture density networks, each a
normalised density of x given θ fitted by maximum likelihood, which wastes less of a simulation than a regression does.
The average of their log-densities is less noisy than any of them, and how far they are apart says how uncertain they
are. For larger data one network is trained, by the implicit loss, on what the closed forms leave unexplained.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import Array

from .._support import host_random
from ..potentials.base import Potential, build
from ..potentials.mixture_density import MixtureDensity
from .data import Rows
from .implicit_risk import Terms, edge_weights_and_gradients, implicit_losses
from .train import History, Monitor, Review, Task, Training, train, train_together

_BATCH_SIZES = (64, 256)
# Batches are of few sizes, since each is compiled for itself.
_BATCH_STEP = 32
# More rows than this are worth a compilation.
_MAX_ROWS_ON_HOST = 4_096


@dataclass(frozen=True, eq=False)
class TrainingRequest:
    """What a trainer is given.

    Attributes:
        rows: Standardised rows to train on.
        known: What the closed forms say of the scores of these rows, (n, p).
        metric: The metric of the implicit loss, (p, p).
        key: The random key, or its words as a NumPy array.
        progress: Whether to show a progress bar; None shows one in a terminal.
        checkpoint: A folder for the state of the training, or None.
        review: When the training is looked at, and given up if it will not help; None never does.

    """

    rows: Rows
    known: np.ndarray
    metric: np.ndarray
    key: Any
    progress: bool | None = None
    checkpoint: Path | None = None
    review: Review | None = None

    def monitor(self, title: str) -> Monitor:
        """Say how the training is shown and kept, and when it is given up."""
        return Monitor(title=title, progress=self.progress, checkpoint=self.checkpoint, review=self.review)


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network, the factor by which its score is multiplied, and the history of its training."""

    potential: Potential
    scale: float
    history: History

    def terms(self, rows: Rows, metric: np.ndarray) -> Terms:
        """Compute the terms of the implicit loss at held-out rows."""
        terms = network_terms(self.potential, rows, metric)
        return Terms.weighted_sum([(self.scale, terms)], rows.u.shape)


def network_terms(potential: Potential, rows: Rows, metric: np.ndarray) -> Terms:
    """Compute the terms of the implicit loss; those of few rows without compiling anything, where that is possible."""
    if not isinstance(potential, MixtureDensity) or len(rows) > _MAX_ROWS_ON_HOST:
        return Terms.of(potential, rows, metric)
    # tr(M H) is the sum of the second derivatives along the axes of M, each times its eigenvalue.
    values, axes = np.linalg.eigh(metric)
    slopes, curvatures = potential.directional_derivatives(rows.u, rows.x, axes.T)
    scores = slopes.astype(np.float64) @ axes.T
    weights, gradients = edge_weights_and_gradients(rows.u)
    divergences = weights * (curvatures @ values) + np.einsum("ni,ij,nj->n", gradients, metric, scores)
    return Terms(scores, divergences)


class Trainer(Protocol):
    """What trains the networks that may join the closed forms."""

    @property
    def num_members(self) -> int:
        """How many networks to train; more than one only if the first is worth it."""
        ...

    def fit(self, request: TrainingRequest) -> TrainedNetwork:
        """Train one network."""
        ...

    def fit_together(self, requests: Sequence[TrainingRequest]) -> list[TrainedNetwork]:
        """Train networks, for requests that differ in their keys and checkpoints, side by side."""
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
        return self._train([request])[0]

    def fit_together(self, requests: Sequence[TrainingRequest]) -> list[TrainedNetwork]:
        """Train several networks side by side: on an accelerator as one batch, on a processor a thread each.

        Args:
            requests: The same rows to train on, with a key for each network.

        Returns:
            The networks and the histories of their training, as :meth:`fit` would give them one by one.

        """
        if runs_members_as_one(requests):
            return self._train(requests)
        # Only one of them draws its progress: two bars at once garble a terminal.
        quiet = [replace(request, progress=False) for request in requests[1:]]
        with ThreadPoolExecutor(len(requests)) as pool:
            return list(pool.map(self.fit, [requests[0], *quiet]))

    def _train(self, requests: Sequence[TrainingRequest]) -> list[TrainedNetwork]:
        """Train networks as one batch; nothing need be known of the scores."""
        rows = requests[0].rows
        pairs = [host_random.split(host_random.words_of(request.key)) for request in requests]
        sizes = (rows.num_parameters, rows.data_size)
        networks: list[Any] = [build("mixture_density", *sizes, self.settings, key=pair[0]) for pair in pairs]
        # Small batches are noisy, which keeps a network from learning few simulations by heart.
        batch_size = int(np.clip(len(rows) // 40, *_BATCH_SIZES)) // _BATCH_STEP * _BATCH_STEP
        training = replace(self.training, batch_size=batch_size).for_steps(self.num_steps, len(rows))
        task = Task(_negative_log_likelihood, (rows.u, rows.x))
        monitor = requests[0].monitor("density")
        results = train_together(networks, task, training, keys=[pair[1] for pair in pairs], monitor=monitor)
        return [TrainedNetwork(network, 1.0, history) for network, history in results]


def runs_members_as_one(requests: Sequence[TrainingRequest]) -> bool:
    """Whether networks are trained as one batch: on accelerators, and where no state of each has to be kept."""
    return jax.default_backend() != "cpu" and all(request.checkpoint is None for request in requests)


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
        build_key, train_key = host_random.split(host_random.words_of(request.key))
        network: Any = build(self.architecture, rows.num_parameters, rows.data_size, self.settings, key=build_key)
        task = Task(implicit_losses, (rows.u, rows.x, request.known), constants=(metric, np.float32(scale)))
        trained, history = train(network, task, self.training(len(rows)), key=train_key, monitor=request.monitor("fit"))
        return TrainedNetwork(trained, scale, history)

    def fit_together(self, requests: Sequence[TrainingRequest]) -> list[TrainedNetwork]:
        """Train one after the other."""
        return [self.fit(request) for request in requests]


def _negative_log_likelihood(network: Any, rows: tuple[Array, ...]) -> Array:
    return -network.log_densities(*rows)
