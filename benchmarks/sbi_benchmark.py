"""The public benchmark of simulation-based inference (arXiv 2101.04653): ten tasks, ten observations, two budgets.

An aimed inference (``fs.infer``) and a fit over the whole prior, against the benchmark's own reference posteriors by
its own classifier (C2ST: 0.5 cannot be told apart, 1 always can), beside what others have published. Two controls:
halves of a reference against each other, and the prior against the reference.

    python benchmarks/sbi_benchmark.py --jobs 16

Files of the benchmark are downloaded (``--sbibm`` takes a wheel, a folder or a packed file instead). Rows are written
as they come, and a second call goes on. ``--classifier batched`` trains all classifiers side by side on a device.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from fisherscore._support.versions import versions, write_json
from sbi_tasks import TASKS, References
from sbi_tasks.classifier import c2st_of_many
from sbi_tasks.jobs import METHODS, Job, Outcome, pair_of
from sbi_tasks.published import BUDGETS, PUBLISHED
from sbi_tasks.workers import outcomes

HERE = Path(__file__).parent / "results"
KEY = ("method", "num_simulations", "task", "observation")
# How many posteriors wait for the batched classifier before it is run.
TOGETHER = 100
COLOURS = {"aimed": "C0", "single": "C1"}


def jobs_of(options: argparse.Namespace, rows: list[dict[str, Any]]) -> list[Job]:
    """List what is still to be done, what matters most first, one observation of each task after another."""
    have = {tuple(row[k] for k in KEY) for row in rows}
    stages = [
        ("prior", 0),
        *(("aimed", budget) for budget in options.budgets),
        *(("single", b) for b in options.budgets),
    ]
    stages.insert(2, ("reference", 0))
    jobs: list[Job] = []
    for method, budget in stages:
        if method not in options.methods:
            continue
        left = [(n, t) for n in options.observations for t in options.tasks if (method, budget, t, n) not in have]
        if method == "aimed":
            jobs += [Job(method, task, budget, (number,)) for number, task in left]
        else:  # one fit serves all observations
            by_task = {t: tuple(n for n, other in left if other == t) for t in options.tasks}
            jobs += [Job(method, task, budget, numbers) for task, numbers in by_task.items() if numbers]
    return jobs


def judge(found: list[Outcome]) -> None:
    """Add what the batched classifier says."""
    drawn = [outcome for outcome in found if outcome.draws is not None and np.isfinite(outcome.draws).all()]
    for outcome, value in zip(drawn, c2st_of_many([pair_of(outcome) for outcome in drawn]), strict=True):
        outcome.row["c2st"] = round(value, 4)


def show(row: dict[str, Any]) -> None:
    said = f"C2ST {row['c2st']:.3f}" if "c2st" in row else row.get("error", "draws that are not finite")
    place = f"{row['task']:24s} {row['observation']:2d}"
    print(f"{row['method']:9s} {row['num_simulations']:7,d} {place} {row['seconds']:6.0f} s  {said}", flush=True)


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run what is missing, and write rows as they come."""
    path = options.out / "sbi_benchmark.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    references = References.found(options.sbibm, Path(tempfile.gettempdir()) / "sbibm")
    versions()  # the device is taken before workers are started, which are kept off it
    batched = options.classifier == "batched"
    waiting: list[Outcome] = []

    def settle() -> None:
        if batched:
            judge(waiting)
        for outcome in waiting:
            outcome.row["classifier"] = options.classifier
            rows.append(outcome.row)
            show(outcome.row)
        waiting.clear()
        document = {"benchmark": "sbi_benchmark", "published": PUBLISHED, "rows": rows}
        write_json({**document, "versions": versions()}, path)

    end = time.monotonic() + 60 * options.minutes
    jobs = jobs_of(options, rows)
    settings = {"settings": (options.samples, not batched), "num_workers": min(options.jobs, max(len(jobs), 1))}
    for found in outcomes(jobs, references, seconds=end - time.monotonic(), **settings):
        waiting += found
        if not batched or len(waiting) >= TOGETHER:
            settle()
    settle()
    return rows


def means(rows: list[dict[str, Any]], task: str, method: str, budget: int) -> list[float]:
    """Return the accuracies of one cell of the table."""
    wanted = (method, budget, task)
    return [row["c2st"] for row in rows if "c2st" in row and tuple(row[k] for k in KEY[:3]) == wanted]


def table(rows: list[dict[str, Any]]) -> str:
    """Write mean accuracies beside the published ones, one line a task and budget."""
    head = (
        "task",
        "budget",
        "single",
        "(others)",
        "aimed",
        "(others)",
        "goal",
        "worst",
        "of",
        "seconds",
        "halves",
        "prior",
    )
    lines = [("{:24s}" + "{:>9s}" * 11).format(*head)]
    for task, figures in PUBLISHED.items():
        halves, prior = (means(rows, task, control, 0) for control in ("reference", "prior"))
        for place, budget in enumerate(BUDGETS):
            single, aimed = (means(rows, task, method, budget) for method in ("single", "aimed"))
            spent = [r["seconds"] for r in rows if tuple(r[k] for k in KEY[:3]) == ("aimed", budget, task)]
            cells = [
                _mean(single),
                f"{figures['single'][place]:.2f}",
                _mean(aimed),
                f"{figures['sequential'][place]:.2f}",
                f"{figures['goal'][place]:.2f}",
                f"{max(aimed):.3f}" if aimed else "",
                str(len(aimed)),
                f"{np.mean(spent):.0f}" if spent else "",
                _mean(halves),
                _mean(prior),
            ]
            lines.append(f"{task:24s}{budget:9,d}" + "".join(f"{cell:>9s}" for cell in cells))
    return "\n".join(lines)


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.3f}" if values else ""


def draw(rows: list[dict[str, Any]], out: Path) -> None:
    """Draw every accuracy and the published ones."""
    import matplotlib  # here: rows must come where nothing can be drawn

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained", sharey=True)
    for place, (axes, budget) in enumerate(zip(panels, BUDGETS, strict=True)):
        for k, (task, figures) in enumerate(PUBLISHED.items()):
            for method, shift in (("single", -0.15), ("aimed", 0.15)):
                values = means(rows, task, method, budget)
                axes.plot([k + shift] * len(values), values, "o", color=COLOURS[method], alpha=0.35, ms=4)
                axes.plot([k + shift] * bool(values), [np.mean(values)] if values else [], "D", color=COLOURS[method])
            axes.plot(k - 0.15, figures["single"][place], "_", color="grey", ms=14, mew=2)
            axes.plot(k + 0.15, figures["sequential"][place], "_", color="black", ms=14, mew=2)
        axes.set_xticks(range(len(PUBLISHED)), [t.replace("_", " ") for t in PUBLISHED], rotation=40, ha="right")
        axes.set_title(f"{budget:,} simulations")
        axes.axhline(0.5, color="grey", lw=0.7, ls=":")
    for label, marker, colour in (
        ("fit over the prior", "D", COLOURS["single"]),
        ("aimed", "D", COLOURS["aimed"]),
        ("best published, over the prior", "_", "grey"),
        ("best published, in rounds", "_", "black"),
    ):
        panels[1].plot([], [], marker, color=colour, label=label)
    panels[0].set_ylabel("C2ST (0.5 cannot be told apart)")
    panels[1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    figure.savefig(out / "sbi_benchmark.png", dpi=130)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--observations", type=int, nargs="+", default=list(range(1, 11)))
    parser.add_argument("--budgets", type=int, nargs="+", default=list(BUDGETS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--samples", type=int, default=10_000, help="draws of each posterior")
    parser.add_argument("--classifier", choices=("scikit-learn", "batched"), default="scikit-learn")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--minutes", type=float, default=1e6, help="what is not finished by then is left for another call"
    )
    parser.add_argument("--sbibm", type=Path, help="a wheel of sbibm, its unpacked folder, or a packed file")
    parser.add_argument("--pack", type=Path, help="only write what is needed of the wheel to this .npz file")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    if options.pack:
        references = References.found(options.sbibm, Path(tempfile.gettempdir()) / "sbibm")
        references.pack([TASKS[name]() for name in options.tasks], options.pack)
        return
    rows = run(options)
    print(table(rows))
    draw(rows, options.out)


if __name__ == "__main__":
    main()
