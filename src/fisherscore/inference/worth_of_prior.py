"""``fs.prior_information``: the Fisher matrix that a prior is worth."""

from typing import Any

from ..errors import ArgumentError
from ..score.model import ScoreModel
from .fisher_matrix import FisherMatrix
from .priors.given import Parameters
from .priors.information import information


def prior_information(model: ScoreModel, prior: Any) -> FisherMatrix:
    """Give the Fisher matrix that a prior is worth, to be added to a forecast.

    For normal laws it is their precision; for all others (uniform ones, draws, densities, regions) the inverse of their
    covariance, which is the Gaussian law that resembles them most.

    Args:
        model: The score model, for its parameters and its training region.
        prior: A prior in any form :func:`sample` takes.

    Returns:
        The information about the parameters that the prior names.

    >>> import fisherscore as fs, numpyro.distributions as dist
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> fs.prior_information(model, {"theta1": dist.Normal(0.0, 0.5), "theta2": dist.Uniform(-3.0, 3.0)}).matrix
    array([[4.        , 0.        ],
           [0.        , 0.33333333]])
    """
    if not isinstance(model, ScoreModel):
        raise ArgumentError(f"model: expected a score model, got {type(model).__name__}.")
    if prior is None:
        raise ArgumentError("prior: expected a prior that names parameters, got None, which is worth nothing.")
    names, matrix = information(prior, Parameters.of(model))
    return FisherMatrix(names, matrix)
