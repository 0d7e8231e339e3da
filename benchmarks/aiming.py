"""Aimed inferences (``fs.infer``) where the answer is known, and where something is wrong.

* ``wide``: weak lensing with ranges three times as wide, 300 simulations in all, ten mocks: C2ST against the exact
  posterior, beside a control: the exact posterior moved by half its width;
* ``genetics``: growing populations (msprime) over ranges of three and more decades, 3,000 simulations, beside a fit of
  20,000 in a narrow range;
* ``coverage``: how often regions of 68 and 95 % hold the parameters of mocks drawn from the prior (epidemic, 500 each);
* ``kills``: killed at twenty random moments of all rounds and gone on with, beside an undisturbed run;
* ``verdicts``: an observation that nothing explains, a prior that excludes the truth, and others.

Parts run one after another, what is in them side by side, each in a process of one thread.

    python benchmarks/aiming.py --jobs 2                       # everything: some half an hour on two cores
    python benchmarks/aiming.py --parts coverage --jobs 16

Every part is written to results/aiming.json as it ends.
"""

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpyro.distributions as dist

import fisherscore as fs
from fisherscore._support.versions import versions, write_json
from sbi_tasks import TASKS
from sbi_tasks.workers import ONE_THREAD

HERE = Path(__file__).parent / "results"
PARTS = ("wide", "verdicts", "coverage", "kills", "genetics")
# Three times as wide as the default of weak_lensing, (0.2, 0.4) and (0.7, 0.9); its lower end is where matter remains.
WIDE = {"omega_c": (0.08, 0.68), "sigma8": (0.5, 1.1)}
NUM_WIDE, NUM_COVERAGE, NUM_GENETICS, NUM_NARROW = 300, 500, 3_000, 20_000
LEVELS = (0.68, 0.95)


def quietly(*arguments: Any, **options: Any) -> fs.Inference:
    """Infer without warnings: what they say is in the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.FisherScoreWarning)
        return fs.infer(*arguments, progress=False, **options)


def side_by_side(work: Callable[[Any], Any], items: Iterable[Any], jobs: int) -> list[Any]:
    """Run work on items in processes of one thread each."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            return list(pool.map(work, items))
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def wide_mock(number: int) -> dict[str, Any]:
    """Infer one mock of weak lensing under the wide prior, and compare with the exact posterior."""
    from fisherscore.experiments.exact_posterior import draw_exact_posterior
    from sbi_tasks.classifier import c2st

    problem = fs.problems.weak_lensing()
    truth = problem.proposal.sample(1, seed=1_000 + number)
    x_obs = np.asarray(problem.simulator.draw(truth, seed=2_000 + number))[0]
    problem = replace(problem, proposal=fs.uniform(WIDE))
    result = quietly(problem.simulator, x_obs, problem.proposal, NUM_WIDE, seed=number)
    exact = draw_exact_posterior(problem, x_obs, result.posterior, num_samples=1_000, seed=number)
    moved = exact.samples + 0.5 * exact.sigma * np.array([1.0, 0.0])
    again = draw_exact_posterior(problem, x_obs, result.posterior, num_samples=1_000, seed=number + 500)
    return {
        "simulations": len(result.sims),
        "verdict": result.verdict,
        "own_error": result.model.estimated_error,
        "c2st": c2st(exact.samples, result.posterior.samples),
        "control": c2st(again.samples, moved),
        "mean_off": np.abs((result.posterior.mean - exact.mean) / exact.sigma).max(),
        "width_ratio": (result.posterior.sigma / exact.sigma).tolist(),
    }


def wide(jobs: int) -> dict[str, Any]:
    """Infer ten mocks of weak lensing."""
    rows = side_by_side(wide_mock, range(10), jobs)
    return {
        "num_simulations": NUM_WIDE,
        "c2st": float(np.mean([row["c2st"] for row in rows])),
        "control": float(np.mean([row["control"] for row in rows])),
        "mocks": rows,
    }


def covered_mock(number: int) -> dict[str, Any]:
    """Infer an epidemic drawn from the prior, and say in which regions its parameters lie; a failure holds nothing."""
    task = TASKS["sir"]()
    truth = task.sample_prior(1, seed=3_000 + number)
    x_obs = np.asarray(task.simulator.draw(truth, seed=4_000 + number))[0]
    try:
        result = quietly(task.simulator, x_obs, task.proposal, NUM_COVERAGE, prior=task.sampling_prior, seed=number)
    except fs.FisherScoreError as error:
        return {"verdict": f"{type(error).__name__}: {error}", "ranks": [1.0, 1.0], "level": 1.0}
    draws = result.posterior.samples
    ranks = (draws < truth[0]).mean(axis=0)
    centre, precision = draws.mean(axis=0), np.linalg.inv(np.cov(draws.T))
    distances = np.einsum("ni,ij,nj->n", draws - centre, precision, draws - centre)
    own = (truth[0] - centre) @ precision @ (truth[0] - centre)
    return {"verdict": result.verdict, "ranks": ranks.tolist(), "level": float((distances < own).mean())}


def coverage(jobs: int) -> dict[str, Any]:
    """Count in how many of a hundred posteriors regions hold the truth: of each parameter, and of both together."""
    rows = side_by_side(covered_mock, range(100), jobs)
    ranks, levels = np.array([row["ranks"] for row in rows]), np.array([row["level"] for row in rows])
    return {
        "num_simulations": NUM_COVERAGE,
        "mocks": len(rows),
        "together": {str(level): int((levels < level).sum()) for level in LEVELS},
        "each": {str(level): (np.abs(2 * ranks - 1) < level).sum(axis=0).tolist() for level in LEVELS},
        "not_right": sum(row["verdict"] != "right" for row in rows),
        "rows": rows,
    }


DESIGN = np.array([[1.0, 0.5], [0.2, 1.0], [1.0, -1.0]])
NOISE = 0.05
LINEAR_OBSERVED = DESIGN @ [1.0, -0.5] + NOISE * np.array([0.5, -1.0, 0.3])
LINEAR_RANGE = {"a": (-3.0, 3.0), "b": (-3.0, 3.0)}


def linear(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Three data that are linear in two parameters."""
    return DESIGN @ theta + NOISE * rng.standard_normal(3)


def folded(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two data that do not know the sign of the first parameter."""
    return np.array([theta[0] ** 2, theta[1]]) + 0.1 * rng.standard_normal(2)


def noise(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Three data that know nothing."""
    return rng.standard_normal(3)


# Situation: simulator, observation, ranges, prior, the verdict it should have, and what must hold of its draws.
UNEXPLAINED = LINEAR_OBSERVED + 20 * NOISE * np.array([0.8, -0.9, -0.62])
SITUATIONS: dict[str, tuple[Any, Any, Any, Any, str, Callable[[np.ndarray], bool]]] = {
    "nothing is wrong": (
        linear,
        LINEAR_OBSERVED,
        LINEAR_RANGE,
        None,
        "right",
        lambda draws: bool(np.abs(draws.mean(axis=0) - [1.0, -0.5]).max() < 0.1),
    ),
    "no parameter explains the observation": (
        linear,
        UNEXPLAINED,
        LINEAR_RANGE,
        None,
        "badly learned",
        lambda draws: True,
    ),
    "the prior excludes the truth": (
        linear,
        LINEAR_OBSERVED,
        LINEAR_RANGE,
        {"a": dist.Uniform(1.8, 3.0)},
        "badly learned",
        lambda draws: bool(draws[:, 0].min() >= 1.8),
    ),
    "the posterior is at the edge": (
        linear,
        LINEAR_OBSERVED,
        {"a": (1.0, 3.0), "b": (-3.0, 3.0)},
        None,
        "right",
        lambda draws: bool(draws[:, 0].min() >= 1.0 and 0.01 < draws[:, 0].mean() - 1.0 < 0.06),
    ),
    "two modes far apart": (
        folded,
        np.array([4.0, 0.3]),
        LINEAR_RANGE,
        None,
        "right",
        lambda draws: bool(0.4 < (draws[:, 0] > 0).mean() < 0.6),
    ),
    "a flat likelihood": (
        noise,
        np.zeros(3),
        LINEAR_RANGE,
        None,
        "not constrained by the data",
        lambda draws: bool(np.allclose(draws.std(axis=0), 6 / np.sqrt(12), rtol=0.1)),
    ),
}
VERDICT_SEEDS = 5


def situation(item: tuple[str, int]) -> dict[str, Any]:
    """Infer in one situation, with one seed."""
    name, seed = item
    function, x_obs, ranges, prior, expected, holds = SITUATIONS[name]
    found = quietly(fs.from_python(function), x_obs, fs.uniform(ranges), 1_000, prior=prior, seed=seed)
    return {
        "situation": name,
        "seed": seed,
        "verdict": found.verdict,
        "expected": expected,
        "draws_right": holds(found.posterior.samples),
        "findings": list(found.findings),
    }


def verdicts(jobs: int) -> dict[str, Any]:
    """Run every situation with five seeds."""
    rows = side_by_side(situation, [(name, seed) for name in SITUATIONS for seed in range(VERDICT_SEEDS)], jobs)
    right = dict.fromkeys(SITUATIONS, 0)
    for row in rows:
        right[row["situation"]] += row["verdict"] == row["expected"] and row["draws_right"]
    return {"seeds": VERDICT_SEEDS, "num_simulations": 1_000, "right": right, "rows": rows}


KILLED = """
import sys, time
import numpy as np
import fisherscore as fs

fs.use_compilation_cache()

def slow(theta, rng):
    time.sleep(0.01)
    return np.array([[1.0, 0.5], [0.2, 1.0], [1.0, -1.0]]) @ theta + 0.05 * rng.standard_normal(3)

proposal = fs.uniform(a=(-3.0, 3.0), b=(-3.0, 3.0))
result = fs.infer(
    fs.from_python(slow), [0.8, -0.35, 1.5], proposal, 700, seed=3, num_rounds=3, out=sys.argv[1], progress=False
)
np.save(sys.argv[2], result.posterior.samples)
"""


def kills(jobs: int, num: int = 20) -> dict[str, Any]:
    """Kill inferences at random moments, so often in all, and go on with each to its end; compare their draws."""
    rng = np.random.default_rng(4)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for reference in ("compiles", "undisturbed"):
            began = time.monotonic()
            _start(scratch / reference, scratch / f"{reference}.npy").wait()
        seconds = time.monotonic() - began
        expected = np.load(scratch / "undisturbed.npy")
        places: list[str] = []
        same: list[bool] = []
        while len(places) < num:
            folder, draws = scratch / f"killed-{len(same)}", scratch / f"killed-{len(same)}.npy"
            while not _ended(_start(folder, draws), rng.uniform(0.1, 0.9) * seconds, len(places) < num):
                places.append(_place(folder))
            same.append(bool(np.array_equal(np.load(draws), expected)))
    return {
        "kills": len(places),
        "inferences": len(same),
        "where": {place: places.count(place) for place in sorted(set(places))},
        "identical": sum(same),
        "control": bool(np.array_equal(expected, expected + 1e-12)),
        "seconds_undisturbed": round(seconds, 1),
    }


def _ended(process: subprocess.Popen, seconds: float, kills: bool) -> bool:
    """Wait for a process, and kill it after so long if it is to be; say whether it came to its end."""
    try:
        process.wait(seconds if kills else None)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return False
    return True


def _start(folder: Path, draws: Path) -> subprocess.Popen:
    command = [sys.executable, "-c", KILLED, str(folder), str(draws)]
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)  # noqa: S603


def _place(folder: Path) -> str:
    """Say in which round a folder's inference is."""
    if not (folder / "aim.json").exists():
        return "before the first round"
    document = json.loads((folder / "aim.json").read_text())
    return "fit of the last" if "rounds" in document else f"round {len(document['findings']) + 1}"


# Decades of each parameter: three of the population's size, four of its growth, four of the rate of mutation.
DECADES = {"log_size": (3.0, 6.0), "log_growth": (-6.0, -2.0), "log_rate": (-10.0, -6.0)}


def genetics(jobs: int) -> dict[str, Any]:
    """Aim over decades, and fit many simulations in the narrow range of ``population_genetics.py``."""
    from population_genetics import RATE, REGION, SPREAD, TRUTH, spectrum

    simulator = fs.from_python(spectrum, timeout=300.0)
    x_obs = simulator.draw(list(TRUTH), seed=1)
    prior = {"log_rate": dist.Normal(RATE, SPREAD)}
    began = time.monotonic()
    aimed = quietly(simulator, x_obs, fs.uniform(DECADES), NUM_GENETICS, prior=prior, seed=0, workers=jobs)
    middle = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.FisherScoreWarning)
        model = fs.fit(fs.simulate(simulator, fs.uniform(REGION), NUM_NARROW, seed=1, workers=jobs), progress=False)
        narrow = fs.sample(model, x_obs, prior=prior, seed=1, progress=False)
    inside = np.all(
        [(d > low) & (d < high) for d, (low, high) in zip(aimed.posterior.samples.T, REGION.values(), strict=True)], 0
    )
    draws = aimed.posterior.samples[inside]  # under the range of the narrow fit
    return {
        "num_simulations": len(aimed.sims),
        "num_narrow": NUM_NARROW,
        "verdict": aimed.verdict,
        "findings": list(aimed.findings),
        "rounds": aimed.rounds.table(),
        "names": list(REGION),
        "inside_narrow": float(inside.mean()),
        "off_by_sigma": ((draws.mean(axis=0) - narrow.mean) / narrow.sigma).tolist(),
        "width_ratio": (draws.std(axis=0) / narrow.sigma).tolist(),
        "narrow_problems": list(narrow.problems),
        "seconds": [round(middle - began, 1), round(time.monotonic() - middle, 1)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    path = options.out / "aiming.json"
    document = json.loads(path.read_text()) if path.exists() else {"benchmark": "aiming"}
    for part in options.parts:
        began = time.monotonic()
        found = globals()[part](options.jobs)
        document[part] = {**found, "wall_seconds": round(time.monotonic() - began, 1), "jobs": options.jobs}
        write_json({**document, "versions": versions()}, path)
        hidden = ("rows", "mocks", "findings")
        print(part, json.dumps({k: v for k, v in document[part].items() if k not in hidden}), flush=True)


if __name__ == "__main__":
    main()
