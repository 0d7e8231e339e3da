"""The range in which a parameter is learned, given its distribution; and ranges that numbers cannot bear."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from .._support.keys import key_of
from .._support.precision import double_precision, single_precision
from ..errors import ArgumentError
from .quantiles import afresh, is_known, quantiles

# An unbounded distribution gets as its training region the range between these quantiles.
_TAIL = 1e-3
# A range must hold so many numbers of double precision, and its width must be such that scores, which go as one over
# the width, can be written in single precision.
_MIN_NUMBERS, _MIN_WIDTH, _MAX_WIDTH = 100_000, 1e-30, 1e30


def range_of(law: dist.Distribution) -> tuple[float, float]:
    """Return the ends of the training region: the support where it is bounded, else far quantiles."""
    support: Any = law.support
    low, high = (getattr(support, name, None) for name in ("lower_bound", "upper_bound"))
    if low is not None and high is not None:
        return float(low), float(high)
    if is_known(law):
        low, high = quantiles(law, np.array([_TAIL, 1 - _TAIL]))
        return float(low), float(high)
    try:
        with double_precision():
            ends = [float(afresh(law).icdf(jnp.asarray(q))) for q in (_TAIL, 1 - _TAIL)]
    except (NotImplementedError, ImportError):  # some quantile functions need packages we do not ask for
        with single_precision():
            draws = np.asarray(law.sample(key_of(0), (100_000,)))
        ends = [float(q) for q in np.quantile(draws, [_TAIL, 1 - _TAIL])]
    # A half-bounded support keeps its quantile at the bound as well: the density there says little.
    return ends[0], ends[1]


def refuse_unbearable(name: str, low: float, high: float) -> None:
    """Refuse a region in which double precision has too few numbers, or scores cannot be written down."""
    width = high - low
    if width < _MIN_NUMBERS * math.ulp(max(abs(low), abs(high))):
        raise ArgumentError(
            f"{name}: the range from {low!r} to {high!r} is too narrow: double precision has fewer than "
            f"{_MIN_NUMBERS:,} numbers in it. Measure the parameter from a point inside the range."
        )
    if not _MIN_WIDTH <= width <= _MAX_WIDTH:
        raise ArgumentError(
            f"{name}: expected a range between {_MIN_WIDTH:g} and {_MAX_WIDTH:g} wide, got {low!r} to {high!r}. "
            "Measure the parameter in other units, or take its logarithm."
        )
