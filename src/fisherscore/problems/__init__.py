"""Reference problems with everything known about them: proposal, simulator, and the exact score where it exists."""

from .linear_gaussian import linear_gaussian
from .problem import Problem

__all__ = ["Problem", "linear_gaussian"]
