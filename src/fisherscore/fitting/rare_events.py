"""Data that hardly ever change, such as counts that are zero but in a few simulations.

What they tell cannot be learned from these few. Worse, a fit that leaves a part of the simulations out in turn may see
none of them, or one: then it takes the datum for one without noise, and weighs it above everything else.
"""

import numpy as np

# A datum is learned from where at least so many simulations, or this part of few, differ from all others.
_LEAST, _LEAST_PART = 30, 0.1
_NUM_LOOKED_AT = 101


def hardly_ever_changes(x: np.ndarray) -> np.ndarray:
    """Say which data (n, d) have one value in all but a few rows; not those that never change.

    Args:
        x: Data, shape (n, d).

    Returns:
        Whether each does, shape (d,).
    """
    num_others = (x != usual_values(x)).sum(axis=0)
    return (num_others > 0) & (num_others < min(_LEAST, _LEAST_PART * len(x)))


def usual_values(x: np.ndarray) -> np.ndarray:
    """Return the value (d,) that nearly all rows (n, d) have, of data that hardly ever change."""
    num = len(x)
    # Where nearly all values are equal, so are most of any hundred rows of them.
    rows = np.unique(np.linspace(0, num - 1, min(num, _NUM_LOOKED_AT)).astype(int))
    return np.asarray(np.median(x[rows] if len(rows) % 2 else x[rows[1:]], axis=0))
