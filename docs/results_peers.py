"""The tables beside other tools: how ``results.py`` shows ``forecast_face_off.json`` and ``side_by_side.json``."""

from collections.abc import Iterable
from itertools import pairwise
from math import exp, log
from statistics import mean

from results_tables import TITLES, Row, number, table

OURS, AIMED = "ours", "ours, aimed"
SYSTEMS = (
    *(AIMED, OURS),
    *("sbi SNLE", "sbi TSNPE", "sbi NLE", "sbi NLE tuned", "sbi NPE", "sbi NPE tuned", "sbi NPE CNN"),
    *("FlowJAX NLE", "paper", "exact"),
)
NAMES = {
    **TITLES,
    "gaussian_field": "Gaussian field, 32 × 32",
    "three_by_two": "three-by-two, 21 parameters",
    "slcp": "SLCP",
    "sir": "SIR",
}
# Measures of which less is better, and how they are called in a sentence.
MEASURES = {
    "score_error": "score error",
    "mean_error": "error of the mean",
    "width_error": "error of the width",
    "sigma_off_of_interest": "largest error of σ, of interest",
    "sigma_off": "largest error of σ, of all",
}
SECONDS = {"fit": "fit (s)", "one_posterior": "a posterior (s)"}
POSTERIORS = {
    "score_error": "score error",
    "c2st": "C2ST",
    "mean_error": "mean off by (σ)",
    "width_error": "width off by",
    "calibration": "calibration",
    **SECONDS,
}
FORECASTS = {
    "score_error": "score error",
    "least_sigma": "smallest σ / exact",
    "sigma_off_of_interest": "largest error of σ, of interest",
    "sigma_off": "of all",
    "fit": "fit (s)",
}
NEVER = "over "
ENOUGH = 10_000  # simulations a peer must have been measured with, or it would count as one that never gets there


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


def called(name: str) -> str:
    """Name a problem or a task in words."""
    return NAMES.get(name, name.replace("_", " "))


def side_by_side(document: Row) -> str:
    """Write what was measured on problems with known answers; systems that beat ours are named first."""
    rows = [row for row in document["rows"] if row["comparison"] == "problems"]
    return f"{losses(rows)}\n\n{_table_of(rows, POSTERIORS)}\n\n{environments(rows)}"


def fields_beside(document: Row) -> str:
    """Write the same of maps."""
    rows = [row for row in document["rows"] if row["comparison"] == "fields"]
    return f"{losses(rows)}\n\n{_table_of(rows, POSTERIORS)}\n\n{environments(rows)}"


def many_beside(document: Row) -> str:
    """Write score errors and errors of σ with many parameters."""
    rows = [row for row in document["rows"] if row["comparison"] == "many"]
    rows = [row | {"least_sigma": min(row["sigma_over_exact"])} if measured(row) else row for row in rows]
    return f"{losses(rows)}\n\n{_table_of(rows, FORECASTS)}\n\n{environments(rows)}"


def _places(rows: list[Row]) -> Iterable[tuple[str, int, dict[str, list[Row]]]]:
    """Take rows of one problem and number of simulations together, by system; in the order of the systems."""
    for name, num in dict.fromkeys((row["problem"], row["num_simulations"]) for row in rows):
        here = [row for row in rows if (row["problem"], row["num_simulations"]) == (name, num)]
        by_system = {system: [row for row in here if row["system"] == system] for system in SYSTEMS}
        yield name, num, {system: mine for system, mine in by_system.items() if mine}


def _table_of(rows: list[Row], columns: dict[str, str]) -> str:
    lines = []
    for name, num, by_system in _places(rows):
        title = (called(name), f"{num:,}")
        for system, mine in by_system.items():
            lines.append((*title, system, *_cells(mine, columns), len(mine)))
            title = ("", "")
    head = ("problem", "simulations", "system", *columns.values(), "memory (MB)", "seeds")
    return table(head, lines)


def _cells(rows: list[Row], columns: dict[str, str]) -> list[str]:
    """Average over seeds; where there is nothing to average, say why."""
    good = [row for row in rows if measured(row)]
    if not good:
        return [rows[0].get("unfinished", "failed"), *[""] * len(columns)]
    values = []
    for key in columns:
        known = [value for row in good if (value := {**row, **row["seconds"]}.get(key)) is not None]
        values.append("" if not known else f"{mean(known):.3f}" if key == "c2st" else number(mean(known)))
    memory = max((row["peak_mb"] for row in good if row.get("peak_mb")), default=None)
    return [*values, "" if memory is None else f"{memory:,}"]


def measured(row: Row) -> bool:
    """Say whether a system came to an end."""
    return "unfinished" not in row and "failed" not in row


def losses(rows: list[Row]) -> str:
    """Say where another system that sees no gradients does better, by which measure, on seeds that both have."""
    found = []
    for name, num, by_system in _places([row for row in rows if measured(row)]):
        for measure, words in MEASURES.items():
            pairs = {}
            for system in by_system.keys() - {OURS, "exact"}:
                ours, other = ({row["seed"]: row.get(measure) for row in by_system.get(s, ())} for s in (OURS, system))
                both = [seed for seed in ours if ours[seed] is not None and other.get(seed) is not None]
                if both:
                    pairs[system] = tuple(mean(values[seed] for seed in both) for values in (other, ours))
            best = min(pairs, key=lambda system: pairs[system][0] / pairs[system][1], default=None)
            if best and pairs[best][0] < pairs[best][1]:
                cells = f"{best} {number(pairs[best][0])} against {number(pairs[best][1])}"
                found.append(f"{called(name)}, {num:,} simulations: {words}, {cells}")
    words = ", ".join(words for measure, words in MEASURES.items() if any(measure in row for row in rows))
    if not found:
        return f"**Where another system does better:** nowhere in this table, by {words}."
    return "**Where another system does better:**\n\n" + "\n".join(f"* {line}" for line in found)


def environments(rows: list[Row]) -> str:
    """Write versions and hardware."""
    packages = {f"{name} {version}" for row in rows for name, version in row.get("versions", {}).items()}
    return f"With {', '.join(sorted(packages))}; on {'; '.join(sorted({row['hardware'] for row in rows}))}."


def tasks_beside(document: Row) -> str:
    """Write classifier accuracies of tasks of the public benchmark, losses of the aimed inference first."""
    rows = [row for row in document["rows"] if row["comparison"] == "tasks"]
    systems = [system for system in SYSTEMS if any(row["system"] == system for row in rows)]
    lines, lost, beside = [], [], 0
    for task, num, by_system in _places(rows):
        here = {system: mine[0] for system, mine in by_system.items()}
        most = max(len(row.get("c2st_of_observations", ())) for row in here.values())
        lines.append((called(task), f"{num:,}", most, *(_accuracy(here.get(system), most) for system in systems)))
        good = {system: row for system, row in here.items() if measured(row)}
        others = good.keys() - {AIMED, OURS}
        if AIMED in good and others:
            beside += 1
            least = min(len(good[system]["c2st_of_observations"]) for system in (AIMED, *others))
            values = {system: mean(good[system]["c2st_of_observations"][:least]) for system in (AIMED, *others)}
            best = min(others, key=values.__getitem__)
            if values[best] < values[AIMED]:
                cells = f"{best} {values[best]:.3f} against {values[AIMED]:.3f}"
                lost.append(f"* {called(task)}, {num:,} simulations: {cells}")
    told = f"**Another system has a lower C2ST than the aimed inference in {len(lost)} of {beside} cases**"
    told += ":\n\n" + "\n".join(lost) if lost else "."
    head = ("task", "simulations", "observations", *systems)
    return f"{told}\n\n{table(head, lines)}\n\n{environments(rows)}"


def _accuracy(row: Row | None, most: int) -> str:
    """Write an accuracy, the seconds of a fit, and how many observations where these are fewer than of others."""
    if row is None:
        return ""
    if not measured(row):
        return str(row.get("unfinished", "failed"))
    num = len(row["c2st_of_observations"])
    fewer = "" if num == most else f", {num} obs."
    return f"{row['c2st']:.3f} ({row['seconds']['fit']:.0f} s{fewer})"


def simulations_needed(document: Row, beside: Row) -> str:
    """Write how many times more simulations the best peer needs to reach our error, by interpolation.

    Args:
        document: ``simulation_efficiency.json``, with ours and the neural likelihood of sbi.
        beside: ``side_by_side.json``, with scores of other peers, of which those count that have enough simulations.
    """
    found: dict[tuple[str, str], dict[int, list[float]]] = {}
    for row in document["rows"]:
        if row["method"] in ("auto", "nle"):
            system = OURS if row["method"] == "auto" else "sbi NLE"
            found.setdefault((row["problem"], system), {}).setdefault(row["num_simulations"], []).append(
                row["score_error"]
            )
    for row in beside["rows"]:
        if row["comparison"] == "scores" and measured(row) and row["system"] not in (OURS, "sbi NLE"):
            by_number = found.setdefault((row["problem"], row["system"]), {})
            by_number.setdefault(row["num_simulations"], []).append(row["score_error"])
    lines = []
    for problem, title in TITLES.items():
        curves = {
            system: sorted((num, mean(errors)) for num, errors in by_number.items())
            for (name, system), by_number in found.items()
            if name == problem
        }
        ours = dict(curves.pop(OURS, ()))
        curves = {system: curve for system, curve in curves.items() if curve[-1][0] >= ENOUGH}
        cells = [best_of(curves, ours.get(num), num) for num in (500, 2_000)]
        lines.append((title, ", ".join(curves), *cells))
    return table(("problem", "measured", "to reach ours of 500 simulations", "to reach ours of 2,000"), lines)


def best_of(curves: dict[str, list[tuple[int, float]]], goal: float | None, num: int) -> str:
    """Return how many times ``num`` simulations the peer needs that needs fewest, and which one that is.

    One that never gets there counts as if it would with the next simulation beyond those it was measured with.
    """
    if goal is None or not curves:
        return ""
    factors = {system: times(goal, num, curve) for system, curve in curves.items()}
    best = min(factors, key=lambda system: factors[system][1])
    words, value = factors[best]
    return f"{words}{number(value)}" + ("" if words == NEVER else f" {best}")


def times_more(goal: float | None, num: int, curve: list[tuple[int, float]]) -> str:
    """Return how many times ``num`` simulations a curve of errors needs to reach a goal; more than it has, or less."""
    if goal is None or not curve:
        return ""
    words, value = times(goal, num, curve)
    return f"{words}{number(value)}"


def times(goal: float, num: int, curve: list[tuple[int, float]]) -> tuple[str, float]:
    """Return the same as a number, and whether it is an upper or a lower bound."""
    if curve[0][1] <= goal:
        return "under ", curve[0][0] / num
    for (before, high), (after, low) in pairwise(curve):
        if low <= goal:
            part = log(high / goal) / log(high / low)
            return "", exp(log(before) + part * log(after / before)) / num
    return NEVER, curve[-1][0] / num
