"""Weak lensing spectra: the package's against jax-cosmo's own, and the memory of 100,000 simulations.

Times one jitted ``angular_cl`` a call, as jax-cosmo is used, and the same spectra here in batches; compilation is not
counted, the two alternate, and the ratio is of medians. Also compares the values over the box and the derivatives at
the fiducial parameters. The simulations run in a process of their own, whose largest resident size is reported.

    python benchmarks/weak_lensing_spectra.py
"""

import argparse
import itertools
import json
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fisherscore as fs
from fisherscore._support.versions import print_table, versions, write_json
from fisherscore.problems.lensing_spectra import FIDUCIAL, spectra
from fisherscore.problems.weak_lensing import weak_lensing

MULTIPOLES, REDSHIFTS = np.logspace(1.0, 3.0, 5), (1.0, 0.5)
THETA = jnp.array([FIDUCIAL["omega_c"], FIDUCIAL["sigma8"]])
STEP = 0.006  # of the central differences: over it the jumps along jax-cosmo's tables average out
HERE = Path(__file__).parent / "results"


def stock_spectra() -> Callable[[Any], Any]:
    """Return jax-cosmo's own spectra as a function of theta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jax_cosmo as jc

    probes = [jc.probes.WeakLensing([jc.redshift.smail_nz(1.0, 2.0, z) for z in REDSHIFTS], sigma_e=0.26)]

    def one(theta: Any) -> Any:
        cosmology = jc.Planck15(Omega_c=theta[0], sigma8=theta[1])
        return jc.angular_cl.angular_cl(cosmology, jnp.asarray(MULTIPOLES), probes).reshape(-1)

    return jax.jit(one)


def own_spectra(derivatives: str) -> Callable[[Any], Any]:
    return lambda theta: spectra(theta, MULTIPOLES, REDSHIFTS, derivatives).reshape(-1)


def seconds(function: Callable[[], Any]) -> float:
    started = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - started


def speed(stock: Callable[[Any], Any], repeats: int, batch_size: int) -> dict[str, float]:
    """Time a spectrum both ways, alternating."""
    batched = jax.jit(lambda thetas: jax.lax.map(own_spectra("true"), thetas, batch_size=batch_size))
    thetas = jnp.asarray(weak_lensing().proposal.sample(16 * batch_size), jnp.float32)
    compile_stock, compile_own = seconds(lambda: stock(thetas[0])), seconds(lambda: batched(thetas))
    theirs, ours = [], []
    for _ in range(repeats):
        theirs.append(seconds(lambda: [stock(theta) for theta in thetas[:5]]) / 5)
        ours.append(seconds(lambda: batched(thetas)) / len(thetas))
    return {
        "jax_cosmo_ms": 1e3 * statistics.median(theirs),
        "own_ms": 1e3 * statistics.median(ours),
        "ratio": statistics.median(theirs) / statistics.median(ours),
        "jax_cosmo_first_call_s": compile_stock,
        "own_first_call_s": compile_own,
    }


def agreement(stock: Callable[[Any], Any]) -> dict[str, float]:
    """Compare values on a grid over the box, and derivatives at the fiducial parameters."""
    grid = jnp.array(list(itertools.product((0.2, 0.25, 0.3, 0.35, 0.4), (0.7, 0.8, 0.9))))
    expected = np.stack([stock(theta) for theta in grid])
    values = jax.jit(lambda grid: jax.lax.map(own_spectra("true"), grid))(grid)
    automatic = np.asarray(jax.jit(jax.jacfwd(stock))(THETA))
    shifts = STEP * jnp.eye(2)
    differences = np.stack([(stock(THETA + s) - stock(THETA - s)) / (2.0 * STEP) for s in shifts], axis=1)
    own = {name: np.asarray(jax.jit(jax.jacfwd(own_spectra(name)))(THETA)) for name in ("true", "jax-cosmo")}

    def largest(values: Any, expected: Any) -> float:
        return float(np.abs(np.asarray(values) / expected - 1.0).max())

    return {
        "spectra": largest(values, expected),
        "jacobian_jax_cosmo_to_automatic": largest(own["jax-cosmo"], automatic),
        "jacobian_true_to_differences": largest(own["true"], differences),
        "jacobian_automatic_to_differences": largest(automatic, differences),
    }


def simulations(num: int) -> dict[str, float]:
    """Simulate in this process and report its time and its largest size."""
    problem = weak_lensing()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    sims = fs.simulate(problem.simulator, problem.proposal, num, progress=False)
    assert np.isfinite(sims.x).all()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "num_simulations": num,
        "seconds": time.perf_counter() - started,
        "peak_mb": peak / 1024,
        "peak_before_mb": before / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--num-simulations", type=int, default=100_000)
    parser.add_argument("--only-simulate", action="store_true", help="print what the simulations took, and stop")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    if options.only_simulate:
        print(json.dumps(simulations(options.num_simulations)))
        return

    command = [sys.executable, __file__, "--only-simulate", "--num-simulations", str(options.num_simulations)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
    memory = json.loads(printed.splitlines()[-1])
    stock = stock_spectra()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jax-cosmo asks for int64, which JAX says it does not have
        times = speed(stock, options.repeats, options.batch_size)
        differences = agreement(stock)
    result = {"times": times, "largest_relative_differences": differences, "simulations": memory}
    rows = [
        ("jax-cosmo, per spectrum", f"{times['jax_cosmo_ms']:.1f} ms"),
        ("here, per spectrum in batches", f"{times['own_ms']:.3f} ms"),
        ("ratio", f"{times['ratio']:.0f}"),
        ("largest relative difference of spectra", f"{differences['spectra']:.1e}"),
        (f"{memory['num_simulations']} simulations", f"{memory['seconds']:.1f} s, peak {memory['peak_mb']:.0f} MB"),
        ("automatic derivative of jax-cosmo, off by", f"{differences['jacobian_automatic_to_differences']:.1%}"),
        ("own derivative, off by", f"{differences['jacobian_true_to_differences']:.1%}"),
    ]
    print_table("Weak lensing spectra", rows)
    write_json(
        {"benchmark": "weak_lensing_spectra", **result, "versions": versions()},
        options.out / "weak_lensing_spectra.json",
    )


if __name__ == "__main__":
    main()
