"""How summaries are learned: the settings, as users give them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ArgumentError
from .summary_training import SummaryTraining


@dataclass(frozen=True)
class LearnedSummary:
    """How summaries are learned: of several networks trained to guess the parameters, the mean guess is the summary.

    Of series and maps each simulation is seen moved about at random, by the symmetries that they have. A symmetry that
    is None is one for our own network if nothing in the simulations speaks against it, and none for a module.

    Args:
        module: An Equinox module that turns one observation into a vector, at least one number for each parameter. It
            is called with data as they are, in single precision, so that scaling them is its own task. None is a
            convolutional network of our own, for series and maps.
        channels: The number of channels of our own network.
        periodic: Whether fields go on at the other end.
        rotations: Whether square maps turned by 90 degrees are as likely.
        flips: Whether fields mirrored along an axis are as likely.
        num_networks: How many copies of it are trained, each with a part of the simulations left out; 2 or more.
        num_steps: How many steps each is trained for at most.
        batch_size: Simulations in a step.
        learning_rate: The largest rate of Adam.
        weight_decay: Its decoupled decay of weights.

    >>> import equinox as eqx, fisherscore as fs, jax
    >>> module = eqx.nn.MLP(12, 8, 32, 2, key=jax.random.key(0))
    >>> fs.LearnedSummary(module, num_steps=500).num_networks
    4

    """

    module: Any = None
    channels: int = 32
    periodic: bool | None = None
    rotations: bool | None = None
    flips: bool | None = None
    num_networks: int = 4
    num_steps: int = 2_000
    batch_size: int = 64
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2

    def __post_init__(self) -> None:
        for name, least in (("num_networks", 2), ("num_steps", 1), ("batch_size", 1), ("channels", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ArgumentError(f"{name}: expected a whole number of at least {least}, got {value!r}.")
        for name, smallest in (("learning_rate", 1e-12), ("weight_decay", 0.0)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not smallest <= value < np.inf:
                raise ArgumentError(f"{name}: expected a number of at least {smallest:g}, got {value!r}.")
        for name in ("periodic", "rotations", "flips"):
            if getattr(self, name) not in (None, True, False):
                raise ArgumentError(f"{name}: expected True, False or None, got {getattr(self, name)!r}.")

    @property
    def training(self) -> SummaryTraining:
        """How each network is trained."""
        return SummaryTraining(self.num_steps, self.batch_size, self.learning_rate, self.weight_decay)


def asked_for(embedding: Any) -> LearnedSummary | None:
    """Read what a user passes as ``embedding``."""
    return embedding if embedding is None or isinstance(embedding, LearnedSummary) else LearnedSummary(embedding)
