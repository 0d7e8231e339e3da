"""A neural likelihood: an ensemble of mixture density networks, for what the closed forms miss.

Each is a normalised density of x given θ (``potentials.networks.MixtureDensity``), fitted by maximum likelihood,
which wastes less of a simulation than a regression does; the average of their log-densities is less noisy than any of
them. How far they are apart says how uncertain they are.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..potentials.base import Potential, build
from .train import History, Training, train

_BATCH_SIZES = (64, 256)


@dataclass(frozen=True)
class DensityTrainer:
    """How many networks, how they look and how they are trained."""

    num_members: int = 4
    settings: dict[str, Any] = field(default_factory=lambda: {"hidden": (64, 64, 64), "num_components": 8})
    training: Training = Training(learning_rate=2e-3, weight_decay=0.05, held_out=0.15)
    num_steps: int = 6_000

    def fit(
        self,
        data: tuple[np.ndarray, np.ndarray],
        known: np.ndarray | None = None,
        metric: np.ndarray | None = None,
        *,
        key: Array,
        progress: bool | None = None,
        checkpoint: Path | None = None,
    ) -> tuple[Potential, float, History]:
        """Train one network on standardised rows (u, x), u in [−1, 1]^p. Nothing else need be known of their scores."""
        del known, metric
        u, rows = data
        build_key, train_key = jax.random.split(key)
        network: Any = build("mixture_density", u.shape[1], rows.shape[1], self.settings, key=build_key)
        # Small batches are noisy, which keeps a network from learning few simulations by heart.
        batch_size = int(np.clip(len(rows) // 40, *_BATCH_SIZES))
        training = replace(self.training, batch_size=batch_size).for_steps(self.num_steps, len(rows))
        trained, history = train(
            network,
            _negative_log_likelihood,
            data,
            training,
            key=train_key,
            title="density",
            progress=progress,
            checkpoint=checkpoint,
        )
        return trained, 1.0, history


def _negative_log_likelihood(network: Any, key: Array, batch: tuple[Array, ...]) -> Array:
    del key
    return -jnp.mean(jax.vmap(network.potential)(*batch))
