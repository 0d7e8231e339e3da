"""Do draws of a reference posterior and a likelihood of ours belong together? An identity that needs no sampler."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .task import Task


def steins_identity(task: Task, draws: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Average f ∂ log p(θ | x) + ∂f over draws of a posterior, which is zero wherever f vanishes at the prior's edges.

    f is 1 for a parameter without ends and (θ − low)(high − θ) for one between two ends, in units of the half width.

    Args:
        task: A task with a likelihood.
        draws: Draws of the posterior, shape (n, p).
        x: The observation, shape (m,).

    Returns:
        The averages in units of the root mean square of what is averaged, which neither the size nor a correlation of
        the draws changes, shape (p,); and what they may be by chance if the draws are independent, shape (p,).
    """
    if task.log_likelihood_one is None:
        raise ValueError(f"The task {task.name!r} has no likelihood here.")
    bounded = task.prior is None and all(type(law).__name__ == "Uniform" for law in task.proposal.distributions)
    middle, half = (task.proposal.high + task.proposal.low) / 2, (task.proposal.high - task.proposal.low) / 2

    def log_posterior(theta: Any) -> Any:
        log_prior = task.proposal.log_prob(theta) if task.prior is None else task.prior.log_prob(theta)
        return task.log_likelihood_one(theta, jnp.asarray(x, jnp.float32)) + log_prior

    slopes = jax.jit(jax.vmap(jax.grad(log_posterior)))(jnp.asarray(draws, jnp.float32))
    unit = (draws - middle) / half
    factor, its_slope = (1 - unit**2, -2 * unit / half) if bounded else (np.ones_like(draws), np.zeros_like(draws))
    terms = factor * np.asarray(slopes, float) + its_slope
    size = np.sqrt(np.mean(terms**2, axis=0))
    return terms.mean(axis=0) / size, terms.std(axis=0) / size / np.sqrt(len(terms))
