"""Posterior predictive checks: uniform where the model is right, and small where it is wrong."""

import sys

import numpy as np
import pytest
from scipy.stats import kstest

import fisherscore as fs
from fisherscore.inference.predictive import _compared

NAMES = ("a", "b")
SPREAD = np.array([1.0, 2.0, 0.5, 1.0])


def posterior_at(theta, sigma=1e-3, num=500):
    chains = np.random.default_rng(0).normal(theta, sigma, (1, num, len(theta)))
    return fs.Posterior(
        names=NAMES[: len(theta)],
        units=("",) * len(theta),
        chains=chains,
        log_density=np.zeros((1, num)),
        method="NUTS",
        correction="none",
        r_hat=np.ones(len(theta)),
        effective_samples=np.full(len(theta), num),
        num_divergent=0,
        fraction_outside=0.0,
        rarity=None,
        seconds={},
        support=((-9.0, 9.0),) * len(theta),
    )


def draw(theta, rng):
    common = rng.normal()
    return np.array([theta[0], theta[1], theta[0], theta[1]]) + SPREAD * (0.6 * common + 0.8 * rng.normal(size=4))


SIMULATOR = fs.from_python(draw)
POSTERIOR = posterior_at([0.5, -0.5])


def simulated(rng, num):
    return np.array([0.5, -0.5, 0.5, -0.5]) + SPREAD * (
        0.6 * rng.normal(size=(num, 1)) + 0.8 * rng.normal(size=(num, 4))
    )


def test_p_values_are_uniform_where_the_model_is_right():
    """Together, of the rarest and of each datum, over many observations; correlated data."""
    rng = np.random.default_rng(0)
    checks = [_compared(simulated(rng, 1)[0], simulated(rng, 400), 0) for _ in range(400)]
    for p in ([c.p_value for c in checks], [c.p_value_of_rarest for c in checks], [c.p_values[1] for c in checks]):
        assert kstest(np.array(p) - 0.0025, "uniform").pvalue > 1e-3
    assert np.mean([c.passed for c in checks]) > 0.97
    # The control: observations a third wider than what is simulated.
    wide = [_compared(1.33 * simulated(rng, 1)[0], simulated(rng, 400), 0).p_value for _ in range(400)]
    assert kstest(wide, "uniform").pvalue < 1e-6


def test_a_datum_that_the_model_does_not_give_is_found():
    x = np.array([0.5, -0.5, 0.5, -0.5])
    assert fs.predictive_check(POSTERIOR, SIMULATOR, x).passed
    far = fs.predictive_check(POSTERIOR, SIMULATOR, x + np.array([0, 0, 3.0, 0]))
    assert not far.passed and far.p_values.argmin() == 2 and far.p_values[2] < 0.01
    assert "does not predict" in str(far) and str(far).splitlines()[2].startswith("2 ")


def test_data_that_do_not_go_together_are_found_though_none_is_rare():
    against = np.array([0.5, -0.5, 0.5, -0.5]) + SPREAD * [1.5, -1.5, 1.5, -1.5]
    check = fs.predictive_check(POSTERIOR, SIMULATOR, against, num_simulations=4000)
    assert check.p_values.min() > 0.05 and check.p_value < 0.01


def test_independent_draws_are_compared_by_mean_and_spread():
    draws = SIMULATOR.draw(np.tile([0.5, -0.5], (30, 1)), seed=5)
    options = {"iid": True, "num_simulations": 400}
    right = fs.predictive_check(POSTERIOR, SIMULATOR, draws, **options)
    assert right.p_values.shape == (8,) and right.passed
    assert not fs.predictive_check(POSTERIOR, SIMULATOR, 2 * draws, **options).passed


def test_statistics_of_ones_own():
    check = fs.predictive_check(POSTERIOR, SIMULATOR, np.zeros(4), statistics=np.ptp, num_simulations=400)
    assert check.p_values.shape == (1,) and check.plot().get_xlabel() == "datum"
    with pytest.raises(fs.ArgumentError, match="statistics: expected a function that returns as many numbers"):
        fs.predictive_check(POSTERIOR, SIMULATOR, np.zeros(4), statistics=lambda x: x[x > 0], num_simulations=400)


def test_failures_are_left_out_and_counted():
    def sometimes(theta, rng):
        x = draw(theta, rng)
        if x[0] > 1.5:
            raise ValueError("too large")
        return x

    check = fs.predictive_check(POSTERIOR, fs.from_python(sometimes), np.zeros(4), num_simulations=400)
    assert 20 < check.num_failed < 140 and len(check.replicates) == 400 - check.num_failed
    assert f"{check.num_failed} simulations failed" in str(check)

    def never(theta, rng):
        raise ValueError("too large")

    with pytest.raises(fs.SimulationError, match="too large"):
        fs.predictive_check(POSTERIOR, fs.from_python(never), np.zeros(4), num_simulations=400)


def test_numbers_that_never_vary_and_derived_parameters():
    constant = fs.from_python(lambda theta, rng: np.array([1.0, rng.normal()]))
    derived = POSTERIOR.derive({"sum": lambda p: p["a"] + p["b"]})
    with pytest.raises(fs.ArgumentError, match="unknown parameter name 'z'"):
        fs.predictive_check(derived, constant, [1.0, 0.0], names=["z"])
    assert fs.predictive_check(derived, constant, [1.0, 0.0], names=NAMES, num_simulations=400).passed
    assert not fs.predictive_check(derived, constant, [1.1, 0.0], names=NAMES, num_simulations=400).passed


def test_jax():
    problem = fs.problems.linear_gaussian()
    assert fs.predictive_check(POSTERIOR, problem.simulator, [0.5, -0.5], num_simulations=400).passed


@pytest.mark.slow
def test_programs(tmp_path):
    script = tmp_path / "sim.py"
    # Without NumPy, which takes longer to import than all else takes.
    script.write_text(
        "import json, random, struct, sys\n"
        "given = json.load(open(sys.argv[1]))\n"
        "x = given['theta']['a'] + random.Random(given['seed']).gauss(0, 1)\n"
        "head = repr({'descr': '<f8', 'fortran_order': False, 'shape': (1,)}).ljust(117).encode() + b'\\n'\n"
        "body = struct.pack('<H', 118) + head + struct.pack('<d', x)\n"
        "open(sys.argv[2], 'wb').write(b'\\x93NUMPY\\x01\\x00' + body)\n"
    )
    program = fs.from_command([sys.executable, "-S", "-E", str(script), "{input}", "{output}"])
    assert not fs.predictive_check(POSTERIOR, program, [9.0], num_simulations=400, workers=2).passed


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (np.zeros(3), {}, r"x_obs: expected one observation of shape \(4,\)"),
        (np.zeros(4), {"num_simulations": 3}, "num_simulations: expected"),
        (np.zeros(4), {"iid": True}, "with iid=True expected draws"),
        (np.full(4, np.nan), {}, "x_obs: expected finite"),
    ],
)
def test_what_is_wrong_is_said(x, options, message):
    with pytest.raises(fs.ArgumentError, match=message):
        fs.predictive_check(POSTERIOR, SIMULATOR, x, **{"num_simulations": 400} | options)
