"""Kill and stop a campaign's coordinator and its workers at random moments; compare the data with an undisturbed run.

Stops last longer than the simulator's time limit, which must not cost a record. The simulator writes a line to a log
whenever it is run, so that what is run again can be counted.

    python benchmarks/kills.py         # 50 kills of the coordinator, 100 of workers, as many stops: some seven minutes
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import fisherscore as fs
from fisherscore._support.versions import versions, write_json

NUM_WORKERS = 4
# For so many seconds a process is stopped: longer than the time limit of a run below.
STOPPED = (1.2, 1.8)
CAMPAIGN = """
import sys, time
import numpy as np
import fisherscore as fs

log, folder, num, workers = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def slow(theta, rng):
    with open(log, "a") as file:
        file.write(f"{theta[0]!r}\\n")
    time.sleep(0.02 * rng.uniform(0.5, 1.5))
    if rng.uniform() < 0.005:
        raise ValueError("now and then")
    return theta + rng.normal(size=3)

sims = fs.simulate(
    fs.from_python(slow, name="slow", timeout=1.0), fs.uniform(a=(0.0, 1.0)), num, seed=5,
    out=None if folder == "-" else folder, workers=workers or None, progress=False,
)
if folder == "-":
    np.savez(log + ".npz", x=sims.x, theta=sims.theta, status=sims.status)
"""


def start(log: Path, folder: Any, num: int, workers: int = NUM_WORKERS) -> subprocess.Popen:
    """Start the campaign in a process of its own."""
    arguments = [sys.executable, "-c", CAMPAIGN, str(log), str(folder), str(num), str(workers)]
    return subprocess.Popen(arguments, start_new_session=True)  # noqa: S603


def undisturbed(scratch: Path, num: int) -> dict[str, np.ndarray]:
    """Run all records in memory, in one process."""
    log = scratch / "reference"
    if start(log, "-", num, 0).wait():
        raise SystemExit("the undisturbed run failed")
    return dict(np.load(f"{log}.npz"))


def children(parent: int) -> list[int]:
    """List the worker processes a coordinator has started."""
    numbers = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()
            if int(stat[1]) == parent and b"execution.worker" in Path(f"/proc/{name}/cmdline").read_bytes():
                numbers.append(int(name))
        except (OSError, IndexError):
            continue
    return numbers


def left_over(log: Path) -> int:
    """Count processes that still know of the campaign, a moment after its end."""
    time.sleep(1.0)
    mark = str(log).encode()
    num = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            num += mark in Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
    return num


def compare(folder: Path, log: Path, reference: dict[str, np.ndarray], kills: int, stops: int) -> dict[str, Any]:
    """Hold a campaign against the undisturbed run."""
    sims = fs.open_campaign(folder)
    same = all(np.array_equal(getattr(sims, k), reference[k], equal_nan=k == "x") for k in reference)
    runs = len(log.read_text().splitlines())
    return {
        "kills": kills,
        "stops": stops,
        "identical": bool(same and len(sims) == len(reference["x"])),
        "records": len(sims),
        "timeouts": int((sims.status == "timeout").sum()),
        "run_again": runs - len(sims),
        "left_over": left_over(log),
    }


def kill_coordinator(scratch: Path, num: int, kills: int, reference: dict[str, np.ndarray]) -> dict[str, Any]:
    """Kill the coordinator at random moments until it has been killed often enough; then let it finish.

    Half of the times it is stopped first, and killed a moment after it goes on.
    """
    log, folder, rng = scratch / "coordinator", scratch / "a", np.random.default_rng(1)
    done = stops = 0
    while done < kills:
        process = start(log, folder, num)
        seen = len(log.read_text()) if log.exists() else 0
        while process.poll() is None and (not log.exists() or len(log.read_text()) == seen):
            time.sleep(0.01)  # until it simulates
        time.sleep(rng.uniform(0.0, 0.6))
        if process.poll() is None and rng.uniform() < 0.5:
            process.send_signal(signal.SIGSTOP)
            time.sleep(rng.uniform(*STOPPED))
            process.send_signal(signal.SIGCONT)
            stops += 1
            time.sleep(rng.uniform(0.0, 0.3))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        done += 1
    if start(log, folder, num).wait():
        raise SystemExit("the last run failed")
    return compare(folder, log, reference, done, stops)


def kill_workers(scratch: Path, num: int, kills: int, reference: dict[str, np.ndarray]) -> dict[str, Any]:
    """Kill and stop workers at random moments while the coordinator runs."""
    log, folder, rng = scratch / "workers", scratch / "b", np.random.default_rng(2)
    process, done, stops = start(log, folder, num), 0, 0
    stopped: dict[int, float] = {}  # workers, and when they go on
    while process.poll() is None:
        for worker in [w for w, until in stopped.items() if until < time.monotonic()]:
            send(worker, signal.SIGCONT)
            del stopped[worker]
        alive = children(process.pid)
        if done < kills and log.exists() and alive:
            worker = int(rng.choice(alive))
            if rng.uniform() < 0.5 and worker not in stopped:
                send(worker, signal.SIGSTOP)
                stopped[worker] = time.monotonic() + rng.uniform(*STOPPED)
                stops += 1
            else:
                send(worker, signal.SIGKILL)
                done += 1
        time.sleep(rng.uniform(0.05, 0.3))
    return compare(folder, log, reference, done, stops)


def send(process: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--coordinator", type=int, default=50)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    num = 100 * max(options.coordinator, options.workers // 2)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        reference = undisturbed(scratch, num)
        rows = {
            "coordinator": kill_coordinator(scratch, num, options.coordinator, reference),
            "workers": kill_workers(scratch, num, options.workers, reference),
        }
    for who, row in rows.items():
        print(f"{who:12s} " + "  ".join(f"{k} {v}" for k, v in row.items()))
    options.out.mkdir(parents=True, exist_ok=True)
    write_json({"benchmark": "kills", "rows": rows, "versions": versions()}, options.out / "kills.json")


if __name__ == "__main__":
    main()
