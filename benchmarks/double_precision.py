"""Pages of the documentation with JAX set to single and to double precision: do they print the same?

    python benchmarks/double_precision.py [README.md docs/tutorials/first_posterior.md ...]

Every page runs twice, in processes of their own: once as it is and once with ``JAX_ENABLE_X64=1``. The numbers that
both print are compared, relative to the larger; durations, speeds of running and paths are left out. A campaign begun
in single precision is gone on with in double. The results stand in ``benchmarks/results/double_precision.json``.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "double_precision.json"
# Single precision, amplified by trajectories of a sampler; printed numbers have few digits.
ALLOWED = 0.02
# How many simulations ran in a second: what `fisherscore status` says of the machine, not of a result.
SPEED = re.compile(r"[\d.,e+]+ a second")

RESUMED = """
import sys, numpy as np, fisherscore as fs
problem = fs.problems.linear_gaussian()
sims = fs.simulate(problem.simulator, problem.proposal, int(sys.argv[1]), out="campaign", latent="additive")
print(*np.round(np.concatenate([sims.theta, sims.latent, sims.x]).ravel(), 5)[-60:])
"""
PAGE = """
import contextlib, os, runpy, sys, types, warnings
from pathlib import Path
sys.path.insert(0, "{root}/tests")
warnings.simplefilter("ignore")
import matplotlib
matplotlib.use("Agg")
sys.argv = ["page"]
import test_docs
namespace = types.ModuleType("__main__").__dict__
page = Path("{page}")
for block, _ in test_docs.code_and_output(page):
    run = test_docs.run_python if block.language == "python" else test_docs.run_shell
    print(run(block, page, Path("."), namespace))
"""


def printed():
    """Import docs/printed.py, which knows what in a text is a number, a duration or a path."""
    spec = importlib.util.spec_from_file_location("printed", ROOT / "docs" / "printed.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["printed"] = module
    spec.loader.exec_module(module)
    return module


def output(code, folder, double, *arguments):
    """Run code in a folder, and return what it prints."""
    environment = os.environ | {"JAX_ENABLE_X64": "1" if double else "0"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def largest_difference(one, other):
    """Compare two texts: the largest relative difference of numbers at the same place, or None if words differ."""
    page = printed()
    numbers, words = [], []
    for text in (one, other):
        text = page.DURATION.sub("<duration>", SPEED.sub("<speed>", text))
        text = page.ABSOLUTE_PATH.sub("<path>", text)
        numbers.append([page._value(number) for number in page.NUMBER.findall(text)])
        words.append("".join(page.NUMBER.sub("", text).split()))
    if words[0] != words[1]:
        return None
    pairs = zip(*numbers, strict=True)
    return max((abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in pairs), default=0.0)


def of_page(name):
    """Run a page in both precisions."""
    texts = []
    for double in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(ROOT / "examples", Path(folder) / "examples")
            texts.append(output(PAGE.format(root=ROOT, page=ROOT / name), folder, double))
    return largest_difference(*texts)


def of_resumed_campaign():
    """Go on in double precision with a campaign begun in single, and compare with one run at once."""
    with tempfile.TemporaryDirectory() as once, tempfile.TemporaryDirectory() as twice:
        output(RESUMED, twice, False, "300")
        return largest_difference(output(RESUMED, once, False, "600"), output(RESUMED, twice, True, "600"))


def main():
    """Compare the pages named, or README and all tutorials."""
    tutorials = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "tutorials").glob("*.md"))
    results = json.loads(RESULT.read_text()) if RESULT.exists() and sys.argv[1:] else {}
    for name in sys.argv[1:] or ["a resumed campaign", "README.md", *tutorials]:
        results[name] = of_resumed_campaign() if name == "a resumed campaign" else of_page(name)
        verdict = "words differ" if results[name] is None else f"{results[name]:.2g}"
        print(f"{name}: largest relative difference {verdict}", flush=True)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(results, indent=2) + "\n")
    return int(any(value is None or value > ALLOWED for value in results.values()))


if __name__ == "__main__":
    sys.exit(main())
