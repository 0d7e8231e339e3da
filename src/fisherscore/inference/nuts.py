"""NUTS through NumPyro: all chains of all observations in one compiled call.

Step size and a dense mass matrix are adapted per lane. The compiled function runs a segment of fixed length, so that
the host can draw a progress bar, and takes model, data and prior as arguments, so that other observations and refitted
models of the same shape reuse it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array
from numpyro.infer.hmc import hmc

from .._support.progress import progress_bar
from .target import Lanes

_NUM_SEGMENTS = 20
# A chain starts to climb at the likeliest of this many draws from the prior.
_NUM_CANDIDATES = 32
_NUM_CLIMBING_STEPS = 30


@dataclass(frozen=True, eq=False)
class Draws:
    """What NUTS returns: ``theta`` (draw, lane, p), ``divergent`` (draw, lane), and seconds by part of the work."""

    theta: np.ndarray
    divergent: np.ndarray
    seconds: dict[str, float]


def sample_lanes(
    lanes: Lanes, key: Array, *, num_warmup: int, num_samples: int, progress: bool | None = False
) -> Draws:
    """Run one NUTS chain in every lane."""
    start_key, run_key = jax.random.split(key)
    started = time.perf_counter()
    starts = _starts(lanes, jax.random.split(start_key, lanes.num_lanes))
    state = _first_states(lanes, starts, jax.random.split(run_key, lanes.num_lanes), num_warmup)
    total = num_warmup + num_samples
    length = -(-total // _NUM_SEGMENTS)
    theta, divergent, compiled = [], [], None
    with progress_bar("sample", total, progress) as advance:
        for begin in range(0, total, length):
            state, (positions, diverging) = _segment(lanes, state, num_warmup, length)
            theta.append(np.asarray(positions))
            divergent.append(np.asarray(diverging))
            compiled = compiled or time.perf_counter()
            advance(min(length, total - begin), "warm-up" if begin + length <= num_warmup else "")
    assert compiled is not None
    kept = slice(num_warmup, total)
    return Draws(
        theta=np.concatenate(theta)[kept].astype(np.float64),
        divergent=np.concatenate(divergent)[kept],
        seconds={"first segment, with compilation": compiled - started, "rest": time.perf_counter() - compiled},
    )


def _kernel(lanes: Lanes, num_warmup: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return NumPyro's two functions: the first state of a chain from (u, key, x, anchor), and one step of it."""
    init, step = hmc(potential_fn_gen=lambda x, anchor: lambda u: lanes.energy(u, x, anchor), algo="NUTS")

    def first_state(u: Array, key: Array, x: Any, anchor: Array) -> Any:
        # No heuristic step size: NumPyro would look for it with the data of whichever lane made the first state.
        return init(u, num_warmup, dense_mass=True, step_size=0.1, model_args=(x, anchor), rng_key=key)

    return first_state, lambda state, x, anchor: step(state, model_args=(x, anchor))


def _prepared_step(lanes: Lanes, num_warmup: int) -> Callable[..., Any]:
    """Return the function of one NUTS step, ready to be used on states made elsewhere.

    NumPyro's step takes its settings (length of the warm-up, kind of mass matrix) from the call that makes a first
    state, and fails without one. That call is made here on shapes alone, so that nothing is computed.
    """
    first_state, step = _kernel(lanes, num_warmup)
    jax.eval_shape(first_state, lanes.anchors[0], jax.random.key(0), *lanes.row(0))
    return step


@eqx.filter_jit
def _first_states(lanes: Lanes, starts: Array, keys: Array, num_warmup: int) -> Any:
    first_state, _ = _kernel(lanes, num_warmup)
    return jax.vmap(first_state)(starts, keys, lanes.x, lanes.anchors)


@eqx.filter_jit
def _segment(lanes: Lanes, state: Any, num_warmup: int, length: int) -> tuple[Any, Any]:
    """Move all lanes on by ``length`` steps; return their states, and θ and divergence of every step."""
    step_one = _prepared_step(lanes, num_warmup)

    def step(state: Any, _: None) -> tuple[Any, Any]:
        state = jax.vmap(step_one)(state, lanes.x, lanes.anchors)
        return state, (jax.vmap(lanes.target.constrain)(state.z), state.diverging)

    return jax.lax.scan(step, state, None, length=length)


@eqx.filter_jit
def _starts(lanes: Lanes, keys: Array) -> Array:
    """Start each lane at a local mode: climb from the likeliest of some draws from the prior.

    Lanes climb from different draws, so that of several modes they find several. Draws inside the training region come
    first.
    """
    target = lanes.target

    def one(x: Any, anchor: Array, key: Array) -> Array:
        theta = jax.vmap(target.draw_prior)(jax.random.split(key, _NUM_CANDIDATES))
        u = jax.vmap(target.unconstrain)(theta)
        inside = ((theta >= target.model.low) & (theta <= target.model.high)).all(axis=1)
        value = jax.vmap(lambda v: target.log_likelihood(v, x, anchor))(u)
        usable = jnp.isfinite(u).all(axis=1)
        best = u[jnp.argmax(jnp.where(usable, value + jnp.where(inside, 0.0, -1e8), -jnp.inf))]
        return _climb(lambda v: lanes.energy(v, x, anchor), best)

    return jax.vmap(one)(lanes.x, lanes.anchors, keys)


def _climb(energy: Callable[[Array], Array], start: Array) -> Array:
    """Descend an energy by L-BFGS and return the lowest point seen."""
    optimiser = optax.lbfgs()
    value_and_gradient = optax.value_and_grad_from_state(energy)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        u, state, best, lowest = carry
        value, gradient = value_and_gradient(u, state=state)
        best, lowest = jnp.where(value < lowest, u, best), jnp.minimum(value, lowest)
        updates, state = optimiser.update(gradient, state, u, value=value, grad=gradient, value_fn=energy)
        moved = optax.apply_updates(u, updates)
        return (jnp.where(jnp.isfinite(moved).all(), moved, u), state, best, lowest), None

    first = (start, optimiser.init(start), start, energy(start))
    (_, _, best, _), _ = jax.lax.scan(step, first, None, length=_NUM_CLIMBING_STEPS)
    return best
