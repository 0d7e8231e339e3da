"""The score of a flat likelihood: zero, for data that are seen to say nothing of the parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..potentials.stack import Stack
from ..simulation.simulations import Simulations
from .assemble import FunctionFit
from .options import FitOptions
from .recipes import Recipe, rows_in_region


@dataclass(frozen=True)
class FlatRecipe(Recipe):
    """Fit nothing: the score is zero, the information too, and the posterior is the prior.

    >>> import fisherscore as fs
    >>> from fisherscore.fitting.flat import FlatRecipe
    >>> problem = fs.problems.linear_gaussian()
    >>> model = fs.fit(fs.simulate(problem.simulator, problem.proposal, 200), recipe=FlatRecipe())
    >>> model.score([0.1, 0.2], [1.0, 1.0]).tolist()
    [0.0, 0.0]
    """

    def fit_function(self, sims: Simulations, options: FitOptions) -> FunctionFit:
        """Return the score of a flat likelihood.

        Args:
            sims: Simulations that all succeeded.
            options: Not used.

        Returns:
            The function, and the simulations.

        """
        standardizer, rows = rows_in_region(sims)
        p = rows.num_parameters
        details: dict[str, Any] = {
            "weights": {},
            "estimated_error": 1.0,
            "error_covariance": np.zeros((p, p)),
            "information": np.zeros((p, p)),
        }
        return FunctionFit(Stack.of([], [], (p, rows.data_size)), standardizer, sims, sims.drawn_at, details)
