"""Campaigns that do not fit in memory: networks are trained on random parts in turn, other recipes on one part."""

import warnings
from pathlib import Path

from ..errors import ArgumentError, FisherScoreWarning
from ..simulation.simulations import Simulations
from .assemble import FunctionFit
from .checks import MIN_SIMULATIONS, warn_if_imprecise
from .recipes import NetworkRecipe, Recipe

# Training holds its data many times over (as read, shuffled, standardised, in single precision, the next part of them)
# and compiles; measured, it takes some thirteen times what one part takes.
_COPIES_OF_PART = 20
_COPIES_OF_ALL = 5


def allowed_bytes(gigabytes: float | None) -> float:
    """Return how many bytes training data may take; None means half of what is free."""
    if gigabytes is None:
        try:
            lines = Path("/proc/meminfo").read_text().splitlines()
            return 0.5 * next(1024 * float(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
        except (OSError, StopIteration):  # some systems do not say
            return float("inf")
    if not gigabytes > 0:
        raise ArgumentError(f"memory: expected gigabytes above 0, got {gigabytes!r}.")
    return float(gigabytes) * 2**30


def is_too_large(sims: Simulations, num_bytes: float) -> bool:
    """Say whether simulations are those of a campaign that a fit cannot hold in memory."""
    return sims.folder is not None and _COPIES_OF_ALL * sims.num_bytes > num_bytes


def fit_in_parts(
    recipe: Recipe, sims: Simulations, num_bytes: float, *, seed: int, progress: bool | None
) -> FunctionFit:
    """Fit to random parts of a campaign, each a fraction of the memory, since training needs several copies."""
    size = int(len(sims) * num_bytes / sims.num_bytes / _COPIES_OF_PART)
    if round(len(sims) * (1 - sims.failure_rate)) < 2 * MIN_SIMULATIONS:
        raise ArgumentError(f"sims: expected at least {2 * MIN_SIMULATIONS} simulations that succeeded.")
    if size < MIN_SIMULATIONS:
        raise ArgumentError(
            f"memory: {num_bytes / 2**30:.3g} GB hold fewer than {MIN_SIMULATIONS} simulations to train on."
        )
    windows = sims.windows(size, seed=seed)
    first = next(windows)
    warn_if_imprecise(first)
    if isinstance(recipe, NetworkRecipe):
        return recipe.fit_function(first, seed=seed, progress=progress, checkpoint=None, others=windows)
    warnings.warn(
        f"sims: {len(sims):,} simulations do not fit in memory; {type(recipe).__name__} is fitted to {len(first):,} of "
        "them, drawn at random.",
        FisherScoreWarning,
        stacklevel=3,
    )
    return recipe.fit_function(first, seed=seed, progress=progress, checkpoint=None)
