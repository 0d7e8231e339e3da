"""What the parameters of simulations must be for a fit to learn from them: varied, each by itself, near the region."""

import warnings

import numpy as np

from ..errors import ArgumentError, FisherScoreWarning
from ..simulation.simulations import Simulations

# Rows farther from the middle of the region, in half widths, are left out: smooth functions fitted there say nothing
# about the region, and one such row can outweigh all others.
_FARTHEST = 3.0
# Below this share of their common variance, what tells parameters apart is lost; below the second it is little.
_LOST, _LITTLE = 1e-8, 1e-4
_MIN_VALUES = 3


def usable(sims: Simulations) -> Simulations:
    """Leave out copies of rows, and rows far from the region; refuse data that are all the same.

    Args:
        sims: Simulations that all succeeded.

    Returns:
        Those a fit can use, which are all as a rule.
    """
    sims = _without_copies(_near(sims))
    _refuse_constant_data(sims)
    return sims


def _near(sims: Simulations) -> Simulations:
    low, high = sims.proposal.low, sims.proposal.high
    u = np.abs(2 * (sims.drawn_at - low) / (high - low) - 1)
    near = (u <= _FARTHEST).all(axis=1)
    if near.all():
        return sims
    worst = int(u.max(axis=1).argmax())
    warnings.warn(
        f"sims: {int((~near).sum()):,} of {len(sims):,} rows are left out, since their parameters lie farther from the "
        f"training region than it is wide (row {worst}: {sims.drawn_at[worst].tolist()}).",
        FisherScoreWarning,
        stacklevel=4,
    )
    return sims.take(near)


def _without_copies(sims: Simulations) -> Simulations:
    """Leave out rows that are there more than once; runs that were repeated at the same parameters are no copies."""
    theta = sims.drawn_at
    if len(np.unique(theta[:, 0])) == len(theta):  # as a rule
        return sims
    _, number, times = np.unique(theta, axis=0, return_inverse=True, return_counts=True)
    several = np.flatnonzero(times[number.ravel()] > 1)
    if not len(several):
        return sims
    rows = np.concatenate([theta[several], sims.x[several].reshape(len(several), -1)], axis=1)
    first = np.unique(rows, axis=0, return_index=True)[1]
    if len(first) > (times > 1).sum():
        return sims
    kept = np.ones(len(sims), dtype=bool)
    kept[np.delete(several, first)] = False
    warnings.warn(
        f"sims: {int((~kept).sum()):,} of {len(sims):,} rows are copies of others, in parameters and data alike, and "
        "are left out: a fit would judge itself by rows it has seen. Was a table put together twice?",
        FisherScoreWarning,
        stacklevel=4,
    )
    return sims.take(kept)


def _refuse_constant_data(sims: Simulations) -> None:
    if len(sims) > 1 and (sims.x == sims.x[0]).all():
        raise ArgumentError(
            f"sims: x is the same in all {len(sims):,} rows, so there is nothing to learn. Does the simulator use its "
            "parameters and its random numbers?"
        )


def refuse_dependent(sims: Simulations) -> None:
    """Refuse parameters that hardly vary, or of which some follow from others.

    Scores that are learned from how data change with parameters need this; regressions on latent scores do not.
    """
    names = sims.proposal.names
    axes, width = sims.proposal.axes, sims.proposal.high - sims.proposal.low
    u = (sims.drawn_at - sims.proposal.low) / width if axes is None else axes.inner(sims.drawn_at) / 2
    for name, column in zip(names, u.T, strict=True):
        values = np.unique(column)
        if len(values) < min(_MIN_VALUES, len(sims)) or column.std() < _LOST**0.5:
            raise ArgumentError(
                f"sims: {name} hardly varies: {len(values)} different values, of a standard deviation of "
                f"{column.std():.2g} of its range. A score says how data change with a parameter: simulate at many "
                f"values of {name}, or leave it out of the proposal."
            )
    if len(names) == 1 or len(sims) <= len(names):
        return
    correlation = np.corrcoef(u.T)
    shares, directions = np.linalg.eigh(correlation)
    if shares[0] >= _LITTLE:
        return
    involved = [name for name, part in zip(names, directions[:, 0], strict=True) if abs(part) > 0.1]
    text = (
        f"sims: {', '.join(involved)} go together in all rows (one of them follows from the others up to "
        f"{max(shares[0], 0.0) ** 0.5:.1g} of their spread)"
    )
    if shares[0] < _LOST:
        raise ArgumentError(f"{text}, so no fit can tell their effects apart. Vary each by itself, or leave one out.")
    warnings.warn(
        f"{text}: their separate effects are learned from little. Vary each by itself.",
        FisherScoreWarning,
        stacklevel=4,
    )
