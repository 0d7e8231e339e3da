"""Compare and combine scores without knowing the true one: implicit score matching on held-out simulations.

For x drawn at θ of any density, and a weight W(θ) (a matrix) that vanishes at the edge of the region, integration by
parts gives for every score model with E[ŝ | θ] = 0

    E[½ (ŝ − s)ᵀ W (ŝ − s)] = E[½ ŝᵀ W ŝ + ∇·(W ŝ)] + a constant,

so that the right hand side ranks models by their distance to the true score (Hyvärinen 2005, in θ instead of x). It is
the limit of a regression on latent scores in which the noise of the latent goes to zero and is redrawn for ever: no
smoothing, no target noise. It is quadratic in ŝ, so the best non-negative weights of several models solve a small least
squares problem.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import nnls

from .._support.rows import rows_in_turn
from ..potentials.base import ScoreFunction

# The weight rises from zero at the edge to one at this fraction of the half range inside.
_EDGE = 0.25
_ROWS_AT_ONCE = 4096
# Members with less weight than this are dropped, and the others weighed again.
_SMALLEST_WEIGHT = 0.02
# A score of any other scale than its own is wrong by itself, so much has to speak for one: so many standard errors.
_SURE_OF_SCALE = 3.0


@dataclass(frozen=True)
class Terms:
    """Scores of one network at held-out rows (n, p), and the divergence of its weighted score (n,)."""

    scores: np.ndarray
    divergences: np.ndarray


def edge_weight(u: Float[Array, " params"]) -> Float[Array, ""]:
    """Rise smoothly from zero at the edge of [−1, 1]^p."""
    inside = jnp.clip((1.0 - jnp.abs(u)) / _EDGE, 0.0, 1.0)
    return jnp.prod(inside**2 * (3.0 - 2.0 * inside))


def implicit_terms(network: ScoreFunction, u: np.ndarray, x: np.ndarray, metric: np.ndarray) -> Terms:
    """Evaluate a network's score and the divergence of ω(u) · metric · score at every row."""
    rows = (np.asarray(u, np.float32), np.asarray(x, np.float32))
    half = np.asarray(metric, np.float32)
    found = rows_in_turn(lambda *part: _score_and_divergence(network, half, *part), rows, _ROWS_AT_ONCE)
    values = np.asarray(found, np.float64)
    return Terms(values[:, :-1], values[:, -1])


@eqx.filter_jit
def _score_and_divergence(network: ScoreFunction, metric: Any, u: Any, x: Any) -> Array:
    return jax.vmap(lambda v, y: jnp.append(*_one_score_and_divergence(network, metric, v, y)))(u, x)


def _one_score_and_divergence(network: Any, metric: Any, u: Array, x: Array) -> tuple[Array, Array]:
    def weighted(v: Array) -> tuple[Array, Array]:
        score = network(v, x)
        return edge_weight(v) * (metric @ score), score

    jacobian, score = jax.jacfwd(weighted, has_aux=True)(u)
    return score, jnp.trace(jacobian)


def implicit_loss(metric: np.ndarray) -> Callable[..., Array]:
    """Make the loss of a network trained on (u, x, what is known of the score), to add what is not."""
    matrix = jnp.asarray(metric, jnp.float32)

    def loss(network: Any, key: Array, batch: tuple[Array, ...]) -> Array:
        del key

        def one(u: Array, x: Array, known: Array) -> Array:
            score, divergence = _one_score_and_divergence(network, matrix, u, x)
            return edge_weight(u) * (0.5 * score + known) @ matrix @ score + divergence

        return jnp.mean(jax.vmap(one)(*batch))

    return loss


def risk(terms: Terms, weights: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """Compute the implicit loss of every row, given the edge weights of the rows."""
    return 0.5 * weights * np.einsum("ni,ij,nj->n", terms.scores, metric, terms.scores) + terms.divergences


def stack_weights(
    members: list[Terms], weights: np.ndarray, metric: np.ndarray, noise: np.ndarray | float = 0.0
) -> np.ndarray:
    """Find the non-negative weights of members whose sum has the smallest implicit loss.

    ``noise`` (members, members) is what twice the loss does not see: see :func:`edge_noise`.
    """
    scores = np.stack([m.scores for m in members])
    quadratic = np.einsum("n,kni,ij,lnj->kl", weights, scores, metric, scores, optimize=True) / len(weights)
    quadratic = quadratic + noise
    linear = np.array([m.divergences.mean() for m in members])
    chosen = np.arange(len(members))
    while True:
        found = _least_squares(quadratic[np.ix_(chosen, chosen)], linear[chosen])
        keep = found >= _SMALLEST_WEIGHT
        if keep.all() or not keep.any():
            break
        chosen = chosen[keep]
    result = np.zeros(len(members))
    result[chosen] = found
    return result


def fewest(members: list[Terms], weights: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """Weigh members as :func:`stack_weights` does, and leave out those whose help is less than its standard error.

    With many rows little is gained by averaging, and a member that is right where the data are may be wrong by far
    elsewhere, such as one with heavy tails in an implausible corner of the region.
    """

    def loss(factors: np.ndarray) -> np.ndarray:
        return risk(sum_of(zip(factors, members, strict=True), members[0].scores.shape), weights, metric)

    chosen = list(range(len(members)))
    found = stack_weights(members, weights, metric)
    while len(chosen := [k for k in chosen if found[k] > 0]) > 1:
        best = loss(found)
        costs = []
        for k in chosen:
            rest = [i for i in chosen if i != k]
            without = np.zeros(len(members))
            without[rest] = stack_weights([members[i] for i in rest], weights, metric)
            costs.append((_significance(loss(without) - best), without))
        least, without = min(costs, key=lambda c: c[0])
        if least > 1.0:
            break
        found = without
    return found


def to_scale(found: np.ndarray, members: list[Terms], weights: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """Make weights that add up to one within errors do so, and leave others as found.

    For members fitted to far more rows than the weights: a scale found freely is noisier than they are.
    """
    if not found.any():
        return found
    free = sum_of(zip(found, members, strict=True), members[0].scores.shape)
    unit = sum_of([(1.0 / found.sum(), free)], free.scores.shape)
    # The loss is quadratic about what was found: half as many standard errors as the scale itself is off by.
    off = _significance(risk(unit, weights, metric) - risk(free, weights, metric))
    return found / found.sum() if off <= _SURE_OF_SCALE / 2 else found


def weight_beside(base: Terms, network: Terms, weights: np.ndarray, metric: np.ndarray) -> tuple[float, float]:
    """Weigh what was weighed already and a network beside it; the former may lose by that, and not gain."""
    keep, weight = stack_weights([base, network], weights, metric)
    if keep > 1.0:  # the network alone is left to choose
        quadratic = weights * np.einsum("ni,ij,nj->n", network.scores, metric, network.scores)
        shared = weights * np.einsum("ni,ij,nj->n", base.scores, metric, network.scores)
        keep, weight = 1.0, max(-(network.divergences + shared).mean() / (quadratic.mean() + 1e-300), 0.0)
    return float(keep), float(weight)


def _significance(values: np.ndarray) -> float:
    """Compare a mean with its standard error."""
    return float(values.mean() / (values.std() / np.sqrt(len(values)) + 1e-300))


def sum_of(parts: Iterable[tuple[float, Terms]], shape: tuple[int, ...]) -> Terms:
    """Add the terms of several scores of a shape (n, p), with weights: both are linear in the score."""
    parts = list(parts)
    scores = sum((w * t.scores for w, t in parts), np.zeros(shape))
    return Terms(scores, sum((w * t.divergences for w, t in parts), np.zeros(shape[0])))


def edge_noise(scores: np.ndarray, weights: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """Estimate how much noisier members are at the edge of the region, where the implicit loss has no weight.

    ``scores`` (members, parts, n, p) are those of fits with each part of the simulations left out in turn: by the
    jackknife, their differences give the variance of members at every row, and how it is shared by two of them. Three
    parts are too few to tell.
    """
    num_parts, inside = scores.shape[1], weights.mean()
    if not 0.0 < inside < 1.0:
        return np.zeros((len(scores), len(scores)))
    deviations = scores - scores.mean(axis=1, keepdims=True)
    # As an average, those at the edge less those inside, which the loss counts already.
    signed = (1.0 - weights) / (1.0 - inside) - weights / inside
    factor = (num_parts - 1) / num_parts / len(weights)
    excess = factor * np.einsum("n,kfni,ij,lfnj->kl", signed, deviations, metric, deviations, optimize=True)
    values, vectors = np.linalg.eigh(excess)
    return inside * (1.0 - inside) * (vectors * np.maximum(values, 0.0)) @ vectors.T


def _least_squares(quadratic: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Minimise ½ wᵀ Q w + bᵀ w over w ≥ 0."""
    scale = np.sqrt(np.diagonal(quadratic)) + 1e-300
    unit = quadratic / np.outer(scale, scale) + 1e-9 * np.eye(len(scale))
    lower = np.linalg.cholesky(unit)
    return nnls(lower.T, -np.linalg.solve(lower, linear / scale))[0] / scale
