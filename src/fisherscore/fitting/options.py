"""How a fit is run, whatever the recipe."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..summaries.base import Block


@dataclass(frozen=True, eq=False)
class SummaryScatter:
    """Simulations that no network of a learned summary was trained on: θ (n, p), and x (networks, n, d) as each has it.

    All other summaries in x are the same.
    """

    theta: np.ndarray
    x: np.ndarray


@dataclass(frozen=True)
class FitOptions:
    """Seed, display and checkpoint of a fit.

    Attributes:
        seed: Seed of everything random in the fit.
        progress: Whether to show a progress bar; None shows one in a terminal.
        checkpoint: Folder in which the state of the training is kept, or None.
        blocks: The kinds of summaries that stand for the data; empty where data are taken as they are.
        scatter: What each of several learned summaries says of the same simulations, or None.
    """

    seed: int = 0
    progress: bool | None = None
    checkpoint: Path | None = None
    blocks: tuple[Block, ...] = ()
    scatter: SummaryScatter | None = None

    def checkpoint_of(self, name: str) -> Path | None:
        """Return the folder of one of several trainings."""
        return None if self.checkpoint is None else self.checkpoint / name
