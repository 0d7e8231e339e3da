"""What there is to say of a posterior: of its chains, of where it lies, of the model's own error, and of the data.

Reasons not to trust it are problems; that the data do not constrain something is no fault of the posterior, and a note.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._support.axes import Axes
from ..score.constraints import (
    BADLY_LEARNED,
    LARGEST_ERROR,
    NOT_CONSTRAINED,
    TRAINING_RANGE,
    advice,
    cure,
    written_direction,
)
from ..score.model import ScoreModel
from ..simulation.regions import Limits, clumps_of, faces_reached
from .posterior import (
    LARGEST_DIVERGENT,
    LARGEST_OUTSIDE,
    LARGEST_R_HAT,
    SMALLEST_ESS,
    SMALLEST_RARITY,
    Posterior,
)

# Of observations far from everything simulated.
STRANGE = (
    "the observation is unlike anything simulated: if the simulator is right, its parameters lie outside the training "
    "region; if not, the model is misspecified, and no region and no simulations help"
)
# A combination is not constrained by the data where a posterior keeps more than this part of the region's variance.
_UNCHANGED = 0.8
_MOST_LISTED = 3
# Parameters that make up more than this of such a combination reach to their edges because of it.
_TAKES_PART = 0.3


def problems_and_notes(
    posterior: Posterior, model: ScoreModel, precision: np.ndarray | None = None, x: Any = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the reasons not to trust a posterior, and what the data do not constrain.

    ``precision`` (p, p) is that of the prior, where there is another than the training range; ``x`` the observation.
    """
    free = _free_directions(posterior, model, model.region_precision() if precision is None else precision)
    learning = model_problems(posterior, model)
    # A posterior reaches the edge because of a bad score, or because the data say nothing: a wider region is no help.
    excused = model.names if learning else _taking_part(free, model)
    rare = () if x is None else unlearned_problems(model, x)
    problems = (*learning, *rare, *sampler_problems(posterior), *region_problems(posterior, model, excused))
    return problems, _notes(free, model, TRAINING_RANGE if precision is None else "the prior")


def sampler_problems(posterior: Posterior) -> list[str]:
    """Say what is wrong with the chains themselves."""
    problems = []
    r_hat, effective, num = posterior.r_hat.max(), posterior.effective_samples.min(), len(posterior.samples)
    if posterior.method == "NUTS" and not r_hat < LARGEST_R_HAT:
        problems.append(
            f"the chains have not converged or disagree (R-hat up to {r_hat:.2f}, at least {effective:.0f} "
            'effective samples): run longer, or, if there may be several modes, use method="smc"'
        )
    elif posterior.method == "NUTS" and not effective > SMALLEST_ESS:
        problems.append(
            f"the chains agree (R-hat up to {r_hat:.2f}) but are short: {effective:.0f} effective samples, of which "
            f"there should be more than {SMALLEST_ESS:.0f}: run longer, with a larger num_samples"
        )
    if posterior.num_divergent > LARGEST_DIVERGENT * num:
        problems.append(
            f"{posterior.num_divergent} of {num} transitions diverged: the posterior has parts NUTS cannot follow"
        )
    return problems


def region_problems(posterior: Posterior, model: ScoreModel, excused: Sequence[str] = ()) -> list[str]:
    """Say where posterior or observation leave what the model was trained on.

    Parameters in ``excused`` reach the edges for another reason: a wider region would not help.
    """
    problems, own = [], model.own_scales()
    outside, rarity = posterior.fraction_outside, posterior.rarity
    if outside > LARGEST_OUTSIDE:
        problems.append(
            f"{outside:.1%} of the posterior lies outside the training region, where the score is an extrapolation: "
            "train on a larger region or use a narrower prior"
        )
    elif own is not None and own.turn is not None:
        problems += [
            f"the posterior is cut off by the edge of the region that was learned, along {direction}: simulate in a "
            "wider region"
            for direction in _faces(posterior.samples, model)
        ]
    else:
        strange = rarity is not None and rarity < SMALLEST_RARITY
        remedy = "" if strange else ": widen the region, unless that edge is meant as a prior"
        problems += [
            f"the posterior of {name!r} is cut off by the {side} edge of the training region{remedy}"
            for name, side in _edges(posterior.samples, model)
            if name not in excused
        ]
    if rarity is not None and rarity < SMALLEST_RARITY:
        farther = f"(it is farther from the mean of the training data than {1 - rarity:.2%} of them)"
        problems.append(f"{STRANGE} {farther}")
    return problems


def model_problems(posterior: Posterior, model: ScoreModel) -> list[str]:
    """Say whether the model's own error is too large for a posterior of this width.

    An error e of the score moves a posterior with covariance C by C e.
    """
    known = model.own_error
    if known is None:
        return []
    for covariance in _covariances(posterior, model):
        root = np.linalg.cholesky(covariance)
        errors, vectors = np.linalg.eigh(root.T @ known.covariance @ root)
        if not errors[-1] > LARGEST_ERROR:
            return []
    direction = written_direction(root @ vectors[:, -1], np.sqrt(np.diagonal(covariance)), model.names)
    return [
        f"{BADLY_LEARNED}: by the model's own error this posterior is off by {errors[-1] ** 0.5:.1g} of its σ along "
        f"{direction}. What would help: {advice(float(errors[-1]), known.num_simulations)}"
    ]


def _covariances(posterior: Posterior, model: ScoreModel) -> Iterator[np.ndarray]:
    """Give the covariance of all draws, then that within their modes, positive definite even if a chain never moved.

    Two narrow modes far apart are not what the data do not constrain, and no error moves one to the other. To find
    modes takes long, and the covariance within them is the smaller one: it is asked for only where that matters.
    """
    yield _positive(np.cov(posterior.samples.T).reshape(model.num_parameters, -1))
    yield _positive(covariance_within_modes(posterior.samples, model.low, model.high))


def _positive(covariance: np.ndarray) -> np.ndarray:
    return covariance + np.diag(1e-9 * np.diagonal(covariance) + 1e-300)


def covariance_within_modes(draws: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the mean covariance (p, p) of draws within each of their modes."""
    spread = draws.std(axis=0)
    if not (np.isfinite(spread) & (spread > 0)).all():
        return np.cov(draws.T).reshape(draws.shape[1], -1)
    clumps = clumps_of(draws, np.minimum(low, draws.min(axis=0)), np.maximum(high, draws.max(axis=0)))
    parts = [len(clump) / len(draws) * np.cov(clump.T).reshape(draws.shape[1], -1) for clump in clumps]
    return np.sum(parts, axis=0)


def _free_directions(posterior: Posterior, model: ScoreModel, precision: np.ndarray) -> list[np.ndarray]:
    """Return directions, in the user's units, along which the posterior is as wide as the prior."""
    if not (np.diagonal(precision) > 0).all():
        return []
    root = np.linalg.cholesky(np.linalg.inv(precision))
    inverse = np.linalg.inv(root)
    free: list[np.ndarray] = []
    for covariance in _covariances(posterior, model):
        kept, vectors = np.linalg.eigh(inverse @ covariance @ inverse.T)
        free = [root @ vectors[:, i] for i in np.flatnonzero(kept > _UNCHANGED)]
        if not free:
            break
    return free


def _spread(model: ScoreModel) -> np.ndarray:
    return (model.high - model.low) / np.sqrt(12)


def _taking_part(free: Sequence[np.ndarray], model: ScoreModel) -> list[str]:
    sizes = [np.abs(direction) / _spread(model) for direction in free]
    return [n for i, n in enumerate(model.names) if any(s[i] > _TAKES_PART * np.linalg.norm(s) for s in sizes)]


def _notes(free: Sequence[np.ndarray], model: ScoreModel, prior: str) -> tuple[str, ...]:
    """Say which combinations are as uncertain as they were before."""
    if not free:
        return ()
    if len(free) == model.num_parameters:
        return (f"{NOT_CONSTRAINED}: the posterior is {prior}, in all parameters",)
    texts = [written_direction(direction, _spread(model), model.names) for direction in free]
    return (
        f"{NOT_CONSTRAINED}: along {'; '.join(texts)} the posterior is {prior}. More simulations would not help; "
        f"{cure(prior)}, or other data, would",
    )


def observation_mark(x: Any) -> str:
    """Return a mark by which an observation is known again."""
    return hashlib.sha256(np.ascontiguousarray(x, np.float64).tobytes()).hexdigest()[:16]


def unlearned_problems(model: ScoreModel, x: Any) -> list[str]:
    """Say whether the observation has values that were too rare among the simulations to be learned from."""
    standardizer = getattr(model, "standardizer", None)
    if standardizer is None or getattr(model, "embedding", None) is not None:
        return []
    places = np.argwhere(standardizer.unlearned(x))
    if not len(places):
        return []
    listed = ", ".join(f"x{place.tolist()} = {np.asarray(x)[tuple(place)]:.6g}" for place in places[:_MOST_LISTED])
    return [
        f"of the observation, {listed} is a value that hardly any simulation has. What it tells was left out of the "
        "fit, and may matter for this posterior: run more simulations where it lies, or put such data together, as by "
        "their sum"
    ]


def aiming_problems(model: ScoreModel, x: Any) -> list[str]:
    """Say whether a model was aimed at another observation."""
    aimed = getattr(model, "provenance", {}).get("aimed")
    if aimed is None or aimed["observation"] == observation_mark(x):
        return []
    return [
        "the model was aimed at another observation, and knows nothing beyond the region around the posterior of that: "
        "use fisherscore.infer for this observation, or fit a model to simulations all over the prior"
    ]


def _faces(samples: np.ndarray, model: ScoreModel) -> list[str]:
    """Name the directions along which a posterior is cut off by a region with axes of its own.

    Faces where that region ends because the proposal did are meant as a prior.
    """
    scales = model.own_scales()
    assert scales is not None
    assert scales.turn is not None
    aimed = getattr(model, "provenance", {}).get("aimed", {"low": model.low, "high": model.high})
    limits = Limits(np.asarray(aimed["low"], np.float64), np.asarray(aimed["high"], np.float64))
    faces = faces_reached(samples, Axes(scales.centre, scales.factor), limits)
    found = [written_direction(scales.factor[:, axis], model.high - model.low, model.names) for axis, _ in faces]
    return list(dict.fromkeys(found))


def _edges(samples: np.ndarray, model: ScoreModel) -> list[tuple[str, str]]:
    """Return parameter and side of every edge of the training region that holds more than 2 % of the draws."""
    strip = 0.01 * (model.high - model.low)
    near = {"lower": samples < model.low + strip, "upper": samples > model.high - strip}
    return [(name, side) for i, name in enumerate(model.names) for side in near if near[side][:, i].mean() > 0.02]
