"""Reference problems with everything known about them: proposal, simulator, and the exact score where it exists."""

from .linear_gaussian import linear_gaussian
from .poisson_counts import poisson_counts
from .problem import Problem
from .two_moons import two_moons
from .weak_lensing import weak_lensing

__all__ = ["Problem", "linear_gaussian", "poisson_counts", "two_moons", "weak_lensing"]
