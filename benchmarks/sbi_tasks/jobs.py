"""What the benchmark runs: fits, inferences and controls, each a job for a worker process of one thread."""

import time
import traceback
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

import fisherscore as fs

from . import TASKS
from .identities import steins_identity
from .reference import References
from .task import Task

# Aimed inferences, fits over the prior, and what the classifier says of pairs that it must not, and must, tell apart.
METHODS = ("aimed", "single", "reference", "prior")
# Posteriors with several modes, for which a single fit is sampled by tempered SMC; an aimed one decides by itself.
_SEVERAL_MODES = ("slcp", "slcp_distractors", "two_moons", "gaussian_mixture")
_CHAINS = 10


@dataclass(frozen=True)
class Job:
    """Some observations of one task, by one method with one number of simulations (0 for controls).

    Attributes:
        method: One of :data:`METHODS`.
        task: Name of the task.
        num_simulations: How many simulations it may use.
        observations: Numbers of the observations, from 1 to 10.
    """

    method: str
    task: str
    num_simulations: int
    observations: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """What came of one observation.

    Attributes:
        row: What is kept of it.
        draws: Draws of the posterior, shape (n, p); None where there are none.
        reference: What they are compared with, shape (n, p).
    """

    row: dict[str, Any]
    draws: np.ndarray | None
    reference: np.ndarray


def run(job: Job, references: References, num_draws: int) -> list[Outcome]:
    """Run one job; an error becomes part of the rows.

    Args:
        job: The job.
        references: Observations and reference posteriors.
        num_draws: How many draws of each posterior.

    Returns:
        One outcome an observation.
    """
    task = TASKS[job.task]()
    found = [references.posterior(task, number) for number in job.observations]
    key = {"method": job.method, "task": job.task, "num_simulations": job.num_simulations}
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pairs = _RUNNERS[job.method](task, job, references, num_draws)
    except Exception as error:  # noqa: BLE001 -- any failure is a result of the benchmark
        way = " > ".join(frame.name for frame in traceback.extract_tb(error.__traceback__)[-5:])
        facts = {"error": f"{type(error).__name__}: {error} ({way})"[:500]}
        pairs = [(None, facts) for _ in job.observations]
    seconds = (time.perf_counter() - started) / len(job.observations)
    return [
        Outcome({**key, "observation": number, "seconds": round(seconds, 1), **facts}, draws, reference)
        for number, (draws, facts), reference in zip(job.observations, pairs, found, strict=True)
    ]


def _aimed(task: Task, job: Job, references: References, num_draws: int) -> list[tuple[np.ndarray, dict[str, Any]]]:
    pairs = []
    for number in job.observations:
        result = fs.infer(
            task.simulator,
            references.observation(task, number),
            task.proposal,
            job.num_simulations,
            prior=task.sampling_prior,
            num_samples=num_draws // _CHAINS,
            num_chains=_CHAINS,
            seed=number,
            progress=False,
        )
        facts = {
            "simulations_used": len(result.sims),
            "num_rounds": len(result.rounds),
            "own_error": _finite(result.model.estimated_error),
        }
        pairs.append((np.asarray(result.posterior.samples), facts))
    return pairs


def _single(task: Task, job: Job, references: References, num_draws: int) -> list[tuple[np.ndarray, dict[str, Any]]]:
    """One fit for all observations: simulations all over the prior know none of them."""
    theta = task.sample_prior(job.num_simulations, seed=job.num_simulations)
    sims = fs.from_table(theta, task.simulator.draw(theta, seed=job.num_simulations), task.proposal)
    model = fs.fit(sims, seed=0, progress=False)
    facts = {"simulations_used": len(sims), "own_error": _finite(model.estimated_error)}
    pairs = []
    for number in job.observations:
        posterior = fs.sample(
            model,
            references.observation(task, number),
            prior=task.sampling_prior,
            method="smc" if task.name in _SEVERAL_MODES else "nuts",
            num_samples=num_draws // _CHAINS,
            num_chains=_CHAINS,
            seed=number,
            progress=False,
        )
        pairs.append((np.asarray(posterior.samples), facts))
    return pairs


def _reference(task: Task, job: Job, references: References, _: int) -> list[tuple[np.ndarray, dict[str, Any]]]:
    """Two halves of the same draws, which nothing should tell apart; and whether they fit our likelihood."""
    pairs = []
    for number in job.observations:
        draws = references.posterior(task, number)
        facts = {}
        if task.name != "two_moons":  # whose density has steps, where the identity does not hold
            average, error = steins_identity(task, draws, references.observation(task, number))
            facts = {"steins_identity": round(float(np.max(np.abs(average / error))), 2)}
        pairs.append((draws, facts))
    return pairs


def _prior(task: Task, job: Job, _: References, num_draws: int) -> list[tuple[np.ndarray, dict[str, Any]]]:
    return [(task.sample_prior(num_draws, seed=number), {}) for number in job.observations]


def _finite(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


_RUNNERS = {"aimed": _aimed, "single": _single, "reference": _reference, "prior": _prior}


def pair_of(outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """Return what the classifier is given: reference and draws, or two halves of the reference.

    As many of each: of unequal numbers, a classifier is right more often than not by naming the larger.

    Args:
        outcome: An outcome with draws.

    Returns:
        Two arrays of draws.
    """
    if outcome.draws is None:
        raise ValueError("Expected an outcome with draws.")
    if outcome.row["method"] != "reference":
        num = min(len(outcome.reference), len(outcome.draws))
        return outcome.reference[:num], outcome.draws[:num]
    order = np.random.default_rng(0).permutation(len(outcome.reference))
    half = len(order) // 2
    return outcome.reference[order[:half]], outcome.reference[order[half : 2 * half]]
