"""How wrong a fit thinks it is: from how far fits to parts of the simulations, or several networks, are apart."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .implicit_risk import inverse_information

# The bias of smoothing is in no difference between fits; where the truth is known it adds about a fifth.
_ERROR_OVER_VARIANCE = 1.2
# Where the truth is known, the error of the mean of networks is one to two times the variance of one.
_ERROR_OVER_SPREAD = 1.5


@dataclass(frozen=True, eq=False)
class PartialFit:
    """Scores (n, p) of a fit to a share of the simulations."""

    share: float
    scores: np.ndarray


def closed_form_error(whole: np.ndarray, parts: Sequence[PartialFit]) -> float:
    """Estimate the score error of a fit with scores ``whole`` (n, p).

    Fits to a share f of the data differ from the whole by (1 − f) / f of its variance.
    """
    num_parameters = whole.shape[1]
    precision = inverse_information([whole], num_parameters)
    errors = []
    for part in parts:
        delta = whole - part.scores
        squares = np.einsum("ni,ij,nj->n", delta, precision, delta)
        errors.append(part.share / (1.0 - part.share) * float(squares.mean()) / num_parameters)
    return _ERROR_OVER_VARIANCE * float(np.median(errors))


def network_error(scores: Sequence[np.ndarray], whole: np.ndarray) -> float:
    """Compare how far networks are from their mean with the size of the score ``whole`` (n, p).

    Their mean is closer to the truth than each of them, but what the data at hand mislead all of them to is not seen.
    """
    if len(scores) < 2:
        return 0.0
    deviations = np.stack(scores) - np.mean(scores, axis=0)
    precision = inverse_information([whole], whole.shape[1])
    squares = np.einsum("kni,ij,knj->kn", deviations, precision, deviations)
    return _ERROR_OVER_SPREAD * float(squares.mean()) * len(scores) / (len(scores) - 1) / whole.shape[1]
