"""Reference problems with everything known about them: proposal, simulator, and the exact score where it exists.

>>> import fisherscore as fs
>>> problem = fs.problems.poisson_counts()
>>> problem.score([1.0, 0.0], problem.simulator.draw([1.0, 0.0])).shape
(2,)
"""

from .fields import gaussian_field, lognormal_field
from .gaussian_covariance import gaussian_covariance
from .lensing_maps import lensing_maps
from .linear_gaussian import linear_gaussian
from .multiscale_field import multiscale_field
from .poisson_counts import poisson_counts
from .problem import Observed, Problem
from .student_t import student_t
from .ten_parameters import ten_parameters
from .three_by_two import three_by_two
from .two_moons import two_moons
from .two_signs import two_signs
from .waiting_times import waiting_times
from .weak_lensing import weak_lensing

__all__ = [
    "Observed",
    "Problem",
    "gaussian_covariance",
    "gaussian_field",
    "lensing_maps",
    "linear_gaussian",
    "lognormal_field",
    "multiscale_field",
    "poisson_counts",
    "student_t",
    "ten_parameters",
    "three_by_two",
    "two_moons",
    "two_signs",
    "waiting_times",
    "weak_lensing",
]
