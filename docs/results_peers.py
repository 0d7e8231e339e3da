"""The tables beside other tools: how ``results.py`` shows ``forecast_face_off.json`` and ``side_by_side.json``."""

from collections.abc import Iterable
from itertools import pairwise
from math import exp, log
from statistics import mean
from typing import Any

from results_tables import TITLES, Row, number, table

OURS = "ours"
SYSTEMS = ("ours", "sbi NLE", "sbi NLE tuned", "sbi NPE", "sbi NPE tuned", "FlowJAX NLE", "paper", "exact")
# Measures of which less is better, and how they are called in a sentence.
MEASURES = {"score_error": "score error", "mean_error": "error of the mean", "width_error": "error of the width"}


def share(value: float) -> str:
    """Write a share with two digits."""
    return f"{100 * value:.1f} %" if value < 1 else f"{number(value)} times"


def ours_and_others(lines: Iterable[Row], estimator: str = "ours, bound") -> Iterable[tuple[Row, Row]]:
    """Pair an estimate of ours with the best of the others, for every problem and number of simulations."""
    rows = list(lines)
    for place in dict.fromkeys((row["problem"], row["num_simulations"]) for row in rows):
        here = [row for row in rows if (row["problem"], row["num_simulations"]) == place]
        mine = [row for row in here if row["estimator"] == estimator]
        others = [row for row in here if not row["estimator"].startswith(OURS)]
        if mine and others:
            yield mine[0], min(others, key=lambda row: row["error"])


def face_off(document: Row) -> str:
    """Write the errors of σ of all estimators, losses first, and how often each claims too much."""
    rows = document["summary"]
    pairs = sorted(ours_and_others(rows), key=lambda pair: pair[1]["error"] / pair[0]["error"])
    estimators = list(dict.fromkeys(row["estimator"] for row in rows))
    lines = []
    for mine, best in pairs:
        cells = []
        for name in estimators:
            wanted = {"problem": mine["problem"], "num_simulations": mine["num_simulations"], "estimator": name}
            (row,) = (row for row in rows if wanted.items() <= row.items())
            cells.append(f"{share(row['error'])} ({row['claims']})")
        ratio = f"{number(best['error'] / mine['error'])} {best['estimator']}"
        lines.append((TITLES[mine["problem"]], f"{mine['num_simulations']:,}", mine["num_seeds"], ratio, *cells))
    lost = sum(mine["error"] > best["error"] for mine, best in pairs)
    goal = sum(3 * mine["error"] <= best["error"] for mine, best in pairs)
    claims = sum(mine["claims"] for mine, _ in pairs)
    most = max(mine["claim_in_standard_errors"] for mine, _ in pairs)
    slopes = [mine["error"] > best["error"] for mine, best in ours_and_others(rows, "ours, slope")]
    recipes = sorted({mine["recipe"] for mine, _ in pairs})
    seeds = sum(mine["num_seeds"] for mine, _ in pairs)
    told = (
        f"**Ours (the bound) has a larger error than the best of the others in {lost} of {len(pairs)} cases**, and\n"
        f"at most a third of its error in {goal}. It is more than 5 % below the exact σ in {claims} of {seeds} runs,\n"
        f"at most by {most:.1f} of the errors it states.\n"
        f"The error of the slope is larger than that of the best other in {sum(slopes)} of {len(slopes)}. "
        f"Fits: `{', '.join(recipes)}`.\n\n"
    )
    packages = ", ".join(f"{name} {version}" for name, version in document["versions_of_others"].items())
    head = ("problem", "simulations", "our seeds", "best other / ours", *estimators)
    return f"{told}{table(head, lines)}\n\nThe others: {packages}."


def side_by_side(document: Row) -> str:
    """Write what was measured on problems with known answers; systems that beat ours are named first."""
    rows = [row for row in document["rows"] if row["comparison"] == "problems"]
    lines = []
    for place in dict.fromkeys((row["problem"], row["num_simulations"]) for row in rows):
        here = [row for row in rows if (row["problem"], row["num_simulations"]) == place]
        title = (TITLES[place[0]], f"{place[1]:,}")
        for system in SYSTEMS:
            mine = [row for row in here if row["system"] == system]
            if mine:
                lines.append((*title, system, *_cells(mine), len(mine)))
                title = ("", "")
    measured = ("score error", "C2ST", "mean off by (σ)", "width off by", "calibration")
    head = ("problem", "simulations", "system", *measured, "fit (s)", "a posterior (s)", "memory (MB)", "seeds")
    return f"{losses(rows)}\n\n{table(head, lines)}\n\n{environments(rows)}"


def _cells(rows: list[Row]) -> list[str]:
    def average(values: list[Any]) -> float | None:
        known = [value for value in values if value is not None]
        return mean(known) if known else None

    keys = ("score_error", "c2st", "mean_error", "width_error", "calibration")
    values = [average([row.get(key) for row in rows]) for key in keys]
    values += [average([row["seconds"].get(key) for row in rows]) for key in ("fit", "one_posterior")]
    texts = ["" if value is None else number(value) for value in values]
    texts[1] = "" if values[1] is None else f"{values[1]:.3f}"
    return [*texts, f"{max(row['peak_mb'] for row in rows):,}"]


def losses(rows: list[Row]) -> str:
    """Say where another system that sees no gradients does better, by which measure."""
    found = []
    for place in dict.fromkeys((row["problem"], row["num_simulations"]) for row in rows):
        here = [row for row in rows if (row["problem"], row["num_simulations"]) == place]
        for measure, words in MEASURES.items():
            values = {
                system: mean(row[measure] for row in here if row["system"] == system)
                for system in SYSTEMS[:-1]
                if any(row["system"] == system and measure in row for row in here)
            }
            if OURS in values and len(values) > 1 and (best := min(values, key=values.__getitem__)) != OURS:
                cells = f"{number(values[best])} against {number(values[OURS])}"
                found.append(f"{TITLES[place[0]]}, {place[1]:,} simulations: {words}, {best} {cells}")
    if not found:
        return "**Where another system does better:** nowhere in this table, by score error, mean or width."
    return "**Where another system does better:**\n\n" + "\n".join(f"* {line}" for line in found)


def environments(rows: list[Row]) -> str:
    """Write versions and hardware."""
    packages = {f"{name} {version}" for row in rows for name, version in row["versions"].items()}
    return f"With {', '.join(sorted(packages))}; on {'; '.join(sorted({row['hardware'] for row in rows}))}."


def tasks_beside(document: Row) -> str:
    """Write classifier accuracies of tasks of the public benchmark, all systems from the same simulations."""
    rows = [row for row in document["rows"] if row["comparison"] == "tasks"]
    systems = [system for system in SYSTEMS if any(row["system"] == system for row in rows)]
    lines = []
    for task, num in dict.fromkeys((row["problem"], row["num_simulations"]) for row in rows):
        here = {row["system"]: row for row in rows if (row["problem"], row["num_simulations"]) == (task, num)}
        cells = [f"{here[s]['c2st']:.3f} ({here[s]['seconds']['fit']:.0f} s)" if s in here else "" for s in systems]
        observations = len(next(iter(here.values()))["c2st_of_observations"])
        lines.append((task.replace("_", " "), f"{num:,}", observations, *cells))
    return f"{table(('task', 'simulations', 'observations', *systems), lines)}\n\n{environments(rows)}"


def simulations_needed(document: Row) -> str:
    """Write how many times more simulations sbi's neural likelihood needs to reach our error, by interpolation."""
    rows, lines = document["rows"], []
    for problem, title in TITLES.items():
        curves = {}
        for method in ("auto", "nle"):
            mine = [row for row in rows if (row["problem"], row["method"]) == (problem, method)]
            numbers = sorted({row["num_simulations"] for row in mine})
            curves[method] = [
                (num, mean(row["score_error"] for row in mine if row["num_simulations"] == num)) for num in numbers
            ]
        cells = [times_more(dict(curves["auto"]).get(num), num, curves["nle"]) for num in (500, 2_000)]
        lines.append((title, *cells))
    return table(("problem", "to reach ours of 500 simulations", "to reach ours of 2,000"), lines)


def times_more(goal: float | None, num: int, curve: list[tuple[int, float]]) -> str:
    """Return how many times ``num`` simulations a curve of errors needs to reach a goal; more than it has, or less."""
    if goal is None or not curve:
        return ""
    if curve[0][1] <= goal:
        return f"under {number(curve[0][0] / num)}"
    for (before, high), (after, low) in pairwise(curve):
        if low <= goal:
            part = log(high / goal) / log(high / low)
            return number(exp(log(before) + part * log(after / before)) / num)
    return f"over {number(curve[-1][0] / num)}"
