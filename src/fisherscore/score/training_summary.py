"""What a fitted model remembers of its training simulations, for use where no simulator is at hand.

Two things: the Fisher matrix over the training region, E[ŝ ŝᵀ | θ] fitted as a quadratic in θ, which sets the scale of
steps and summaries; and how far data usually lie from their mean, so that an observation unlike anything simulated is
noticed.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# Above this size, or with too few rows to estimate a covariance, data are whitened column by column.
_LARGEST_COVARIANCE = 256
_NUM_QUANTILES = 1001


class TrainingSummary(eqx.Module):
    """The Fisher surface and the spread of the data; arrays only, in the standardised units of the model."""

    fisher_coefficients: Float[Array | np.ndarray, "monomials params params"]
    whitening: Float[Array | np.ndarray, "size size"] | Float[Array | np.ndarray, " size"]
    distances: Float[Array | np.ndarray, " quantiles"]

    @classmethod
    def of(cls, theta: np.ndarray, x: np.ndarray, score: np.ndarray) -> "TrainingSummary":
        """Fit both to standardised training rows and the model's own standardised scores."""
        rows = x.reshape(len(x), -1)
        whitening = _whitening(rows)
        distances = np.sqrt(np.sum(_whiten(rows, whitening) ** 2, axis=1) / rows.shape[1])
        return cls(
            fisher_coefficients=_fisher_coefficients(theta, score),
            whitening=whitening,
            distances=np.quantile(distances, np.linspace(0, 1, _NUM_QUANTILES)),
        )

    def fisher(self, theta: Float[Array, " params"]) -> Float[Array, "params params"]:
        """Give the Fisher matrix of the training model at a standardised θ; always positive definite."""
        # Training regions end within 3.2 standard deviations; beyond, the quadratic is held rather than trusted.
        matrix = jnp.tensordot(_monomials(jnp.clip(theta, -3.2, 3.2)), self.fisher_coefficients, axes=1)
        values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2)
        floor = 1e-4 * jnp.trace(jnp.abs(self.fisher_coefficients[0])) / len(theta)
        return (vectors * jnp.maximum(values, floor)) @ vectors.T

    def rarity(self, x: Float[np.ndarray, "rows ..."]) -> np.ndarray:
        """Return the fraction of training data farther from the mean than each standardised x; 0 is beyond all."""
        rows = x.reshape(len(x), -1)
        distance = np.sqrt(np.sum(_whiten(rows, np.asarray(self.whitening)) ** 2, axis=1) / rows.shape[1])
        return 1 - np.interp(distance, self.distances, np.linspace(0, 1, len(self.distances)), left=0.0, right=1.0)

    @staticmethod
    def shapes(num_parameters: int, data_size: int, *, full: bool) -> dict[str, tuple[int, ...]]:
        """Return the array shapes of a summary, to check a saved one against."""
        p = num_parameters
        return {
            "fisher_coefficients": (1 + p + p * (p + 1) // 2, p, p),
            "whitening": (data_size, data_size) if full else (data_size,),
            "distances": (_NUM_QUANTILES,),
        }


def _monomials(theta: Array) -> Array:
    """Give 1, θ_i and θ_i θ_j."""
    first, second = np.triu_indices(theta.shape[-1])
    return jnp.concatenate([jnp.ones(1), theta, theta[first] * theta[second]])


def _fisher_coefficients(theta: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Regress ŝ ŝᵀ on monomials of θ; with too few rows, only its mean."""
    num, p = score.shape
    first, second = np.triu_indices(p)
    design = np.concatenate([np.ones((num, 1)), theta, theta[:, first] * theta[:, second]], axis=1)
    outer = (score[:, :, None] * score[:, None, :]).reshape(num, p * p)
    coefficients = np.zeros((design.shape[1], p * p))
    if num >= 10 * design.shape[1]:
        coefficients = np.linalg.lstsq(design, outer, rcond=None)[0]
    else:
        coefficients[0] = outer.mean(axis=0)
    return coefficients.reshape(-1, p, p)


def _whitening(rows: np.ndarray) -> np.ndarray:
    """Return W with W Wᵀ the inverse covariance of centred rows, or one factor per column where there are too few."""
    num, size = rows.shape
    deviation = np.where(rows.std(axis=0) > 0, rows.std(axis=0), 1.0)
    if size > _LARGEST_COVARIANCE or num < 5 * size:
        return 1 / deviation
    values, vectors = np.linalg.eigh(np.cov(rows, rowvar=False).reshape(size, size))
    # Directions that never varied are compared with the smallest that did, not divided by zero.
    return vectors / np.sqrt(np.maximum(values, 1e-10 * max(values[-1], 1e-30)))


def _whiten(rows: np.ndarray, whitening: np.ndarray) -> np.ndarray:
    return rows @ whitening if whitening.ndim == 2 else rows * whitening
