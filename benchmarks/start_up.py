"""How long it takes to import the package, to have everything in it at hand, and to be told how to use it.

python benchmarks/start_up.py
"""

import subprocess
import sys
import time
from pathlib import Path

from fisherscore._support.versions import print_table, versions, write_json

CASES = {
    "nothing": "pass",
    "import jax, equinox": "import jax, equinox",
    "import fisherscore": "import fisherscore",
    "simulate, fit, sample imported": "import fisherscore as fs; fs.simulate, fs.fit, fs.sample",
    "fisherscore --help": None,
}


def seconds(code: str | None) -> float:
    """Return the shortest of several runs in a fresh process."""
    program = str(Path(sys.executable).parent / "fisherscore")
    command = [program, "--help"] if code is None else [sys.executable, "-c", code]
    durations = []
    for _ in range(7):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        durations.append(time.perf_counter() - started)
    return min(durations)


def main() -> None:
    times = {name: seconds(code) for name, code in CASES.items()}
    base = times["import jax, equinox"] - times["nothing"]
    ratios = {
        name: (times[name] - times["nothing"]) / base
        for name in ("import fisherscore", "simulate, fit, sample imported")
    }
    result = {"seconds": times, "ratio_to_jax_and_equinox": ratios, "versions": versions()}
    write_json({"benchmark": "start_up", **result}, Path(__file__).parent / "results" / "start_up.json")
    rows = [(name, f"{value:.2f} s") for name, value in times.items()]
    print_table("start-up", rows + [(f"{n}, against JAX and Equinox", f"{r:.2f}") for n, r in ratios.items()])


if __name__ == "__main__":
    main()
