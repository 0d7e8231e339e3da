"""``fs.sample``: posteriors of one observation or many under any prior, by NUTS or tempered SMC, and their problems."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import jax
import numpy as np

from .._support.arguments import as_count, as_seed
from .._support.progress import working
from ..errors import ArgumentError, FisherScoreWarning
from ..score.combined import observed
from ..score.model import ScoreModel
from .constraints import precision_at_hand
from .convergence import convergence
from .nuts import sample_lanes
from .posterior import Posterior
from .posterior_checks import aiming_problems, problems_and_notes
from .posteriors import Posteriors
from .scaling import ScaledProblem
from .smc import tempered_particles
from .target import Lanes, Target


def sample(
    model: ScoreModel,
    x_obs: Any,
    *,
    prior: Any = None,
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
            models, a tuple with one entry per model. With yet another leading axis, many observations, whose posteriors
            are sampled at once: the result is then the :class:`Posteriors` of :func:`sample_many`, which is also the
            name to use in code that is type-checked.
        prior: NumPyro distributions by parameter name, or by a tuple of names for joint ones; one joint distribution
            over all; draws of another experiment (:func:`prior_from_samples`), a log-density
            (:func:`prior_from_density`), or any of these cut down to a region (:func:`restricted_prior`). Parameters
            not named are uniform over the training region. SciPy's frozen distributions are taken as well.
        iid: Whether ``x_obs`` holds independent draws at the same θ.
        method: ``"nuts"``, or ``"smc"`` (tempered sequential Monte Carlo) for posteriors with several modes.
        num_samples: Draws kept in each chain.
        num_warmup: Steps of each chain before the first draw is kept (NUTS alone).
        num_chains: Number of chains; SMC has ``num_chains * num_samples`` particles.
        seed: Whole number; the same seed gives the same draws.
        progress: Whether to show how far it is; by default what takes more than a moment is shown.

    Returns:
        The draws with their log-density and diagnostics; for many observations, a sequence of these.

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> posterior = fs.sample(model, [0.5, -0.5], num_samples=200, num_warmup=200)
    >>> posterior.samples.shape, posterior.trusted
    ((800, 2), True)
    """
    whole, x = observed(model, x_obs, iid)
    options: dict[str, Any] = {
        "method": method,
        "num_samples": num_samples,
        "num_warmup": num_warmup,
        "num_chains": num_chains,
        "seed": seed,
        "progress": progress,
    }
    if whole.data_batch_shape(x):
        many = sample_many(model, x_obs, prior=prior, iid=iid, **options)
        return cast(Posterior, many)
    posterior = _sampled(whole, jax.tree.map(lambda a: a[None], x), prior, options)[0]
    for problem in posterior.problems:
        warnings.warn(problem, FisherScoreWarning, stacklevel=2)
    return posterior


def sample_many(
    model: ScoreModel,
    x_obs: Any,
    *,
    prior: Any = None,
    iid: bool = False,
    method: str = "nuts",
    num_samples: int = 1000,
    num_warmup: int = 500,
    num_chains: int = 4,
    seed: int = 0,
    progress: bool | None = None,
) -> Posteriors:
    """Sample the posteriors of many observations in one call, side by side.

    Args:
        model: A score model.
        x_obs: Observations along one leading axis; with ``iid``, sets of independent draws along two: sets, then draws.
            For combined models, a tuple with one entry per model.
        prior: As for :func:`sample`; the same for all observations.
        iid: Whether each observation holds independent draws at the same θ.
        method: ``"nuts"`` or ``"smc"``; with the latter, observations are sampled one after another.
        num_samples: Draws kept in each chain.
        num_warmup: Steps of each chain before the first draw is kept (NUTS alone).
        num_chains: Number of chains of each posterior.
        seed: Whole number; the same seed gives the same draws.
        progress: Whether to show how far it is; by default what takes more than a moment is shown.

    Returns:
        The posteriors in the order of the observations. Problems are in each one's ``problems``; how many have any is
        warned about once.

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> fs.sample_many(model, [[0.5, -0.5], [0.0, 0.3]], num_samples=200, num_warmup=200).mean.shape
    (2, 2)
    """
    whole, x = observed(model, x_obs, iid)
    axes = whole.data_batch_shape(x)
    if len(axes) != 1:
        raise ArgumentError(
            f"x_obs: expected observations of shape {whole.x_shape} along one leading axis, got leading axes {axes}. "
            "For independent draws at the same parameters pass iid=True."
        )
    options: dict[str, Any] = {
        "method": method,
        "num_samples": num_samples,
        "num_warmup": num_warmup,
        "num_chains": num_chains,
        "seed": seed,
        "progress": progress,
    }
    posteriors = Posteriors(_sampled(whole, x, prior, options))
    if not posteriors.trusted.all():
        warnings.warn(_problems_of_many(posteriors), FisherScoreWarning, stacklevel=2)
    return posteriors


def _problems_of_many(posteriors: Posteriors) -> str:
    untrusted = np.flatnonzero(~posteriors.trusted)
    first = posteriors[int(untrusted[0])].problems[0]
    return (
        f"{len(untrusted)} of {len(posteriors)} posteriors have problems, the first of which is number "
        f"{untrusted[0]}: {first}"
    )


@dataclass(frozen=True)
class _Settings:
    """How long to sample, and whether to show it."""

    num_samples: int
    num_warmup: int
    num_chains: int
    progress: bool | None


@dataclass(frozen=True, eq=False)
class _Run:
    """What a sampler did: chains (chains, draws, m, p) of m observations, and in words how they were made."""

    chains: np.ndarray
    log_density: np.ndarray
    method: str
    corrections: Sequence[str]
    num_divergent: np.ndarray
    seconds: dict[str, float]


def _sampled(whole: ScoreModel, x: Any, prior: Any, options: dict[str, Any]) -> list[Posterior]:
    """Sample the posterior of each row of ``x``."""
    method, seed = options["method"], as_seed(options["seed"])
    if method not in _SAMPLERS:
        raise ArgumentError(f'method: expected "nuts" or "smc", got {method!r}.')
    settings = _Settings(
        num_samples=as_count(options["num_samples"], "num_samples", minimum=10),
        num_warmup=as_count(options["num_warmup"], "num_warmup"),
        num_chains=as_count(options["num_chains"], "num_chains"),
        progress=options["progress"],
    )
    with working("sample", settings.progress, "preparing"):
        scaled = ScaledProblem.of(whole, x, prior)
        run = _SAMPLERS[method](Lanes.of(Target.of(scaled.model, scaled.law), scaled.x), seed, settings)
    if not np.isfinite(run.chains).all():
        raise ArgumentError(
            "x_obs, prior: the posterior has no density to be sampled. Either the prior lies so far outside the "
            "training region, or the observation so far from all training data, that the score is no number there: "
            "compare the observation with simulated data, and the prior with the region."
        )
    in_theta = replace(run, chains=scaled.outer(run.chains), log_density=scaled.log_density(run.log_density))
    return _posteriors(whole, x, (scaled.ends(), precision_at_hand(whole, prior)), in_theta)


def _nuts(lanes: Lanes, seed: int, settings: _Settings) -> _Run:
    num, chains = lanes.num_lanes, settings.num_chains
    draws = sample_lanes(
        lanes.repeated(chains),
        seed,
        num_warmup=settings.num_warmup,
        num_samples=settings.num_samples,
        progress=settings.progress,
    )
    has_density = lanes.target.model.has_density
    return _Run(
        chains=draws.theta.reshape(-1, num, chains, lanes.target.num_parameters).transpose(2, 0, 1, 3),
        log_density=draws.log_density.reshape(-1, num, chains).transpose(2, 0, 1),
        method="NUTS",
        corrections=["exact log-likelihood of the model" if has_density else "line integral of the score"] * num,
        num_divergent=draws.divergent.sum(axis=0).reshape(num, chains).sum(axis=1),
        seconds=draws.seconds,
    )


def _smc(lanes: Lanes, seed: int, settings: _Settings) -> _Run:
    started = time.perf_counter()
    num_particles = settings.num_samples * settings.num_chains
    runs = [
        tempered_particles(lanes.part(slice(i, i + 1)), seed, num_particles=num_particles, progress=settings.progress)
        for i in range(lanes.num_lanes)
    ]
    shape = (settings.num_chains, settings.num_samples)
    return _Run(
        chains=np.stack([run.theta.reshape(*shape, -1) for run in runs], axis=2),
        log_density=np.stack([run.log_density.reshape(shape) for run in runs], axis=2),
        method="tempered SMC",
        corrections=[f"{run.num_temperatures} temperatures" for run in runs],
        num_divergent=np.zeros(len(runs), int),
        seconds={"sample": time.perf_counter() - started},
    )


_SAMPLERS = {"nuts": _nuts, "smc": _smc}


def _posteriors(model: ScoreModel, x: Any, prior: tuple[Any, Any], run: _Run) -> list[Posterior]:
    support, precision = prior
    r_hat, effective_samples = convergence(run.chains)
    inside = model.inside(run.chains).mean(axis=(0, 1))
    rarity = model.rarity(x)

    def one(i: int) -> Posterior:
        posterior = Posterior(
            names=model.names,
            units=model.units,
            chains=run.chains[:, :, i].copy(),
            log_density=run.log_density[:, :, i].copy(),
            method=run.method,
            correction=run.corrections[i],
            r_hat=r_hat[i],
            effective_samples=effective_samples[i],
            num_divergent=int(run.num_divergent[i]),
            fraction_outside=1 - float(inside[i]),
            rarity=None if rarity is None else float(rarity[i]),
            seconds=run.seconds,
            support=support,
        )
        own = jax.tree.map(lambda a: a[i], x)
        problems, notes = problems_and_notes(posterior, model, precision, own)
        aimed = aiming_problems(model, own)
        # What else is wrong with such a posterior comes of that alone.
        return replace(posterior, problems=tuple(aimed) or problems, notes=notes)

    return [one(i) for i in range(run.chains.shape[2])]
