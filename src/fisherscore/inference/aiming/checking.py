"""Checks of an aimed model on fresh simulations in its last region, also where that is in several parts.

Between modes far apart a model was taught nothing, and chains do not cross. So each part is looked at by itself: with
parameters that are uniform in one part, the posterior within that part must be calibrated. How much each part weighs is
a check of its own: of the data of parameters that come from one of K parts at random, the model says how probable each
part is, p_k(x), by the mean of its likelihood over the part; and 1[k was it] − p_k(x) has no mean, nor goes with any p.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..._support.axes import Axes
from ...score.model import ScoreModel
from ...simulation.campaign import simulate
from ...simulation.proposal import Proposal
from ...simulation.regions import Parts
from ...simulation.simulations import Simulations
from ...simulation.simulator import Simulator
from ..calibration import calibration_checks
from ..diagnosis_result import Check, Diagnosis
from ..diagnostics import diagnose, entrywise, ranks_in
from .gathered import gathered

# The part of a region, in each direction, in which a fit weighs all simulations alike.
CHECKED = 0.75
# Points of a part over which a likelihood is averaged, and observations it is averaged for at once.
_NUM_POINTS, _NUM_AT_ONCE = 2_000, 50
_TOLERANCE = 0.1


def parts_of(region: Proposal) -> list[Proposal]:
    """Return the parts of a region but for their edges, as proposals; a region in one part is the only one."""
    boxes = () if region.parts is None else region.parts.boxes
    if len(boxes) < 2 or region.axes is None:
        return [region.in_one_part(CHECKED)]
    inner = [Axes(box.centre, _size_within(box, region.axes) * box.factor) for box in boxes]
    return [region.with_axes(box, Parts((box,), (1.0,))) for box in inner]


def _size_within(box: Axes, region: Axes) -> float:
    """Return how much of a box is checked: corners that stick out of the region are beyond what was learned."""
    centre, reach = region.inner(box.centre), np.abs(region.inverse @ box.factor).sum(axis=1)
    return float(min(CHECKED, ((1 - np.abs(centre)) / reach).min()))


def check_model(
    model: ScoreModel, simulator: Simulator, region: Proposal, sizes: tuple[int, int], seed: int, **options: Any
) -> Diagnosis:
    """Check a model by so many fresh simulations, and so many posteriors of them."""
    parts, (num, num_posteriors) = parts_of(region), sizes
    out = options.pop("out", None)
    fresh_of = []
    for k, part in enumerate(parts):
        folder = out if out is None or len(parts) == 1 else Path(out) / f"part-{k + 1}"
        fresh_of.append(simulate(simulator, part, -(-num // len(parts)), seed=seed + k, out=folder, **options))
    return check_on(model, fresh_of, region, num_posteriors=num_posteriors, seed=seed)


def check_on(
    model: ScoreModel,
    fresh_of: list[Simulations],
    region: Proposal,
    *,
    num_posteriors: int,
    seed: int,
    x_obs: Any = None,
    progress: bool | None = None,
) -> Diagnosis:
    """Check a model on fresh simulations of each part of a region, which is in one or in several."""
    options = {"x_obs": x_obs, "progress": progress, "seed": seed}
    if len(fresh_of) == 1:
        return diagnose(model, fresh_of[0], num_posteriors=num_posteriors, **options)
    found = diagnose(model, gathered(fresh_of, region), num_posteriors=0, **options)
    if not num_posteriors:
        return found
    share = -(-num_posteriors // len(fresh_of))
    pairs = [ranks_in(model, fresh, share, seed=seed + k) for k, fresh in enumerate(fresh_of)]
    ranks, coverage = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    checks = [*found.checks, *calibration_checks(ranks, coverage)]
    if model.has_density:
        parts = [fresh.proposal for fresh in fresh_of]
        checks.append(check_of_weights(model, parts, [fresh.ok().take(slice(share)) for fresh in fresh_of]))
    return replace(found, checks=tuple(checks), ranks=ranks, coverage=coverage)


def check_of_weights(model: ScoreModel, parts: list[Proposal], fresh_of: list[Simulations]) -> Check:
    """Check how probable a model takes each part to be, by simulations that came from each."""
    points = np.stack([part.sample(_NUM_POINTS, seed=0) for part in parts])  # (parts, points, p)
    x = np.concatenate([fresh.x for fresh in fresh_of])
    means = [_log_means(model, points, x[i : i + _NUM_AT_ONCE]) for i in range(0, len(x), _NUM_AT_ONCE)]
    logs = np.concatenate(means)
    weights = np.array([len(fresh) for fresh in fresh_of]) * np.exp(logs - logs.max(axis=1, keepdims=True))
    p = weights / weights.sum(axis=1, keepdims=True)
    came_from = np.repeat(np.eye(len(parts)), [len(fresh) for fresh in fresh_of], axis=0)
    beside = np.concatenate([np.ones((len(p), 1)), p], axis=1)
    terms = beside[:, :, None] * (came_from - p)[:, None, :]
    return entrywise("parts", terms, _TOLERANCE, "it weighs the modes of posteriors wrongly")


def _log_means(model: ScoreModel, points: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the logarithm of the mean likelihood of data (n, ...) over the points of each part, shape (n, parts)."""
    rows = np.asarray(x)[(slice(None), None, None)]
    values = np.asarray(model.log_likelihood(points[None], rows), np.float64)
    largest = values.max(axis=2, keepdims=True)
    return np.asarray(largest[:, :, 0] + np.log(np.mean(np.exp(values - largest), axis=2)))
