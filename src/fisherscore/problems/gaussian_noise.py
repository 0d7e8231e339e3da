"""Gaussian noise of known covariance around a mean that bends with θ: x | θ ~ N(μ(θ), Σ), and all that is known of it.

With J = ∂μ/∂θ,

    score    s(θ, x) = Jᵀ Σ⁻¹ (x − μ(θ)),
    Fisher   F(θ) = Jᵀ Σ⁻¹ J.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .integrals import matmul


def gaussian_noise(mean: Callable[[Any], Any], noise: np.ndarray) -> dict[str, Any]:
    """Write down all that is known about x ~ N(mean(θ), L Lᵀ), given the Cholesky factor L."""
    whiten = np.linalg.inv(noise)

    def whitened(theta: Any) -> tuple[Any, Any]:
        predicted = matmul(whiten, mean(theta))
        return predicted, predicted

    def draw_one(key: Any, theta: Any) -> Any:
        predicted = mean(theta)
        return predicted + matmul(noise, jax.random.normal(key, predicted.shape, predicted.dtype))

    def log_likelihood_one(theta: Any, x: Any) -> Any:
        return -0.5 * jnp.sum(matmul(whiten, x - mean(theta)) ** 2)

    def score_one(theta: Any, x: Any) -> Any:
        # There are fewer parameters than data, so forward mode is the cheap one; it gives the mean on the way.
        jacobian, predicted = jax.jacfwd(whitened, has_aux=True)(theta)
        return matmul(jacobian.T, matmul(whiten, x) - predicted)

    def fisher_one(theta: Any) -> Any:
        jacobian, _ = jax.jacfwd(whitened, has_aux=True)(theta)
        return matmul(jacobian.T, jacobian)

    return {
        "draw_one": draw_one,
        "log_likelihood_one": log_likelihood_one,
        "score_one": score_one,
        "fisher_one": fisher_one,
    }
