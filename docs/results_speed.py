"""The tables of time: how ``results.py`` shows ``time_to_answer.json``, ``growth.json`` and ``accelerators.json``."""

from statistics import median
from typing import Any

from results_tables import Row, table

STEPS = {
    "import": "import",
    "simulate": "simulate",
    "fit_closed_forms": "fit, closed forms alone",
    "fit": "fit, the default",
    "maximum_likelihood": "best fit",
    "sample": "posterior (NUTS)",
    "sample_smc": "posterior (SMC)",
    "forecast": "forecast",
    "compress": "compress",
    "diagnose": "diagnose",
    "save_and_load": "save and load",
    "run": "`make run`",
}
SIZES = {"simulations": "simulations", "data": "data", "parameters": "parameters"}


def value(rows: list[Row], key: str = "seconds", **wanted: Any) -> float | None:
    """Return the median over repeats of what was measured of a case; None where nothing was."""
    found = [row[key] for row in rows if wanted.items() <= row.items() and key in row]
    return median(found) if found else None


def seconds(number: float | None) -> str:
    """Write seconds with two digits."""
    return "" if number is None else f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def ratio(old: float | None, new: float | None) -> str:
    """Write how many times quicker."""
    return "" if old is None or new is None else f"{old / new:.1f}"


def time_to_answer(document: Row) -> str:
    """Write seconds of every step, one table a problem and device."""
    texts, rows = [], document["rows"]
    for problem, device in sorted({(row["problem"], row["device"]) for row in rows}):
        here = [row for row in rows if (row["problem"], row["device"]) == (problem, device)]
        lines = []
        for step, name in STEPS.items():
            mine = [row for row in here if row["step"] == step]
            if mine:
                old, sbi = (value(mine, version=version, call="first") for version in ("old", "sbi"))
                calls = ("first", "cached", "second", "other_input", "other_model")
                new = {call: value(mine, version="new", call=call) for call in calls}
                compiled = value(mine, "num_compiled", version="new", call="other_model")
                count = "" if compiled is None else f"{compiled:.0f}"
                times = (seconds(number) for number in new.values())
                ratios = (ratio(old, new["first"]), ratio(old, new["cached"]))
                lines.append((name, seconds(old), *times, count, *ratios, seconds(sbi)))
        heads = ("0.1.0, first", "first", "warm cache", "again", "other input", "other model", "compiled for it")
        head = ("step", *heads, "times quicker", "with the cache", "sbi's NLE")
        texts.append(f"**{problem.replace('_', ' ')}, {device}**, seconds:\n\n{table(head, lines)}")
    return "\n\n".join(texts)


def growth(document: Row) -> str:
    """Write the powers with which time and memory grow, and the large point of both versions."""
    lines = [
        (STEPS[line["step"]], SIZES[line["axis"]], f"{line['time']:.2f}", f"{line['memory']:.2f}")
        for line in document["slopes"]
    ]
    text = table(("step", "grows with", "power, time", "power, memory"), lines)
    large = [row for row in document["rows"] if "version" in row and "failed" not in row]
    if not large:
        return text
    points = []
    for step in dict.fromkeys(row["step"] for row in large):
        old, new = (value(large, step=step, version=version) for version in ("old", "new"))
        points.append((STEPS[step], seconds(old), seconds(new), ratio(old, new)))
    sizes = f"{large[0]['parameters']} parameters, {large[0]['data']} data, {large[0]['simulations']:,} simulations"
    return f"{text}\n\n{sizes}, seconds:\n\n{table(('step', '0.1.0', 'now', 'times quicker'), points)}"


def going_on(document: Row) -> str:
    """Write what it takes to go on with a large campaign, beside the older version."""
    labels = {
        "nothing_to_do_here": "nothing left to do (s)",
        "nothing_to_do_workers": "the same with two workers (s)",
        "ten_more_here": "ten more records (s)",
        "ten_more_workers": "the same with two workers (s)",
    }
    versions = (document["before"], document["now"])
    lines = [(text, *(f"{row['resume'][key]:.3f}" for row in versions)) for key, text in labels.items()]
    lines.append(("overhead at 10 ms a run", *(f"{row['overhead']['overhead']:.1%}" for row in versions)))
    return table((f"{document['now']['resume']['records']:,} records", "0.1.0", "now"), lines)


def accelerators(document: Row) -> str:
    """Write what one large fit and many posteriors take on an accelerator and on the processor beside it."""
    steps = {
        "fit": f"fit of {document['num_simulations']:,} × 30",
        "posteriors": f"{document['num_posteriors']:,} posteriors",
    }
    gpu, cpu = (document["devices"][device] for device in ("gpu", "cpu"))
    lines = []
    for step, name in steps.items():
        for number, call in enumerate(("first", "again")):
            quick, slow = _time_of(gpu, step, number), _time_of(cpu, step, number)
            told = seconds(slow) or _given_up(cpu, step, number)
            lines.append((name, call, seconds(quick), told, ratio(slow, quick)))
    head = ("step", "call", "accelerator (s)", f"{document['num_cores']} cores (s)", "times quicker")
    return table(head, lines)


def _given_up(device: Row, step: str, number: int) -> str:
    """Say for how long a first call had run when the device was given up; what was never begun has no entry."""
    if number or "given_up_after" not in device or not device["seconds"]["fit"]:
        return ""
    return f"given up after {device['given_up_after'] - sum(device['seconds']['fit']):.0f}" if step != "fit" else ""


def _time_of(device: Row, step: str, number: int) -> float | None:
    times = device["seconds"].get(step, [])
    return times[number] if number < len(times) else None
