"""What the paper's regression sees: triplets (θ, x, t) with targets t whose mean given (θ, x) is the score.

Simulations with a latent z have them: t = ∇θ log p(z | θ). Simulations without one, x drawn at θ, get the additive
latent of the paper's indecomposable case after the fact: the θ of a record is taken as z, at which the simulator was
run, and the parameters of the triplet are θ' = z − w with noise w ~ N(0, Σ) of 1/200 of each range. Since z was drawn
from the proposal π, the pair (θ', z) follows

    p(z | θ') = π(z) N(z; θ', Σ) / Z(θ'),    Z(θ') = ∫ π(z) N(z; θ', Σ) dz,

and the target is its exact score, t = Σ⁻¹ (z − θ') − ∇θ' log Z(θ'). The correction by Z, the proposal smoothed by the
noise, undoes the pull of the proposal and its edges: without it the regression would learn a posterior's gradient. It
needs the proposal's density, so that simulations from a table, whose design is unknown, are refused.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.special import ndtr

from .._support.quadrature import gauss_legendre
from ..errors import ArgumentError, TrainingError
from ..simulation.latent import additive_latent
from ..simulation.proposal import Proposal
from ..simulation.simulations import Simulations

# Quadrature over the noise: nodes, and how many standard deviations they cover.
_NUM_NODES, _REACH = 64, 8.0


@dataclass(frozen=True, eq=False)
class LatentPairs:
    """Parameters θ (n, p), data x, targets t (n, p), and weights (n,) that make up for failures, or None."""

    theta: np.ndarray
    x: np.ndarray
    target: np.ndarray
    weights: np.ndarray | None


def latent_pairs(sims: Simulations, rng: np.random.Generator) -> LatentPairs:
    """Return the triplets of simulations that all succeeded; ``rng`` draws the noise where there is no latent."""
    if sims.latent_model is None:
        if sims.origin.seed is None:
            raise ArgumentError(
                "sims: these simulations come from a table: no latent was drawn with them, and how their parameters "
                'were chosen is not known, so that none can be drawn now. Use recipe="auto", which needs no latent, '
                "or simulate anew with fisherscore.simulate."
            )
        return additive_pairs(sims, np.sqrt(np.diag(additive_latent(sims.proposal).covariance)), rng)
    target = sims.latent_score()
    if not np.isfinite(target).all():
        raise TrainingError("latent: its score is NaN or infinite for some records. Check its log_prob or score.")
    return LatentPairs(sims.theta, sims.x, target, sims.weights)


def additive_pairs(sims: Simulations, deviations: np.ndarray, rng: np.random.Generator) -> LatentPairs:
    """Draw additive noise of given standard deviations (p,) around the parameters at which x was drawn."""
    latent = sims.theta
    theta = latent - deviations * rng.standard_normal(latent.shape)
    target = (latent - theta) / deviations**2 - smoothed_gradient(sims.proposal, theta, deviations)
    return LatentPairs(theta, sims.x, target, sims.weights)


def smoothed_gradient(proposal: Proposal, theta: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Compute ∇θ log Z(θ) at points (n, p): the gradient of the log proposal smoothed by Gaussian noise."""
    columns = zip(proposal.distributions, theta.T, deviations, strict=True)
    return np.stack([_smoothed_gradient(law, column, float(sd)) for law, column, sd in columns], axis=1)


def _smoothed_gradient(law: dist.Distribution, theta: np.ndarray, deviation: float) -> np.ndarray:
    """Compute the gradient for one parameter: in closed form for uniform laws, else by quadrature."""
    low, high = _support(law)
    if isinstance(law, dist.Uniform):
        return _truncated_normal_gradient((low - theta) / deviation, (high - theta) / deviation) / deviation
    begin, end = np.maximum(theta - _REACH * deviation, low), np.minimum(theta + _REACH * deviation, high)
    nodes, weights = gauss_legendre(_NUM_NODES)
    z = begin[:, None] + (end - begin)[:, None] * nodes
    noise = (z - theta[:, None]) / deviation
    logs = np.asarray(law.log_prob(jnp.asarray(z)), np.float64) - 0.5 * noise**2
    density = weights * np.exp(logs - logs.max(axis=1, keepdims=True))
    return (density * noise).sum(axis=1) / density.sum(axis=1) / deviation


def _truncated_normal_gradient(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Give the mean of a standard normal truncated to [low, high], with the tail that keeps its digits."""
    flip = low > 0
    probability = np.where(flip, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    return (np.exp(-0.5 * low**2) - np.exp(-0.5 * high**2)) / np.sqrt(2 * np.pi) / np.maximum(probability, 1e-300)


def _support(law: dist.Distribution) -> tuple[float, float]:
    """Return the ends of a distribution's support, infinite where there are none."""
    support: Any = law.support
    return float(getattr(support, "lower_bound", -np.inf)), float(getattr(support, "upper_bound", np.inf))
