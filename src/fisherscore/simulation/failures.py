"""What failed simulations do to a score, and how it is undone.

Where only successes are kept, z and θ given x are no longer those of the model: a regression on latent scores learns
E[t | x, θ, success], which differs from the score by ∇θ log P(success | θ) and more. Where failure depends on z
alone, the recorded failures tell P(success | z), and weighing every success by its inverse restores the expectation
exactly. P is found by a logistic regression of success on smooth functions of z (:mod:`fisherscore._support.legendre`).

A fit that uses x and the parameters it was drawn at, such as ``auto`` with additive noise, needs no weights for such
failures: p(x | z, success) = p(x | z). With a latent of the user's own it needs them, and as closed forms know no
weights, rows are left out at random instead, the more the less they weigh.

Neither undoes failures that depend on the data, such as a run that crashes when x is large: then the data that are
left follow another law, and nothing can know what the lost ones would have been.
"""

import numpy as np

from .._support.legendre import affordable_degree, exponents_up_to, legendre

_MOST_TERMS = 35
_NUM_STEPS = 30
# Where nearly all fail, the few that do not must not outweigh everything else.
_SMALLEST_CHANCE = 0.02


def success_weights(latent: np.ndarray, success: np.ndarray) -> np.ndarray:
    """Return 1 / P(success | z) of every record that succeeded, with mean one."""
    low, high = latent.min(axis=0), latent.max(axis=0)
    u = 2.0 * (latent - low) / np.where(high > low, high - low, 1.0) - 1.0
    weights = 1.0 / np.maximum(_success_rate(u, success)[success], _SMALLEST_CHANCE)
    return weights / weights.mean()


def thinned_rows(weights: np.ndarray, seed: int) -> np.ndarray:
    """Choose rows at random, each with a chance in proportion to its weight, for fits that know no weights.

    The largest weights are taken down to the 99th percentile, or a few rows would cost most of the others.
    """
    most = np.quantile(weights, 0.99)
    chance = np.minimum(weights / most, 1.0)
    return np.flatnonzero(np.random.default_rng([seed, 7]).uniform(size=len(weights)) < chance)


def _success_rate(u: np.ndarray, success: np.ndarray) -> np.ndarray:
    """Fit the probability of success by penalised maximum likelihood, and give it at every row."""
    rarer = min(int(success.sum()), int((~success).sum()))
    exponents = exponents_up_to(u.shape[1], affordable_degree(u.shape[1], rarer // 2, _MOST_TERMS))
    terms = legendre(u, exponents)
    # Unit prior variance on everything but the constant: smooth, and never separable.
    penalty = np.ones(len(exponents))
    penalty[0] = 1e-6
    coefficients = np.zeros(len(exponents))
    coefficients[0] = np.log(success.mean() / (1 - success.mean()))
    for _ in range(_NUM_STEPS):
        chance = _logistic(terms @ coefficients)
        gradient = terms.T @ (success - chance) - penalty * coefficients
        curvature = (terms * (chance * (1 - chance))[:, None]).T @ terms + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        coefficients = coefficients + step
        if np.abs(step).max() < 1e-8:
            break
    return _logistic(terms @ coefficients)


def _logistic(value: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * value))
