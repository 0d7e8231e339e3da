"""Put the results of the benchmarks into the pages that show them: ``python docs/results.py``.

A page holds a pair of comments, ``<!-- results: NAME -->`` and ``<!-- end -->``; what stands between them is written
here, from the JSON files in ``benchmarks/results`` alone, so that no figure is typed by hand. Words around the tables
belong to the pages. A test holds the pages against what this script gives.
"""

import json
import re
import sys
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))  # also when this file is loaded by its path

import results_fields  # noqa: E402
import results_many  # noqa: E402
import results_peers  # noqa: E402
import results_speed  # noqa: E402
import results_tables  # noqa: E402
from results_tables import TITLES, Row, number, table  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
MARKED = re.compile(r"(?P<start><!-- results: (?P<name>\w+) -->)(?P<table>.*?)(?P<end><!-- end -->)", re.DOTALL)

OTHER_METHODS = ("auto", "nle", "paper")
USUAL_SEEDS = 3


def read(name: str) -> Any:
    """Return one benchmark's results."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def with_versions(text: str, *names: str) -> str:
    """Add which versions, on which device, the results of these benchmarks are from."""
    lines = []
    for versions in (read(name)["versions"] for name in names):
        release = versions["fisherscore"]
        package = "a copy of the repository" if release == "not installed" else f"fisherscore {release}"
        python = f"JAX {versions['jax']}, Python {versions['python']}"
        lines.append(f"Measured with {package}, {python}; device: {versions['device']}.")
    return "\n\n".join([text, *lines])


def errors_of(rows: list[Row], problem: str, num: int, method: str) -> list[float]:
    """Return the score errors of one method over its seeds."""
    wanted = {"problem": problem, "num_simulations": num, "method": method}
    return [row["score_error"] for row in rows if wanted.items() <= row.items()]


def error_cell(errors: list[float]) -> str:
    """Write the mean over seeds, and how many they are where they are not three."""
    if not errors:
        return ""
    return number(mean(errors)) + ("" if len(errors) == USUAL_SEEDS else f" ({len(errors)})")


def best_part(rows: list[Row], problem: str, num: int) -> str:
    """Write the error and the name of the best member of the default used alone."""
    parts = sorted({row["method"] for row in rows} - set(OTHER_METHODS))
    errors = {part: errors_of(rows, problem, num, part) for part in parts}
    errors = {part: values for part, values in errors.items() if values}
    if not errors:
        return ""
    best = min(errors, key=lambda part: mean(errors[part]))
    return f"{error_cell(errors[best])} `{best}`"


def score_errors() -> str:
    """Write the long table: problem, number of simulations, methods."""
    rows = read("simulation_efficiency")["rows"]
    lines = []
    for problem, title in TITLES.items():
        for num in sorted({r["num_simulations"] for r in rows if r["problem"] == problem and r["method"] == "auto"}):
            cells = [error_cell(errors_of(rows, problem, num, method)) for method in OTHER_METHODS]
            lines.append((title, f"{num:,}", cells[0], best_part(rows, problem, num), *cells[1:]))
            title = ""
    head = ("problem", "simulations", "default", "best part", "sbi NLE", "paper's recipe")
    return with_versions(table(head, lines), "simulation_efficiency")


def budget() -> str:
    """Write errors of the default alone, one line a problem."""
    rows, numbers = read("simulation_efficiency")["rows"], (500, 2_000, 10_000, 20_000)
    lines = [(TITLES[p], *(error_cell(errors_of(rows, p, num, "auto")) for num in numbers)) for p in TITLES]
    return table(("problem", *(f"{num:,} simulations" for num in numbers)), lines)


def stated_errors() -> tuple[list[Row], list[Row], list[Row]]:
    """Return all fits that state an error, those that state less than half of the true one, and more than twice."""
    fits = [row for row in read("simulation_efficiency")["rows"] if row["method"] == "auto" and row["own_estimate"]]
    low = [row for row in fits if row["own_estimate"] < 0.5 * row["score_error"]]
    high = [row for row in fits if row["own_estimate"] > 2.0 * row["score_error"]]
    return fits, low, high


def own_estimates() -> str:
    """Compare the error a fit states of itself with the true one."""
    fits, low, high = stated_errors()
    lines = []
    for problem, title in TITLES.items():
        for num in sorted({row["num_simulations"] for row in [*low, *high] if row["problem"] == problem}):
            here = [row for row in fits if row["problem"] == problem and row["num_simulations"] == num]
            ratios = [number(row["score_error"] / row["own_estimate"]) for row in here]
            lines.append((title, f"{num:,}", ", ".join(ratios)))
    inside = len(fits) - len(low) - len(high)
    return (
        f"Of {len(fits)} fits of the default, the true error is within a factor of two of the stated one in {inside},\n"
        f"larger than twice in {len(low)} and smaller than half in {len(high)}. The cases with a fit outside:\n\n"
        + table(("problem", "simulations", "true error / stated error, seed by seed"), lines)
    )


def weak_lensing() -> str:
    """Write the paper's experiment by numbers."""
    document = read("weak_lensing")
    head = ("recipe", "score error", "median field error", "worst forecast error", "mean C2ST", "worst C2ST")
    lines, notes = [], {}
    for row in document["rows"]:
        inside = f"{row['truth_inside_68']} of {row['num_mocks']} ({row['truth_inside_68_exact']})"
        errors = f"{number(row['score_error'])} ± {row['score_error_standard_error']:.1g}"
        shares = (f"{row['field_error_median']:.1%}", f"{row['forecast_error_worst']:.1%}")
        lines.append((row["recipe"], errors, *shares, f"{row['c2st_mean']:.3f}", f"{row['c2st_worst']:.3f}", inside))
        for key, label in (("c2st_note", "C2ST"), ("digits", "digits")):
            if key in row:
                notes.setdefault(f"{label} {row[key]}", []).append(row["recipe"])
    footnotes = "\n".join(f"* {'; '.join(names)}: {note}." for note, names in notes.items())
    text = table((*head, "truth in the 68 % region (exact posteriors)"), lines)
    return with_versions(f"{text}\n\n{footnotes}", "weak_lensing")


def priors() -> str:
    """Write how posteriors under priors of every form compare with exact ones."""
    rows = read("priors")["rows"]
    lines = [
        (row["prior"], f"{max(row['nuts']):.3f}", f"{max(row['smc']):.3f}", f"{min(row['control']):.3f}")
        for row in rows
    ]
    head = ("prior", "worst C2ST, NUTS", "worst C2ST, SMC", "best C2ST, uniform prior (control)")
    return with_versions(table(head, lines), "priors")


def population_genetics() -> str:
    """Write how a posterior of a growing population compares with rejection sampling."""
    document = read("population_genetics")
    columns = zip(document["names"], document["off_by_sigma"], document["width_ratio"], strict=True)
    lines = [(name, f"{off:+.2f} σ", f"{ratio:.2f}") for name, off, ratio in columns]
    lines.append(("free combination, degrees from the known one", f"{document['degrees_from_free']:.1f}", ""))
    return with_versions(table(("parameter", "mean off by", "width / reference"), lines), "population_genetics")


def two_moons() -> str:
    """Write how posteriors with two thin modes compare with exact ones."""
    document = read("two_moons")
    lines = [
        (
            "default" if row["method"] == "auto" else f"`{row['method']}` alone (control)",
            f"{document['num_simulations']:,}",
            len(row["c2st"]),
            f"{row['mean_c2st']:.3f}",
            f"{max(row['c2st']):.3f}",
            number(row["score_error"]),
        )
        for row in document["rows"]
    ]
    head = ("recipe", "simulations", "posteriors", "mean C2ST", "worst C2ST", "score error")
    return with_versions(table(head, lines), "two_moons")


def forecasts() -> str:
    """Write forecasts over many seeds, against exact ones."""
    document = read("forecast")
    lines = []
    for row in document["forecasts"]:
        claim = row["largest_claim_in_standard_errors"]
        share = f"{row['sigma_ratio_minus_1']:+.1%} ± {row['spread_over_seeds']:.1%}"
        kind = row["estimate"].replace("_", "-")
        cells = (kind, share, f"{row['mean_trace_ratio']:.2f}", "" if claim is None else f"{claim:.1f}")
        lines.append((row["problem"], row["score"], *cells))
    head = ("problem", "score", "estimate", "σ / exact − 1", "information / exact", "largest claim")
    seeds, num = document["forecasts"][0]["num_seeds"], document["num_training_simulations"]
    return f"{seeds} seeds each; learned scores from {num:,} simulations.\n\n" + table(head, lines)


def best_fits() -> str:
    """Write best fits of many observations against the Cramér-Rao bound."""
    lines = []
    for row in read("forecast")["best_fits"]:
        bias = ", ".join(f"{value:+.2f}" for value in row["bias_in_sigma"]) + f" (± {row['bias_standard_error']:.2f})"
        variance = ", ".join(f"{value:.2f}" for value in row["variance_over_bound"])
        variance += f" (± {row['variance_standard_error']:.2f})"
        lines.append((row["problem"], row["score"], f"{row['num']:,} ({row['converged']:.1%})", bias, variance))
    head = ("problem", "score", "best fits (converged)", "bias in σ", "variance / Cramér-Rao bound")
    return with_versions(table(head, lines), "forecast")


def throughput() -> str:
    """Write the training loop's speed against loops in Python."""
    names = ("training_throughput_cpu", "training_throughput_gpu")
    lines = []
    for document in map(read, names):
        for row in document["rows"]:
            times = [f"{row[f'{loop}_us_per_step']:,.0f}" for loop in ("plain", "careful", "scanned")]
            ratios = [f"{row[f'ratio_to_{loop}']:.1f}" for loop in ("plain", "careful")]
            lines.append((document["versions"]["device"], row["network"], *times, *ratios))
    loops = ("plain (µs / step)", "careful (µs)", "scanned, ours (µs)")
    return with_versions(table(("device", "network", *loops, "ratio to plain", "to careful"), lines), *names)


def field_training() -> str:
    """Write how fast the network for maps is trained beside PyTorch, and how far from the limit of the device."""
    name = "field_training_gpu"
    if not (RESULTS / f"{name}.json").exists():
        return "Not measured yet."
    loops = {"ours": "ours", "torch": "PyTorch", "torch_compiled": "compiled", "torch_graphs": "with CUDA graphs"}
    lines = []
    for row in read(name)["rows"]:
        times = [f"{row[f'{loop}_us_per_step']:,.0f}" if f"{loop}_us_per_step" in row else "–" for loop in loops]
        ratio = f"{row['ratio_to_best']:.2f}" if "ratio_to_best" in row else "–"
        sizes = (f"{row['side']}²", row["channels"], row["batch_size"])
        lines.append((*sizes, *times, ratio, f"{row['limit_us_per_step']:,.0f}"))
    head = ("pixels", "channels", "maps in a step", *(f"{loop} (µs / step)" for loop in loops.values()))
    return with_versions(table((*head, "best of theirs / ours", "limit (µs)"), lines), name)


def tasks_better(num: int) -> str:
    """Count the tasks of the public benchmark on which aimed inferences are better than all published ones."""
    document, better = read("sbi_benchmark"), 0
    for task, figures in document["published"].items():
        wanted = {"method": "aimed", "task": task, "num_simulations": num}
        values = [row["c2st"] for row in document["rows"] if wanted.items() <= row.items() and "c2st" in row]
        better += bool(values) and mean(values) < figures["sequential"][(1_000, 10_000).index(num)]
    return f"on {better} of {len(document['published'])} tasks"


def headline() -> str:
    """Write the small table of the README: what is good, and what is not."""
    rows, lensing = read("simulation_efficiency")["rows"], read("weak_lensing")["rows"]
    pairs = [[mean(errors_of(rows, problem, 2_000, method)) for method in ("auto", "nle")] for problem in TITLES]
    papers = [row for row in lensing if row["recipe"].startswith("paper")]
    default = next(row for row in lensing if row["recipe"] == "default, 5,000 simulations")
    fits, low, high = stated_errors()
    bounds = [row for row in read("forecast")["forecasts"] if row["estimate"] == "bound"]
    num_forecasts = sum(row["num_seeds"] for row in bounds)
    claim = max(row["largest_claim_in_standard_errors"] for row in bounds)
    killed = read("kills")["rows"]["coordinator"]
    pairs_of_forecasts = list(results_peers.ours_and_others(read("forecast_face_off")["summary"]))
    lost = sum(mine["error"] > best["error"] for mine, best in pairs_of_forecasts)
    lines = [
        (
            "forecasts at equal simulations: error of σ larger than that of the best of finite differences, "
            "CompressedFisher and DerivKit",
            f"in {lost} of {len(pairs_of_forecasts)} cases",
        ),
        ("weak lensing, 5,000 simulations: score error", number(default["score_error"])),
        (
            f"weak lensing, paper's recipe, 100,000 simulations, {len(papers)} fits: score error",
            ", ".join(number(row["score_error"]) for row in papers),
        ),
        (
            f"posteriors of {default['num_mocks']} weak lensing mocks against exact ones: C2ST (0.5 is perfect)",
            f"{default['c2st_mean']:.3f} on average, {default['c2st_worst']:.3f} at worst",
        ),
        (
            "the public benchmark of one observation under a wide prior, 1,000 simulations: C2ST of `fs.infer` below "
            "the best published",
            tasks_better(1_000),
        ),
        (
            "the same with 10,000 simulations, one to four observations a task",
            tasks_better(10_000),
        ),
        (
            f"{len(pairs)} problems, 2,000 simulations: score error below that of sbi's neural likelihood",
            f"in {sum(ours < peer for ours, peer in pairs)} of {len(pairs)}",
        ),
        (
            "the same problems: smallest and largest score error of the default",
            f"{number(min(pairs)[0])} and {number(max(pairs)[0])}",
        ),
        (
            "the error a fit states of itself, within a factor of two of the true one",
            f"in {len(fits) - len(low) - len(high)} of {len(fits)} fits",
        ),
        (
            f"{num_forecasts} conservative forecasts: largest claim beyond the exact information",
            f"{claim:.1f} standard errors",
        ),
        (
            f"a campaign killed {killed['kills']} times and resumed: its data",
            "identical to those of an undisturbed run" if killed["identical"] else "NOT those of an undisturbed run",
        ),
    ]
    return table(("what", "figure"), lines)


# Tables of one benchmark each: the file, and what makes a table of it.
OF_ONE_FILE = {
    "compare_versions": ("compare_versions", results_tables.compare_versions),
    "indecomposable": ("indecomposable", results_tables.indecomposable),
    "sampler": ("sampler", results_tables.sampler),
    "campaigns": ("campaign", results_tables.campaigns),
    "going_on": ("campaign_resume", results_speed.going_on),
    "kills": ("kills", results_tables.kills),
    "damage": ("damage", results_tables.damage),
    "fields": ("fields", results_fields.fields),
    "fields_growth": ("fields_growth", results_fields.fields_growth),
    "lensing_maps": ("lensing_maps", results_fields.lensing_maps),
    "double_precision": ("double_precision", results_tables.double_precision),
    "spectra": ("weak_lensing_spectra", results_tables.spectra),
    "start_up": ("start_up", results_tables.start_up),
    "growth": ("growth", results_speed.growth),
    "time_to_answer": ("time_to_answer", results_speed.time_to_answer),
    "time_to_answer_versions": ("time_to_answer_versions", results_speed.time_to_answer),
    "accelerators": ("accelerators", results_speed.accelerators),
    "many_parameters": ("many_parameters", results_many.many_parameters),
    "face_off": ("forecast_face_off", results_peers.face_off),
    "side_by_side": ("side_by_side", results_peers.side_by_side),
    "tasks_beside": ("side_by_side", results_peers.tasks_beside),
    "fields_beside": ("side_by_side", results_peers.fields_beside),
    "many_beside": ("side_by_side", results_peers.many_beside),
    "aiming": ("aiming", results_tables.aiming),
    "public_benchmark": ("sbi_benchmark", results_tables.public_benchmark),
}


def of_one_file(name: str) -> str:
    """Write the table of one benchmark, and with which versions it was measured."""
    file, make = OF_ONE_FILE[name]
    text = make(read(file))
    # One names its versions itself, the other compares this one with itself.
    return text if name in ("compare_versions", "double_precision") else with_versions(text, file)


def simulations_needed() -> str:
    """Compare the best peer with ours by how many simulations both need."""
    text = results_peers.simulations_needed(read("simulation_efficiency"), read("side_by_side"))
    return with_versions(text, "simulation_efficiency")


TABLES = {
    "headline": headline,
    "simulations_needed": simulations_needed,
    "score_errors": score_errors,
    "budget": budget,
    "own_estimates": own_estimates,
    "weak_lensing": weak_lensing,
    "two_moons": two_moons,
    "priors": priors,
    "population_genetics": population_genetics,
    "forecasts": forecasts,
    "best_fits": best_fits,
    "throughput": throughput,
    "field_training": field_training,
    **{name: partial(of_one_file, name) for name in OF_ONE_FILE},
}


def filled(text: str) -> str:
    """Put the tables a page asks for between their comments."""

    def fill(match: re.Match[str]) -> str:
        return f"{match['start']}\n\n{TABLES[match['name']]()}\n\n{match['end']}"

    return MARKED.sub(fill, text)


def main() -> None:
    """Write the results into all pages that show some."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if MARKED.search(text := page.read_text()):
            page.write_text(filled(text))
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
