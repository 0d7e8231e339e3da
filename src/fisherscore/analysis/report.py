"""The page of an analysis: verdict first, then parameters, forecast, posterior, score, checks, and how it was made."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import plot
from .._support.versions import versions
from ..score.constraints import BADLY_LEARNED
from .configuration import Configuration
from .page import Page
from .priors import described
from .trust import constraints_under_prior, sentence

# Above this estimated error an analysis is not to be trusted: a best fit is then off by half of its σ and more.
LARGEST_ERROR = 0.25
# Captions, in the order of the page.
_CONSTRAINTS = "What the data say of each combination, and how far a posterior is off along it, in units of its σ."
_ROUNDS = "How the region of simulations closed in: the range of each parameter in every round, in that of the first."
_POSTERIOR = "Posterior of the observation: 68 % and 95 % regions, and the distribution of each parameter alone."
_FIELD = (
    "Score of the observation over the training region: arrows point to more likely parameters and vanish at the best "
    "fit. They are as long as the square root of the score."
)
_ELLIPSE = "One-sigma Fisher ellipse of the first two parameters, all others marginalised."
_IDENTITIES = "How far the learned score is from obeying the identities every score obeys, in units of the tolerance."
_COVERAGE = "Coverage and ranks of posteriors of simulated data, which should follow the diagonal within the band."


def write_report(
    configuration: Configuration, results: dict[str, Any], path: Path, *, missing: Sequence[str] = ()
) -> None:
    """Write one HTML file that needs nothing beside it; ``missing`` names stages that should be run first."""
    page = Page(configuration.title)
    _verdict(page, configuration, results)
    if missing:
        file = configuration.document.path.name
        page.list([f"Not done, or out of date: {stage}. Run: fisherscore {stage} {file}" for stage in missing])
    _accuracy(page, configuration, results, path.parent)
    _rounds(page, results, path.parent)
    _parameters(page, configuration, results)
    _forecast(page, results, path.parent)
    _posterior(page, configuration, results, path.parent)
    _checks(page, results, path.parent)
    _provenance(page, configuration, results)
    path.parent.mkdir(parents=True, exist_ok=True)
    page.write(path)


def verdict(configuration: Configuration, results: dict[str, Any]) -> tuple[bool | None, list[str]]:
    """Say whether to trust an analysis (None: it was not checked), and why, from the stages that were run."""
    check, posterior = _result(results, "check"), _result(results, "sample")
    reasons = [check["verdict"]] if check and not check["passed"] else []
    reasons += [f"Posterior: {sentence(problem)}" for problem in posterior.get("problems", [])]
    fit = _result(results, "fit")
    if "nothing_learned" in fit:
        return False, [sentence(fit["nothing_learned"])]
    learned, limits = _findings(configuration, fit, posterior)
    reasons += learned
    if reasons:
        return False, [*reasons, *limits]
    if not check:
        asked = configuration.num_test > 0
        return None, ["The checks have not been run." if asked else "Nothing was checked, since budget.test = 0."]
    return True, [check["verdict"], *(["No problem was found with the posterior."] if posterior else []), *limits]


def _findings(
    configuration: Configuration, fit: dict[str, Any], posterior: dict[str, Any]
) -> tuple[list[str], list[str]]:
    """Return in sentences what was badly learned, and what the data do not constrain; the two are never mixed up.

    Both are under the prior of the file; a posterior, which is about the observation, knows better than the fit.
    """
    known, error = constraints_under_prior(configuration, fit), fit.get("estimated_error")
    if known is None:
        if error is None or error <= LARGEST_ERROR:
            return [], []
        return [f"Badly learned: the fit puts its own score error at {error:.2g}. Give it more simulations."], []
    if posterior:
        return [], [sentence(note) for note in posterior.get("notes", [])]
    texts = [sentence(finding) for finding in known.findings]
    learned = [t for t in texts if t.lower().startswith(BADLY_LEARNED)]
    return learned, [t for t in texts if t not in learned]


def _result(results: dict[str, Any], stage: str) -> dict[str, Any]:
    """Return the result of a stage; an empty one if it is not done."""
    return results[stage]["result"] if stage in results else {}


def _verdict(page: Page, configuration: Configuration, results: dict[str, Any]) -> None:
    """Add the verdict with its reasons."""
    good, reasons = verdict(configuration, results)
    sentences = {
        True: "Nothing speaks against this analysis.",
        False: "Do not trust this analysis.",
        None: "Unchecked.",
    }
    page.verdict(" ".join([sentences[good], *reasons]), good=good)


def _accuracy(page: Page, configuration: Configuration, results: dict[str, Any], folder: Path) -> None:
    """Say how good the fit thinks it is, and what it and the other stages warned of."""
    fit = _result(results, "fit")
    error, known = fit.get("estimated_error"), constraints_under_prior(configuration, fit)
    if known is not None:
        page.section(
            "What was learned",
            "Combinations of parameters, from the best constrained to the least: the share of the data in what is "
            f"known of each, the rest being {known.prior}; and how far the fit's own error moves a posterior along it, "
            "in units of its σ. On average over the training region.",
        )
        rows = [(c.text, c.strength, f"{c.share:.0%}", f"{c.error**0.5:.2g} σ", c.outcome) for c in known.combinations]
        page.table(("combination", "constrained", "share of the data", "off by", "outcome"), rows)
        folder.mkdir(parents=True, exist_ok=True)
        plot.save_figure(known.plot(), folder / "constraints.png")
        page.figure(folder / "constraints.png", _CONSTRAINTS)
    elif error is not None:
        page.paragraph(
            f"The fit estimates its own score error at {error:.2g} (0 is perfect, 1 is predicting zero); a share of "
            "the information in the data of about that size is lost."
        )
    messages = [message for document in results.values() for message in document["warnings"]]
    # Those of the posterior are in the verdict already.
    told = _result(results, "sample").get("problems", [])
    if messages := [message for message in messages if message not in told]:
        page.section("Warnings")
        page.list(messages)


def _rounds(page: Page, results: dict[str, Any], folder: Path) -> None:
    """Add how the region closed in on the observation, where it did."""
    rows = _result(results, "fit").get("rounds")
    if rows:
        page.section("Rounds", "Each simulates where the posterior was known to be after those before it.")
        page.table(rows[0], rows[1:])
        page.figure(folder / "rounds.png", _ROUNDS)


def _parameters(page: Page, configuration: Configuration, results: dict[str, Any]) -> None:
    """Add the table of parameters: posterior and best fit, if there are any, and the training region."""
    proposal = configuration.proposal
    posterior = _result(results, "sample")
    truth = posterior.get("mock")
    head = ["parameter", *(["posterior", "68 % interval", "best fit"] if posterior else [])]
    head += [*(["true value"] if truth else []), "training region"]
    rows = []
    for i, (name, unit) in enumerate(zip(proposal.names, proposal.units, strict=True)):
        row = [name + (f" [{unit}]" if unit else "")]
        if posterior:
            row += [
                _plus_minus(posterior["mean"][i], posterior["sd"][i]),
                " to ".join(f"{v:.5g}" for v in posterior["interval"][i]),
                _plus_minus(posterior["best_fit"][i], posterior["best_fit_sigma"][i]),
            ]
        row += [f"{truth[name]:.5g}"] if truth else []
        rows.append([*row, f"{proposal.low[i]:.5g} to {proposal.high[i]:.5g}"])
    page.section("Parameters")
    page.table(head, rows)
    if posterior and posterior["best_fit_message"] != "converged":
        page.paragraph(f"Best fit, of the likelihood alone: {sentence(posterior['best_fit_message'])}")


def _plus_minus(value: float | None, error: float | None, missing: str = "") -> str:
    """Write a value to the second digit of its error, as in 0.312 ± 0.021."""
    if value is None:
        return missing
    if error is None or not error > 0:
        return f"{value:.5g}"
    digits = max(1, math.ceil(math.log10(max(abs(value), error) / error)) + 2)
    return f"{value:.{digits}g} ± {error:.2g}"


def _posterior(page: Page, configuration: Configuration, results: dict[str, Any], folder: Path) -> None:
    """Add the posterior, under its prior, and the score field."""
    if "sample" not in results:
        return
    given = described(configuration.document.tree.get("prior", {}))
    page.section("Posterior", f"Prior: {given + '; all else ' if given else ''}uniform over the training region.")
    page.figure(folder / "posterior.png", _POSTERIOR)
    page.preformatted(results["sample"]["result"]["table"])
    if (folder / "score_field.png").exists():
        page.section("Score field")
        page.figure(folder / "score_field.png", _FIELD)


def _forecast(page: Page, results: dict[str, Any], folder: Path) -> None:
    """Add the table of errors to expect, and the ellipse."""
    if "forecast" not in results:
        return
    result = results["forecast"]["result"]
    page.section(
        "Forecast",
        f"Errors to expect from data like these at {result['chosen']}, from {result['num_simulations']:,} fresh "
        "simulations. The plug-in can claim too much where the score is noisy; the conservative one does not, up to "
        "its own error.",
    )
    for note in result.get("notes", []):
        page.paragraph(sentence(note))
    # Analyses of 0.1.0 have no prior in their forecasts.
    prior, added = result.get("prior", ""), result.get("with_prior", {})
    listed = [(result, "σ", "conservative")]
    listed += [(added, f"σ with {prior}", "conservative")] if added else []
    names = result["names"]
    table = [
        [names, [f"{result['at'][name]:.5g}" for name in names]],
        *[_sigmas(part, len(names)) for part, *_ in listed],
        [[_plus_minus(sigma, None, "none") for sigma in result["conditional_sigma"]]],
    ]
    head = ["parameter", "at", *(text for _, *texts in listed for text in texts), "σ, all else known"]
    page.table(head, list(zip(*(column for part in table for column in part), strict=True)))
    page.figure(folder / "forecast.png", f"{_ELLIPSE} {f'With {prior}.' if added else ''}".strip())


def _sigmas(part: dict[str, Any], num: int) -> list[list[str]]:
    """Write plug-in and conservative errors, or that there are none."""
    return [
        [
            _plus_minus(value, error, "none")
            for value, error in zip(part[name] or [None] * num, part.get(f"{name}_error") or [None] * num, strict=True)
        ]
        for name in ("sigma", "sigma_bound")
    ]


def _checks(page: Page, results: dict[str, Any], folder: Path) -> None:
    """Add the checks with their verdicts."""
    page.section("Checks")
    if "check" not in results:
        page.paragraph("None yet. They need fresh simulations: budget.test, at least 100.")
        return
    result = results["check"]["result"]
    page.paragraph(f"On {result['num_simulations']:,} simulations the fit has not seen. None of them needs the truth.")
    page.table(
        ("check", "value", "± error", "tolerance", "verdict", "if it fails"),
        [
            (
                c["name"],
                f"{c['value']:.4f}",
                f"{c['standard_error']:.4f}",
                f"{c['tolerance']:.3g}",
                c["verdict"],
                c["meaning"],
            )
            for c in result["checks"]
        ],
    )
    page.figure(folder / "checks.png", _IDENTITIES)
    page.figure(folder / "coverage.png", _COVERAGE)


def _provenance(page: Page, configuration: Configuration, results: dict[str, Any]) -> None:
    """Add how the results were made, and how to make them again."""
    fitted = _result(results, "fit")
    file = configuration.document.path
    page.section("How it was made")
    page.settings(
        {
            "simulator": configuration.simulator.name,
            "simulations": f"{configuration.num_simulations:,} to train, {configuration.num_test:,} to check, "
            f"{configuration.num_forecast:,} to forecast",
            "failed simulations": f"{fitted.get('failure_rate', 0.0):.2%}",
            "recipe": fitted.get("recipe", "not fitted"),
            "weights": ", ".join(f"{k} {v:.3f}" for k, v in (fitted.get("weights") or {}).items()) or "one model",
            "training data, sha256": fitted.get("data_sha256", "none"),
            "seed": configuration.seed,
            "seconds": ", ".join(f"{stage} {d['seconds']:.0f}" for stage, d in results.items()) or "none",
            "versions": ", ".join(f"{k} {v}" for k, v in versions().items()),
        }
    )
    page.section("To reproduce it", f"With the simulator and this file as {file.name}:")
    page.preformatted(f"fisherscore run {file.name}")
    page.preformatted(configuration.document.text)
