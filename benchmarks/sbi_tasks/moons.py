"""Two moons: the package's own problem, which has the benchmark's numbers."""

import fisherscore as fs

from .task import Task


def two_moons() -> Task:
    """A half ring around a point that two parameters share: two thin modes."""
    problem = fs.problems.two_moons()
    return Task("two_moons", problem.proposal, problem.draw_one, problem.log_likelihood_one)
