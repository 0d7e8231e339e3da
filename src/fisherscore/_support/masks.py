"""Masked arrays as arrays with NaN: NumPy itself forgets masks. Imports nothing heavy, since workers import it."""

from typing import Any

import numpy as np


def with_nan_for_masked(value: Any) -> Any:
    """Return masked arrays, also in lists, with NaN where they are masked; anything else as it is.

    NumPy itself forgets the mask, and takes whatever is stored below it for data.
    """
    if isinstance(value, list | tuple) and any(isinstance(entry, np.ma.MaskedArray | list | tuple) for entry in value):
        return [with_nan_for_masked(entry) for entry in value]
    if isinstance(value, np.ma.MaskedArray) and value.dtype.kind in "biuf":
        return np.ma.filled(value.astype(np.float64), np.nan)
    return value
