"""What an accelerator saves: one large fit, and a thousand posteriors in one call, beside the processor next to it.

The fit is the default one of 100,000 simulations of 30 data and five parameters, whose mean bends and whose noise
moves with them. The posteriors are of 1,000 observations. Each device has a new process, in which everything is done
twice: the first call compiles, the second does not.

    python benchmarks/accelerators.py                      # on a machine with an accelerator
    python benchmarks/accelerators.py --timeout 300        # a device keeps what it was through with by then
    python benchmarks/accelerators.py --devices cpu --calls 1    # one at a time; what is known of the other is kept
    python benchmarks/accelerators.py --devices cpu --quick
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "results"
PLATFORMS = {"cpu": "cpu", "gpu": "cuda"}
NUM_PARAMETERS, NUM_DATA = 5, 30


def table(num: int, seed: int) -> tuple[Any, Any]:
    """Draw parameters and data."""
    import numpy as np

    fixed, rng = np.random.default_rng(0), np.random.default_rng(seed)
    slopes = fixed.standard_normal((NUM_PARAMETERS, NUM_DATA))
    bends = fixed.standard_normal((NUM_PARAMETERS, NUM_DATA))
    louder = 0.3 * fixed.standard_normal((NUM_PARAMETERS, NUM_DATA))
    theta = rng.uniform(-1, 1, (num, NUM_PARAMETERS))
    noise = np.exp(theta @ louder) * rng.standard_normal((num, NUM_DATA))
    return theta, theta @ slopes + 0.3 * theta**2 @ bends + noise


def measure(num_simulations: int, num_posteriors: int, num_calls: int) -> None:
    """Fit and sample so many times, and print how long each took; with the score's own error, which must not differ."""
    import fisherscore as fs

    proposal = fs.uniform({f"theta{k + 1}": (-1.0, 1.0) for k in range(NUM_PARAMETERS)})
    theta, x = table(num_simulations, 1)
    observed = table(num_posteriors, 2)[1]
    found: dict[str, Any] = {"seconds": {"fit": [], "posteriors": []}}

    def took(step: str, began: float) -> None:
        found["seconds"][step].append(round(time.perf_counter() - began, 2))
        print(json.dumps(found), flush=True)

    for seed in range(num_calls):
        began = time.perf_counter()
        model = fs.fit(fs.from_table(theta, x, proposal), seed=seed, progress=False)
        found |= {"own_error": model.estimated_error, "weights": model.weights}
        took("fit", began)
    for seed in range(num_calls):
        began = time.perf_counter()
        posteriors = fs.sample(model, observed, num_samples=500, num_warmup=500, seed=seed, progress=False)
        found["mean_sigma"] = float(sum(p.sigma.mean() for p in posteriors) / len(posteriors))
        took("posteriors", began)


def kept(path: Path, numbers: tuple[int, int, int]) -> dict[str, Any]:
    """Read what is known of other devices, if they were given the same: each may be measured in a run of its own."""
    document = json.loads(path.read_text()) if path.exists() else {}
    same = (document.get("num_simulations"), document.get("num_posteriors")) == numbers[:2]
    return document["devices"] if same else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--devices", nargs="+", choices=list(PLATFORMS), default=["gpu", "cpu"])
    parser.add_argument("--num-simulations", type=int, default=100_000)
    parser.add_argument("--num-posteriors", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=2, help="one is enough to compare first calls")
    parser.add_argument("--quick", action="store_true", help="5,000 simulations and 20 posteriors")
    parser.add_argument("--timeout", type=float, default=3_600.0, help="seconds after which a device is given up")
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.num_simulations, options.num_posteriors = 5_000, 20
    numbers = options.num_simulations, options.num_posteriors, options.calls
    if options.child:
        measure(*numbers)
        return
    from fisherscore._support.versions import versions, write_json

    path = options.out / "accelerators.json"
    found = kept(path, numbers)
    flags = zip(("--num-simulations", "--num-posteriors", "--calls"), map(str, numbers), strict=True)
    command = [sys.executable, __file__, "--child", *(word for flag in flags for word in flag)]
    for device in options.devices:
        environment = {**os.environ, "JAX_PLATFORMS": PLATFORMS[device]}
        try:
            done = subprocess.run(  # noqa: S603
                command,
                env=environment,
                stdout=subprocess.PIPE,
                timeout=options.timeout,
                check=True,
            )
            found[device] = json.loads(done.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired as expired:
            lines = (expired.stdout or b"").splitlines() or [b'{"seconds": {}}']
            found[device] = {**json.loads(lines[-1]), "given_up_after": options.timeout}
        print(device, json.dumps(found[device]), flush=True)
    document = {
        "benchmark": "accelerators",
        "num_simulations": numbers[0],
        "num_posteriors": numbers[1],
        "num_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "devices": found,
        "versions": versions(),
    }
    write_json(document, path)


if __name__ == "__main__":
    main()
