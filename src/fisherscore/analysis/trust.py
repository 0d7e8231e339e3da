"""What the data of an analysis constrain under the prior of its file, and how well that was learned."""

import warnings
from typing import Any

import numpy as np

from ..errors import FisherScoreWarning, TrainingError
from ..fitting.fit import fit
from ..inference.constraints import prior_precision
from ..score.constraints import BADLY_LEARNED, NOT_CONSTRAINED, TRAINING_RANGE, Constraints, OwnError
from ..score.fitted import FittedScore
from ..simulation.simulations import Simulations
from .configuration import Configuration

THE_PRIOR = "the prior"


def precision_of(configuration: Configuration) -> np.ndarray:
    """Return the precision (p, p) of the file's prior; parameters without one are uniform over the training range."""
    return prior_precision(configuration.proposal, configuration.prior)


def prior_in_words(configuration: Configuration) -> str:
    """Say with what the data are compared."""
    return THE_PRIOR if configuration.prior else TRAINING_RANGE


def fit_or_say_why(sims: Simulations, **options: Any) -> FittedScore | str:
    """Fit a model, or say why nothing was learned: a finding, and no end of the analysis.

    How well it was learned is not warned about, but said under the prior of the file.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FisherScoreWarning)
        try:
            model: FittedScore | str = fit(sims, **options)
        except TrainingError as error:
            if not str(error).startswith((BADLY_LEARNED, NOT_CONSTRAINED)):
                raise
            model = str(error)
    for warning in caught:
        if BADLY_LEARNED not in str(warning.message):
            warnings.warn(warning.message, stacklevel=2)
    return model


def own_error_of(model: FittedScore) -> dict[str, Any] | None:
    """Return what a fit knows of its error, as plain data for its document."""
    known = model.own_error
    if known is None:
        return None
    return {
        "information": known.information.tolist(),
        "covariance": known.covariance.tolist(),
        "num_simulations": known.num_simulations,
    }


def constraints_under_prior(configuration: Configuration, fit: dict[str, Any]) -> Constraints | None:
    """Return what data like the file's constrain under its prior, from the result of the fit; None where not known."""
    kept = fit.get("own_error")
    if kept is None:
        return None
    known = OwnError(np.array(kept["information"]), np.array(kept["covariance"]), kept["num_simulations"])
    observation = configuration.observation
    if observation is not None and observation.iid and observation.x is not None:
        known = known.of_draws(len(observation.x))
    return known.under(configuration.proposal.names, precision_of(configuration), prior_in_words(configuration))


def sentence(text: str) -> str:
    """Write a finding as a sentence of its own."""
    return f"{text[0].upper()}{text[1:]}".rstrip(".") + "."
