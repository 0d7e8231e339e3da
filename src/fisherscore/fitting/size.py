"""The size of a weighted sum: held-out rows say how large it should be, and so does the spread of fits.

A score that is noisy is best multiplied by c = S / (S + N), with S the information of the data and N the noise. Two
estimates of c:

* The implicit loss of held-out rows is smallest at c, whatever is wrong with the members. It is noisy: with 500 rows,
  by 6 %. And it speaks of fits to a share of the rows, whose noise is that of the whole over the share.
* Fits with one part left out in turn give N by the jackknife. That is as good as N is, and takes members to be of the
  right size but for their noise.

Their mean, weighed by their variances, is nearer to the right size. The error of a score is flat about its smallest
value; its size decides how wide posteriors are and what forecasts claim.
"""

import numpy as np

from .cross_validation import CrossValidation
from .implicit_risk import Terms

# The spread of a few fits gives the noise to within so much of itself, and whether a member is of the right size but
# for its noise is known to within this.
_NOISE_UNSURE, _MEMBERS_UNSURE = 0.5, 0.02


def with_right_size(weights: np.ndarray, validation: CrossValidation) -> np.ndarray:
    """Scale weights of the usable members, fitted with each part left out in turn, to the size of the whole."""
    total = weights.sum()
    if not total > 0:
        return weights
    unit = weights / total
    noise, signal = _noise_and_signal(unit, validation)
    lost = noise / (signal + noise)
    sizes, errors = zip(
        _by_loss(unit, validation, noise / signal),
        (1.0 - lost, _NOISE_UNSURE * lost + _MEMBERS_UNSURE),
        strict=True,
    )
    precision = 1 / np.square(errors)
    return unit * float(precision @ sizes / precision.sum())


def _by_loss(unit: np.ndarray, validation: CrossValidation, noise_to_signal: float) -> tuple[float, float]:
    """Give the size with the smallest implicit loss and its standard error, for a fit to all rows.

    Fits to a share f of the rows have N / f for noise. Where more is lost than noise explains, members are too large,
    and no more rows would change that.
    """
    members = validation.usable_terms()
    terms = Terms.weighted_sum(zip(unit, members, strict=True), members[0].scores.shape)
    squares = validation.risk.squares(terms)
    size = max(float(-terms.divergences.mean() / squares.mean()), 1e-3)
    error = float(np.std(terms.divergences + size * squares) / np.sqrt(len(squares)) / squares.mean())
    share = 1.0 - 1.0 / len(validation.parts)
    excess = min(1 / size - 1.0, noise_to_signal / share / _NOISE_UNSURE)
    return 1.0 / (1 / size - (1.0 - share) * max(excess, 0.0)), error


def _noise_and_signal(unit: np.ndarray, validation: CrossValidation) -> tuple[float, float]:
    """Give the noise of a fit to all rows, by the jackknife, and the mean square of its score without noise."""
    scores = sum(w * validation.scores[n] for w, n in zip(unit, validation.usable, strict=True))
    num = len(scores)
    deviations, metric = scores - np.mean(scores, axis=0), validation.risk.metric
    noise, whole = (
        float(np.einsum("kni,ij,knj->", s, metric, s, optimize=True)) / s[..., 0].size for s in (deviations, scores)
    )
    noise *= num - 1
    # Each of the fits has noise of its own besides.
    return noise, max(whole - noise * num / (num - 1), 1e-3 * whole)
