"""Training throughput of the network for maps: our loop, and a PyTorch loop of the same network, on one device.

Both take the same steps: a batch of maps already on the device, each shifted, turned and mirrored at random, through
the convolutional network; the gradient of the same loss, clipped; AdamW; a running mean of weights. The PyTorch loop is
as fast as we can write it: one gather for all moves, channels last, TF32 as JAX has it, a fused optimiser, and
torch.compile of the loss, with CUDA graphs or without. Times exclude compilation; the loops alternate; ratios are of
medians. The limit is that of what XLA counts for our step: its operations at the device's peak, or its bytes at the
device's bandwidth, whichever takes longer.

    python benchmarks/field_training.py                        # on a GPU, with PyTorch installed beside JAX
    python benchmarks/field_training.py --sides 16 --steps 3   # a look on a processor
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fisherscore._support.layout import Layout
from fisherscore._support.precision import single_precision
from fisherscore._support.versions import versions, write_json
from fisherscore.fitting.summary_training import Guessed, Program, SummaryTraining, _advanced, _State
from fisherscore.summaries.field_network import FieldNetwork
from fisherscore.summaries.field_shape import FieldShape
from fisherscore.summaries.learned import Guesser
from fisherscore.summaries.symmetries import Symmetries

HERE = Path(__file__).parent / "results"
NUM_MAPS, NUM_PARAMETERS, NUM_INPUTS, NUM_HIDDEN, NUM_SUMMARIES = 2_048, 2, 2, 128, 32
# Of an H200: dense TF32 operations and bytes a second, by its data sheet.
PEAK_OPERATIONS, PEAK_BYTES = 494e12, 4.8e12


def ours(side: int, channels: int, batch_size: int, steps: int) -> tuple[Callable[[], float], dict[str, float]]:
    """Return a function that gives the seconds of some steps, and what XLA counts for one."""
    field, symmetries = FieldShape.of((side, side)), Symmetries(True, True, True)
    body = FieldNetwork.of(field, NUM_INPUTS, channels, periodic=True, key=jax.random.key(0))
    network = Guesser.of(body, NUM_SUMMARIES, NUM_PARAMETERS, np.zeros(2, np.uint32))
    training = SummaryTraining(100_000, batch_size, 1e-3, 1e-2)
    program = Program(Layout.of(network), training, symmetries)
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(NUM_MAPS, NUM_INPUTS, side, side)), jnp.float32)
    rows = Guessed(x, jnp.asarray(rng.uniform(-1, 1, (NUM_MAPS, NUM_PARAMETERS)), jnp.float32))
    vector = jnp.asarray(program.layout.vector(network))
    state = _State(vector, vector, training.optimizer.init(vector), jax.random.key(0))

    def seconds() -> float:
        batches = rng.integers(0, NUM_MAPS, (steps, batch_size)).astype(np.int32)
        with single_precision():
            started = time.perf_counter()
            jax.block_until_ready(_advanced(state, rows, batches, program=program))
        return time.perf_counter() - started

    one = rng.integers(0, NUM_MAPS, (1, batch_size)).astype(np.int32)
    with single_precision():
        counted: Any = _advanced.lower(state, rows, one, program=program).compile().cost_analysis()
    counted = counted[0] if isinstance(counted, list) else counted
    return seconds, {"operations": counted.get("flops", np.nan), "bytes": counted.get("bytes accessed", np.nan)}


def torch_network(side: int, channels: int) -> Any:
    """Write the same network in PyTorch."""
    import torch
    from torch import nn

    num_levels = 1
    while side >> (num_levels - 1) >= 8:
        num_levels += 1

    def conv(num_in: int) -> nn.Module:
        return nn.Conv2d(num_in, channels, 3, padding=1, padding_mode="circular")

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = conv(NUM_INPUTS)
            self.first = nn.ModuleList(conv(channels) for _ in range(num_levels))
            self.second = nn.ModuleList(conv(channels) for _ in range(num_levels))
            num_numbers = NUM_PARAMETERS + NUM_PARAMETERS * (NUM_PARAMETERS + 1) // 2
            kept = 2 * channels * (num_levels + 1)
            layers = (nn.Linear(kept, NUM_HIDDEN), nn.ELU(), nn.Linear(NUM_HIDDEN, NUM_SUMMARIES))
            self.head = nn.Sequential(*layers, nn.Linear(NUM_SUMMARIES, num_numbers))

        def forward(self, x: Any) -> Any:
            def kept(h: Any) -> Any:
                variance, mean = torch.var_mean(h, dim=(2, 3), correction=0)
                return torch.cat([mean, 0.5 * torch.log(variance + 1e-4)], 1)

            h = self.stem(x)
            found = [kept(h)]
            for number, (first, second) in enumerate(zip(self.first, self.second, strict=True)):
                h = nn.functional.avg_pool2d(h, 2) if number else h
                h = h + second(nn.functional.elu(first(nn.functional.elu(h))))
                found.append(kept(h))
            return self.head(torch.cat(found, 1))

    return Network()


def torch_moved(x: Any, rows: Any) -> Any:
    """Pick maps, shift, turn and mirror each at random: the places that are looked up are moved, in one gather."""
    import torch

    side, num, device = x.shape[-1], len(rows), x.device
    places = torch.arange(side, device=device)
    i, j = places.view(1, side, 1), places.view(1, 1, side)
    shift = torch.randint(side, (2, num, 1, 1), device=device)
    swap, flip_i, flip_j = torch.randint(2, (3, num, 1, 1), device=device, dtype=torch.bool)
    first, second = torch.where(swap, j, i), torch.where(swap, i, j)
    first, second = torch.where(flip_i, side - 1 - first, first), torch.where(flip_j, side - 1 - second, second)
    first, second = (first + shift[0]) % side, (second + shift[1]) % side
    return x[rows.view(-1, 1, 1), :, first, second].permute(0, 3, 1, 2)


def torch_loss(numbers: Any, u: Any) -> Any:
    """Write the loss of a normal distribution of two parameters."""
    import torch

    away = u - numbers[:, :2]
    first, across, second = numbers[:, 2].clamp(-10, 10), numbers[:, 3], numbers[:, 4].clamp(-10, 10)
    one, two = torch.exp(first) * away[:, 0], across * away[:, 0] + torch.exp(second) * away[:, 1]
    return (0.5 * (one**2 + two**2) - first - second).mean()


def theirs(side: int, channels: int, batch_size: int, steps: int, mode: str | None) -> Callable[[], float]:
    """Return a function that gives the seconds of some steps of PyTorch; ``mode`` is that of torch.compile."""
    import torch

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.benchmark = True
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = torch_network(side, channels).to(device).to(memory_format=torch.channels_last)
    parameters = list(network.parameters())
    average = [p.detach().clone() for p in parameters]
    optimiser = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=1e-2, fused=device == "cuda")
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(NUM_MAPS, NUM_INPUTS, side, side)), dtype=torch.float32, device=device)
    u = torch.tensor(rng.uniform(-1, 1, (NUM_MAPS, NUM_PARAMETERS)), dtype=torch.float32, device=device)

    def loss_of(rows: Any) -> Any:
        return torch_loss(network(torch_moved(x, rows).contiguous(memory_format=torch.channels_last)), u[rows])

    compiled = loss_of if mode is None else torch.compile(loss_of, mode=mode)

    def step(rows: Any) -> None:
        optimiser.zero_grad(set_to_none=True)
        compiled(rows).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimiser.step()
        torch._foreach_lerp_(average, parameters, 0.02)

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def seconds() -> float:
        batches = torch.tensor(rng.integers(0, NUM_MAPS, (steps, batch_size)), device=device)
        wait()
        started = time.perf_counter()
        for rows in batches:
            step(rows)
        wait()
        return time.perf_counter() - started

    return seconds


def measured(side: int, options: argparse.Namespace) -> dict[str, Any]:
    """Time all loops in turn."""
    sizes = (side, options.channels, options.batch_size, options.steps)
    mine, counted = ours(*sizes)
    loops = {"ours": mine}
    try:
        modes = {"torch": None, "torch_compiled": "default", "torch_graphs": "reduce-overhead"}
        modes = modes if not options.eager else {"torch": None}
        loops |= {name: theirs(*sizes, mode) for name, mode in modes.items()}
    except ImportError:
        print("PyTorch is not installed: our loop alone")
    times: dict[str, list[float]] = {name: [] for name in loops}
    for repeat in range(options.repeats + 1):
        for name, loop in loops.items():
            spent = loop() / options.steps
            if repeat:  # the first compiles
                times[name].append(spent)
    found = {f"{name}_us_per_step": 1e6 * statistics.median(spent) for name, spent in times.items()}
    limit = 1e6 * max(counted["operations"] / PEAK_OPERATIONS, counted["bytes"] / PEAK_BYTES)
    row = {"side": side, "channels": options.channels, "batch_size": options.batch_size} | counted | found
    row["limit_us_per_step"] = limit
    others = [spent for name, spent in found.items() if name.startswith("torch")]
    return row | ({"ratio_to_best": min(others) / found["ours_us_per_step"]} if others else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sides", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--eager", action="store_true", help="PyTorch without torch.compile")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    rows = []
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"field_training_{jax.devices()[0].platform}.json"
    for side in options.sides:
        rows.append(measured(side, options))
        print("   ".join(f"{key} {value:,.4g}" for key, value in rows[-1].items()), flush=True)
        write_json({"benchmark": "field_training", "rows": rows, "versions": versions()}, path)


if __name__ == "__main__":
    main()
