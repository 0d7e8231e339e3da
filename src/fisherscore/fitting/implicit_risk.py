"""Compare and combine scores without knowing the true one: implicit score matching on held-out simulations.

For x drawn at θ of any density, and a weight W(θ) (a matrix) that vanishes at the edge of the region, integration by
parts gives for every score model with E[ŝ | θ] = 0

    E[½ (ŝ − s)ᵀ W (ŝ − s)] = E[½ ŝᵀ W ŝ + ∇·(W ŝ)] + a constant,

so that the right hand side ranks models by their distance to the true score (Hyvärinen 2005, in θ instead of x). It is
the limit of a regression on latent scores in which the noise of the latent goes to zero and is redrawn for ever: no
smoothing, no target noise. It is quadratic in ŝ, so the best non-negative weights of several models solve a small least
squares problem.

Here W = ω(u) M with a scalar ω, the edge weight, and a constant matrix M, the metric.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import nnls

from .._support.compiling import quickly_compiled
from ..potentials.base import Frame, ScoreFunction
from .data import Rows, compiled_in_turn

# The weight rises from zero at the edge to one at this fraction of the half range inside.
_EDGE = 0.25
# Members with less weight than this are dropped, and the others weighed again.
_MIN_WEIGHT = 0.02
# A uniform distribution on [−1, 1], which parameters are scaled to, has the variance 1/3.
PRECISION_OF_REGION = 3.0
# Weights are scaled to the sum 1 unless that sum is rejected at this number of standard errors.
_SUM_REJECTED_AT = 3.0


def edge_weight(u: Float[Array, " params"]) -> Float[Array, ""]:
    """Rise smoothly from zero at the edge of [−1, 1]^p."""
    inside = jnp.clip((1.0 - jnp.abs(u)) / _EDGE, 0.0, 1.0)
    return jnp.prod(inside**2 * (3.0 - 2.0 * inside))


def edge_weights(u: np.ndarray) -> np.ndarray:
    """Compute the edge weight of every row."""
    return edge_weights_and_gradients(u)[0]


def edge_weights_and_gradients(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the edge weight of every row (n,) and its gradient (n, p), with nothing to compile."""
    inside = np.clip((1.0 - np.abs(u)) / _EDGE, 0.0, 1.0)
    factors = inside**2 * (3.0 - 2.0 * inside)
    slopes = -np.sign(u) * 6.0 * inside * (1.0 - inside) / _EDGE
    others = np.stack([np.delete(factors, k, axis=1).prod(axis=1) for k in range(u.shape[1])], axis=1)
    return factors.prod(axis=1), slopes * others


def inverse_information(scores: Sequence[np.ndarray], num_parameters: int, *, prior: float = 0.0) -> np.ndarray:
    """Return the inverse of the smallest of the information matrices of several scores: the metric of their errors.

    ``prior`` is the precision of a prior that is added to the information of every parameter.
    """
    finite = [s for s in scores if np.isfinite(s).all() and len(s)]
    if not finite:
        return np.eye(num_parameters)
    informations = [s.T @ s / len(s) for s in finite]
    # A score that explains next to nothing says nothing about how errors compare.
    largest = max(np.trace(m) for m in informations)
    least = min((m for m in informations if np.trace(m) >= 0.1 * largest), key=np.trace)
    return np.linalg.inv(least + (1e-6 * np.trace(least) / num_parameters + 1e-12 + prior) * np.eye(num_parameters))


def posterior_metric(scores: Sequence[np.ndarray], num_parameters: int) -> np.ndarray:
    """Return the covariance of a posterior over the training region: the metric in which candidates are compared.

    Without the precision of that region, a direction that the data do not constrain would outweigh all others: its
    errors, however small, were divided by an information of zero.
    """
    return inverse_information(scores, num_parameters, prior=PRECISION_OF_REGION)


@dataclass(frozen=True, eq=False)
class Terms:
    """Scores of one function at held-out rows (n, p), and the divergence of its weighted score (n,)."""

    scores: np.ndarray
    divergences: np.ndarray

    @classmethod
    def of(cls, function: ScoreFunction, rows: Rows, metric: np.ndarray) -> "Terms":
        """Evaluate a function's score and the divergence of ω(u) · metric · score at every row."""
        if rows.is_evaluated_in_numpy(function):
            frame = Frame.of_metric(metric)
            along, traces = rows.evaluate(function, frame)
            weights, slopes = edge_weights_and_gradients(rows.u)
            divergences = np.sum(slopes @ frame.directions * along, axis=1) + weights * traces
            return cls(along @ np.linalg.inv(frame.directions), divergences)
        arrays = (np.asarray(rows.u, np.float32), np.asarray(rows.x, np.float32))
        matrix = np.asarray(metric, np.float32)
        table = compiled_in_turn(lambda *part: _score_and_divergence(function, matrix, *part), arrays)
        values = np.asarray(table, np.float64)
        return cls(values[:, :-1], values[:, -1])

    @classmethod
    def weighted_sum(cls, parts: Iterable[tuple[float, "Terms"]], shape: tuple[int, ...]) -> "Terms":
        """Add terms of scores of a shape (n, p) with weights: both are linear in the score. No parts add up to 0."""
        parts = list(parts)
        scores = sum((w * t.scores for w, t in parts), np.zeros(shape))
        return cls(scores, sum((w * t.divergences for w, t in parts), np.zeros(shape[0])))

    @classmethod
    def concatenate(cls, parts: Sequence["Terms"]) -> "Terms":
        """Join the terms of several sets of rows."""
        return cls(np.concatenate([t.scores for t in parts]), np.concatenate([t.divergences for t in parts]))

    @property
    def finite(self) -> bool:
        """Whether all numbers are finite."""
        return bool(np.isfinite(self.scores).all() and np.isfinite(self.divergences).all())


@dataclass(frozen=True, eq=False)
class ImplicitRisk:
    """The implicit loss at given rows: their edge weights (n,) and the metric (p, p). Weighs scores by it."""

    edge_weights: np.ndarray
    metric: np.ndarray

    def loss(self, terms: Terms) -> np.ndarray:
        """Compute the implicit loss of every row."""
        return 0.5 * self.squares(terms) + terms.divergences

    def squares(self, terms: Terms) -> np.ndarray:
        """Compute the weighted square of every row's score."""
        return self._products(terms, terms)

    def stack_weights(self, members: Sequence[Terms], noise: np.ndarray | float = 0.0) -> np.ndarray:
        """Find the non-negative weights of members whose sum has the smallest loss.

        ``noise`` (members, members) is what twice the loss does not see: see :meth:`edge_noise`.
        """
        scores = np.stack([m.scores for m in members])
        quadratic = np.einsum("n,kni,ij,lnj->kl", self.edge_weights, scores, self.metric, scores, optimize=True)
        quadratic = quadratic / len(self.edge_weights) + noise
        linear = np.array([m.divergences.mean() for m in members])
        chosen = np.arange(len(members))
        while True:
            weights = _least_squares(quadratic[np.ix_(chosen, chosen)], linear[chosen])
            keep = weights >= _MIN_WEIGHT
            if keep.all() or not keep.any():
                break
            chosen = chosen[keep]
        result = np.zeros(len(members))
        result[chosen] = weights
        return result

    def sparse_weights(self, members: Sequence[Terms]) -> np.ndarray:
        """Weigh members as :meth:`stack_weights` does, and drop those that help by less than one standard error.

        With many rows little is gained by averaging, and a member that is right where the data are may be wrong by far
        elsewhere, such as one with heavy tails in an implausible corner of the region.
        """
        weights = self.stack_weights(members)
        while np.count_nonzero(weights > 0) > 1:
            cost, without = self._cheapest_removal(members, weights)
            if cost > 1.0:
                break
            weights = without
        return weights

    def with_unit_sum(self, weights: np.ndarray, members: Sequence[Terms]) -> np.ndarray:
        """Scale weights to the sum 1 unless the loss rejects that sum at three standard errors.

        For members fitted to far more rows than the weights: a free scale is noisier than they are.
        """
        if not weights.any():
            return weights
        free = self._combined(weights, members)
        unit = Terms.weighted_sum([(1.0 / weights.sum(), free)], free.scores.shape)
        # The loss is quadratic about its minimum: its rise is half as significant as the scale itself.
        rise = _significance(self.loss(unit) - self.loss(free))
        return weights / weights.sum() if rise <= _SUM_REJECTED_AT / 2 else weights

    def joint_weights(self, base: Terms, network: Terms) -> tuple[float, float]:
        """Weigh a network and a base that is weighed already; the base may lose weight by that, and not gain."""
        keep, weight = self.stack_weights([base, network])
        if keep > 1.0:  # hold the base at one, and choose the weight of the network alone
            own, shared = self._products(network, network), self._products(base, network)
            keep, weight = 1.0, max(-(network.divergences + shared).mean() / (own.mean() + 1e-300), 0.0)
        return float(keep), float(weight)

    def edge_noise(self, scores: np.ndarray) -> np.ndarray:
        """Estimate how much noisier members are at the edge of the region, where the loss has no weight.

        ``scores`` (members, parts, n, p) are those of fits with each part of the simulations left out in turn: by the
        jackknife, their differences give the variance of members at every row, and how it is shared by two of them.
        Three parts are too few to tell.
        """
        num_parts, inside = scores.shape[1], self.edge_weights.mean()
        if not 0.0 < inside < 1.0:
            return np.zeros((len(scores), len(scores)))
        deviations = scores - scores.mean(axis=1, keepdims=True)
        # As an average, those at the edge less those inside, which the loss counts already.
        signed = (1.0 - self.edge_weights) / (1.0 - inside) - self.edge_weights / inside
        factor = (num_parts - 1) / num_parts / len(self.edge_weights)
        excess = factor * np.einsum("n,kfni,ij,lfnj->kl", signed, deviations, self.metric, deviations, optimize=True)
        values, vectors = np.linalg.eigh(excess)
        return inside * (1.0 - inside) * (vectors * np.maximum(values, 0.0)) @ vectors.T

    def _products(self, first: Terms, second: Terms) -> np.ndarray:
        return self.edge_weights * np.einsum("ni,ij,nj->n", first.scores, self.metric, second.scores)

    def _combined(self, weights: np.ndarray, members: Sequence[Terms]) -> Terms:
        return Terms.weighted_sum(zip(weights, members, strict=True), members[0].scores.shape)

    def _cheapest_removal(self, members: Sequence[Terms], weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Leave out the member whose loss costs least; give that cost in standard errors, and the other weights."""
        best = self.loss(self._combined(weights, members))
        chosen = np.flatnonzero(weights > 0).tolist()
        removals = []
        for k in chosen:
            rest = [i for i in chosen if i != k]
            without = np.zeros(len(members))
            without[rest] = self.stack_weights([members[i] for i in rest])
            removals.append((_significance(self.loss(self._combined(without, members)) - best), without))
        return min(removals, key=lambda r: r[0])


def implicit_losses(network: Any, rows: tuple[Array, ...], metric: Array, scale: Array) -> Array:
    """Compute the loss of a network, its score times ``scale``, that adds to what is known: rows are (u, x, known)."""

    def one(u: Array, x: Array, known: Array) -> Array:
        score, divergence = _one_score_and_divergence(lambda v, y: scale * network(v, y), metric, u, x)
        return edge_weight(u) * (0.5 * score + known) @ metric @ score + divergence

    return jax.vmap(one)(*rows)


@quickly_compiled
def _score_and_divergence(function: ScoreFunction, metric: Any, u: Any, x: Any) -> Array:
    return jax.vmap(lambda v, y: jnp.append(*_one_score_and_divergence(function, metric, v, y)))(u, x)


def _one_score_and_divergence(function: Any, metric: Any, u: Array, x: Array) -> tuple[Array, Array]:
    def weighted(v: Array) -> tuple[Array, Array]:
        score = function(v, x)
        return edge_weight(v) * (metric @ score), score

    jacobian, score = jax.jacfwd(weighted, has_aux=True)(u)
    return score, jnp.trace(jacobian)


def _significance(values: np.ndarray) -> float:
    """Compare a mean with its standard error."""
    return float(values.mean() / (values.std() / np.sqrt(len(values)) + 1e-300))


def _least_squares(quadratic: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Minimise ½ wᵀ Q w + bᵀ w over w ≥ 0."""
    scale = np.sqrt(np.diagonal(quadratic)) + 1e-300
    unit = quadratic / np.outer(scale, scale) + 1e-9 * np.eye(len(scale))
    lower = np.linalg.cholesky(unit)
    return nnls(lower.T, -np.linalg.solve(lower, linear / scale))[0] / scale
