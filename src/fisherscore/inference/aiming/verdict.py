"""What there is to say of an aimed inference as a whole."""

from typing import Any

import numpy as np

from ...errors import ArgumentError
from ...score.constraints import Constraints
from ...score.fitted import FittedScore
from ...simulation.proposal import Proposal
from ...simulation.simulations import Simulations
from ..constraints import prior_precision
from .result import Rounds

_MOST_FAILURES = 0.01


def constraints_under(model: FittedScore, prior: Any, proposal: Proposal) -> Constraints | None:
    """Return what the data constrain under the prior that was there before any simulation; None where not known."""
    known = model.own_error
    if known is None:
        return None
    try:
        precision = prior_precision(proposal, prior)
    except ArgumentError:  # of some priors no precision is known
        precision = prior_precision(proposal)
    return known.under(model.names, precision, "the prior")


def notes_of_rounds(rounds: Rounds, sims: Simulations, num: int) -> tuple[str, ...]:
    """Say what was saved, what failed, and how often a pilot had to choose."""
    notes = []
    if len(sims) < num:
        notes.append(
            f"{num - len(sims):,} of {num:,} simulations were not needed: by the model's own error, another round "
            "would not have changed the posterior"
        )
    if sims.failure_rate > _MOST_FAILURES:
        notes.append(
            f"{sims.failure_rate:.1%} of the simulations failed and were left out, which is right if failures depend "
            "on the parameters alone"
        )
    parts = [1 if r.region.parts is None else len(r.region.parts.boxes) for r in rounds]
    if max(parts) > parts[-1]:
        notes.append(
            f"round {int(np.argmax(parts)) + 1} looked in {max(parts)} places apart, the last in {parts[-1]}: if the "
            "posterior may have several modes, compare with another seed, or with more simulations"
        )
    pilots = sum(r.guide == "pilot" for r in rounds)
    if pilots == len(rounds) - 1 and pilots:
        notes.append("no fit but the last was good enough to choose a region: more simulations would help")
    return tuple(notes)
