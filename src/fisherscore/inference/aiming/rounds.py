"""How large rounds are, what a fit says of where to look next, and when there is nothing left to look for."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import ArgumentError, TrainingError
from ...fitting.fit import fit
from ...fitting.recipes import AutoRecipe
from ...potentials.closed_forms import CLOSED_FORMS
from ...score.fitted import FittedScore
from ...simulation.proposal import Proposal
from ...simulation.regions import CUT_OFF, Limits, clumps_of, faces_reached, reaching_beyond
from ...simulation.simulations import Simulations
from ..posterior import Posterior
from ..posterior_checks import covariance_within_modes
from ..priors.given import Parameters, prior_of
from ..sampling import sample
from .pilot import pilot_draws
from .reading import AS_THEY_ARE, Reading

# Every round is this much larger than the one before, and the first no smaller than so many, or so many a parameter.
_GROWTH, _LEAST, _LEAST_A_PARAMETER, _MOST_ROUNDS = 1.4, 100, 20, 5
# This part is kept for the end, to be run wider where the last posterior goes on beyond its region, if it is at least
# half as many as a first round takes.
_KEPT = 0.15
# A fit with a larger error of its own does not choose a region; one of closed forms alone is tried again with networks.
_TRUSTED, _GOOD_ENOUGH = 0.6, 0.3
# With a smaller error than this, the next region has settled where, for each parameter, it is not smaller than this
# part of the one before.
_GOOD, _SETTLED = 0.1, 0.75
# Posteriors that are off by less than this mean square, in their σ, would look the same after another round.
_EXACT, _EXACT_ALONG = 0.0025, 0.01
# Draws are moved by no more than so many σ for the error of a fit.
_FARTHEST = 1.0
# A pilot's draws pile up at a face where this part of them lie in the outermost 2.5 % of the region on one side.
_PILOT_CUT = 0.1
_NUM_DRAWS, _NUM_CHAINS = 1_000, 4
_NUM_TRIED = 20_000


@dataclass(frozen=True, eq=False)
class Finding:
    """What one round found: draws around which the next region is, how they came about, and the fit's own error.

    And whether that is so small that another round would not change the posterior; and whether draws pile up at a face
    of the region, beyond which nobody has looked.
    """

    draws: np.ndarray
    guide: str
    error: float | None
    exact: bool = False
    cut: bool = False

    @property
    def is_good(self) -> bool:
        """Whether the fit is so good that the next region will hardly differ."""
        return not self.cut and self.guide == "posterior" and self.error is not None and self.error <= _GOOD


def sizes_of_rounds(num: int, num_parameters: int, num_rounds: int | None) -> list[int]:
    """Divide simulations among rounds, each larger than the one before; what is kept for the end is the last.

    A number of rounds that was asked for is that of all rounds, and nothing is kept for the end.
    """
    least = max(_LEAST, _LEAST_A_PARAMETER * num_parameters)
    most = num_rounds if num_rounds is not None else _MOST_ROUNDS
    wanted = most
    while num_rounds is None and wanted > 1 and _share(0, wanted) * num < least:
        wanted -= 1
    kept = round(_KEPT * num) if num_rounds is None and wanted > 1 and 2 * _KEPT * num >= least else 0
    ends = np.round(num * np.cumsum([_share(k, wanted) for k in range(wanted)])).astype(int)
    sizes = np.diff(ends, prepend=0).tolist()
    return [*sizes[:-1], sizes[-1] - kept, kept] if kept else sizes


def _share(place: int, num: int) -> float:
    return float(_GROWTH**place / sum(_GROWTH**k for k in range(num)))


def quick_fit(sims: Simulations, reading: Reading, seed: int) -> FittedScore | None:
    """Fit closed forms, and networks too where these are not good enough; None where nothing is learned."""
    recipe = recipe_for(sims.proposal)
    model = _fitted(sims, replace(recipe, density=None, network=None), reading, seed)
    if model is None or _error(model) > _GOOD_ENOUGH:
        return _fitted(sims, recipe, reading, seed) or model
    return model


def recipe_for(region: Proposal) -> AutoRecipe:
    """Return the default recipe; for modes far apart, of densities of the data alone.

    A quasi-score is no density: what its integral from one mode to another is off by, over a gap where it is large,
    would decide how much each of them weighs.
    """
    if not has_several_parts(region):
        return AutoRecipe()
    return AutoRecipe(closed_forms=tuple(name for name in CLOSED_FORMS if name != "quasi_score"))


def has_several_parts(region: Proposal) -> bool:
    """Say whether simulations of a region are run in several parts of it, as around several modes."""
    return region.parts is not None and len(region.parts.boxes) > 1


def _fitted(sims: Simulations, recipe: Any, reading: Reading, seed: int) -> FittedScore | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return fit(sims, recipe=recipe, seed=seed, progress=False, **reading.for_fit)
        except (TrainingError, ArgumentError):  # the latter of data that no score can be learned from, or too few
            return None


def _error(model: FittedScore) -> float:
    return 1.0 if model.estimated_error is None else model.estimated_error


def find(
    sims: Simulations, x_obs: Any, prior: Any, limits: Proposal, seed: int, *, reading: Reading = AS_THEY_ARE
) -> Finding:
    """Learn a score from simulations in a region, and find where its posterior is; never by a bad fit."""
    model, support = quick_fit(sims, reading, seed), support_of(prior, limits)
    error = None if model is None else _error(model)
    if model is not None and error is not None and error <= _TRUSTED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                posterior = sample(
                    model,
                    x_obs,
                    prior=prior,
                    method="smc",
                    num_samples=_NUM_DRAWS,
                    num_chains=_NUM_CHAINS,
                    seed=seed,
                    progress=False,
                )
                spread = _spread_by_error(posterior, model, seed)
                found = Finding(spread, "posterior", error, is_exact(posterior, model))
                return beyond_faces(found, faces_of(posterior.samples, sims.proposal, support), sims.proposal, support)
            except TrainingError:
                pass
    drawn = pilot_draws(sims.theta, reading.rows(sims.x), reading.rows(np.asarray(x_obs, np.float64)[None])[0])
    # Simulations where they are, and where a regression puts them.
    choices = []
    for draws in drawn:
        faces = faces_of(draws, sims.proposal, support, _PILOT_CUT)
        choices.append(beyond_faces(Finding(draws, "pilot", error), faces, sims.proposal, support))
    return min(choices, key=lambda one: log_volume(next_region(one, limits)))


def support_of(prior: Any, limits: Proposal) -> Limits:
    """Return where parameters may lie: within the limits, and where the prior does not end before."""
    law = prior_of(Parameters(limits.names, limits.low, limits.high), prior)
    ends = np.array([[-np.inf if a is None else a, np.inf if b is None else b] for a, b in law.ends()])
    return Limits(np.maximum(limits.low, ends[:, 0]), np.minimum(limits.high, ends[:, 1]))


def faces_of(draws: np.ndarray, region: Proposal, support: Limits, most: float = CUT_OFF) -> list[tuple[int, int]]:
    """List the faces of a region at which draws pile up, and beyond which more could be simulated."""
    return [] if region.axes is None else faces_reached(draws, region.axes, support, most)


def beyond_faces(found: Finding, faces: list[tuple[int, int]], region: Proposal, support: Limits) -> Finding:
    """Return a finding whose draws go on beyond faces of the region, as far as the support does."""
    if not faces or region.axes is None:
        return found
    images = reaching_beyond(found.draws, region.axes, faces)[len(found.draws) :]
    held = images[support.hold(images)]
    if len(held) < CUT_OFF * len(images):
        return found
    return replace(found, draws=np.concatenate([found.draws, held]), exact=False, cut=True)


def _spread_by_error(posterior: Posterior, model: FittedScore, seed: int) -> np.ndarray:
    """Return draws of the posterior, moved at random by as much as the model's own error may move them in their mode.

    An error e of the score moves a mode with covariance C by C e.
    """
    known = model.own_error
    if known is None:
        return posterior.samples
    rng, moved = np.random.default_rng([seed, 1]), []
    for clump in clumps_of(posterior.samples, model.low, model.high):
        covariance = np.cov(clump.T).reshape(clump.shape[1], -1)
        root = np.linalg.cholesky(covariance + np.diag(1e-9 * np.diagonal(covariance) + 1e-300))
        errors, vectors = np.linalg.eigh(root.T @ known.covariance @ root)
        shift = np.sqrt(np.clip(errors, 0.0, _FARTHEST**2)) * rng.standard_normal(clump.shape)
        moved.append(clump + shift @ (root @ vectors).T)
    return np.concatenate(moved)


def next_region(found: Finding, limits: Proposal) -> Proposal:
    """Return the region around what was found, within the limits of the first proposal."""
    draws = np.clip(found.draws, limits.low, limits.high)
    return limits.around(draws)


def is_settled(now: Proposal, following: Proposal) -> bool:
    """Say whether the next region is about as large as this one."""
    return log_volume(following) - log_volume(now) > now.num_parameters * np.log(_SETTLED)


def log_volume(region: Proposal) -> float:
    """Compute the logarithm of the volume in which simulations are run."""
    if region.parts is None:
        return float(np.log(region.high - region.low).sum())
    rng = np.random.default_rng(0)
    volumes = []
    for box in region.parts.boxes:
        tried = box.outer(rng.uniform(-1, 1, (_NUM_TRIED, region.num_parameters)))
        inside = max(np.mean(region.inside(tried)), 1 / _NUM_TRIED)
        volumes.append(np.linalg.slogdet(2 * box.factor)[1] + np.log(inside))
    return float(np.logaddexp.reduce(volumes))


def is_exact(posterior: Posterior, model: FittedScore) -> bool:
    """Say whether the model's own error moves a posterior by so little that another round would not change it."""
    if model.own_error is None:
        return False
    covariance = covariance_within_modes(posterior.samples, model.low, model.high)
    root = np.linalg.cholesky(covariance + np.diag(1e-12 * np.diagonal(covariance)))
    errors = np.linalg.eigvalsh(root.T @ model.own_error.covariance @ root)
    return bool(errors.mean() < _EXACT and errors[-1] < _EXACT_ALONG)
