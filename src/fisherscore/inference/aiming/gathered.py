"""The simulations of all rounds together: a fit is made of those in its region, wherever they were drawn."""

from dataclasses import replace

import numpy as np

from ...simulation.execution.run import OK
from ...simulation.proposal import Proposal
from ...simulation.records import Records
from ...simulation.simulations import Origin, Simulations
from ...simulation.stores import MemoryStore


def gathered(rounds: list[Simulations], proposal: Proposal) -> Simulations:
    """Join the simulations of rounds, failures included, as simulations of a proposal."""
    first = rounds[0]
    counts = np.cumsum([0, *map(len, rounds)])
    records = Records(
        indices=np.arange(counts[-1]),
        status=np.concatenate([sims.status for sims in rounds]),
        theta=np.concatenate([sims.theta for sims in rounds]),
        latent=None,
        x=np.concatenate([np.broadcast_to(sims.x, (len(sims), *first.x_shape)) for sims in rounds]),
        messages={
            int(begin) + place: sims.messages[int(number)]
            for begin, sims in zip(counts, rounds, strict=False)
            for place, number in enumerate(sims.store.records.indices)
            if int(number) in sims.messages
        },
    )
    origin = Origin(simulator=first.origin.simulator, seed=first.origin.seed, num_simulations=len(records))
    return Simulations(MemoryStore(records), proposal, None, origin)


def within(sims: Simulations, region: Proposal) -> Simulations:
    """Return the simulations in a region that succeeded: leaving out others by their θ alone changes no law."""
    kept = np.flatnonzero((sims.status == OK) & region.inside(sims.theta))
    return replace(sims.take(kept), proposal=region, weights=None)
