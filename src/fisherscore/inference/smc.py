"""Tempered sequential Monte Carlo, for posteriors with several modes.

Particles drawn from the prior are carried to the posterior through powers λ of the likelihood, 0 to 1, each step
keeping more than half of the particles effective; in between they move by short trajectories of HMC, whose momenta are
whitened by the covariance of the particles and whose step size follows the acceptance.

One compiled function does everything that happens at one λ, for any observation, prior of the same kind and model of
the same shape; it evaluates the model in one place.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.compiling import quickly_compiled
from .._support.progress import progress_bar
from .._support.rows import rows_mapped
from ..errors import TrainingError
from .adaptation import cholesky_factor
from .target import EVALUATIONS_PER_INTEGRAL, Lanes, Target, random_words
from .walls import carried

# Several short moves mix better than a long one of as many steps: of 280,000 evaluations for two moons, three moves of
# two steps leave the weight of a moon uncertain by 0.017, one move of six by 0.026.
_NUM_MOVES = 3  # HMC moves per particle and temperature
_NUM_LEAPS = 2  # leapfrog steps per move
_EFFECTIVE = 0.6  # fraction of particles that stay effective from one temperature to the next
_NUM_FINAL_ROUNDS = 2  # rounds of moves at the last temperature, beyond the first
_GOOD_ACCEPTANCE = 0.75
_FIRST_STEP = 0.5
_NUM_BISECTIONS = 40
_MAX_TEMPERATURES = 200


@dataclass(frozen=True, eq=False)
class Particles:
    """What tempering returns: ``theta`` (num, p), their ``log_density`` (num,), and the number of temperatures."""

    theta: np.ndarray
    log_density: np.ndarray
    num_temperatures: int


class Cloud(NamedTuple):
    """Particles u with their log prior and log-likelihood, the power λ they stand for, and the step size of moves."""

    u: Float[Array, "particles params"]
    log_prior: Float[Array, " particles"]
    log_likelihood: Float[Array, " particles"]
    power: Float[Array, ""]
    step: Float[Array, ""]


class _Chains(NamedTuple):
    """Chains side by side: the last states accepted, and the points and momenta of the trajectories under way."""

    state: Float[Array, "chains point"]
    u: Float[Array, "chains params"]
    w: Float[Array, "chains params"]
    energy: Float[Array, " chains"]
    step: Float[Array, ""]
    acceptance: Float[Array, ""]


def tempered_particles(lanes: Lanes, seed: int, *, num_particles: int, progress: bool | None = False) -> Particles:
    """Return particles of the posterior of the first lane."""
    keys = iter(random_words(seed, 3, _MAX_TEMPERATURES + _NUM_FINAL_ROUNDS + 1))
    with progress_bar("temper", 100, progress, "compiling") as show:
        cloud = _first_cloud(lanes, random_words(seed, 4, lanes.target.num_parameters), num_particles)
        # At λ = 0 the first moves find the likelihoods.
        cloud, _, acceptance = _round(lanes, cloud, next(keys), np.float32(0.0))
        shown = num_temperatures = 0
        power = 0.0
        while power < 1:
            if num_temperatures == _MAX_TEMPERATURES:
                raise TrainingError(f"Tempered SMC did not reach the posterior in {_MAX_TEMPERATURES} temperatures.")
            num_temperatures += 1
            cloud, _, acceptance = _round(lanes, cloud, next(keys), np.float32(1.0))
            power = float(cloud.power)
            show(round(100 * power) - shown, f"λ {power:.3g}  accepted {float(acceptance):.0%}")
            shown = round(100 * power)
        # Moves at the last temperature, so that copies made by resampling drift apart.
        for _ in range(_NUM_FINAL_ROUNDS):
            cloud, points, _ = _round(lanes, cloud, next(keys), np.float32(1.0))
    theta, log_density = (np.asarray(a, np.float64) for a in points)
    # In the cloud, neighbours come from the same place.
    order = np.random.default_rng([seed, 5]).permutation(num_particles)
    return Particles(theta[order], log_density[order], num_temperatures)


@quickly_compiled
def _first_cloud(lanes: Lanes, words: Any, num: int) -> Cloud:
    theta = lanes.target.draw_base(words, num)
    u = jax.vmap(lanes.target.unconstrain)(theta)
    # Draws rounded onto an end of the prior's support have no u: take the centre.
    u = jnp.where(jnp.isfinite(u).all(axis=1, keepdims=True), u, 0.0)
    zero = jnp.zeros(len(u), jnp.float32)
    return Cloud(u, zero, zero, jnp.zeros((), jnp.float32), jnp.asarray(_FIRST_STEP, jnp.float32))


@quickly_compiled
def _round(lanes: Lanes, cloud: Cloud, words: Any, largest: Any) -> tuple[Cloud, tuple[Array, Array], Array]:
    """Raise λ, by at most ``largest``, choose particles by their weights and move them.

    Returns:
        The new cloud, its θ with their log-density, and the mean acceptance.
    """
    num, p = cloud.u.shape
    power, weights = _raised(cloud, largest)
    normal, uniform = _noise(words, (_NUM_MOVES + 1, num, p))
    chosen, factor = _resampled(cloud, weights, uniform[0, 0, 0])
    step_of = _mover(lanes, factor, power)
    # A move ends with every _NUM_LEAPS-th evaluation; the first evaluates the starting points, which are then accepted.
    number = np.arange(_NUM_MOVES * _NUM_LEAPS + 1)
    u, zero = cloud.u[chosen], jnp.zeros(num, jnp.float32)
    point = jnp.concatenate([u, jnp.zeros((num, p + 2), jnp.float32)], axis=1)
    chains = _Chains(state=point, u=u, w=jnp.zeros_like(u), energy=zero + jnp.inf, step=cloud.step, acceptance=zero[0])

    def step(chains: _Chains, now: tuple[Array, Array, Array]) -> tuple[_Chains, None]:
        end, place, before = now
        return step_of(chains, (end, normal[place], (uniform[before], uniform[place]))), None

    # A move ends with a step of the length it began with.
    places = number // _NUM_LEAPS, np.maximum(number - 1, 0) // _NUM_LEAPS
    schedule = jnp.asarray(number % _NUM_LEAPS == 0), jnp.asarray(places[0]), jnp.asarray(places[1])
    chains, _ = jax.lax.scan(step, chains, schedule)
    u, log_prior, log_likelihood = chains.state[:, :p], chains.state[:, -2], chains.state[:, -1]
    theta, log_jacobian = jax.vmap(lanes.target.constrain_with_jacobian)(u)
    cloud = Cloud(u, log_prior, log_likelihood, power, chains.step)
    return cloud, (theta, log_prior + log_likelihood - log_jacobian), chains.acceptance


def _mover(lanes: Lanes, factor: Array, power: Array) -> Any:
    """Return the function that evaluates all chains once and makes a leapfrog step."""
    target, (x, anchor), walls = lanes.target, lanes.row(0), lanes.target.walls
    evaluations = 1 if target.model.has_density else EVALUATIONS_PER_INTEGRAL
    at_once = max(1, target.model.rows_at_once // evaluations)

    def step(chains: _Chains, now: Any) -> _Chains:
        end, normal, (before, uniform) = now
        gradient, log_prior, log_likelihood = rows_mapped(
            lambda u: _evaluated(target, u, (x, anchor), power), (chains.u,), at_once
        )
        point = jnp.concatenate([chains.u, gradient, log_prior[:, None], log_likelihood[:, None]], axis=1)
        p = chains.u.shape[1]
        w = chains.w + _varied(chains.step, before) / 2 * (gradient @ factor)
        energy = jnp.sum(w**2, axis=1) / 2 - log_prior - power * log_likelihood
        change = jnp.where(jnp.isnan(energy), -jnp.inf, chains.energy - energy)
        accepted = jnp.log(uniform[:, 0]) < change
        first = jnp.isinf(chains.energy).all()
        state = jnp.where((end & accepted)[:, None], point, chains.state)
        acceptance = jnp.mean(jnp.exp(jnp.minimum(change, 0.0)))
        adapted = chains.step * jnp.exp(jnp.clip(2.0 * (acceptance - _GOOD_ACCEPTANCE), -0.7, 0.4))
        new_energy = jnp.sum(normal**2, axis=1) / 2 - state[:, -2] - power * state[:, -1]
        u, w = jnp.where(end, state[:, :p], chains.u), jnp.where(end, normal, w)
        slope = jnp.where(end, state[:, p : 2 * p], gradient) @ factor
        renewed = jnp.where(end & ~first, adapted, chains.step)
        steps = _varied(renewed, uniform)
        w = w + steps / 2 * slope
        u, w = jax.vmap(carried, (0, 0, 0, None, None))(u, w, steps[:, 0], factor, walls)
        return _Chains(
            state=state,
            u=u,
            w=w,
            energy=jnp.where(end, new_energy, chains.energy),
            step=renewed,
            acceptance=jnp.where(end & ~first, acceptance, chains.acceptance),
        )

    return step


def _varied(step: Array, uniform: Array) -> Array:
    """Let steps differ between chains and moves, so that none of them keeps coming back to where it started."""
    return step * (0.6 + 0.8 * uniform[:, 1:])


def _evaluated(target: Target, u: Array, data: tuple[Any, Array], power: Array) -> tuple[Array, Array, Array]:
    """Return the gradient of the tempered log-density of one u, its log prior and its log-likelihood."""

    def tempered(u: Array) -> tuple[Array, tuple[Array, Array]]:
        log_prior, log_likelihood = target.log_base(u), target.log_rest(u, *data)
        return log_prior + power * log_likelihood, (log_prior, log_likelihood)

    gradient, values = jax.grad(tempered, has_aux=True)(u)
    return jnp.where(jnp.isfinite(gradient), gradient, 0.0), *values


def _raised(cloud: Cloud, largest: Array) -> tuple[Array, Array]:
    """Find by bisection the λ that leaves the wanted fraction of particles effective; return also the weights."""
    excess = cloud.log_likelihood - jnp.max(cloud.log_likelihood)

    def weights(step: Array) -> Array:
        raw = jnp.exp(step * excess)
        return raw / raw.sum()

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        enough = 1 / jnp.sum(weights(middle) ** 2) >= _EFFECTIVE * len(excess)
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    most = jnp.minimum(largest, 1 - cloud.power)
    low, _ = jax.lax.fori_loop(0, _NUM_BISECTIONS, halve, (jnp.zeros_like(most), most))
    # The end itself is never tried by halving.
    step = jnp.where(1 / jnp.sum(weights(most) ** 2) >= _EFFECTIVE * len(excess), most, low)
    return jnp.where(step >= 1 - cloud.power, 1.0, cloud.power + step), weights(step)


def _resampled(cloud: Cloud, weights: Array, uniform: Array) -> tuple[Array, Array]:
    """Choose particles systematically: at equally spaced places along the cumulated weights.

    Particles are first put in order along the direction in which they spread most, so that each of several modes there
    keeps its share but for rounding. Returns the places chosen and the Cholesky factor of the covariance.
    """
    num = len(weights)
    centred = cloud.u - weights @ cloud.u
    scale = jnp.sqrt(weights @ centred**2) + 1e-12
    white = centred / scale
    correlation = (weights[:, None] * white).T @ white
    factor = scale[:, None] * cholesky_factor(correlation + 1e-6 * jnp.eye(len(scale)))
    order = jnp.argsort(white @ jnp.linalg.eigh(correlation)[1][:, -1])
    total = jnp.cumsum(weights[order])
    places = jnp.searchsorted(total, (jnp.arange(num) + uniform) / num * total[-1])
    return order[jnp.minimum(places, len(weights) - 1)], factor


def _noise(words: Array, shape: tuple[int, int, int]) -> tuple[Array, Array]:
    """Draw a normal momentum and two uniform numbers for every move of every chains."""
    moves, chains, p = shape
    size = -(-moves * chains * (p + 2) // 128) * 128
    bits = jax.random.bits(jax.random.wrap_key_data(words), (size,), jnp.uint32)
    uniform = ((bits >> 8).astype(jnp.float32) + 0.5) * 2.0**-24
    numbers = uniform[: moves * chains * (p + 2)].reshape(moves, chains, p + 2)
    return np.float32(np.sqrt(2)) * jax.lax.erf_inv(2 * numbers[..., :p] - 1), numbers[..., p:]
