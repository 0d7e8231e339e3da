"""Gauss-Legendre quadrature, by which scores are integrated along straight lines."""

import numpy as np


def gauss_legendre(num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes in (0, 1) and weights that add up to 1, both in single precision.

    Polynomials up to degree 2 num_nodes − 1 are integrated from 0 to 1 exactly, up to rounding.

    >>> nodes, weights = gauss_legendre(4)
    >>> round(float(weights @ nodes**7), 5)
    0.125
    """
    nodes, weights = np.polynomial.legendre.leggauss(num_nodes)
    return ((1 + nodes) / 2).astype(np.float32), (weights / 2).astype(np.float32)
