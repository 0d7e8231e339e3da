"""Tempered sequential Monte Carlo through BlackJAX, for posteriors with several modes.

Particles drawn from the prior are carried to the posterior through powers λ of the likelihood, 0 to 1, each step
keeping half of the particles effective; in between they move by HMC, whose step is adapted to the temperature.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._support.progress import progress_bar
from ..errors import MissingExtraError, TrainingError
from .target import Target

_MOVES = 6  # HMC moves per particle and temperature
_LEAPS = 12  # leapfrog steps per move
_EFFECTIVE = 0.6  # fraction of particles that stay effective from one temperature to the next
_GOOD_ACCEPTANCE = 0.75
_MOST_STAGES = 200


def tempered_particles(
    goal: Target, x: Any, anchor: Array, key: Array, num_particles: int, progress: bool | None
) -> tuple[np.ndarray, int]:
    """Return particles θ of the posterior, shape (num, p), and how many temperatures it took."""
    try:
        import blackjax
        import blackjax.smc.resampling
        from blackjax.smc import adaptive_tempered
        from blackjax.smc.base import extend_params
    except ImportError:
        raise MissingExtraError('method="smc" needs BlackJAX: pip install "fisherscore[inference]"') from None
    data = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), x)
    kernel = adaptive_tempered.build_kernel(
        goal.log_prior,
        lambda u: goal.log_likelihood(u, data, anchor),
        blackjax.hmc.build_kernel(),
        blackjax.hmc.init,
        blackjax.smc.resampling.systematic,
        _EFFECTIVE,
    )

    @jax.jit
    def advance(key: Array, state: Any, step_size: Array, scale: Array) -> Any:
        settings = extend_params(
            {"step_size": step_size, "inverse_mass_matrix": scale, "num_integration_steps": jnp.asarray(_LEAPS)}
        )
        state, info = kernel(key, state, _MOVES, settings)
        return state, info.update_info.acceptance_rate.mean()

    prior_key, key = jax.random.split(key)
    theta = jax.vmap(goal.draw_prior)(jax.random.split(prior_key, num_particles))
    state = adaptive_tempered.init(jax.vmap(goal.unconstrain)(theta))
    step_size = jnp.asarray(0.2)
    with progress_bar("temper", 100, progress) as show:
        shown = 0
        for stage in range(1, _MOST_STAGES + 1):
            key, step_key = jax.random.split(key)
            scale = jnp.var(state.particles, axis=0) + 1e-12
            state, acceptance = advance(step_key, state, step_size, scale)
            temperature = float(state.tempering_param)
            # The step follows the narrowing likelihood: longer where moves are accepted too easily, else shorter.
            step_size = step_size * jnp.exp(jnp.clip(2.0 * (acceptance - _GOOD_ACCEPTANCE), -0.7, 0.4))
            show(round(100 * temperature) - shown, f"λ {temperature:.3g}  accepted {float(acceptance):.0%}")
            shown = round(100 * temperature)
            if temperature >= 1:
                return np.asarray(
                    jax.vmap(goal.constrain)(_settle(advance, key, state, step_size, scale)), np.float64
                ), stage
    raise TrainingError(f"Tempered SMC did not reach the posterior in {_MOST_STAGES} temperatures.")


def _settle(advance: Any, key: Array, state: Any, step_size: Array, scale: Array) -> Array:
    """Move on at the last temperature, so that copies made by resampling drift apart."""
    for step_key in jax.random.split(key, 3):
        state, acceptance = advance(step_key, state, step_size, scale)
        step_size = step_size * jnp.exp(jnp.clip(2.0 * (acceptance - _GOOD_ACCEPTANCE), -0.7, 0.4))
    return state.particles
