"""Tables of one benchmark each: what ``results.py`` writes of the document that the benchmark wrote."""

from collections.abc import Iterable, Sequence
from typing import Any

TITLES = {
    "weak_lensing": "weak lensing",
    "poisson_counts": "Poisson counts",
    "student_t": "Student-t, scale moves with θ",
    "two_signs": "two signs (two modes in θ)",
    "gaussian_covariance": "Gaussian, covariance moves with θ",
    "waiting_times": "waiting times (skewed)",
    "ten_parameters": "ten parameters",
    "linear_gaussian": "linear Gaussian",
}

# Each task of the public benchmark has so many.
_NUM_OBSERVATIONS = 10

Row = dict[str, Any]


def number(value: float) -> str:
    """Write a number with two significant digits, or in full above ten."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def compare_versions(document: Row) -> str:
    """Compare the default fit with that of an older version, on the same fresh seeds."""
    old, new = document["versions"]["old"], document["versions"]["new"]
    rows = []
    for row in document["rows"]:
        numbers = [number(row[key]) for key in ("mean_old", "mean_new", "spread")]
        worse = "yes" if row["worse_beyond_spread"] else "no"
        rows.append((TITLES[row["problem"]], f"{row['num_simulations']:,}", *numbers, worse))
    head = ("problem", "simulations", old, new, "spread of one seed", "worse by more than the spread")
    seeds = ", ".join(map(str, document["seeds"]))
    return f"{table(head, rows)}\n\nMeans over the seeds {seeds}, both versions in one run."


def indecomposable(document: Row) -> str:
    """Write what the paper's added noise does to the score that is learned."""
    keys = ("to_extended", "variance", "to_original", "expected_to_original", "exact_distance")
    lines = [(number(row["sigma"]), *(number(row[key]) for key in keys)) for row in document["rows"]]
    head = (
        "noise σ",
        "learned to extended",
        "variance of one fit",
        "learned to original",
        "expected",
        "exact distance",
    )
    settings = f"{document['recipe']}, {document['num_simulations']:,} simulations, {document['num_fits']} fits each"
    return f"Recipe: {settings}.\n\n{table(head, lines)}"


def sampler(document: Row) -> str:
    """Write effective samples a second of ours and of the paper's sampler."""
    lines = []
    for row in document["rows"]:
        ratio = row.get("ratio_to_best_of_paper")
        rate, c2st = number(row["effective_per_second"]), f"{row['c2st']:.3f}"
        widths = ", ".join(f"{value:.2f}" for value in row["sd_over_exact"])
        cells = (rate, f"{row['compile_seconds']:.1f}", c2st, widths, f"{ratio:.0f}" if ratio else "")
        lines.append((row["sampler"], *cells))
    head = ("sampler", "effective samples / s", "compilation (s)", "C2ST", "sd / exact", "times the paper's best")
    return table(head, lines)


def campaigns(document: Row) -> str:
    """Write what campaigns cost."""
    cost, large = document["overhead"], document["larger_than_memory"]
    head = ("records", "written in (s)", "opened in (s)", "read, shuffled and checked (records / s)", "MB")
    lines = []
    for row in document["ledger"]:
        seconds = (f"{row['write_seconds']:.1f}", f"{row['open_seconds']:.2f}")
        lines.append((f"{row['records']:,}", *seconds, f"{row['read_a_second']:,.0f}", number(row["megabytes"])))
    costs = [
        ("overhead of two workers at 10 ms a run", f"{cost['overhead']:.1%}"),
        ("time to start them", f"{cost['start_up']:.1f} s"),
        ("data trained on", f"{large['data_megabytes']:,.0f} MB"),
        ("limit on the memory of that process", f"{large['limit_megabytes']:.0f} MB"),
        ("memory it used", f"{large['grown_by_megabytes']:.0f} MB"),
        ("loading the data whole under the same limit", large["loading_it_whole"]),
    ]
    return table(("what", "figure"), costs) + "\n\n" + table(head, lines)


def kills(document: Row) -> str:
    """Write what killing coordinators and workers did to the data."""
    lines = []
    for who, row in document["rows"].items():
        same = "yes" if row["identical"] else "NO"
        lines.append((who, row["kills"], f"{row['records']:,}", same, f"{row['run_again']:,}", row["left_over"]))
    head = ("killed", "times", "records", "data as undisturbed", "records run again", "processes left over")
    return table(head, lines)


def double_precision(document: Row) -> str:
    """Write by how much pages differ between single and double precision."""
    lines = [(page, "words differ" if value is None else f"{value:.2g}") for page, value in document.items()]
    return table(("run", "largest relative difference"), lines)


def damage(document: Row) -> str:
    """Write what became of folders and files that were damaged."""
    head = ("damages", "refused", "loaded", "another answer", "foreign error", "hang or crash", "most seconds")
    lines = [(kind, *(f"{row[key]:,}" for key in head)) for kind, row in document["rows"].items()]
    return table(("damaged", *head), lines)


def spectra(document: Row) -> str:
    """Write the speed of the weak lensing spectra against jax-cosmo, and the memory of many simulations."""
    times, off, run = document["times"], document["largest_relative_differences"], document["simulations"]
    lines = [
        ("one spectrum, jax-cosmo", f"{times['jax_cosmo_ms']:.0f} ms"),
        ("one spectrum here, in batches", f"{times['own_ms']:.2f} ms"),
        ("ratio", f"{times['ratio']:.0f}"),
        ("largest relative difference of spectra", f"{off['spectra']:.0e}"),
        ("derivatives here, off from differences by", f"{off['jacobian_true_to_differences']:.2%}"),
        ("automatic derivatives of jax-cosmo, off by", f"{off['jacobian_automatic_to_differences']:.1%}"),
        (f"{run['num_simulations']:,} simulations", f"{run['seconds']:.0f} s, peak memory {run['peak_mb']:.0f} MB"),
    ]
    return table(("what", "figure"), lines)


def start_up(document: Row) -> str:
    """Write how long imports take."""
    lines = [(name, f"{seconds:.2f} s") for name, seconds in document["seconds"].items()]
    ratios = [
        (f"{name}, against JAX and Equinox", f"{ratio:.2f}")
        for name, ratio in document["ratio_to_jax_and_equinox"].items()
    ]
    return table(("what", "figure"), lines + ratios)


def public_benchmark(document: Row) -> str:
    """Write mean accuracies of the classifier beside published ones, by task and number of simulations."""

    def accuracies(rows: list[Row]) -> str:
        """Write the mean of ten, or of as many as there are."""
        values = [row["c2st"] for row in rows if "c2st" in row]
        few = f" ({len(values)})" if len(values) < _NUM_OBSERVATIONS else ""
        return f"{sum(values) / len(values):.3f}{few}" if values else "–"

    lines = []
    for task, figures in document["published"].items():
        for place, num in enumerate((1_000, 10_000)):
            wanted = {"task": task, "num_simulations": num}
            aimed, single = (
                [row for row in document["rows"] if (wanted | {"method": method}).items() <= row.items()]
                for method in ("aimed", "single")
            )
            if aimed or single:
                others = {kind: f"{figures[kind][place]:.2f}" for kind in ("sequential", "single")}
                worst = f"{max(r.get('c2st', 1.0) for r in aimed):.3f}" if aimed else "–"
                seconds = f"{sum(r['seconds'] for r in aimed) / len(aimed):.0f}" if aimed else "–"
                cells = (accuracies(aimed), worst, others["sequential"], accuracies(single), others["single"], seconds)
                lines.append((task.replace("_", " "), f"{num:,}", *cells))
    head = ("task", "simulations", "`fs.infer`, mean", "worst", "best published, in rounds", "one fit over the prior")
    return table((*head, "best published, over the prior", "seconds of `fs.infer` on one core"), lines)


def aiming(document: Row) -> str:
    """Write what aimed inferences came to where the answer is known."""
    wide, covered, killed = document["wide"], document["coverage"], document["kills"]
    verdicts, genetics = document["verdicts"], document["genetics"]
    num, seeds = covered["mocks"], verdicts["seeds"]
    off = max(abs(value) for value in genetics["off_by_sigma"])
    wrong = max(abs(value - 1) for value in genetics["width_ratio"])
    each = " and ".join(str(value) for value in covered["each"]["0.68"])
    lines = [
        (
            f"weak lensing, ranges three times as wide, {wide['num_simulations']} simulations in all: C2ST against the "
            f"exact posterior, mean of {len(wide['mocks'])} (the exact one moved by half its width)",
            f"{wide['c2st']:.3f} ({wide['control']:.3f})",
        ),
        (
            f"populations over three to four decades, {genetics['num_simulations']:,} simulations, beside a fit of "
            f"{genetics['num_narrow']:,} in a narrow range: largest difference of means in σ, and of widths",
            f"{off:.2f}, {100 * wrong:.0f} %",
        ),
        (
            f"epidemic, {covered['num_simulations']} simulations each: of {num} truths drawn from the prior, regions "
            "of 68 % and of 95 % hold",
            f"{covered['together']['0.68']} and {covered['together']['0.95']}",
        ),
        ("the same for each parameter by itself, 68 %", each),
        (f"of these {num}, not called right by their own verdict", str(covered["not_right"])),
        (
            f"{killed['kills']} kills at random moments of {killed['inferences']} inferences, each gone on with: "
            "posterior draws identical to those of an undisturbed run",
            f"{killed['identical']} of {killed['inferences']}",
        ),
        *((f"{name}: the right verdict", f"{right} of {seeds}") for name, right in verdicts["right"].items()),
    ]
    return table(("what", "figure"), lines)
