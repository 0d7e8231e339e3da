"""What failed simulations do to a score, and how it is undone.

A simulator is run at z where there is a latent, else at θ. Where only successes are kept, z and θ given x are no longer
those of the model: a regression on latent scores learns E[t | x, θ, success], which differs from the score by
∇θ log P(success | θ) and more. Where failure depends on z alone, the recorded failures tell P(success | z), and
weighing every success by its inverse restores the expectation exactly. P is estimated by a logistic regression of
success on smooth functions of z (:mod:`fisherscore._support.legendre`).

A fit that uses x and the parameters it was drawn at needs no weights for such failures, since p(x | θ, success) =
p(x | θ): so does ``auto`` where there is no latent, or additive noise. With a latent of the user's own ``auto`` needs
them, and as closed forms know no weights, rows are left out at random instead, the more the less they weigh.

Neither undoes failures that depend on the data, such as a run that crashes when x is large: then the data that are
left follow another law, and nothing can know what the lost ones would have been.
"""

import numpy as np

from .._support.legendre import affordable_degree, exponents_up_to, legendre

_MAX_TERMS = 35
_NUM_STEPS = 30
# Where nearly all fail, the few successes must not outweigh everything else.
_MIN_PROBABILITY = 0.02


def success_weights(inputs: np.ndarray, success: np.ndarray) -> np.ndarray:
    """Return 1 / P(success | z) of every record that succeeded, with mean one; z is what the simulator was run at."""
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    u = 2.0 * (inputs - low) / np.where(high > low, high - low, 1.0) - 1.0
    weights = 1.0 / np.maximum(_success_rate(u, success)[success], _MIN_PROBABILITY)
    return weights / weights.mean()


def thinned_rows(weights: np.ndarray, seed: int) -> np.ndarray:
    """Choose rows at random, each with a probability in proportion to its weight, for fits that know no weights.

    The largest weights are cut at the 99th percentile, or a few rows would cost most of the others.
    """
    probability = np.minimum(weights / np.quantile(weights, 0.99), 1.0)
    return np.flatnonzero(np.random.default_rng([seed, 7]).uniform(size=len(weights)) < probability)


def _success_rate(u: np.ndarray, success: np.ndarray) -> np.ndarray:
    """Fit the probability of success by penalised maximum likelihood, and evaluate it at every row."""
    rarer = min(int(success.sum()), int((~success).sum()))
    exponents = exponents_up_to(u.shape[1], affordable_degree(u.shape[1], rarer // 2, _MAX_TERMS))
    terms = legendre(u, exponents)
    # Unit prior variance on everything but the constant: smooth, and never separable.
    penalty = np.ones(len(exponents))
    penalty[0] = 1e-6
    coefficients = np.zeros(len(exponents))
    coefficients[0] = np.log(success.mean() / (1 - success.mean()))
    for _ in range(_NUM_STEPS):
        probability = _logistic(terms @ coefficients)
        gradient = terms.T @ (success - probability) - penalty * coefficients
        curvature = (terms * (probability * (1 - probability))[:, None]).T @ terms + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        coefficients = coefficients + step
        if np.abs(step).max() < 1e-8:
            break
    return _logistic(terms @ coefficients)


def _logistic(value: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * value))
