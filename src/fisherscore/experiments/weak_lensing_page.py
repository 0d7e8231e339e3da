"""The page of the weak lensing experiment: the paper's figures with the numbers that belong to them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..analysis.page import Page
from ..inference.diagnosis_result import Diagnosis
from ..inference.estimate import Estimate
from ..inference.forecast_result import Forecast
from ..inference.posterior import Posterior

# What the page lists under its settings.
_SETTINGS = ("recipe", "weights", "estimated_error", "num_simulations", "seed", "seconds", "versions")


@dataclass(frozen=True, eq=False)
class Results:
    """What the experiment finds: errors against the exact score, posteriors, forecasts, best fit and checks."""

    accuracy: dict[str, Any]
    posterior: Posterior
    exact_posterior: Posterior
    forecast: Forecast
    forecast_error: float
    exact_sigma: np.ndarray
    best_fit: Estimate
    checks: Diagnosis


def write_page(out: Path, summary: dict[str, Any], results: Results, *, data_sha256: str) -> None:
    """Write report.html beside the figures, which must be there."""
    page = Page("Weak lensing: score, forecast and posterior")
    error = results.accuracy["score_error"]["mean"]
    page.verdict(str(results.checks).split("\n")[0], good=results.checks.passed)
    page.verdict(f"Against the exact score: error {error:.4f} (0 is perfect, 1 is predicting zero).", good=error < 0.1)
    _parameters(page, results)
    page.section("Score field", "Figure 2 of the paper.")
    page.figure(
        out / "figure2_score_field.png",
        "Learned (blue) and exact (red) score of one observation over the training region, with the one and two sigma "
        "Fisher ellipses at the true parameters. Arrows are as long as the square root of the score.",
    )
    page.section("Posterior", "Figure 3 of the paper.")
    page.figure(out / "figure3_posterior.png", "Posterior under a uniform prior, from learned and exact scores.")
    page.preformatted(str(results.posterior))
    page.section("Forecasts", "Figure 4 of the paper.")
    page.figure(out / "figure4_fisher.png", "One-sigma Fisher ellipses at nine cosmologies, learned and exact.")
    page.preformatted(str(results.forecast))
    page.section("Checks", "None of these uses the exact score.")
    page.figure(out / "identities.png", "How far the learned score is from obeying the identities every score obeys.")
    page.figure(out / "coverage.png", "Coverage and ranks of posteriors of simulated data; the diagonal is right.")
    page.preformatted(str(results.checks))
    page.section("Settings")
    page.settings({k: summary[k] for k in _SETTINGS} | {"data sha256": data_sha256})
    page.write(out / "report.html")


def _parameters(page: Page, results: Results) -> None:
    """Add the table of parameters: true values, errors to expect, best fit and posterior."""
    forecast, best, posterior = results.forecast, results.best_fit, results.posterior
    page.section("Parameters", "Errors from the Fisher forecast at the fiducial cosmology, best fit and posterior.")
    page.table(
        ("parameter", "fiducial", "exact σ", "forecast σ", "conservative σ", "best fit", "posterior"),
        [
            (
                name,
                f"{forecast.theta0[i]:.4f}",
                f"{results.exact_sigma[i]:.4f}",
                f"{forecast.sigma[i]:.4f}",
                f"{forecast.sigma_bound[i]:.4f}",
                f"{best.theta[i]:.4f} ± {best.sigma[i]:.4f}",
                f"{posterior.mean[i]:.4f} ± {posterior.sigma[i]:.4f}",
            )
            for i, name in enumerate(forecast.names)
        ],
    )
