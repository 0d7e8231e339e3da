"""The [prior] table of an analysis file: distributions by parameter, such as ``{ normal = [300.0, 100.0] }``."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpyro.distributions as dist

from ..simulation.proposal import Proposal
from .document import Document, WrongKind, numbers

# A prior with less of its mass in the training region asks mostly about parameters at which nothing was simulated.
_SMALLEST_MASS = 0.5

# The distributions by name: number of values, their meaning, and how to make one.
PRIORS: dict[str, tuple[int, str, Callable[..., dist.Distribution]]] = {
    "uniform": (2, "low, high", dist.Uniform),
    "normal": (2, "mean, standard deviation", dist.Normal),
    "lognormal": (2, "mean and standard deviation of the logarithm", dist.LogNormal),
    "halfnormal": (1, "scale", dist.HalfNormal),
    "gamma": (2, "shape, rate", dist.Gamma),
    "truncated_normal": (
        4,
        "mean, standard deviation, low, high",
        lambda mean, deviation, low, high, **options: dist.TruncatedNormal(
            mean, deviation, low=low, high=high, **options
        ),
    ),
}


def read_priors(document: Document, proposal: Proposal) -> dict[str, dist.Distribution]:
    """Read the prior of each parameter that has one; most of it must lie inside the training region."""
    section = document.section("prior")
    priors = {name: section.take(name, _distribution) for name in section.tree if name in proposal.names}
    if unknown := [n for n in section.tree if n not in proposal.names]:
        raise section.error((unknown[0],), f"no such parameter. Known are {', '.join(proposal.names)}.")
    for name, distribution in priors.items():
        i = proposal.names.index(name)
        low, high = float(proposal.low[i]), float(proposal.high[i])
        inside = _mass(distribution, low, high)
        bounded = isinstance(distribution, dist.Uniform)
        if inside < (1.0 - 1e-6 if bounded else _SMALLEST_MASS):
            raise section.error(
                (name,),
                f"{1 - inside:.0%} of the prior lies outside the training region, {low:g} to {high:g}, where the score "
                "is unknown. Narrow the prior, or widen the range under [parameters].",
            )
    return priors


def _distribution(value: Any) -> dist.Distribution:
    """Accept { normal = [mean, sd] } and its like."""
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in PRIORS:
        raise WrongKind("one of " + ", ".join(f"{{ {k} = [{meaning}] }}" for k, (_, meaning, _) in PRIORS.items()))
    name, given = next(iter(value.items()))
    count, meaning, family = PRIORS[name]
    listed = [given] if count == 1 and not isinstance(given, list) else given
    try:
        return family(*numbers(count)(listed), validate_args=True)
    except (WrongKind, ValueError):
        raise WrongKind(f"{{ {name} = [{meaning}] }}, scales above 0 and low below high") from None


def _mass(distribution: dist.Distribution, low: float, high: float) -> float:
    """Return how much of a distribution lies between two values."""
    # Below its support, the CDF of a positive distribution is NaN or negative in NumPyro.
    below = [float(np.clip(np.nan_to_num(distribution.cdf(value)), 0.0, 1.0)) for value in (low, high)]
    return below[1] - below[0]
