"""Tempered sequential Monte Carlo through BlackJAX, for posteriors with several modes.

Particles drawn from the prior are carried to the posterior through powers λ of the likelihood, 0 to 1, each step
keeping more than half of the particles effective; in between they move by HMC, whose step size follows the acceptance.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._support.progress import progress_bar
from ..errors import MissingExtraError, TrainingError
from .target import Lanes

_NUM_MOVES = 6  # HMC moves per particle and temperature
_NUM_LEAPS = 12  # leapfrog steps per move
_EFFECTIVE = 0.6  # fraction of particles that stay effective from one temperature to the next
_NUM_FINAL_ROUNDS = 3  # rounds of moves at the last temperature
_GOOD_ACCEPTANCE = 0.75
_MAX_TEMPERATURES = 200


def tempered_particles(
    lanes: Lanes, key: Array, *, num_particles: int, progress: bool | None = False
) -> tuple[np.ndarray, int]:
    """Return particles θ of the posterior of the first lane, shape (num, p), and the number of temperatures."""
    advance, start = _sampler(lanes)
    prior_key, key = jax.random.split(key)
    theta = jax.vmap(lanes.target.draw_prior)(jax.random.split(prior_key, num_particles))
    state = start(jax.vmap(lanes.target.unconstrain)(theta))
    step_size = jnp.asarray(0.2)
    with progress_bar("temper", 100, progress) as show:
        shown = 0
        for number in range(1, _MAX_TEMPERATURES + 1):
            key, step_key = jax.random.split(key)
            scale = jnp.var(state.particles, axis=0) + 1e-12
            state, acceptance = advance(step_key, state, step_size, scale)
            temperature = float(state.tempering_param)
            step_size = _adapted(step_size, acceptance)
            show(round(100 * temperature) - shown, f"λ {temperature:.3g}  accepted {float(acceptance):.0%}")
            shown = round(100 * temperature)
            if temperature >= 1:
                particles = _settled(advance, key, state, step_size, scale)
                return np.asarray(jax.vmap(lanes.target.constrain)(particles), np.float64), number
    raise TrainingError(f"Tempered SMC did not reach the posterior in {_MAX_TEMPERATURES} temperatures.")


def _sampler(lanes: Lanes) -> tuple[Callable[..., Any], Callable[[Array], Any]]:
    """Return two functions: one temperature from (key, state, step size, scale), and the first state of particles."""
    try:
        import blackjax
        import blackjax.smc.resampling
        from blackjax.smc import adaptive_tempered
        from blackjax.smc.base import extend_params
    except ImportError:
        raise MissingExtraError('method="smc" needs BlackJAX: pip install "fisherscore[inference]"') from None
    x, anchor = lanes.row(0)
    kernel = adaptive_tempered.build_kernel(
        logprior_fn=lanes.target.log_prior,
        loglikelihood_fn=lambda u: lanes.target.log_likelihood(u, x, anchor),
        mcmc_step_fn=blackjax.hmc.build_kernel(),
        mcmc_init_fn=blackjax.hmc.init,
        resampling_fn=blackjax.smc.resampling.systematic,
        target_ess=_EFFECTIVE,
    )

    @jax.jit
    def advance(key: Array, state: Any, step_size: Array, scale: Array) -> Any:
        settings = extend_params(
            {"step_size": step_size, "inverse_mass_matrix": scale, "num_integration_steps": jnp.asarray(_NUM_LEAPS)}
        )
        state, info = kernel(key, state, _NUM_MOVES, settings)
        return state, info.update_info.acceptance_rate.mean()

    return advance, adaptive_tempered.init


def _adapted(step_size: Array, acceptance: Array) -> Array:
    """Lengthen the step where moves are accepted too easily and shorten it where they are not.

    So it follows the likelihood, which narrows from one temperature to the next.
    """
    return step_size * jnp.exp(jnp.clip(2.0 * (acceptance - _GOOD_ACCEPTANCE), -0.7, 0.4))


def _settled(advance: Callable[..., Any], key: Array, state: Any, step_size: Array, scale: Array) -> Array:
    """Move on at the last temperature, so that copies made by resampling drift apart."""
    for step_key in jax.random.split(key, _NUM_FINAL_ROUNDS):
        state, acceptance = advance(step_key, state, step_size, scale)
        step_size = _adapted(step_size, acceptance)
    return state.particles
