"""A map part of whose information is in correlations between scales, with an exact score.

The map is made of Haar wavelets: orthonormal, so that its coefficients w are the map in other coordinates. Each
coefficient but the coarsest has a parent of its orientation at the same place, one scale up, and given that

    w | parent ~ N(0, v),    v = σ_j² e^a (1 − b + b parent² / (σ_(j−1)² e^a)),

where σ_j² falls with the scale j. Since the mean of the bracket is one, b changes no variance: the power at every
scale depends on the amplitude a alone, and most of what is known of the coupling b is in how strongly small scales
fluctuate where the large ones do. The likelihood is the product of these Gaussians.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.arguments import as_count
from .._support.precision import in_single_precision
from ..errors import ArgumentError
from ..simulation.proposal import uniform
from .problem import Problem

# Variances fall by this factor from a scale to the next smaller one.
_FALL = 0.35


def _split(image: Any) -> tuple[Any, Any]:
    """Turn a map (2m, 2m) into its means (m, m) and its coefficients of three orientations (3, m, m)."""
    a, b, c, d = image[::2, ::2], image[::2, 1::2], image[1::2, ::2], image[1::2, 1::2]
    return (a + b + c + d) / 2, jnp.stack([a + b - c - d, a - b + c - d, a - b - c + d]) / 2


def _joined(means: Any, details: Any) -> Any:
    """Undo :func:`_split`."""
    m, (h, v, d) = means, details
    rows = [jnp.stack([m + h + v + d, m + h - v - d], -1), jnp.stack([m - h + v - d, m - h - v + d], -1)]
    side = 2 * m.shape[0]
    return jnp.stack([row.reshape(m.shape[0], side) for row in rows], 1).reshape(side, side) / 2


def _children(parents: Any) -> Any:
    """Give every coefficient of the next scale its parent: (3, m, m) to (3, 2m, 2m)."""
    return jnp.repeat(jnp.repeat(parents, 2, axis=1), 2, axis=2)


def _variance(theta: Any, scale: int, parents: Any) -> Any:
    """Give the variances of the coefficients of a scale, given those one scale up."""
    amplitude = jnp.exp(theta[0])
    own = amplitude * _FALL**scale
    if not scale:
        return own
    return own * (1.0 - theta[1] + theta[1] * _children(parents) ** 2 / (amplitude * _FALL ** (scale - 1)))


@in_single_precision
def multiscale_field(n: int = 32) -> Problem:
    """Make a field of n × n pixels whose small scales fluctuate most where its large ones do.

    The power at every scale depends on ``log_amplitude`` in [−1, 1] alone; ``coupling``, in [0.1, 0.8], says by how
    much the variance of a wavelet coefficient follows the square of the one at its place that is twice as large.

    Args:
        n: Pixels a side, a power of two.

    Returns:
        The problem: two parameters and a map; its score is exact, its Fisher matrix is known by averages of it alone.

    >>> import fisherscore as fs
    >>> problem = fs.problems.multiscale_field(8)
    >>> problem.score([0.0, 0.5], problem.simulator.draw([0.0, 0.5])).shape
    (2,)
    """
    side = as_count(n, "n", 4)
    if side & (side - 1) or side > 1024:
        raise ArgumentError(f"n: expected a power of two of at most 1024, got {side}.")
    num_scales = side.bit_length() - 1

    def draw_one(key: Any, theta: Any) -> Any:
        means = jnp.zeros((1, 1))
        details = jnp.zeros((3, 1, 1))
        for scale in range(num_scales):
            normal = jax.random.normal(jax.random.fold_in(key, scale), (3, 2**scale, 2**scale))
            details = jnp.sqrt(_variance(theta, scale, details)) * normal
            means = _joined(means, details)
        return means

    def log_likelihood_one(theta: Any, x: Any) -> Any:
        scales = []
        for _ in range(num_scales):
            x, details = _split(x)
            scales.append(details)
        scales.reverse()
        total = jnp.zeros(())
        for scale, details in enumerate(scales):
            variance = _variance(theta, scale, scales[scale - 1])
            total += -0.5 * jnp.sum(details**2 / variance + jnp.log(variance))
        return total

    return Problem(
        name="multiscale-field",
        proposal=uniform(log_amplitude=(-1.0, 1.0), coupling=(0.1, 0.8)),
        x_shape=(side, side),
        draw_one=draw_one,
        log_likelihood_one=log_likelihood_one,
        batch_size=int(np.clip(2**22 // side**2, 1, 256)),
    )
