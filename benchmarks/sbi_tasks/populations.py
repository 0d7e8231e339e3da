"""Tasks of differential equations: an epidemic of which ten counts are known, and predators and prey in ten pairs."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

import fisherscore as fs

from .task import Task

# Lueckmann et al. 2021, appendix T. The epidemic: people, infected ones at first, days between data, people tested.
_PEOPLE, _INFECTED, _SIR_TIMES, _TESTED = 1e6, 1.0, tuple(17.0 * i for i in range(10)), 1000
# Prey and predators at first, years between data, and the deviation of the logarithms.
_PREY, _PREDATORS, _LV_TIMES, _LV_NOISE = 30.0, 1.0, tuple(2.1 * i for i in range(10)), 0.1
# Steps of the integrator between two data: the error of the fourth order is then far below the noise.
_SIR_STEPS, _LV_STEPS = 85, 300
_LEAST, _MOST = 1e-10, 1e4


def _integrated(slope: Any, start: Any, times: tuple[float, ...], steps: int) -> Any:
    """Integrate by the classical Runge-Kutta formula, with so many equal steps between two of the equidistant times."""
    width = (times[1] - times[0]) / steps

    def step(_: Any, state: Any) -> Any:
        first = slope(state)
        second = slope(state + 0.5 * width * first)
        third = slope(state + 0.5 * width * second)
        fourth = slope(state + width * third)
        return state + width / 6 * (first + 2 * second + 2 * third + fourth)

    def interval(state: Any, _: Any) -> tuple[Any, Any]:
        after = jax.lax.fori_loop(0, steps, step, state)
        return after, after

    later = jax.lax.scan(interval, start, None, length=len(times) - 1)[1]
    return jnp.concatenate([start[None], later])


def infected(theta: Any) -> Any:
    """Integrate the epidemic: the part of the people who are infected at the ten times.

    The logarithm of the infected is integrated, which goes from one in a million to most of them and back.

    Args:
        theta: Rates of contact and of recovery a day.

    Returns:
        Fractions, shape (10,).
    """
    contact, recovery = theta

    def slope(state: Any) -> Any:
        log_infected, susceptible = state
        return jnp.stack([contact * susceptible - recovery, -contact * susceptible * jnp.exp(log_infected)])

    start = jnp.stack([jnp.log(_INFECTED / _PEOPLE), 1 - _INFECTED / _PEOPLE]).astype(theta.dtype)
    return jnp.exp(_integrated(slope, start, _SIR_TIMES, _SIR_STEPS)[:, 0])


def log_populations(theta: Any) -> Any:
    """Integrate predators and prey, in logarithms, in which neither can die out by rounding.

    Args:
        theta: Birth of prey, hunting, death of predators, and what hunting feeds.

    Returns:
        Logarithms of ten numbers of prey, then of ten of predators, shape (20,).
    """
    birth, hunting, death, feeding = theta

    def slope(state: Any) -> Any:
        prey, predators = jnp.exp(state)
        return jnp.stack([birth - hunting * predators, feeding * prey - death])

    start = jnp.log(jnp.array([_PREY, _PREDATORS], theta.dtype))
    logs = _integrated(slope, start, _LV_TIMES, _LV_STEPS).T.reshape(-1)
    return jnp.clip(logs, math.log(_LEAST), math.log(_MOST))


def _draw_sir(key: Any, theta: Any) -> Any:
    return jax.random.binomial(key, float(_TESTED), jnp.clip(infected(theta), 0.0, 1.0))


def _sir_likelihood(theta: Any, x: Any) -> Any:
    rate = jnp.clip(infected(theta), 1e-30, 1.0)
    return jnp.sum(x * jnp.log(rate) + (_TESTED - x) * jnp.log1p(-rate))


def _draw_lotka_volterra(key: Any, theta: Any) -> Any:
    logs = log_populations(theta)
    return jnp.exp(logs + _LV_NOISE * jax.random.normal(key, logs.shape))


def _lotka_volterra_likelihood(theta: Any, x: Any) -> Any:
    return -0.5 * jnp.sum((jnp.log(x) - log_populations(theta)) ** 2) / _LV_NOISE**2


def sir() -> Task:
    """Contacts and recoveries of an epidemic, from ten binomial counts of the infected."""
    laws = {"contact": dist.LogNormal(math.log(0.4), 0.5), "recovery": dist.LogNormal(math.log(0.125), 0.2)}
    return Task("sir", fs.Proposal.of(laws), _draw_sir, _sir_likelihood)


def lotka_volterra() -> Task:
    """Four rates of predators and prey, from ten numbers of each."""
    centres = {"birth": -0.125, "hunting": -3.0, "death": -0.125, "feeding": -3.0}
    laws = {name: dist.LogNormal(centre, 0.5) for name, centre in centres.items()}
    return Task("lotka_volterra", fs.Proposal.of(laws), _draw_lotka_volterra, _lotka_volterra_likelihood)
