"""Draws of one-dimensional distributions in double precision, on the host wherever their quantiles are known.

NumPyro draws in the precision JAX is set to. In single precision a range such as (2459000.0, 2459000.1) holds one
number.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions.util import lazy_property
from scipy import special

from .._support.keys import key_of_words
from .._support.precision import double_precision
from .._support.record_random import uniforms

# Draws of other distributions are compiled for so many at a time, always: one size, so that one is compiled.
_DRAWS_AT_ONCE = 1_024

# Quantiles by name of the distribution, as functions of (its numbers, u). These laws can also be made anew from their
# numbers, by which the folders of campaigns describe them.
_QUANTILES: dict[str, Callable[[dict[str, float], np.ndarray], np.ndarray]] = {
    "Uniform": lambda law, u: law["low"] + (law["high"] - law["low"]) * u,
    "Normal": lambda law, u: law["loc"] + law["scale"] * special.ndtri(u),
    "LogNormal": lambda law, u: np.exp(law["loc"] + law["scale"] * special.ndtri(u)),
    "Gamma": lambda law, u: special.gammaincinv(law["concentration"], u) / law["rate"],
    "Beta": lambda law, u: special.betaincinv(law["concentration1"], law["concentration0"], u),
    "Exponential": lambda law, u: -np.log1p(-u) / law["rate"],
    "HalfNormal": lambda law, u: law["scale"] * np.sqrt(2.0) * special.erfinv(u),
    "Cauchy": lambda law, u: law["loc"] - law["scale"] / np.tan(np.pi * u),
    "LogUniform": lambda law, u: np.exp(np.log(law["low"]) + np.log(law["high"] / law["low"]) * u),
}
KNOWN = tuple(_QUANTILES)


def is_known(law: dist.Distribution) -> bool:
    """Say whether a distribution is one whose quantiles are known here."""
    return type(law).__name__ in _QUANTILES and type(law) is getattr(dist, type(law).__name__, None)


def numbers_of(law: dist.Distribution) -> dict[str, float]:
    """Return the numbers by which a known distribution is described."""
    return {name: float(getattr(law, name)) for name in sorted(law.arg_constraints)}


def quantiles(law: dist.Distribution, u: np.ndarray) -> np.ndarray:
    """Compute quantiles of a known distribution."""
    return _QUANTILES[type(law).__name__](numbers_of(law), u)


def drawn(law: dist.Distribution, words: np.ndarray) -> np.ndarray:
    """Draw from a scalar distribution, one draw for each word of 64 random bits, inside its support."""
    values = quantiles(law, uniforms(words)) if is_known(law) else _drawn_by_numpyro(law, words)
    low, high = (getattr(law.support, name, None) for name in ("lower_bound", "upper_bound"))
    return np.clip(values, None if low is None else float(low), None if high is None else float(high))


def afresh(law: dist.Distribution) -> dist.Distribution:
    """Copy a distribution without what it has computed of itself.

    NumPyro's keep some of it, in the precision of the moment: what is kept in double would trouble whoever uses the
    same distribution as a prior in single, and the other way round.
    """
    twin = copy.copy(law)
    for name in list(vars(twin)):
        if isinstance(getattr(type(twin), name, None), lazy_property):
            delattr(twin, name)
    return twin


def as_key_words(words: np.ndarray) -> np.ndarray:
    """Split words of 64 bits into the two of a JAX key, shape (..., 2)."""
    halves = (words >> np.uint64(32), words & np.uint64(0xFFFFFFFF))
    return np.stack(halves, axis=-1).astype(np.uint32)


def _drawn_by_numpyro(law: dist.Distribution, words: np.ndarray) -> np.ndarray:
    sampler, keys = _sampler(law), as_key_words(words)
    with double_precision():
        padded = np.resize(keys, (-(-max(len(keys), 1) // _DRAWS_AT_ONCE) * _DRAWS_AT_ONCE, 2))
        parts = [sampler(padded[i : i + _DRAWS_AT_ONCE]) for i in range(0, len(padded), _DRAWS_AT_ONCE)]
        return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])[: len(keys)]


@functools.lru_cache(maxsize=128)
def _sampler(law: dist.Distribution) -> Callable[[Any], Any]:
    # One by one: in a batch, rounding depends on how many others there are.
    law = afresh(law)
    return jax.jit(lambda keys: jax.lax.map(lambda words: law.sample(key_of_words(words)), keys))
