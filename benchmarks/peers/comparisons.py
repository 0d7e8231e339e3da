"""What is compared: problems whose score is known, maps, many parameters, and tasks of the public benchmark.

Each comparison lists jobs; a job lets one system fit and answer in a process of its own and returns a row. What all
systems are given is drawn once, when the jobs are listed. ``options.there`` are the keys of rows not to measure again.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import fisherscore as fs
from fields import spectrum
from fisherscore.accuracy import c2st, score_error_of
from many_parameters import INTEREST
from sbi_tasks import TASKS, References, Task

from .environments import SystemFailed, TooLong, ask, interpreter
from .measures import calibration, compare, grid_of

KEY = ("comparison", "problem", "system", "num_simulations", "seed")
NUM_DRAWS, NUM_MOCKS = 1_000, 40
NUM_PAIRS, FEW_PAIRS = 4_000, 1_000  # of the score error; exact scores of many parameters take long
NUM_AT_POINT = 4_000  # scores at the middle of the region, of which σ is made
Row = dict[str, Any]
Arrays = dict[str, np.ndarray]
Jobs = Iterator[tuple[Row, Callable[[], Row]]]


@dataclass(frozen=True)
class System:
    """Which script fits a system, in which environment (ours run by this interpreter), and what it can be asked.

    Attributes:
        script: The script.
        environment: The environment; None for ours.
        aimed: Whether it chooses where to simulate, and answers for one observation.
        maps: Whether it takes maps as they are; the others are given spectra.
    """

    script: str
    environment: str | None = None
    aimed: bool = False
    maps: bool = False


SYSTEMS = {
    "exact": System("by_us.py", maps=True),  # NUTS with exact gradients: the ceiling
    "ours": System("by_us.py", maps=True),
    "ours, aimed": System("by_us.py", aimed=True),
    "paper": System("by_us.py"),
    "sbi NLE": System("by_sbi.py", "sbi"),
    "sbi NLE tuned": System("by_sbi.py", "sbi"),
    "sbi NPE": System("by_sbi.py", "sbi"),
    "sbi NPE tuned": System("by_sbi.py", "sbi"),
    "sbi NPE CNN": System("by_sbi.py", "sbi", maps=True),
    "sbi SNLE": System("by_sbi.py", "sbi", aimed=True),
    "sbi TSNPE": System("by_sbi.py", "sbi", aimed=True),
    "FlowJAX NLE": System("by_flowjax.py", "flowjax"),
}
# The paper's recipe takes hours without a GPU where simulations are many.
USUAL = tuple(name for name in SYSTEMS if name != "paper")
AIMED = tuple(name for name, system in SYSTEMS.items() if system.aimed)
ONLY_IN_A_BOX = ("FlowJAX NLE",)
# Systems that cannot take part: an aimed one where many observations are asked about, networks of maps elsewhere.
NOT_IN = {
    "problems": (*AIMED, "sbi NPE CNN"),
    "scores": (*AIMED, "sbi NPE CNN", "exact"),
    "fields": (*AIMED, "paper"),
    "many": (*AIMED, "sbi NPE CNN", "paper"),
    "tasks": ("sbi NPE CNN", "exact", "paper"),
}
FIELD, SIDE = "gaussian_field", 32


def run(row: Row, given: Arrays, options: argparse.Namespace, more: Row, simulator: Any = None) -> tuple[Arrays, Row]:
    """Let a system fit and answer in a process of its own."""
    system = SYSTEMS[row["system"]]
    here = Path(sys.executable)
    python = (
        here
        if system.environment is None
        else interpreter(system.environment, options.interpreters[system.environment])
    )
    order = {**{k: row[k] for k in KEY}, "num_draws": NUM_DRAWS, "aimed": system.aimed, "settings": {}, **more}
    with tempfile.TemporaryDirectory() as folder:
        places = {"given": f"{folder}/given.npz", "found": f"{folder}/found.npz"}
        np.savez(places["given"], **given)
        told = ask(python, system.script, {**order, **places}, simulator, limit=options.limit)
        with np.load(places["found"]) as file:
            return {name: file[name] for name in file.files}, told


def drawn(problem: Any, num: int, seed: int, num_pairs: int = NUM_PAIRS) -> tuple[Arrays, Arrays]:
    """Draw what all systems are given, and what is exact.

    Returns:
        Simulations, test pairs, and mock observations with a grid where it can be; exact scores of the pairs and
        log-likelihoods on the grid.
    """
    proposal, simulator = problem.proposal, problem.simulator
    sims = fs.simulate(simulator, proposal, num, seed=seed, progress=False)
    theta, truths = proposal.sample(num_pairs, seed=1001), proposal.sample(NUM_MOCKS, seed=2001)
    mocks = simulator.draw(truths, seed=2002)
    given = {"theta": sims.theta, "x": sims.x, "low": proposal.low, "high": proposal.high, "observations": mocks[:1]}
    given |= {"test_theta": theta, "test_x": simulator.draw(theta, seed=1002)}
    exact = {"scores": np.asarray(problem.score(given["test_theta"], given["test_x"]), np.float64)}
    grid = grid_of(proposal.low, proposal.high)
    if grid is not None:
        given |= {"grid": grid, "mocks": mocks, "truths": truths}
        model = problem.exact_model()
        exact["on_grid"] = np.stack([np.asarray(model.log_likelihood(grid, x), np.float64) for x in mocks])
    return {name: np.asarray(value, np.float64) for name, value in given.items()}, exact


def box_of(given: Arrays) -> Row:
    """Return the uniform prior over the box, as systems are told of it."""
    width = given["high"] - given["low"]
    return {"box": True, "centre": given["low"].tolist(), "factor": np.diag(width).tolist(), "positive": False}


def judged(row: Row, found: Arrays, told: Row, exact: Arrays) -> Row:
    """Compare the scores of a system with exact ones."""
    scores = found["scores"][: len(exact["scores"])]
    good = np.isfinite(scores).all(axis=1)  # gradients of some networks overflow
    error = score_error_of(scores[good], exact["scores"][good])
    return row | {"score_error": error.mean, "median": error.median, "not_finite": float(np.mean(~good)), **told}


def rows_of(options: argparse.Namespace, comparison: str, name: str, num: int, seed: int) -> list[Row]:
    """Start the rows that are wanted of one problem, one for each system that can take part."""
    systems = [system for system in options.systems if system not in NOT_IN[comparison]]
    rows = [dict(zip(KEY, (comparison, name, system, num, seed), strict=True)) for system in systems]
    return [row for row in rows if tuple(row.values()) not in options.there]


def problems(options: argparse.Namespace) -> Jobs:
    """List comparisons on problems whose score is known: scores, posteriors, calibration."""
    yield from _on_problems("problems", options)


def scores(options: argparse.Namespace) -> Jobs:
    """List comparisons of scores alone, which take less time, for many numbers of simulations."""
    yield from _on_problems("scores", options)


def _on_problems(comparison: str, options: argparse.Namespace) -> Jobs:
    for name in options.problems:
        for num, seed in product(options.num_simulations, range(options.seeds)):
            if not (rows := rows_of(options, comparison, name, num, seed)):
                continue
            given, exact = drawn(getattr(fs.problems, name)(), num, seed)
            more = {"prior": box_of(given)}
            if comparison == "scores":
                given = {k: v for k, v in given.items() if k not in ("grid", "mocks", "truths")}
                more |= {"num_draws": 0}
            for row in rows:
                yield row, partial(on_problem, row, given, exact, options, more)


def on_problem(row: Row, given: Arrays, exact: Arrays, options: argparse.Namespace, more: Row) -> Row:
    """Compare one system with what is exact."""
    found, told = run(row, given, options, more)
    row = judged(row, found, told, exact)
    if "grid" in given:
        row |= compare(given["grid"], exact["on_grid"], found)
        row["calibration"] = calibration(row["levels"])
    return row


def fields(options: argparse.Namespace) -> Jobs:
    """List comparisons on maps: some systems take them as they are, the others the logarithm of the power in rings."""
    powers = spectrum(SIDE)
    for num, seed in product(options.num_simulations, range(options.seeds)):
        if rows := rows_of(options, "fields", FIELD, num, seed):
            given, exact = drawn(getattr(fs.problems, FIELD)(SIDE), num, seed)
            rings = dict(given)
            for name in ("x", "test_x", "mocks", "observations"):
                rings[name] = np.stack([np.asarray(powers(x), np.float64) for x in given[name]])
            more = {"prior": box_of(given), "settings": {"n": SIDE}}
            for row in rows:
                yield (
                    row,
                    partial(on_problem, row, given if SYSTEMS[row["system"]].maps else rings, exact, options, more),
                )


def many(options: argparse.Namespace) -> Jobs:
    """List comparisons with 21 parameters: scores all over the region, and σ of a forecast at its middle."""
    for num, seed in product(options.num_simulations, range(options.seeds)):
        if rows := rows_of(options, "many", "three_by_two", num, seed):
            problem = fs.problems.three_by_two()
            given, exact = drawn(problem, num, seed, FEW_PAIRS)
            middle = 0.5 * (given["low"] + given["high"])
            at = np.tile(middle, (NUM_AT_POINT, 1))
            given["test_theta"] = np.concatenate([given["test_theta"], at])
            given["test_x"] = np.concatenate([given["test_x"], problem.simulator.draw(at, seed=1003)])
            exact["sigma"] = np.sqrt(np.diag(np.linalg.inv(problem.fisher(middle))))
            interest = [problem.proposal.names.index(name) for name in INTEREST]
            for row in rows:
                yield row, partial(on_many, row, given, exact, interest, options)


def on_many(row: Row, given: Arrays, exact: Arrays, interest: list[int], options: argparse.Namespace) -> Row:
    """Compare scores, and σ of the inverse covariance of scores at one point, with exact ones."""
    found, told = run(row, given, options, {"prior": box_of(given), "num_draws": 0})
    row = judged(row, found, told, exact)
    ratios = sigma_of(found["scores"][-NUM_AT_POINT:]) / exact["sigma"]
    row["sigma_over_exact"] = [round(value, 4) for value in ratios.tolist()]
    row["sigma_off"] = float(np.abs(ratios - 1).max())
    row["sigma_off_of_interest"] = float(np.abs(ratios[interest] - 1).max())
    return row


def sigma_of(scores: np.ndarray) -> np.ndarray:
    """Return σ of every parameter, all others free, by the covariance of scores; those that overflow are left out."""
    return np.sqrt(np.diag(np.linalg.inv(np.cov(scores[np.isfinite(scores).all(axis=1)].T))))


def prior_of(task: Task) -> Row:
    """Return in which coordinates the prior of a task is a box or normal."""
    if task.prior is not None:
        factor = np.linalg.cholesky(np.asarray(task.prior.covariance_matrix, float))
        told = (np.asarray(task.prior.mean, float), factor)
        return {"box": False, "centre": told[0].tolist(), "factor": told[1].tolist(), "positive": False}
    laws = task.proposal.distributions
    (kind,) = {type(law).__name__ for law in laws}
    if kind == "Uniform":
        return box_of({"low": task.proposal.low, "high": task.proposal.high})
    base = [getattr(law, "base_dist", law) if kind == "LogNormal" else law for law in laws]
    centre, widths = ([float(getattr(law, name)) for law in base] for name in ("loc", "scale"))
    return {"box": False, "centre": centre, "factor": np.diag(widths).tolist(), "positive": kind == "LogNormal"}


def tasks(options: argparse.Namespace) -> Jobs:
    """List comparisons on tasks of the public benchmark; systems that do not aim get the same simulations."""
    references = References.found(options.sbibm, Path(tempfile.gettempdir()) / "sbibm")
    for name, num in product(options.tasks, options.num_simulations):
        task, numbers = TASKS[name](), range(1, options.observations + 1)
        prior = prior_of(task)
        rows = rows_of(options, "tasks", name, num, 0)
        rows = [row for row in rows if prior["box"] or row["system"] not in ONLY_IN_A_BOX]
        if not rows:
            continue
        posteriors = [references.posterior(task, number) for number in numbers]
        theta = task.sample_prior(num, seed=num)
        given = {"theta": theta, "x": task.simulator.draw(theta, seed=num)}
        given |= {"low": task.proposal.low, "high": task.proposal.high}
        given["observations"] = np.stack([references.observation(task, number) for number in numbers])
        for row in rows:
            yield row, partial(on_task, row, task, prior, given, posteriors, options)


def on_task(
    row: Row, task: Task, prior: Row, given: Arrays, posteriors: list[np.ndarray], options: argparse.Namespace
) -> Row:
    """Compare draws of one system with those of the reference posteriors."""
    seeds = count(10_000)  # of what systems ask for

    def simulator(theta: np.ndarray) -> np.ndarray:
        return np.asarray(task.simulator.draw(theta, seed=next(seeds)))

    found, told = run(row, given, options, {"prior": prior}, simulator)
    rng, values = np.random.default_rng(0), []
    with threadpool_limits(1):  # the classifier is small: more threads only wait for each other
        for reference, draws in zip(posteriors, found["draws"], strict=True):
            values.append(c2st(reference[rng.permutation(len(reference))[: len(draws)]], draws))
    return row | {"c2st_of_observations": values, "c2st": float(np.mean(values)), **told}


COMPARISONS = {"problems": problems, "scores": scores, "fields": fields, "many": many, "tasks": tasks}


def done(row: Row, job: Callable[[], Row]) -> Row:
    """Do a job; that a system fails or takes too long is a result, too."""
    try:
        return job()
    except TooLong as error:
        return row | {"unfinished": str(error)}
    except SystemFailed as error:
        return row | {"failed": str(error)[-2_000:]}
