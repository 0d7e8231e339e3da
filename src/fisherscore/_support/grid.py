"""Regular grids over a region of parameters, on which scores are drawn and compared."""

from typing import Any

import numpy as np


def region_grid(model: Any, num_per_axis: int, margin: float = 0.0) -> np.ndarray:
    """Lay a regular grid over a training region.

    Args:
        model: A score model, a proposal, or a problem: anything with ``low`` and ``high``, or with a ``proposal``
            that has them.
        num_per_axis: Number of points along each parameter.
        margin: Fraction of each range left free at both of its ends.

    Returns:
        The points, shape (num_per_axis ** p, p).

    >>> import fisherscore as fs
    >>> fs.accuracy.region_grid(fs.uniform(a=(0, 1), b=(0, 2)), 2).tolist()
    [[0.0, 0.0], [0.0, 2.0], [1.0, 0.0], [1.0, 2.0]]
    """
    region = getattr(model, "proposal", model)
    shrink = margin * (region.high - region.low)
    axes = np.linspace(region.low + shrink, region.high - shrink, num_per_axis, axis=-1)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
