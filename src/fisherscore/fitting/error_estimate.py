"""How wrong a fit thinks it is.

Fits to parts of the simulations, or several networks, are apart by their scatter. What fits of one kind have in common
is in no scatter; fits of different kinds do not share it, and are apart by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .implicit_risk import inverse_information

# The bias of smoothing is in no difference between fits; with few rows, where the truth is known it adds about a fifth.
_ERROR_OVER_VARIANCE = 1.2
# Where the truth is known, the error of the mean of networks is one to two times the variance of one.
_ERROR_OVER_SPREAD = 1.5
# The variance falls as one over the number of rows, and what is misfitted more slowly. Where the truth is known, the
# ratio of the error to the variance rises from so many rows on with this power of their number.
_NUM_ROWS_OF_BIAS, _POWER_OF_BIAS = 10_000, 0.25
# Where the truth is known, what members of different kinds show of misfit is too small by up to two, where their errors
# are alike, and too large by up to three, where they are opposite. Of it and the scatter, the geometric mean with this
# weight is nearest.
_WEIGHT_OF_MISFIT = 2.0 / 3.0


@dataclass(frozen=True, eq=False)
class ErrorEstimate:
    """What a score is off by: the score error in all, and the covariance (p, p) of the components of the error."""

    total: float
    covariance: np.ndarray

    def scaled(self, factor: float) -> "ErrorEstimate":
        """Return the error of ``√factor`` times the score."""
        return ErrorEstimate(factor * self.total, factor * self.covariance)

    def with_bias(self, num_rows: int) -> "ErrorEstimate":
        """Return the error of fits to so many rows, of which differences between fits show the variance alone."""
        return self.scaled(max(num_rows / _NUM_ROWS_OF_BIAS, 1.0) ** _POWER_OF_BIAS)

    def with_misfit(self, misfit: np.ndarray, metric: np.ndarray) -> "ErrorEstimate":
        """Return the error where members of different kinds show a misfit (p, p) that is larger than the scatter."""
        scatter, shown = float(np.sum(metric * self.covariance)), float(np.sum(metric * misfit))
        if not shown > scatter > 0:
            return self
        share = (scatter ** (1 - _WEIGHT_OF_MISFIT) * shown**_WEIGHT_OF_MISFIT - scatter) / shown
        covariance = self.covariance + share * misfit
        return ErrorEstimate(self.total * (1.0 + share * shown / scatter), covariance)

    def plus(self, other: "ErrorEstimate") -> "ErrorEstimate":
        """Return the error of a sum of scores whose errors are independent."""
        return ErrorEstimate(self.total + other.total, self.covariance + other.covariance)


@dataclass(frozen=True, eq=False)
class PartialFit:
    """Scores (n, p) of a fit to a share of the simulations."""

    share: float
    scores: np.ndarray


def closed_form_error(whole: np.ndarray, parts: Sequence[PartialFit]) -> ErrorEstimate:
    """Estimate the score error of a fit with scores ``whole`` (n, p).

    Fits to a share f of the data differ from the whole by (1 − f) / f of its variance.
    """
    num_parameters = whole.shape[1]
    precision = inverse_information([whole], num_parameters)
    covariances = []
    for part in parts:
        delta = whole - part.scores
        covariances.append(part.share / (1.0 - part.share) * (delta.T @ delta) / len(delta))
    errors = [float(np.sum(precision * covariance)) / num_parameters for covariance in covariances]
    total = _ERROR_OVER_VARIANCE * float(np.median(errors))
    mean = np.mean(covariances, axis=0)
    # The median of the totals, since one part of many rows in the tails may be far off; its directions are the mean's.
    return ErrorEstimate(total, mean * (total / max(float(np.mean(errors)), 1e-300)))


def misfit(scores: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """Estimate, from scores (n, p) of members of different kinds, the covariance of the error of their weighted mean.

    Members whose errors are independent have the smallest error with weights in inverse proportion to their own, and
    are then apart from their mean by (members − 1) times its error. (Of all ensembles the mean is better than its
    members by as much as these are apart from it: Krogh and Vedelsby 1995.)
    """
    size = scores[0].shape[1]
    if len(scores) < 2:
        return np.zeros((size, size))
    shares = np.asarray(weights, np.float64) / np.sum(weights)
    mean = sum(w * s for w, s in zip(shares, scores, strict=True))
    deviations = np.stack(scores) - mean
    apart = np.einsum("k,kni,knj->ij", shares, deviations, deviations, optimize=True) / len(mean)
    return apart / (len(scores) - 1)


def network_error(scores: Sequence[np.ndarray], whole: np.ndarray) -> ErrorEstimate:
    """Compare how far networks are from their mean with the size of the score ``whole`` (n, p).

    Their mean is closer to the truth than each of them, but what the data at hand mislead all of them to is not seen.
    """
    num_parameters = whole.shape[1]
    if len(scores) < 2:
        return ErrorEstimate(0.0, np.zeros((num_parameters, num_parameters)))
    deviations = (np.stack(scores) - np.mean(scores, axis=0)).reshape(-1, num_parameters)
    factor = _ERROR_OVER_SPREAD * len(scores) / (len(scores) - 1)
    covariance = factor * (deviations.T @ deviations) / len(deviations)
    precision = inverse_information([whole], num_parameters)
    return ErrorEstimate(float(np.sum(precision * covariance)) / num_parameters, covariance)
