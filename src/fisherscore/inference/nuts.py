"""NUTS: all chains of all observations in one compiled call.

Step size and a dense mass matrix are adapted per lane. The compiled function runs a fixed number of leapfrog steps, so
that the host can draw a progress bar, and takes model, data, prior and lengths as arguments, so that other
observations, priors of the same kind, refitted models of the same shape and other numbers of draws reuse it.
"""

import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._support.compiling import quickly_compiled
from .._support.progress import Advance, progress_bar
from .adaptation import Schedule, schedule
from .nuts_kernel import NUM_CANDIDATES, Event, Lane, Surroundings, first_lane, iterate, noise, refreshed
from .target import EVALUATIONS_PER_INTEGRAL, Lanes, random_words

# Leapfrog steps between two chances to renew a mass matrix.
_BLOCK = 16
# Leapfrog steps of one compiled call, fewer where their records would be larger than this many numbers.
_MOST_STEPS, _MOST_NUMBERS = 1024, 1 << 25
# A draw from the prior outside the training region starts a chain only where there is no other.
_PENALTY_OUTSIDE, _PENALTY_UNUSABLE = 1e8, 1e30


@dataclass(frozen=True, eq=False)
class Draws:
    """What NUTS returns.

    ``theta`` (draw, lane, p), ``log_density`` of θ and ``divergent`` (draw, lane), seconds by part of the work, and how
    often the model was evaluated in each lane.
    """

    theta: np.ndarray
    log_density: np.ndarray
    divergent: np.ndarray
    seconds: dict[str, float]
    num_evaluations: int


def sample_lanes(lanes: Lanes, seed: int, *, num_warmup: int, num_samples: int, progress: bool | None = False) -> Draws:
    """Run one NUTS chain in every lane; its draws depend on the seed, on its data and on its place among the lanes."""
    model = lanes.target.model
    at_once = max(1, model.rows_at_once // (1 if model.has_density else EVALUATIONS_PER_INTEGRAL))
    begins = range(0, lanes.num_lanes, at_once)
    plan, total = schedule(num_warmup), num_warmup + num_samples
    keys = random_words(seed, 1, lanes.num_lanes)
    with progress_bar("sample", total * len(begins), progress, "compiling") as advance:
        parts = []
        for begin in begins:
            prior_keys = random_words(seed, (2, begin), lanes.target.num_parameters)
            rows = slice(begin, begin + at_once)
            parts.append(_run(lanes.part(rows), (prior_keys, keys[rows]), (plan, total), advance))
    seconds = {name: sum(part.seconds[name] for part in parts) for name in parts[0].seconds}
    return Draws(
        theta=np.concatenate([part.theta for part in parts], axis=1),
        log_density=np.concatenate([part.log_density for part in parts], axis=1),
        divergent=np.concatenate([part.divergent for part in parts], axis=1),
        seconds=seconds,
        num_evaluations=max(part.num_evaluations for part in parts),
    )


def _run(lanes: Lanes, keys: tuple[np.ndarray, np.ndarray], lengths: tuple[Schedule, int], advance: Advance) -> Draws:
    """Run the lanes segment by segment until each has made all its trajectories."""
    started = time.perf_counter()
    plan, total = lengths
    num_lanes, p, num_warmup = lanes.num_lanes, lanes.target.num_parameters, int(plan.num_warmup)
    size = _round_size(num_lanes)
    padded = lanes.padded(size)
    num_blocks = max(1, min(_MOST_STEPS, _MOST_NUMBERS // (padded.num_lanes * (p + 3))) // _BLOCK)
    state = _first_lanes(padded, (keys[0], np.resize(keys[1], (size, 2))))
    kept = _Kept(num_lanes, num_warmup, total, p)
    first_call, num_segments = None, 0
    while (before := kept.num_ended) < total:
        state, events, theta, log_density = _segment(padded, state, plan, num_blocks)
        kept.take(events, theta, log_density)
        num_segments += 1
        first_call = first_call or time.perf_counter()
        advance(kept.num_ended - before, "warm-up" if kept.num_ended <= num_warmup else "")
    assert first_call is not None
    seconds = {"first segment, with compilation": first_call - started, "rest": time.perf_counter() - first_call}
    return Draws(kept.theta, kept.log_density, kept.divergent, seconds, num_segments * num_blocks * _BLOCK)


def _round_size(num: int) -> int:
    """Return the next power of two or, above four, three quarters of one, so that few sizes are compiled."""
    power = 1 << (num - 1).bit_length()
    return 3 * power // 4 if power > 4 and num <= 3 * power // 4 else power


class _Kept:
    """Draws of the lanes, gathered from the records of leapfrog steps, most of which end no trajectory."""

    def __init__(self, num_lanes: int, num_warmup: int, total: int, p: int):
        self._begin, self._total = num_warmup, total
        self._count = np.zeros(num_lanes, int)
        self.theta = np.empty((total - num_warmup, num_lanes, p))
        self.log_density = np.empty((total - num_warmup, num_lanes))
        self.divergent = np.zeros((total - num_warmup, num_lanes), bool)

    @property
    def num_ended(self) -> int:
        """Number of trajectories that all lanes have made."""
        return min(int(self._count.min()), self._total)

    def take(self, events: Any, theta: Any, log_density: Any) -> None:
        """Take in the records of a segment: arrays (step, lane, ...)."""
        ended = np.asarray(events[0])[:, : len(self._count)]
        number = self._count + np.cumsum(ended, axis=0) - 1
        self._count += ended.sum(axis=0)
        step, lane = np.nonzero(ended & (number >= self._begin) & (number < self._total))
        place = number[step, lane] - self._begin
        self.theta[place, lane] = np.asarray(theta)[step, lane]
        self.log_density[place, lane] = np.asarray(log_density)[step, lane]
        self.divergent[place, lane] = np.asarray(events[1])[step, lane]


@quickly_compiled
def _first_lanes(lanes: Lanes, keys: tuple[Any, Any]) -> Lane:
    """Draw what chains may start from out of the prior; draws inside the training region come first."""
    target, num = lanes.target, lanes.num_lanes
    prior_keys, lane_keys = keys
    theta = target.draw_base(prior_keys, num * NUM_CANDIDATES)
    u = jax.vmap(target.unconstrain)(theta)
    inside = ((theta >= target.model.low) & (theta <= target.model.high)).all(axis=1)
    usable = jnp.isfinite(u).all(axis=1)
    penalties = jnp.where(usable, jnp.where(inside, 0.0, _PENALTY_OUTSIDE), _PENALTY_UNUSABLE)
    u = jnp.where(usable[:, None], u, 0.0).reshape(num, NUM_CANDIDATES, -1)
    scale = jnp.std(u, axis=1) + 1e-30
    return jax.vmap(first_lane)(lane_keys, u, penalties.reshape(num, NUM_CANDIDATES), scale)


@quickly_compiled
def _segment(lanes: Lanes, state: Lane, plan: Schedule, num_blocks: int) -> tuple[Lane, Any, Array, Array]:
    """Move all lanes on by a number of leapfrog steps; return them and, for every step, event, θ and log-density."""
    p = state.scale.shape[-1]
    fence = plan.num_warmup >= 0 if jax.default_backend() == "cpu" else None

    def step(state: Lane, random: Any) -> tuple[Lane, Event]:
        def energy(u: Array) -> tuple[Array, Array]:
            return jax.vmap(lanes.energy_and_gradient)(u, lanes.x, lanes.anchors)

        return iterate(state, random, Surroundings(energy, lanes.target.walls), plan, fence)

    def block(state: Lane, _: None) -> tuple[Lane, Event]:
        state, random = jax.vmap(lambda lane: noise(lane, _BLOCK), out_axes=(0, 1))(state)
        return jax.lax.scan(step, jax.vmap(refreshed, (0, None))(state, plan), random)

    state, events = jax.lax.scan(block, state, None, length=num_blocks)
    events = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), events)
    theta, log_jacobian = jax.vmap(jax.vmap(lanes.target.constrain_with_jacobian))(events.draw[..., :p])
    return state, (events.ended, events.diverged), theta, -events.draw[..., -1] - log_jacobian
