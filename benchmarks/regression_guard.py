"""Has the default fit become worse? Score errors of small problems against stored ones, with their noise; run in CI.

The same seeds are fitted as those of the reference, so that a version that fits alike gives the same errors. A problem
is worse when the mean logarithm of its errors has risen by more than twice its standard error, as the reference's
seeds tell it; all problems together count as one more. As a control, one problem is fitted to half as many
simulations: the guard must call that worse, or it fails.

    python benchmarks/regression_guard.py              # a minute on two cores; ends with 1 where something is worse
    python benchmarks/regression_guard.py --write      # measure the reference anew, with all its seeds

The reference is benchmarks/regression_guard.json. Write it anew only with a change that is meant to change errors.
"""

import argparse
import json
import multiprocessing
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

REFERENCE = Path(__file__).with_suffix(".json")
# Simulations of each problem: few, so that fits are quick; errors are then well above zero.
NUMBERS = {"weak_lensing": 400, "poisson_counts": 400, "waiting_times": 400}
PLANTED = "waiting_times"
SEEDS = (501, 502, 503)
REFERENCE_SEEDS = (*SEEDS, 504, 505, 506, 507, 508, 509, 510, 511, 512)
STANDARD_ERRORS = 2.0
Case = tuple[str, int, int]


def measure(case: Case) -> float:
    """Simulate, fit and return the score error on pairs that are the same for all seeds."""
    import fisherscore as fs

    name, number, seed = case
    problem = getattr(fs.problems, name)()
    sims = fs.simulate(problem.simulator, problem.proposal, number, seed=seed, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.FisherScoreWarning)  # so few simulations are known to be too few
        model = fs.fit(sims, seed=seed, progress=False)
    return fs.accuracy.score_error(model, problem, num_pairs=2_000, seed=50_000).mean


def measure_all(cases: list[Case]) -> dict[Case, float]:
    """Measure the cases of one problem in turn, so that they compile once."""
    return {case: measure(case) for case in cases}


def measured(cases: list[Case]) -> dict[Case, float]:
    """Measure cases in two processes, each problem in one of them."""
    groups = [[case for case in cases if case[0] == name] for name in NUMBERS]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        return {case: error for found in pool.map(measure_all, groups) for case, error in found.items()}


def compare(reference: dict[str, list[float]], new: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Compare errors with those of the same seeds, the first of the reference's; the rest tell the noise."""
    rows, changes, variances = [], [], []
    for name, errors in new.items():
        before = np.log(reference[name])
        change = float(np.mean(np.log(errors)) - np.mean(before[: len(errors)]))
        noise = float(np.std(before, ddof=1) / np.sqrt(len(errors)))
        rows.append({"problem": name, "change": change, "noise": noise})
        changes.append(change)
        variances.append(noise**2)
    if len(rows) > 1:
        noise = float(np.sqrt(np.sum(variances)) / len(rows))
        rows.append({"problem": "all together", "change": float(np.mean(changes)), "noise": noise})
    return [row | {"worse": row["change"] > STANDARD_ERRORS * row["noise"]} for row in rows]


def show(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        verdict = "WORSE" if row["worse"] else "as before, or better"
        factor, allowed = np.exp(row["change"]), np.exp(STANDARD_ERRORS * row["noise"])
        print(f"{row['problem']:<40} error × {factor:.3f}, at most {allowed:.3f} is noise: {verdict}")


def write() -> None:
    cases = [(name, number, seed) for name, number in NUMBERS.items() for seed in REFERENCE_SEEDS]
    errors = measured(cases)
    rows = {name: [errors[name, number, seed] for seed in REFERENCE_SEEDS] for name, number in NUMBERS.items()}
    document = {"num_simulations": NUMBERS, "seeds": REFERENCE_SEEDS, "score_errors": rows}
    REFERENCE.write_text(json.dumps(document, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="measure the reference anew")
    if parser.parse_args().write:
        write()
        return
    started = time.monotonic()
    reference = json.loads(REFERENCE.read_text())
    if reference["num_simulations"] != NUMBERS or tuple(reference["seeds"]) != REFERENCE_SEEDS:
        sys.exit(
            "The reference is of other problems, numbers or seeds: run this with --write where fits are as before."
        )
    cases = [(name, number, seed) for name, number in NUMBERS.items() for seed in SEEDS]
    planted = [(PLANTED, NUMBERS[PLANTED] // 2, seed) for seed in SEEDS]
    errors = measured([*cases, *planted])
    rows = compare(
        reference["score_errors"], {n: [errors[n, number, seed] for seed in SEEDS] for n, number in NUMBERS.items()}
    )
    control = compare(reference["score_errors"], {PLANTED: [errors[case] for case in planted]})
    control[0]["problem"] += ", half as many (control)"
    show([*rows, *control])
    print(f"{time.monotonic() - started:.0f} s")
    if not control[0]["worse"]:
        sys.exit("The control was not called worse: this guard would let a worsening pass.")
    if any(row["worse"] for row in rows):
        sys.exit("Score errors have become worse by more than their noise.")


if __name__ == "__main__":
    main()
