"""The tables of maps: how ``results.py`` shows ``fields.json``, ``fields_growth.json`` and ``lensing_maps.json``."""

from statistics import mean

from results_tables import Row, number, table

OF_INTEREST = ("omega_c", "sigma8", "w0")
# What the classifier should not tell apart better than, by the number of simulations.
AIMS = {2_000: 0.60, 10_000: 0.55}


def fields(document: Row) -> str:
    """Write how scores of maps, and forecasts by them, compare with exact ones."""
    keys = {
        "score error": "error",
        "own estimate": "estimated_error",
        "network alone": "network_error",
        "own estimate of it": "network_estimated_error",
        "both": "both_error",
        "own estimate of both": "both_estimated_error",
        "16 rings alone": "spectrum_error",
        "bound / exact": "determinant_of_bound",
    }
    measured = {key for row in document["rows"] for run in row["runs"] for key in run}
    keys = {label: key for label, key in keys.items() if key in measured}
    head = ("field", "pixels", "simulations", "seeds", *keys, "fit", "version")
    lines = []
    for row in document["rows"]:

        def average(key: str, runs: list[Row] = row["runs"]) -> str:
            known = [run[key] for run in runs if key in run]
            return number(sum(known) / len(known)) if known else "–"

        values = [average(key) for key in keys.values()]
        facts = (row["field"], f"{row['side']}²", f"{row['num_simulations']:,}", len(row["runs"]))
        lines.append((*facts, *values, average("seconds") + " s", row.get("version", "earlier")))
    return table(head, lines)


def fields_growth(document: Row) -> str:
    """Write error, time and memory by the number of pixels, and the powers by which the costs grow."""
    rows, powers = document["rows"], document["powers"]
    lines = [
        (
            f"{row['side']}²",
            f"{row['num_simulations']:,}",
            number(row["error"]),
            number(row["estimated_error"]),
            f"{row['determinant_of_bound']:.2f}",
            f"{row['seconds_of_simulations']:.0f} s",
            f"{row['seconds']:.0f} s",
            f"{row['gigabytes']:.1f} GB",
        )
        for row in rows
    ]
    head = (
        "pixels",
        "simulations",
        "score error",
        "own estimate",
        "bound / exact",
        "simulate",
        "fit",
        "largest memory",
    )
    said = "no worse than linear" if powers["seconds"] <= 1 else "**worse than linear**"
    kept = "no worse than linear" if powers["gigabytes"] <= 1 else "**worse than linear**"
    sides = f"From {rows[-2]['side']}² to {rows[-1]['side']}² pixels"
    return (
        f"{table(head, lines)}\n\n{sides} the time of a fit grows with the power {powers['seconds']:.2f} of the pixels "
        f"({said}), the largest memory with {powers['gigabytes']:.2f} ({kept})."
    )


def lensing_maps(document: Row) -> str:
    """Write posteriors of the observed lensing map beside those of full-field HMC, and what others published."""
    lines = []
    for method, num in dict.fromkeys((row["method"], row["num_simulations"]) for row in document["rows"]):
        here = [row for row in document["rows"] if (row["method"], row["num_simulations"]) == (method, num)]
        values = [row["c2st"] for row in here]
        spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
        widths = (f"{mean(row['widths_over_hmc'][name] for row in here):.2f}" for name in OF_INTEREST)
        offset = max(max(abs(v) for v in row["offsets_in_hmc_widths"].values()) for row in here)
        halves = f"{mean(row['c2st_of_halves'] for row in here):.3f}"
        seconds = f"{mean(row['seconds'] for row in here):.0f} s"
        lines.append(
            (method, f"{num:,}", len(here), f"{mean(values):.3f}{spread}", halves, *widths, f"{offset:.2f} σ", seconds)
        )
    measured = {row["num_simulations"]: [] for row in document["rows"]}
    for row in document["rows"]:
        measured[row["num_simulations"]].append(row["c2st"])
    verdicts = []
    for num, aim in AIMS.items():
        met = "not measured" if num not in measured else "met" if mean(measured[num]) <= aim else "**not met**"
        verdicts.append(f"{aim:.2f} with {num:,} simulations: {met}")
    head = ("from", "simulations", "seeds", "C2ST", "halves of HMC", *(f"σ({n}) / HMC" for n in OF_INTEREST))
    ours = table((*head, "largest offset of a mean", "time"), lines)
    budgets = sorted({num for figures in document["published"].values() for num in figures}, key=int)
    others = [(name, *(f"{figures[num]:.3f}" for num in budgets)) for name, figures in document["published"].items()]
    head = ("published, simulations of the compressor not counted", *(f"{int(num):,}" for num in budgets))
    return f"The aims: {'; '.join(verdicts)}.\n\n{ours}\n\n{table(head, others)}"
