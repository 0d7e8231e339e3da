"""The table of many parameters: how ``results.py`` shows ``many_parameters.json``, misses first."""

from typing import Any

from results_tables import Row, number, table

LEARNED, CONTROL = "learned", "exact score (control)"
KINDS = {"plug_in": "plug-in", "slope": "slope", "bound": "bound"}
# Largest error of σ that is aimed at: of the parameters of interest, and of all.
AIMS = {"21 parameters": (0.05, 0.15), "40 parameters": (0.10, 0.25)}


def departures(found: Row | None, names: Any) -> tuple[float, float] | None:
    """Return the largest departures of σ from the exact one, of parameters of interest and of all; None if singular."""
    if found is None:
        return None
    values = found["sigma_over_exact"]
    return tuple(max((values[n] - 1.0 for n in group), key=abs) for group in (names, values))  # type: ignore[return-value]


def lowest(found: Row) -> float:
    """Return how far a bound is below the exact σ at most, in the errors it states; above 0 where it is nowhere."""
    errors = found["standard_error"]
    return min((value - 1.0) / errors[name] for name, value in found["sigma_over_exact"].items())


def cell(pair: tuple[float, float] | None) -> str:
    """Write two departures in per cent."""
    return "singular" if pair is None else " / ".join(f"{100 * value:+.1f} %" for value in pair)


def many_parameters(document: Row) -> str:
    """Write errors of σ by case, seed and estimate, and how many of them miss what was aimed at."""
    names, lines, told = document["of_interest"], [], []
    for case, result in document["cases"].items():
        limits, runs = AIMS[case], result["runs"]
        missed = dict.fromkeys(KINDS, 0)
        for run in runs:
            pairs = {kind: departures(run[LEARNED][kind], names) for kind in KINDS}
            for kind, pair in pairs.items():
                missed[kind] += pair is None or any(abs(v) > most for v, most in zip(pair, limits, strict=True))
            errors = (f"{number(run['score_error'])}", number(run["estimated_error"]))
            control = cell(departures(run[CONTROL]["bound"], names))
            cells = [cell(pairs[kind]) for kind in KINDS]
            lines.append((case, run["seed"], *cells, control, *errors, f"{run['seconds']['fit']:.0f}"))
        counts = ", ".join(f"{KINDS[kind]} in {num}" for kind, num in missed.items())
        bounds = [run[LEARNED]["bound"] for run in runs if run[LEARNED]["bound"] is not None]
        within = sum(0.5 <= run["estimated_error"] / run["score_error"] <= 2.0 for run in runs)
        told.append(
            f"* **{case}**: σ of a parameter of interest is off by more than {100 * limits[0]:.0f} %, or of any by "
            f"more than\n  {100 * limits[1]:.0f} %, by {counts} of {len(runs)} runs. The bound is at its lowest "
            f"{min(map(lowest, bounds)):+.1f} of its errors from the exact σ.\n  The stated error is within a factor "
            f"of two of the true one in {within} of {len(runs)}."
        )
    head = ("case", "seed", *KINDS.values(), "bound, exact score", "score error", "stated error", "fit (s)")
    return "\n".join(told) + "\n\n" + table(head, lines)
