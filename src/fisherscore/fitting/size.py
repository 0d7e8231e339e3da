"""The size of a weighted sum: held-out rows say how large it should be, and so does the spread of fits.

A score that is noisy is best multiplied by c = S / (S + N), with S the information of the data and N the noise. Two
estimates of c, for members that are of the right size but for their noise:

* The implicit loss of held-out rows is smallest at c, whatever is wrong with the members. It is noisy: with 500 rows, a
  tenth. And it speaks of fits to a share of the rows, whose noise is that of the whole over the share.
* Fits with one part left out in turn give N by the jackknife. It is as good as N is, and sees nothing but noise.

Their mean, weighed by their variances, is nearer to the right size than either. The error of a score is flat about its
smallest value: its size decides how wide posteriors are and what forecasts claim.
"""

import numpy as np

from .cross_validation import CrossValidation
from .implicit_risk import Terms

# The spread of a few fits gives the noise to within so much of itself, and whether a member is of the right size but
# for its noise is known to within this.
_NOISE_UNSURE, _MEMBERS_UNSURE = 0.5, 0.01


def with_right_size(weights: np.ndarray, validation: CrossValidation) -> np.ndarray:
    """Scale weights of the usable members, fitted with each part left out in turn, to the size of the whole."""
    total = weights.sum()
    if not total > 0:
        return weights
    unit = weights / total
    sizes, errors = zip(_by_loss(unit, validation), _by_spread(unit, validation), strict=True)
    precision = 1 / np.square(errors)
    return unit * float(precision @ sizes / precision.sum())


def _by_loss(unit: np.ndarray, validation: CrossValidation) -> tuple[float, float]:
    """Give the size with the smallest implicit loss, for a fit to all rows, and its standard error."""
    members = validation.usable_terms()
    terms = Terms.weighted_sum(zip(unit, members, strict=True), members[0].scores.shape)
    squares = validation.risk.squares(terms)
    size = -terms.divergences.mean() / squares.mean()
    error = np.std(terms.divergences + size * squares) / np.sqrt(len(squares)) / squares.mean()
    if size < 1.0:
        size = 1.0 - validation.share * (1.0 - size)
    return float(size), float(error)


def _by_spread(unit: np.ndarray, validation: CrossValidation) -> tuple[float, float]:
    """Give the size at which a score with the noise of these fits has the smallest error, and how sure that is."""
    scores = sum(w * validation.scores[n] for w, n in zip(unit, validation.usable, strict=True))
    num = len(scores)
    deviations = scores - np.mean(scores, axis=0)
    metric = validation.risk.metric
    noise = (num - 1) * np.einsum("kni,ij,knj->", deviations, metric, deviations, optimize=True)
    lost = min(noise / np.einsum("kni,ij,knj->", scores, metric, scores, optimize=True), 1.0)
    return float(1.0 - lost), float(_NOISE_UNSURE * lost + _MEMBERS_UNSURE)
