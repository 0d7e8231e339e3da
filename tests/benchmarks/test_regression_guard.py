"""The guard calls an error worse only beyond the noise of its seeds."""

import importlib.util
import json
from pathlib import Path

import numpy as np

PLACE = Path(__file__).parents[2] / "benchmarks" / "regression_guard.py"


def load_guard():
    spec = importlib.util.spec_from_file_location("regression_guard", PLACE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


guard = load_guard()


def test_noise_is_let_pass_and_a_worsening_is_not():
    reference = {"one": np.exp(np.random.default_rng(0).normal(size=12) * 0.2), "other": np.full(12, 0.1)}
    same = {name: errors[:4] for name, errors in reference.items()}
    assert not any(row["worse"] for row in guard.compare(reference, same))
    noisy, steady, together = guard.compare(reference, {"one": 1.1 * same["one"], "other": 1.1 * same["other"]})
    assert not noisy["worse"] and steady["worse"]  # ten per cent are noise where seeds scatter by twenty
    assert together["worse"] == (np.log(1.1) > guard.STANDARD_ERRORS * together["noise"])
    assert guard.compare(reference, {"one": 2 * same["one"]})[0]["worse"]
    assert not any(row["worse"] for row in guard.compare(reference, {n: e / 2 for n, e in same.items()}))


def test_the_reference_is_of_the_problems_that_are_measured():
    reference = json.loads(guard.REFERENCE.read_text())
    assert reference["num_simulations"] == guard.NUMBERS
    assert tuple(reference["seeds"]) == guard.REFERENCE_SEEDS
    assert all(len(errors) == len(guard.REFERENCE_SEEDS) for errors in reference["score_errors"].values())
