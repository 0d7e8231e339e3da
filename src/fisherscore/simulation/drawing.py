"""How θ and z of numbered records are drawn: in double precision, and for folders of version 0.1.0 as it drew them.

Record i is a function of (proposal, latent, seed, i). The folder of a campaign says by which scheme it was drawn.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from .._support.keys import key_of, key_of_words, short_key_of
from .._support.precision import double_precision, single_precision
from .._support.record_random import uniforms, words_of_records
from .latent import GaussianLatent, Latent
from .proposal import Proposal
from .quantiles import as_key_words

# What the words of a record are for; those of ``Proposal.sample`` have another number.
_THETA, _LATENT = 101, 102
# What is compiled draws for so many records at a time, always: one size, so that one is compiled.
_RECORDS_AT_ONCE = 1_024

Drawn = tuple[np.ndarray, np.ndarray | None]


class Scheme(enum.Enum):
    """A scheme by which parameters are drawn; the value stands in the folder of a campaign, but for version 0.1.0."""

    CURRENT = 2
    # Version 0.1.0 drew with JAX, in single precision and from 32 bits of the seed, unless JAX was set to double.
    FIRST = 1
    FIRST_IN_DOUBLE = "1 in double precision"

    @property
    def has_short_keys(self) -> bool:
        """Whether JAX's keys are made of the lower 32 bits of a seed."""
        return self is Scheme.FIRST


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws θ of numbered records from a proposal, and z where there is a latent."""

    scheme: Scheme
    proposal: Proposal
    latent: Latent | None
    seed: int

    def parameters(self, indices: np.ndarray) -> Drawn:
        """Draw θ and z of some records."""
        if self.scheme is not Scheme.CURRENT:
            return self._first(indices)
        theta = self.proposal.at_words(words_of_records(self.seed, _THETA, indices, num=self.proposal.num_parameters))
        return theta, None if self.latent is None else self._latents(self.latent, theta, indices)

    def _latents(self, latent: Latent, theta: np.ndarray, indices: np.ndarray) -> np.ndarray:
        num = theta.shape[1]
        if type(latent).sample is GaussianLatent.sample:
            assert isinstance(latent, GaussianLatent)
            normals = special.ndtri(uniforms(words_of_records(self.seed, _LATENT, indices, num=num)))
            # One column after the other: a product of matrices rounds differently with the number of rows.
            noise = np.zeros_like(theta)
            for column, direction in zip(normals.T, latent.cholesky.T, strict=True):
                noise += column[:, None] * direction
            return theta + noise
        words = words_of_records(self.seed, _LATENT, indices, num=1)[:, 0]
        with double_precision() if draws_in_double(latent, num) else single_precision():
            z = _in_parts(self._compiled_latents, as_key_words(words), theta)
        return np.asarray(z, dtype=np.float64)

    @cached_property
    def _compiled_latents(self) -> Callable[..., Any]:
        latent: Any = self.latent
        # One by one: in a batch, rounding depends on how many others there are.
        return jax.jit(
            lambda keys, theta: jax.lax.map(lambda r: latent.sample(key_of_words(r[0]), r[1]), (keys, theta))
        )

    def _first(self, indices: np.ndarray) -> Drawn:
        """Draw as version 0.1.0 did."""
        short = self.scheme.has_short_keys
        with single_precision() if short else double_precision():
            key = short_key_of(self.seed) if short else key_of(self.seed)
            numbers = np.asarray(indices, np.uint32)
            theta, z = _in_parts(lambda part: self._compiled_first(key, part), numbers)
        return self.proposal.in_support(theta), None if z is None else np.asarray(z, dtype=np.float64)

    @cached_property
    def _compiled_first(self) -> Callable[..., Any]:
        proposal, latent = self.proposal, self.latent

        def records(seed_key: Any, numbers: Any) -> tuple[Any, Any]:
            def one(index: Any) -> tuple[Any, Any]:
                theta_key, latent_key = jax.random.split(jax.random.fold_in(seed_key, index))
                theta = proposal.draw_one(theta_key)
                return theta, None if latent is None else latent.sample(latent_key, theta)

            return jax.lax.map(one, numbers)

        return jax.jit(records)


def draws_in_double(latent: Latent, num_parameters: int) -> bool:
    """Say whether a latent model can draw in double precision; a function of the user's may insist on single."""
    with double_precision():
        try:
            jax.eval_shape(latent.sample, key_of(0), jnp.zeros(num_parameters))
        except (TypeError, ValueError):
            return False
    return True


def _in_parts(function: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """Apply a compiled function to rows, a part of one size at a time."""
    num, size = len(arrays[0]), _RECORDS_AT_ONCE
    full = -(-max(num, 1) // size) * size
    padded = [np.resize(array, (full, *array.shape[1:])) for array in arrays]
    parts = [function(*(array[start : start + size] for array in padded)) for start in range(0, full, size)]
    return jax.tree.map(lambda *part: np.concatenate(part)[:num], *parts)
