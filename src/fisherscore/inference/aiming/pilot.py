"""A first idea of where a posterior is, from few simulations and without a score.

Parameters are regressed on data, both mapped to normal scores, which outliers and skewness do not bend. Around the
prediction for the observation come the residuals of those simulations whose predictions are nearest: wide where the
regression is bad, so that a region around them is too large rather than wrong (Beaumont, Zhang and Balding 2002 adjust
by regression alike).
"""

import numpy as np
from scipy.special import ndtri

# The part of the simulations whose residuals are taken, and the least number of them for each parameter.
_NEAREST, _MIN_A_PARAMETER = 0.2, 10
# What data predict is told from chance where they explain more than this of its variance, over the root of the number
# of simulations; a regression that explains less than the second of the variance of parameters moves none of them.
_BY_CHANCE, _WELL_EXPLAINED = 2.0, 0.2
# Products of data are features as well if there are no more of them than this part of the number of simulations.
_MOST_PRODUCTS = 0.5
_STRENGTHS = np.geomspace(1e-4, 1e2, 13)


def pilot_draws(theta: np.ndarray, x: np.ndarray, x_obs: np.ndarray) -> list[np.ndarray]:
    """Return draws (k, p) of where the posterior may be, from simulations theta (n, p) and x (n, d).

    The simulations nearest to the observation, in what data predict of parameters and of their products: where they
    are, in all modes; and, if the regression is any good, where it puts them, which is closer. All simulations, where
    data predict nothing.
    """
    num, p = theta.shape
    data, observed = _features(*_normal_scores(x, x_obs), num)
    target = np.stack([_scores_of(column) for column in theta.T], axis=1)
    places = np.triu_indices(p)
    wanted = np.concatenate([target, target[:, places[0]] * target[:, places[1]]], axis=1)
    predicted, at_observed = _ridge(data, wanted, observed)
    residuals = wanted - predicted
    explained = 1 - residuals.var(axis=0) / (wanted.var(axis=0) + 1e-300)
    told = explained > _BY_CHANCE / np.sqrt(num)
    if not told.any():
        return [theta]
    distance = np.sum((((predicted - at_observed) / (residuals.std(axis=0) + 1e-9)) ** 2)[:, told], axis=1)
    nearest = np.argsort(distance)[: min(num, max(int(_NEAREST * num), _MIN_A_PARAMETER * p))]
    # A regression that puts the observation beyond all simulations goes on where nothing holds it.
    beyond = (np.abs(at_observed[:p]) > np.abs(target).max(axis=0)).any()
    if explained[:p].mean() < _WELL_EXPLAINED or beyond:
        return [theta[nearest]]
    scores = at_observed[:p] + residuals[nearest, :p]
    ordered = np.sort(target, axis=0)
    moved = np.stack([np.interp(scores[:, k], ordered[:, k], np.sort(theta[:, k])) for k in range(p)], axis=1)
    return [theta[nearest], moved]


def _features(data: np.ndarray, observed: np.ndarray, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Leave out data that never change, and add products of data where these are few."""
    kept = data.std(axis=0) > 0
    data, observed = data[:, kept], observed[kept]
    places = np.triu_indices(data.shape[1])
    if len(places[0]) > _MOST_PRODUCTS * num:
        return data, observed
    products = data[:, places[0]] * data[:, places[1]]
    return (
        np.concatenate([data, products], axis=1),
        np.concatenate([observed, observed[places[0]] * observed[places[1]]]),
    )


def _scores_of(values: np.ndarray) -> np.ndarray:
    """Return normal scores; equal values have equal scores."""
    ordered, num = np.sort(values), len(values)
    rank = (np.searchsorted(ordered, values) + np.searchsorted(ordered, values, side="right")) / 2
    return np.asarray(ndtri(np.clip(rank / num, 0.5 / num, 1 - 0.5 / num)))


def _normal_scores(x: np.ndarray, x_obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the normal scores of data, and of an observation among them."""
    num, ordered = len(x), np.sort(x, axis=0)
    data = np.stack([_scores_of(column) for column in x.T], axis=1)
    rank = np.array(
        [
            (np.searchsorted(column, value) + np.searchsorted(column, value, side="right")) / 2
            for column, value in zip(ordered.T, x_obs, strict=True)
        ]
    )
    return data, np.asarray(ndtri(np.clip(rank / num, 0.5 / num, 1 - 0.5 / num)))


def _ridge(data: np.ndarray, target: np.ndarray, observed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predict the target at all data, each row left out, and at the observation; shrinkage is chosen by generalised
    cross-validation.
    """
    num = len(data)
    mean, centre = data.mean(axis=0), target.mean(axis=0)
    left, singular, right = np.linalg.svd(data - mean, full_matrices=False)
    wanted, along = target - centre, left.T @ (target - centre)

    def loss(strength: float) -> float:
        shrink = singular**2 / (singular**2 + strength * num)
        rest = wanted - left @ (shrink[:, None] * along)
        return float(np.sum(rest**2) / (1 - (1 + shrink.sum()) / (num + 1)) ** 2)

    strength = min(_STRENGTHS, key=loss)
    shrink = singular**2 / (singular**2 + strength * num)
    slope = right.T @ ((shrink / (singular + 1e-300))[:, None] * along)
    fitted = left @ (shrink[:, None] * along)
    leverage = np.sum(left**2 * shrink, axis=1) + 1 / num
    left_out = wanted - (wanted - fitted) / np.maximum(1 - leverage, 0.05)[:, None]
    return centre + left_out, centre + (observed - mean) @ slope
