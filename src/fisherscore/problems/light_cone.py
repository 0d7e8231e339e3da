"""The nodes along the line of sight at which spectra are integrated: those of jax-cosmo, by Simpson's rule."""

import functools
from typing import NamedTuple

import numpy as np

from .background import Distances, Growth
from .integrals import integrals_to_the_end, simpson
from .tomography import MAX_REDSHIFT


class LightCone(NamedTuple):
    """Where the integrals are evaluated, and the constant matrices that do them."""

    a: np.ndarray  # scale factors of the Limber integral
    a_weights: np.ndarray
    z: np.ndarray  # the redshifts of ``a``, then those half way between them
    distances: Distances  # to ``z``
    growth: Growth  # at ``a``
    to_the_end: np.ndarray  # weights of f at ``z`` for its integrals from the redshifts of ``a`` to the largest


@functools.lru_cache(maxsize=1)
def light_cone() -> LightCone:
    """Lay out the nodes."""
    a = np.linspace(1.0 / (1.0 + MAX_REDSHIFT), 1.0, 513)
    z = 1.0 / a - 1.0
    z_between = 0.5 * (z[1:] + z[:-1])
    z_all = np.concatenate([z, z_between])
    # The redshifts fall along the nodes: an integral up to the first node is minus that from z to the end.
    weights = integrals_to_the_end(z[::-1])[::-1]
    weights = np.concatenate([weights[:, : len(z)][:, ::-1], weights[:, len(z) :][:, ::-1]], axis=1)
    return LightCone(
        a=a,
        a_weights=simpson(a),
        z=z_all,
        distances=Distances(1.0 / (1.0 + z_all)),
        growth=Growth(a),
        to_the_end=weights,
    )
