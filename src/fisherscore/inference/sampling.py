"""``fs.sample``: the posterior of one observation under any prior, by NUTS or by tempered SMC, and its problems."""

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._support.arguments import as_count, as_seed
from .._support.rows import rows_mapped
from ..errors import ArgumentError, FisherScoreWarning
from ..score.combined import observed
from ..score.model import ScoreModel
from .nuts import sample_lanes
from .posterior import (
    LARGEST_DIVERGENT,
    LARGEST_OUTSIDE,
    LARGEST_R_HAT,
    SMALLEST_ESS,
    SMALLEST_RARITY,
    Posterior,
    convergence,
)
from .priors import prior_laws
from .smc import tempered_particles
from .target import Lanes, Target

# Evaluations of a score side by side when the line integral of one draw is taken.
_EVALUATIONS_PER_DRAW = 8


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
    """Sample the posterior of one observation under any prior.

    Reasons not to trust the result are warned about, and listed in its ``problems``.

    Args:
        model: A score model.
        x_obs: The observation; with ``iid``, one more leading axis of independent draws at the same θ. For combined
            models, a tuple with one entry per model.
        prior: NumPyro distributions by parameter name; parameters not named are uniform over the training region.
        iid: Whether ``x_obs`` holds independent draws at the same θ.
        method: ``"nuts"``, or ``"smc"`` (tempered sequential Monte Carlo) for posteriors with several modes.
        num_samples: Draws kept in each chain.
        num_warmup: Steps of each chain before the first draw is kept (NUTS alone).
        num_chains: Number of chains; SMC has ``num_chains * num_samples`` particles.
        seed: Whole number; the same seed gives the same draws.
        progress: Whether to draw a progress bar; by default only on a terminal.

    Returns:
        The draws with their log-density and diagnostics.

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
    if method not in _SAMPLERS:
        raise ArgumentError(f'method: expected "nuts" or "smc", got {method!r}.')
    settings = _Settings(
        num_samples=as_count(num_samples, "num_samples", minimum=10),
        num_warmup=as_count(num_warmup, "num_warmup"),
        num_chains=as_count(num_chains, "num_chains"),
        progress=progress,
    )
    target = Target(whole, prior_laws(whole, prior))
    posterior = _SAMPLERS[method](target, x, jax.random.key(as_seed(seed)), settings)
    for problem in posterior.problems:
        warnings.warn(problem, FisherScoreWarning, stacklevel=2)
    return posterior


@dataclass(frozen=True)
class _Settings:
    """How long to sample, and whether to show it."""

    num_samples: int
    num_warmup: int
    num_chains: int
    progress: bool | None


@dataclass(frozen=True, eq=False)
class _Run:
    """What a sampler did: the draws, and in words how they were made."""

    chains: np.ndarray
    method: str
    correction: str
    num_divergent: int
    seconds: dict[str, float]


def _nuts(target: Target, x: Any, key: Array, settings: _Settings) -> Posterior:
    lanes = Lanes.repeated(target, x, settings.num_chains)
    draws = sample_lanes(
        lanes,
        key,
        num_warmup=settings.num_warmup,
        num_samples=settings.num_samples,
        progress=settings.progress,
    )
    run = _Run(
        chains=draws.theta.swapaxes(0, 1),
        method="NUTS",
        correction="exact log-likelihood of the model" if target.model.has_density else "line integral of the score",
        num_divergent=int(draws.divergent.sum()),
        seconds=draws.seconds,
    )
    return _posterior(lanes, x, run)


def _smc(target: Target, x: Any, key: Array, settings: _Settings) -> Posterior:
    started = time.perf_counter()
    lanes = Lanes.repeated(target, x, 1)
    num_particles = settings.num_samples * settings.num_chains
    theta, num_temperatures = tempered_particles(lanes, key, num_particles=num_particles, progress=settings.progress)
    run = _Run(
        chains=theta.reshape(settings.num_chains, settings.num_samples, -1),
        method="tempered SMC",
        correction=f"{num_temperatures} temperatures",
        num_divergent=0,
        seconds={"sample": time.perf_counter() - started},
    )
    return _posterior(lanes, x, run)


_SAMPLERS = {"nuts": _nuts, "smc": _smc}


def _posterior(lanes: Lanes, x: Any, run: _Run) -> Posterior:
    model = lanes.target.model
    r_hat, effective_samples = convergence(run.chains)
    samples = run.chains.reshape(-1, len(model.names))
    rarity = model.rarity(x)
    posterior = Posterior(
        names=model.names,
        units=model.units,
        chains=run.chains,
        log_density=_log_density(lanes, samples).reshape(run.chains.shape[:2]),
        method=run.method,
        correction=run.correction,
        r_hat=r_hat,
        effective_samples=effective_samples,
        num_divergent=run.num_divergent,
        fraction_outside=1 - float(np.mean(model.inside(samples))),
        rarity=None if rarity is None else float(rarity),
        seconds=run.seconds,
        support=lanes.target.support(),
    )
    return replace(posterior, problems=(*sampler_problems(posterior), *region_problems(posterior, model)))


def _log_density(lanes: Lanes, samples: np.ndarray) -> np.ndarray:
    """Evaluate the log posterior density of all draws of the first lane's observation."""
    return np.asarray(_log_densities(lanes, jnp.asarray(samples, jnp.float32)), np.float64)


@eqx.filter_jit
def _log_densities(lanes: Lanes, theta: Array) -> Array:
    x, anchor = lanes.row(0)
    at_once = max(1, lanes.target.model.rows_at_once // _EVALUATIONS_PER_DRAW)
    return rows_mapped(lambda row: lanes.target.log_density(row, x, anchor), (theta,), at_once)


def sampler_problems(posterior: Posterior) -> list[str]:
    """Say what is wrong with the chains themselves."""
    problems = []
    r_hat, effective, num = posterior.r_hat.max(), posterior.effective_samples.min(), len(posterior.samples)
    if posterior.method == "NUTS" and not r_hat < LARGEST_R_HAT:
        problems.append(
            f"the chains have not converged or disagree (R-hat up to {r_hat:.2f}, at least {effective:.0f} "
            'effective samples): run longer, or, if there may be several modes, use method="smc"'
        )
    elif posterior.method == "NUTS" and not effective > SMALLEST_ESS:
        problems.append(
            f"the chains agree (R-hat up to {r_hat:.2f}) but are short: {effective:.0f} effective samples, of which "
            f"there should be more than {SMALLEST_ESS:.0f}: run longer, with a larger num_samples"
        )
    if posterior.num_divergent > LARGEST_DIVERGENT * num:
        problems.append(
            f"{posterior.num_divergent} of {num} transitions diverged: the posterior has parts NUTS cannot follow"
        )
    return problems


def region_problems(posterior: Posterior, model: ScoreModel) -> list[str]:
    """Say where posterior or observation leave what the model was trained on."""
    problems = []
    outside, rarity = posterior.fraction_outside, posterior.rarity
    if outside > LARGEST_OUTSIDE:
        problems.append(
            f"{outside:.1%} of the posterior lies outside the training region, where the score is an extrapolation: "
            "train on a larger region or use a narrower prior"
        )
    else:
        problems += [
            f"the posterior of {name!r} is cut off by the {side} edge of the training region: widen the region, unless "
            "that edge is meant as a prior"
            for name, side in _edges(posterior.samples, model)
        ]
    if rarity is not None and rarity < SMALLEST_RARITY:
        problems.append(
            "the observation is unlike anything simulated (farther from the mean of the training data than "
            f"{1 - rarity:.2%} of them): the model may be misspecified"
        )
    return problems


def _edges(samples: np.ndarray, model: ScoreModel) -> list[tuple[str, str]]:
    """Return parameter and side of every edge of the training region that holds more than 2 % of the draws."""
    strip = 0.01 * (model.high - model.low)
    near = {"lower": samples < model.low + strip, "upper": samples > model.high - strip}
    return [(name, side) for i, name in enumerate(model.names) for side in near if near[side][:, i].mean() > 0.02]
