"""By what a prior is known again: its density at some points, and some of its draws, which know where it ends."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._support.precision import single_precision
from ...simulation.proposal import Proposal
from ..priors.given import Parameters, prior_of
from ..priors.regions import drawn

_NUM_POINTS = 32
# Densities and draws are of single precision, and of whatever machine they were made on.
_TOLERANCE = 1e-4


def describe_prior(prior: Any, proposal: Proposal) -> dict[str, Any]:
    """Return what a prior is known by, as plain data.

    The density within a restricted prior does not say where it ends: its draws do.
    """
    law = prior_of(Parameters(proposal.names, proposal.low, proposal.high), prior)
    rng = np.random.default_rng(0)
    points = rng.uniform(proposal.low, proposal.high, (_NUM_POINTS, proposal.num_parameters)).astype(np.float32)
    words = np.random.SeedSequence(0).generate_state(2 * proposal.num_parameters, np.uint32).reshape(-1, 2)
    with single_precision():
        values = jax.vmap(lambda theta: law.log_base_at(theta) + law.log_rest_at(theta))(jnp.asarray(points))
        draws = np.asarray(drawn(law, words, _NUM_POINTS), np.float64)
    return {
        "log_density": [float(value) if np.isfinite(value) else None for value in np.asarray(values)],
        "draws": ((draws - proposal.low) / (proposal.high - proposal.low)).tolist(),
    }


def is_same_prior(before: Any, now: dict[str, Any]) -> bool:
    """Say whether two descriptions are of one prior."""
    try:
        pairs = [(np.array(before[name], np.float64), np.array(now[name], np.float64)) for name in now]
    except (KeyError, TypeError, ValueError):
        return False
    return all(
        a.shape == b.shape and np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True) for a, b in pairs
    )
