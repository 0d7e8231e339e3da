"""Latent models: what may stand between the parameters and the simulator.

By default nothing does: x is drawn at θ. Where there is a latent z, one chain θ → z → x covers both cases of the paper.
Decomposable: z is a latent variable of the user's own model. Indecomposable: z = θ + w with noise w, and the simulator
is run at z. A latent model is two functions, both written for a single θ: draw z given θ, and the latent score
t = ∇θ log p(z | θ). Since

    ∇θ log p(x | θ) = E[t | x, θ],

regressing t on (θ, x) gives the Fisher score.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.arguments import as_finite
from ..errors import ArgumentError
from .proposal import Proposal


class Latent(eqx.Module):
    """Base of all latent models. Subclass it with ``sample`` and either ``log_prob`` or ``score``.

    >>> import fisherscore as fs, jax, jax.numpy as jnp
    >>> class Laplace(fs.Latent):
    ...     def sample(self, key, theta):
    ...         return theta + jax.random.laplace(key, theta.shape)
    ...     def log_prob(self, theta, latent):
    ...         return -jnp.abs(latent - theta).sum()
    >>> Laplace().score(jnp.zeros(2), jnp.array([0.5, -3.0])).tolist()
    [1.0, -1.0]
    """

    @abc.abstractmethod
    def sample(self, key: Array, theta: Float[Array, " params"]) -> Float[Array, " latents"]:
        """Draw a latent given parameters.

        Args:
            key: A JAX key.
            theta: Parameters, shape (p,).

        Returns:
            A latent z, shape (q,).
        """

    def log_prob(self, theta: Float[Array, " params"], latent: Float[Array, " latents"]) -> Float[Array, ""]:
        """Compute log p(z | θ), up to a term in z alone.

        Args:
            theta: Parameters, shape (p,).
            latent: A latent z, shape (q,).

        Returns:
            The log-probability.
        """
        raise NotImplementedError(f"{type(self).__name__} has a score but no log-probability.")

    def score(self, theta: Float[Array, " params"], latent: Float[Array, " latents"]) -> Float[Array, " params"]:
        """Compute the latent score ∇θ log p(z | θ); by automatic differentiation unless overridden.

        Args:
            theta: Parameters, shape (p,).
            latent: A latent z, shape (q,).

        Returns:
            The latent score, shape (p,).
        """
        return jax.grad(self.log_prob)(theta, latent)


class GaussianLatent(Latent):
    """z = θ + w with Gaussian noise w, as in the paper's toy decomposition.

    Args:
        covariance: Covariance of w, a (p, p) matrix or p variances.

    >>> import fisherscore as fs, jax.numpy as jnp
    >>> fs.GaussianLatent([[0.4, 0.0], [0.0, 0.4]]).score(jnp.zeros(2), jnp.ones(2)).tolist()
    [2.5, 2.5]
    """

    covariance: np.ndarray
    cholesky: np.ndarray
    precision: np.ndarray

    def __init__(self, covariance: Any):
        given = as_finite(covariance, "covariance")
        matrix = given if given.ndim == 2 else np.diag(np.atleast_1d(given))
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T):
            raise ArgumentError(f"covariance: expected a symmetric square matrix, got shape {given.shape}: {given}.")
        try:
            cholesky = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            raise ArgumentError(
                "covariance: expected a positive definite matrix, got one with smallest eigenvalue "
                f"{np.linalg.eigvalsh(matrix)[0]:.3g}."
            ) from None
        self.covariance = matrix
        self.cholesky = cholesky
        self.precision = np.linalg.inv(matrix)

    def sample(self, key: Array, theta: Float[Array, " params"]) -> Float[Array, " params"]:
        """Draw z = θ + w.

        Args:
            key: A JAX key.
            theta: Parameters, shape (p,).

        Returns:
            A latent z, shape (p,).
        """
        return theta + jnp.asarray(self.cholesky, theta.dtype) @ jax.random.normal(key, theta.shape, theta.dtype)

    def log_prob(self, theta: Float[Array, " params"], latent: Float[Array, " params"]) -> Float[Array, ""]:
        """Compute −½ wᵀ Σ⁻¹ w.

        Args:
            theta: Parameters, shape (p,).
            latent: A latent z, shape (p,).

        Returns:
            The log-probability, up to a constant.
        """
        return -0.5 * (latent - theta) @ self.score(theta, latent)

    def score(self, theta: Float[Array, " params"], latent: Float[Array, " params"]) -> Float[Array, " params"]:
        """Compute Σ⁻¹ (z − θ).

        Args:
            theta: Parameters, shape (p,).
            latent: A latent z, shape (p,).

        Returns:
            The latent score, shape (p,).
        """
        return jnp.asarray(self.precision, theta.dtype) @ (latent - theta)


class AdditiveLatent(GaussianLatent):
    """Noise added to the parameters: z = θ + w is itself a parameter vector, at which the simulator is run.

    The paper's indecomposable case. A :class:`GaussianLatent` says the same of z, but belongs to a model that is
    decomposable: its z need not be something the whole simulator could be run at.

    Args:
        covariance: Covariance of the noise, a (p, p) matrix or p variances.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> latent = fs.AdditiveLatent([0.01, 0.01])
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 10, latent=latent)
    >>> bool((sims.drawn_at == sims.latent).all())
    True
    """

    def __init__(self, covariance: Any):
        super().__init__(covariance)


class CustomLatent(Latent):
    """A latent model from plain functions: how to draw, and a log-probability or a score.

    Args:
        sample: Draws z, called as ``sample(key, theta)``.
        log_prob: Gives log p(z | θ), called as ``log_prob(theta, z)``; its gradient is the score.
        score: Gives ∇θ log p(z | θ), called as ``score(theta, z)``, instead.

    >>> import fisherscore as fs, jax, jax.numpy as jnp
    >>> latent = fs.CustomLatent(
    ...     lambda key, theta: theta + jax.random.t(key, 4.0, theta.shape),
    ...     log_prob=lambda theta, z: -2.5 * jnp.log1p((z - theta) ** 2 / 4.0).sum(),
    ... )
    >>> latent.score(jnp.zeros(1), jnp.ones(1)).tolist()
    [1.0]
    """

    sample_function: Callable[..., Any]
    log_prob_function: Callable[..., Any] | None
    score_function: Callable[..., Any] | None

    def __init__(
        self,
        sample: Callable[..., Any],
        *,
        log_prob: Callable[..., Any] | None = None,
        score: Callable[..., Any] | None = None,
    ):
        if log_prob is None and score is None:
            raise ArgumentError("log_prob, score: expected at least one of the two, got neither.")
        self.sample_function = sample
        self.log_prob_function = log_prob
        self.score_function = score

    def sample(self, key: Array, theta: Float[Array, " params"]) -> Array:
        """Draw z with the user's function.

        Args:
            key: A JAX key.
            theta: Parameters, shape (p,).

        Returns:
            A latent z, shape (q,).
        """
        return self.sample_function(key, theta)

    def log_prob(self, theta: Float[Array, " params"], latent: Array) -> Array:
        """Compute the user's log-probability.

        Args:
            theta: Parameters, shape (p,).
            latent: A latent z, shape (q,).

        Returns:
            The log-probability.
        """
        function = self.log_prob_function
        return super().log_prob(theta, latent) if function is None else function(theta, latent)

    def score(self, theta: Float[Array, " params"], latent: Array) -> Array:
        """Compute the user's score, or the gradient of the user's log-probability.

        Args:
            theta: Parameters, shape (p,).
            latent: A latent z, shape (q,).

        Returns:
            The latent score, shape (p,).
        """
        if self.score_function is None:
            return super().score(theta, latent)
        return self.score_function(theta, latent)


def additive_latent(proposal: Proposal) -> AdditiveLatent:
    """Size additive noise as the paper does: a standard deviation of 1/200 of each parameter's range."""
    return AdditiveLatent(((proposal.high - proposal.low) / 200) ** 2)
