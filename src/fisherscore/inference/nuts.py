"""Posterior sampling: NUTS through NumPyro, all chains of all observations in one compiled call; tempered SMC.

Work is done in lanes: one lane is one chain for one observation. Step size and a dense mass matrix are adapted per
lane. The compiled function runs a segment of fixed length, so that the host can draw a progress bar, and takes model,
data and prior as arguments, so that other observations and refitted models of the same shape reuse it.
"""

import time
import warnings
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer.hmc import hmc

from .._support.arguments import as_count, as_seed
from .._support.progress import progress_bar
from ..errors import ArgumentError, FisherScoreWarning
from ..score.combined import observed
from ..score.model import ScoreModel
from .estimate import maximum_likelihood
from .posterior import (
    LARGEST_DIVERGENT,
    LARGEST_OUTSIDE,
    LARGEST_R_HAT,
    SMALLEST_ESS,
    SMALLEST_RARITY,
    Posterior,
)
from .smc import tempered_particles
from .target import Target, target

_NUM_SEGMENTS = 20
# A chain starts to climb at the likeliest of this many draws from the prior.
_NUM_CANDIDATES = 32
_NUM_CLIMBING_STEPS = 30


def sample(
    model: ScoreModel,
    x_obs: Any,
    *,
    prior: Mapping[str, Any] | None = None,
    iid: bool = False,
    method: str = "nuts",
    num_samples: int = 1000,
    num_warmup: int = 500,
    num_chains: int = 4,
    seed: int = 0,
    progress: bool | None = None,
) -> Posterior:
    """Sample the posterior of one observation (with ``iid``, of many draws at the same θ) under any prior.

    ``prior`` maps parameter names to NumPyro distributions; what it does not name is uniform over the training region.
    ``method`` is ``"nuts"``, or ``"smc"`` (tempered sequential Monte Carlo) for posteriors with several modes.
    ``num_samples`` counts per chain. Problems are warned about and listed in the result.

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> posterior = fs.sample(model, [0.5, -0.5], num_samples=200, num_warmup=200)
    >>> posterior.samples.shape, posterior.trusted
    ((800, 2), True)
    """
    whole, x = observed(model, x_obs, iid)
    if whole.data_batch_shape(x):
        raise ArgumentError(
            f"x_obs: expected one observation of shape {whole.x_shape}, got leading axes {whole.data_batch_shape(x)}. "
            "For independent draws at the same parameters pass iid=True; for several posteriors call sample for each."
        )
    if method not in ("nuts", "smc"):
        raise ArgumentError(f'method: expected "nuts" or "smc", got {method!r}.')
    counts = {
        "num_samples": as_count(num_samples, "num_samples", minimum=10),
        "num_warmup": as_count(num_warmup, "num_warmup"),
        "num_chains": as_count(num_chains, "num_chains"),
    }
    goal = target(whole, prior)
    key = jax.random.key(as_seed(seed))
    if method == "nuts":
        return _nuts(goal, x, key, counts, progress)
    return _smc(goal, x, key, counts, progress)


def _nuts(goal: Target, x: Any, key: Array, counts: dict[str, int], progress: bool | None) -> Posterior:
    lanes = counts["num_chains"]
    xs = jax.tree.map(lambda a: jnp.broadcast_to(jnp.asarray(a, jnp.float32), (lanes, *np.shape(a))), x)
    draws = sample_lanes(
        goal, xs, key, num_warmup=counts["num_warmup"], num_samples=counts["num_samples"], progress=progress
    )
    chains = draws["theta"].swapaxes(0, 1)
    correction = "exact log-likelihood of the model" if goal.model.has_density else "line integral of the score"
    return _result(goal, x, chains, "NUTS", correction, int(draws["divergent"].sum()), draws["seconds"])


def _smc(goal: Target, x: Any, key: Array, counts: dict[str, int], progress: bool | None) -> Posterior:
    num = counts["num_samples"] * counts["num_chains"]
    started = time.perf_counter()
    theta, stages = tempered_particles(goal, x, _anchors(goal.model, x), key, num, progress)
    chains = theta.reshape(counts["num_chains"], counts["num_samples"], -1)
    seconds = {"sample": time.perf_counter() - started}
    return _result(goal, x, chains, "tempered SMC", f"{stages} temperatures", 0, seconds)


def sample_lanes(
    goal: Target, xs: Any, key: Array, *, num_warmup: int, num_samples: int, progress: bool | None = False
) -> dict[str, Any]:
    """Run one NUTS chain for each row of ``xs`` and return θ (draw, lane, p), divergences and times."""
    num_lanes = len(jax.tree.leaves(xs)[0])
    start_key, run_key = jax.random.split(key)
    started = time.perf_counter()
    anchors = _anchors(goal.model, xs) if not goal.model.has_density else jnp.zeros((num_lanes, len(goal.prior)))
    starts = _starts(goal, xs, anchors, jax.random.split(start_key, num_lanes))
    state = _first_state(goal, xs, anchors, starts, jax.random.split(run_key, num_lanes), num_warmup)
    total = num_warmup + num_samples
    length = -(-total // _NUM_SEGMENTS)
    theta, divergent, compiled = [], [], None
    with progress_bar("sample", total, progress) as advance:
        for begin in range(0, total, length):
            state, (u, bad) = _segment(goal, xs, anchors, starts, state, num_warmup, length)
            theta.append(np.asarray(u))
            divergent.append(np.asarray(bad))
            compiled = compiled or time.perf_counter()
            advance(min(length, total - begin), "warm-up" if begin + length <= num_warmup else "")
    assert compiled is not None
    kept = slice(num_warmup, total)
    return {
        "theta": np.concatenate(theta)[kept].astype(np.float64),
        "divergent": np.concatenate(divergent)[kept],
        "seconds": {"first segment, with compilation": compiled - started, "rest": time.perf_counter() - compiled},
    }


def _kernels(goal: Target) -> Any:
    def potential(x: Any, anchor: Any) -> Any:
        return lambda u: -(goal.log_prior(u) + goal.log_likelihood(u, x, anchor))

    return hmc(potential_fn_gen=potential, algo="NUTS")


def _initial(kernels: Any, u: Array, key: Array, x: Any, anchor: Array, num_warmup: int) -> Any:
    # No heuristic step size: NumPyro would look for it with the data of whichever lane made the first state.
    return kernels[0](u, num_warmup, dense_mass=True, step_size=0.1, model_args=(x, anchor), rng_key=key)


@eqx.filter_jit
def _first_state(goal: Target, xs: Any, anchors: Array, starts: Array, keys: Array, num_warmup: int) -> Any:
    kernels = _kernels(goal)
    return jax.vmap(lambda u, k, x, a: _initial(kernels, u, k, x, a, num_warmup))(starts, keys, xs, anchors)


@eqx.filter_jit
def _segment(
    goal: Target, xs: Any, anchors: Array, starts: Array, state: Any, num_warmup: int, length: int
) -> tuple[Any, Any]:
    kernels = _kernels(goal)
    # NumPyro's kernel remembers its settings from the call that makes a first state; the state itself is dropped.
    _initial(kernels, starts[0], jax.random.key(0), jax.tree.map(lambda a: a[0], xs), anchors[0], num_warmup)

    def step(state: Any, _: None) -> tuple[Any, Any]:
        state = jax.vmap(lambda s, x, a: kernels[1](s, model_args=(x, a)))(state, xs, anchors)
        return state, (jax.vmap(goal.constrain)(state.z), state.diverging)

    return jax.lax.scan(step, state, None, length=length)


def _anchors(model: ScoreModel, xs: Any) -> Array:
    """Find points of high likelihood, from which a vector field's line integrals start."""
    return jnp.asarray(maximum_likelihood(model, jax.tree.map(np.asarray, xs)).theta, jnp.float32)


@eqx.filter_jit
def _starts(goal: Target, xs: Any, anchors: Array, keys: Array) -> Array:
    """Start each lane at a local mode: climb from the likeliest of some draws from the prior.

    Lanes climb from different draws, so that of several modes they find several. Draws inside the training region come
    first.
    """

    def one(x: Any, anchor: Array, key: Array) -> Array:
        theta = jax.vmap(goal.draw_prior)(jax.random.split(key, _NUM_CANDIDATES))
        u = jax.vmap(goal.unconstrain)(theta)
        inside = ((theta >= goal.model.low) & (theta <= goal.model.high)).all(axis=1)
        value = jax.vmap(lambda v: goal.log_likelihood(v, x, anchor))(u)
        usable = jnp.isfinite(u).all(axis=1)
        best = u[jnp.argmax(jnp.where(usable, value + jnp.where(inside, 0.0, -1e8), -jnp.inf))]
        return _climb(lambda v: -(goal.log_prior(v) + goal.log_likelihood(v, x, anchor)), best)

    return jax.vmap(one)(xs, anchors, keys)


def _climb(potential: Any, start: Array) -> Array:
    """Descend a potential by L-BFGS and return the lowest point seen."""
    optimiser = optax.lbfgs()
    value_and_gradient = optax.value_and_grad_from_state(potential)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        u, state, best, lowest = carry
        value, gradient = value_and_gradient(u, state=state)
        best, lowest = jnp.where(value < lowest, u, best), jnp.minimum(value, lowest)
        updates, state = optimiser.update(gradient, state, u, value=value, grad=gradient, value_fn=potential)
        moved = optax.apply_updates(u, updates)
        return (jnp.where(jnp.isfinite(moved).all(), moved, u), state, best, lowest), None

    first = (start, optimiser.init(start), start, potential(start))
    (_, _, best, _), _ = jax.lax.scan(step, first, None, length=_NUM_CLIMBING_STEPS)
    return best


def _result(
    goal: Target, x: Any, chains: np.ndarray, method: str, correction: str, divergent: int, seconds: dict[str, float]
) -> Posterior:
    model = goal.model
    samples = chains.reshape(-1, len(model.names))
    r_hat = np.atleast_1d(split_gelman_rubin(chains))
    effective = np.atleast_1d(effective_sample_size(chains))
    outside = 1 - float(np.mean(model.inside(samples)))
    rarity = model.rarity(x)
    posterior = Posterior(
        names=model.names,
        units=model.units,
        chains=chains,
        method=method,
        correction=correction,
        r_hat=r_hat,
        effective_samples=effective,
        num_divergent=divergent,
        fraction_outside=outside,
        rarity=None if rarity is None else float(rarity),
        seconds=seconds,
        problems=tuple(_problems(model, samples, method, r_hat, effective, divergent, outside, rarity)),
        support=goal.support(),
    )
    for problem in posterior.problems:
        warnings.warn(problem, FisherScoreWarning, stacklevel=4)
    return posterior


def _problems(
    model: ScoreModel,
    samples: np.ndarray,
    method: str,
    r_hat: np.ndarray,
    effective: np.ndarray,
    divergent: int,
    outside: float,
    rarity: Any,
) -> list[str]:
    found = []
    if method == "NUTS" and not (r_hat.max() < LARGEST_R_HAT and effective.min() > SMALLEST_ESS):
        found.append(
            f"the chains have not converged or disagree (R-hat up to {r_hat.max():.2f}, at least {effective.min():.0f} "
            'effective samples): run longer, or, if there may be several modes, use method="smc"'
        )
    if divergent > LARGEST_DIVERGENT * len(samples):
        found.append(f"{divergent} of {len(samples)} transitions diverged: the posterior has parts NUTS cannot follow")
    if outside > LARGEST_OUTSIDE:
        found.append(
            f"{outside:.1%} of the posterior lies outside the training region, where the score is an extrapolation: "
            "train on a larger region or use a narrower prior"
        )
    for i, name in enumerate(model.names):
        strip = 0.01 * (model.high[i] - model.low[i])
        sides = {"lower": samples[:, i] < model.low[i] + strip, "upper": samples[:, i] > model.high[i] - strip}
        for side, near in sides.items():
            if outside <= LARGEST_OUTSIDE and near.mean() > 0.02:
                found.append(
                    f"the posterior of {name!r} is cut off by the {side} edge of the training region: widen the "
                    "region, unless that edge is meant as a prior"
                )
    if rarity is not None and rarity < SMALLEST_RARITY:
        found.append(
            "the observation is unlike anything simulated (farther from the mean of the training data than "
            f"{1 - float(rarity):.2%} of them): the model may be misspecified"
        )
    return found
