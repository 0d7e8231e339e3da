"""Closed-form score networks, fitted in seconds: what ``auto`` tries before it trains anything.

All are fitted to rows x drawn at parameters u scaled to [−1, 1]; none needs a latent.

* ``gaussian``: the mean moves with θ (:mod:`fisherscore.potentials.gaussian`);
* ``location_scale``: location, scale and correlations move too, heavy tails allowed;
* ``quasi_score``: the best score linear in x. With mean μ(θ) and covariance Σ(θ) it is (∂μ/∂θ)ᵀ Σ⁻¹ (x − μ), the
  quasi-score of Wedderburn (1974) and Godambe: exact for every exponential family in x itself, such as Poisson counts,
  whatever the shape of its noise;
* ``mapped``: as ``location_scale``, with noise of several components, for data mapped to normals by their quantiles:
  for skewed data.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from .._support.legendre import legendre, legendre_gradient
from .gaussian import fit_gaussian
from .location_scale import LocationScale, fit_location_scale
from .networks import ConservativeNetwork, GaussianBaseline, LocationScaleBaseline, Mapped, PolynomialFamily

_NUM_KNOTS = 101
_MOST_POINTS = 4_000
_KEY = jax.random.key(0)
# Few rows do not tell five components apart.
_MANY_ROWS = 5_000


def gaussian(u: np.ndarray, rows: np.ndarray) -> ConservativeNetwork:
    """Fit a Gaussian whose mean moves with θ."""
    fitted = fit_gaussian(u, rows)
    degree = max(sum(e) for e in fitted.exponents)
    network = GaussianBaseline(u.shape[1], rows.shape[1], degree=degree, key=_KEY)
    return _filled(network, mean=fitted.coefficients, whitening=fitted.whitening)


def location_scale(u: np.ndarray, rows: np.ndarray) -> ConservativeNetwork:
    """Fit location, scale and correlations that move with θ, with Student's t as noise."""
    return _location_scale(fit_location_scale(u, rows, num_components=1), u.shape[1])


def mapped(u: np.ndarray, rows: np.ndarray) -> ConservativeNetwork:
    """Map every datum to a normal by its quantiles, and fit location, scale and correlations with free noise."""
    pairs = [_quantile_map(column) for column in rows.T]
    knots, values = (jnp.asarray(np.stack(a), jnp.float32) for a in zip(*pairs, strict=True))
    shell = {"architecture": "gaussian_baseline", "settings": {"degree": 1}}
    network = Mapped(u.shape[1], rows.shape[1], num_knots=_NUM_KNOTS, inner=shell, key=_KEY)
    network = eqx.tree_at(lambda n: (n.knots, n.values), network, (knots, values))
    images = np.asarray(jax.jit(jax.vmap(network.mapped))(jnp.asarray(rows, jnp.float32)), np.float64)
    spread = images.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    num_components = 5 if len(u) >= _MANY_ROWS else 3
    fitted = _location_scale(fit_location_scale(u, images / scale, num_components=num_components), u.shape[1])
    values = values / jnp.asarray(scale[:, None], jnp.float32)
    return eqx.tree_at(lambda n: (n.values, n.inner), network, (values, fitted))


def quasi_score(u: np.ndarray, rows: np.ndarray) -> ConservativeNetwork:
    """Fit mean and covariance as functions of θ, and from them the best score linear in x.

    That score, K(θ)(x − μ(θ)), need not be the gradient of anything; the nearest that is, over the region, is kept.
    """
    fitted = fit_location_scale(u, rows, num_components=None)
    exponents = fitted.exponents
    points = u[:_MOST_POINTS]
    gradients = legendre_gradient(points, exponents)
    slopes, offsets, fishers = _linear_scores(fitted, points, gradients)
    size = rows.shape[1]
    wanted = np.concatenate([slopes, offsets[:, :, None]], axis=2)  # (n, p, d + 1)
    # Errors of the score count relative to the Fisher matrix.
    fisher = fishers.mean(axis=0)
    half = np.linalg.cholesky(np.linalg.inv(fisher + 1e-9 * np.trace(fisher) * np.eye(len(fisher))))
    design = np.einsum("njp,pq->nqj", gradients[:, 1:], half).reshape(-1, len(exponents) - 1)
    target = np.einsum("npi,pq->nqi", wanted, half).reshape(-1, size + 1)
    gram = design.T @ design
    gram += 1e-9 * np.trace(gram) / len(gram) * np.eye(len(gram))
    coefficients = np.vstack([np.zeros(size + 1), np.linalg.solve(gram, design.T @ target)])
    network = PolynomialFamily(u.shape[1], size, degree=max(sum(e) for e in exponents), key=_KEY)
    return _filled(network, coefficients=coefficients)


def _linear_scores(
    fitted: LocationScale, points: np.ndarray, gradients: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give K = (∂μ/∂θ)ᵀ Σ⁻¹, −K μ and the Fisher matrix K ∂μ/∂θ at every point.

    With U = 1 − L(θ) the mean is μ = (U W)⁻¹ m and the precision Σ⁻¹ = (U W)ᵀ diag(e^−q) (U W).
    """
    terms = legendre(points, fitted.exponents)
    mixing_gradients = legendre_gradient(points, fitted.mixing_exponents)
    mixing = np.tensordot(legendre(points, fitted.mixing_exponents), fitted.mixing, 1)
    unmix = np.eye(mixing.shape[1]) - mixing
    shift = np.linalg.solve(unmix, (terms @ fitted.location)[:, :, None])
    moved_mixing = np.einsum("nbp,bij,nj->nip", mixing_gradients, fitted.mixing, shift[:, :, 0], optimize=True)
    moved_shift = np.linalg.solve(unmix, np.einsum("njp,jd->ndp", gradients, fitted.location) + moved_mixing)
    back = np.linalg.inv(fitted.whitening)
    mean = shift[:, :, 0] @ back.T
    movement = back @ moved_shift
    decorrelate = unmix @ fitted.whitening
    inverse_variance = np.exp(-np.clip(terms @ fitted.log_variance, -14.0, 14.0))
    slope = np.swapaxes(decorrelate @ movement * inverse_variance[:, :, None], 1, 2) @ decorrelate
    return slope, -np.einsum("npd,nd->np", slope, mean), slope @ movement


CLOSED_FORMS: dict[str, Callable[[np.ndarray, np.ndarray], ConservativeNetwork]] = {
    "gaussian": gaussian,
    "location_scale": location_scale,
    "quasi_score": quasi_score,
    "mapped": mapped,
}


def _location_scale(fitted: LocationScale, num_parameters: int) -> LocationScaleBaseline:
    noise = fitted.noise
    network = LocationScaleBaseline(
        num_parameters,
        len(fitted.whitening),
        degree=max(sum(e) for e in fitted.exponents),
        mixing_degree=max(sum(e) for e in fitted.mixing_exponents),
        num_components=len(noise[0].weights),
        key=_KEY,
    )
    shapes = [(n.log_heights, n.centres, n.widths, n.freedom) for n in noise]
    return _filled(
        network,
        whitening=fitted.whitening,
        location=fitted.location,
        log_variance=fitted.log_variance,
        mixing=fitted.mixing,
        noise=np.moveaxis(np.array(shapes), 0, 1),
    )


def _filled(network: Any, **arrays: np.ndarray) -> Any:
    """Put fitted numbers into a network laid out for them."""
    names = list(arrays)
    values = [jnp.asarray(arrays[n], jnp.float32) for n in names]
    return eqx.tree_at(lambda n: [getattr(n, name) for name in names], network, values)


def _quantile_map(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return knots and values of an increasing map that takes a column to a standard normal."""
    distinct, counts = np.unique(column, return_counts=True)
    if len(distinct) < 2:
        return distinct[0] + np.arange(_NUM_KNOTS), np.zeros(_NUM_KNOTS)
    middle = (np.cumsum(counts) - 0.5 * counts) / len(column)
    if len(distinct) > _NUM_KNOTS:
        chosen = np.unique(np.searchsorted(middle, (np.arange(_NUM_KNOTS) + 0.5) / _NUM_KNOTS))
        chosen = np.clip(chosen, 0, len(distinct) - 1)
        distinct, middle = distinct[chosen], middle[chosen]
    # As many knots for every datum: more than there are values lie between them.
    where = np.linspace(0, len(distinct) - 1, _NUM_KNOTS)
    index = np.arange(len(distinct))
    return np.interp(where, index, distinct), np.interp(where, index, norm.ppf(middle))
