"""Where the first round is: all over the proposal, or where the prior is if that is much smaller."""

from typing import Any

import numpy as np

from ...errors import ArgumentError
from ...score.scales import is_far
from ...simulation.proposal import Proposal
from ..priors.given import Parameters, prior_of
from ..priors.regions import drawn
from .rounds import is_settled

_NUM_DRAWS, _MIN_DRAWS = 8_192, 100
# Draws of a prior are of single precision: of ranges this far from zero, in units of their width, they are no guide.
_FAR = 1_000.0


def first_region(proposal: Proposal, prior: Any, seed: int) -> Proposal:
    """Return the proposal, or the region around draws of the prior where that is much smaller."""
    law = prior_of(Parameters(proposal.names, proposal.low, proposal.high), prior)
    if prior is None or law.has_rest or is_far(proposal.low, proposal.high, _FAR).any():
        return proposal
    words = np.random.SeedSequence(seed, spawn_key=(0,)).generate_state(2 * proposal.num_parameters, np.uint32)
    draws = np.asarray(drawn(law, words.reshape(-1, 2), _NUM_DRAWS), np.float64)
    inside = draws[((draws >= proposal.low) & (draws <= proposal.high)).all(axis=1)]
    if len(inside) < _MIN_DRAWS:
        _refuse_prior_elsewhere(draws, proposal)
        return proposal  # the prior is much wider than the proposal, and cut off by it
    region = proposal.around(inside)
    return proposal if is_settled(proposal, region) else region


def _refuse_prior_elsewhere(draws: np.ndarray, proposal: Proposal) -> None:
    """Refuse a prior of which next to nothing lies in the range of some parameter, though it is no wider than that."""
    within = ((draws >= proposal.low) & (draws <= proposal.high)).sum(axis=0)
    width = np.quantile(draws, 0.9, axis=0) - np.quantile(draws, 0.1, axis=0)
    elsewhere = (within < _MIN_DRAWS) & (width < proposal.high - proposal.low)
    if elsewhere.any():
        name = proposal.names[int(np.argmax(elsewhere))]
        raise ArgumentError(
            f"prior: of {len(draws):,} draws {within[np.argmax(elsewhere)]} lie in the proposal's range of {name!r}, "
            "beyond which nothing is simulated. Give a proposal that holds the prior."
        )
