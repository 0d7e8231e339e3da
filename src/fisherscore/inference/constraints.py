"""``fs.constraints``: which combinations of parameters the data constrain under a prior, and how well."""

from contextlib import suppress
from typing import Any

import numpy as np
import numpyro.distributions as dist

from ..errors import ArgumentError
from ..score.constraints import Constraints
from ..score.model import ScoreModel
from ..simulation.proposal import Proposal
from .priors.given import Parameters, pieces_of, uncut
from .priors.information import information
from .priors.samples import SamplePrior


def constraints(model: ScoreModel, *, prior: Any = None) -> Constraints:
    """Say which combinations of parameters the data constrain, and how far posteriors are off along each.

    Args:
        model: A fitted model that knows its own error, as those of the default recipe do.
        prior: As for :func:`fisherscore.sample`; by default the training range.

    Returns:
        The combinations from the best constrained to the least, their errors in units of a posterior's width, and what
        would help; prints as a table, and has a ``plot()``.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> model = fs.fit(fs.simulate(problem.simulator, problem.proposal, 500))
    >>> len(fs.constraints(model).combinations)
    2
    """
    if not isinstance(model, ScoreModel):
        raise ArgumentError(f"model: expected a score model, got {type(model).__name__}.")
    known = model.own_error
    if known is None:
        raise ArgumentError(
            "model: it does not know its own error by direction. Fit it with the default recipe of this version; other "
            "recipes, and models of earlier versions, do not keep it."
        )
    if prior is None:
        whole = model.constraints
        assert whole is not None
        return whole
    return known.under(model.names, prior_precision(model, prior), "the prior")


def precision_at_hand(model: ScoreModel, prior: Any) -> np.ndarray | None:
    """Return the precision of a prior whose laws say it themselves; None without one, or where it would take draws."""
    if prior is None:
        return None
    pieces, cuts = uncut(prior, model.names)
    laws = [] if cuts else [law for _, law in pieces_of(pieces, model.names)]
    if not laws or not all(isinstance(law, SamplePrior | dist.MultivariateNormal) or _is_plain(law) for law in laws):
        return None
    with suppress(ArgumentError):  # such as that of a law without a variance
        return prior_precision(model, prior)
    return None


def _is_plain(law: Any) -> bool:
    return isinstance(law, dist.Distribution) and not law.event_shape


def prior_precision(model: ScoreModel | Proposal, prior: Any = None) -> np.ndarray:
    """Return the precision (p, p) of a prior; parameters it does not name are uniform over the training range."""
    precision = model.region_precision()
    if prior is None:
        return precision
    named, matrix = information(prior, Parameters(model.names, model.low, model.high))
    places = np.array([model.names.index(name) for name in named], int)
    rest = np.setdiff1d(np.arange(len(precision)), places)
    # In a region with axes of its own parameters go together: those without a prior are as wide as the region is.
    precision[np.ix_(rest, rest)] = np.linalg.inv(np.linalg.inv(precision)[np.ix_(rest, rest)])
    precision[places, :] = precision[:, places] = 0.0
    precision[np.ix_(places, places)] = matrix
    return precision
