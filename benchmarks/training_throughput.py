"""Training throughput: the scanned loop against a plain Python loop over the same network, data and optimiser.

All do minibatch Adam steps on the networks of the paper, data and weights on the device. The plain loop picks the rows
of a minibatch and calls a jitted step with them, as most training scripts do; the careful one also picks them inside
the jitted step. Times exclude compilation; the loops alternate; ratios are of medians.

    python benchmarks/training_throughput.py
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from fisherscore._support.versions import versions, write_json
from fisherscore.fitting.train import Monitor, Task, Training, latent_score_loss, train
from fisherscore.potentials.base import build

NETWORKS = {"toy (64, 64)": ((64, 64), 2), "lensing (64, 128, 128)": ((64, 128, 128), 15)}
HERE = Path(__file__).parent / "results"


def python_loop(network: Any, data: tuple[jax.Array, ...], batch_size: int, num_steps: int, careful: bool) -> float:
    """Return the seconds of ``num_steps`` steps, after one to compile."""
    optimiser = optax.adam(1e-3)
    parameters, static = eqx.partition(network, eqx.is_inexact_array)
    state = optimiser.init(parameters)

    @jax.jit
    def step(parameters: Any, state: Any, batch: Any) -> Any:
        if careful:
            batch = tuple(a[batch] for a in data)

        def objective(p: Any) -> Any:
            return latent_score_loss(eqx.combine(p, static), batch).mean()

        value, gradient = jax.value_and_grad(objective)(parameters)
        updates, state = optimiser.update(gradient, state)
        return optax.apply_updates(parameters, updates), state, value

    rng = np.random.default_rng(0)
    num_rows = len(data[0])
    order = rng.permutation(num_rows)
    for number in range(num_steps + 1):
        if number == 1:
            jax.block_until_ready(parameters)
            started = time.perf_counter()
        start = number * batch_size % (num_rows - batch_size)
        rows = order[start : start + batch_size]
        parameters, state, _ = step(parameters, state, rows if careful else tuple(a[rows] for a in data))
    jax.block_until_ready(parameters)
    return time.perf_counter() - started


def scanned_loop(network: Any, data: tuple[np.ndarray, ...], batch_size: int, num_epochs: int) -> float:
    """Return the seconds of ``num_epochs`` epochs of the package's loop, less those of compiling it."""

    def seconds(epochs: int) -> float:
        settings = Training(num_epochs=epochs, batch_size=batch_size, held_out=0.0, patience=None, decay="none")
        task, quiet = Task(latent_score_loss, data), Monitor(progress=False)
        return train(network, task, settings, key=jax.random.key(0), monitor=quiet)[1].seconds

    # Compiling takes as long for the long run as for the short one, so it drops out of the difference.
    return seconds(2 * num_epochs) - seconds(num_epochs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    rows = []
    for name, (hidden, data_size) in NETWORKS.items():
        num_rows = 40 * options.batch_size
        rng = np.random.default_rng(0)
        data = tuple(rng.normal(size=(num_rows, n)).astype(np.float32) for n in (2, data_size, 2))
        network = build("vector_field", 2, data_size, {"hidden": hidden}, key=jax.random.key(0))
        on_device = tuple(jnp.asarray(a) for a in data)
        plain, careful, scanned = [], [], []
        for _ in range(options.repeats):
            plain.append(python_loop(network, on_device, options.batch_size, 2000, careful=False) / 2000)
            careful.append(python_loop(network, on_device, options.batch_size, 2000, careful=True) / 2000)
            scanned.append(scanned_loop(network, data, options.batch_size, 400) / (400 * 40))
        row = {
            "network": name,
            "batch_size": options.batch_size,
            "plain_us_per_step": 1e6 * statistics.median(plain),
            "careful_us_per_step": 1e6 * statistics.median(careful),
            "scanned_us_per_step": 1e6 * statistics.median(scanned),
            "ratio_to_plain": statistics.median(plain) / statistics.median(scanned),
            "ratio_to_careful": statistics.median(careful) / statistics.median(scanned),
        }
        rows.append(row)
        print(
            f"{name:24s}  plain {row['plain_us_per_step']:7.1f} us  careful {row['careful_us_per_step']:7.1f} us  "
            f"scanned {row['scanned_us_per_step']:7.1f} us  ratios {row['ratio_to_plain']:.1f}, "
            f"{row['ratio_to_careful']:.1f}",
            flush=True,
        )
    device = jax.devices()[0].platform
    result = {"benchmark": "training_throughput", "rows": rows, "versions": versions()}
    write_json(result, options.out / f"training_throughput_{device}.json")


if __name__ == "__main__":
    main()
