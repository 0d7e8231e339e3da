"""The paper's weak lensing experiment from simulation to page: its figures 2, 3 and 4, best fit, checks, numbers."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .. import plot
from .._support.versions import print_table, write_json
from ..accuracy import forecast_error, region_grid
from ..errors import FisherScoreWarning
from ..fitting.fit import fit
from ..inference.diagnosis_result import Diagnosis
from ..inference.diagnostics import diagnose
from ..inference.estimate import maximum_likelihood
from ..inference.forecast_result import Forecast
from ..inference.forecasting import forecast, forecast_grid
from ..inference.posterior import Posterior
from ..inference.sampling import sample
from ..problems import Problem, weak_lensing
from ..problems.lensing_spectra import FIDUCIAL
from ..score.fitted import FittedScore
from ..simulation.campaign import simulate
from .common import Stopwatch, compare_with_exact, settings
from .exact_posterior import draw_exact_posterior
from .weak_lensing_page import Results, write_page


@dataclass(frozen=True)
class Effort:
    """How much is spent on comparing and checking, which takes longer than the fit itself."""

    num_pairs: int = 4_000
    num_exact_samples: int = 500
    num_forecast: int = 15_000
    num_test: int = 4_000
    num_posteriors: int = 200


QUICK = Effort(num_pairs=500, num_exact_samples=50, num_forecast=2_000, num_test=500, num_posteriors=50)


def run(
    out: Path,
    *,
    num_simulations: int = 5_000,
    recipe: str = "auto",
    seed: int = 0,
    quick: bool = False,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Simulate, fit, forecast, infer, check and report; everything is written to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    stopwatch = Stopwatch()
    with stopwatch.time("set up"):
        problem = weak_lensing()
    with stopwatch.time("simulate"):
        latent = "additive" if recipe == "paper" else None  # the paper's data, to the letter
        sims = simulate(
            problem.simulator, problem.proposal, num_simulations, latent=latent, seed=seed, progress=progress
        )
    with stopwatch.time("fit"):
        model = fit(sims, recipe=recipe, seed=seed, progress=progress)
        model.save(out / "model")
    study = _Study(
        problem=problem, model=model, out=out, seed=seed, effort=QUICK if quick else Effort(), progress=progress
    )
    results = _measure(study, stopwatch)
    summary = (
        settings("weak-lensing", recipe=recipe, num_simulations=num_simulations, seed=seed)
        | {"weights": model.weights or None, "estimated_error": model.estimated_error}
        | _numbers(study, results)
        | {"seconds": stopwatch.seconds}
    )
    write_json(summary, out / "results.json")
    write_page(out, summary, results, data_sha256=model.provenance["data_sha256"])
    print_table(f"weak lensing, recipe {recipe}, {num_simulations:,} simulations", _table(summary, out))
    return summary


@dataclass(frozen=True, eq=False)
class _Study:
    """What everything after the fit works with."""

    problem: Problem
    model: FittedScore
    out: Path
    seed: int
    effort: Effort
    progress: bool | None

    @property
    def truth(self) -> np.ndarray:
        return np.array([FIDUCIAL[n] for n in self.problem.proposal.names])

    @cached_property
    def x_obs(self) -> np.ndarray:
        return self.problem.simulator.draw(self.truth, seed=self.seed + 1)


def _measure(study: _Study, stopwatch: Stopwatch) -> Results:
    """Compare with the exact score, infer, forecast and check, and draw the figures."""
    with stopwatch.time("compare with the exact score"):
        accuracy = _compare(study)
    with stopwatch.time("posteriors"):
        learned, exact = _infer(study)
    with stopwatch.time("forecasts"):
        grid_error, at_truth = _forecast(study)
    with stopwatch.time("best fit and checks"):
        best = maximum_likelihood(study.model, study.x_obs)
        checks = _check(study)
    return Results(
        accuracy=accuracy,
        posterior=learned,
        exact_posterior=exact,
        forecast=at_truth,
        forecast_error=grid_error,
        exact_sigma=np.sqrt(np.diag(np.linalg.inv(study.problem.fisher(study.truth)))),
        best_fit=best,
        checks=checks,
    )


def _compare(study: _Study) -> dict[str, Any]:
    """Measure score and field error, and draw figure 2."""
    problem, model, effort = study.problem, study.model, study.effort
    errors = compare_with_exact(model, problem, study.x_obs, num_pairs=effort.num_pairs, seed=study.seed + 2)
    axes = plot.score_field(
        model, study.x_obs, exact=problem.exact_model(), truth=study.truth, fisher=problem.fisher(study.truth)
    )
    plot.save_figure(axes, study.out / "figure2_score_field.png")
    return errors


def _infer(study: _Study) -> tuple[Posterior, Posterior]:
    """Sample with learned scores, draw from the exact posterior, and draw figure 3."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FisherScoreWarning)  # problems are listed in the results
        learned = sample(study.model, study.x_obs, seed=study.seed + 3, progress=study.progress)
    num = study.effort.num_exact_samples
    exact = draw_exact_posterior(study.problem, study.x_obs, learned, num_samples=num, seed=study.seed + 4)
    axes = plot.triangle([learned, exact], truth=study.truth, labels=["learned score", "exact likelihood"])
    plot.save_figure(axes, study.out / "figure3_posterior.png")
    return learned, exact


def _forecast(study: _Study) -> tuple[float, Forecast]:
    """Forecast on a 3×3 grid and at the fiducial cosmology, and draw figure 4."""
    grid, simulator = region_grid(study.problem, 3, margin=0.2), study.problem.simulator
    num = study.effort.num_forecast
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FisherScoreWarning)  # plug-in and bound stand side by side in the table
        forecasts = forecast_grid(study.model, grid, simulator, num_simulations=num, seed=study.seed + 5)
        at_truth = forecast(study.model, study.truth, simulator, num_simulations=num, seed=study.seed + 50)
    fishers = study.problem.fisher(grid)
    plot.save_figure(plot.fisher_ellipses(forecasts, exact=list(fishers)), study.out / "figure4_fisher.png")
    return forecast_error(forecasts, fishers), at_truth


def _check(study: _Study) -> Diagnosis:
    """Run the checks that need no truth on fresh simulations."""
    problem, effort = study.problem, study.effort
    test = simulate(problem.simulator, problem.proposal, effort.num_test, seed=study.seed + 7, progress=study.progress)
    checks = diagnose(
        study.model,
        test,
        x_obs=study.x_obs,
        num_posteriors=effort.num_posteriors,
        seed=study.seed + 8,
        progress=study.progress,
    )
    plot.save_figure(plot.coverage(checks), study.out / "coverage.png")
    plot.save_figure(plot.identities(checks), study.out / "identities.png")
    return checks


def _numbers(study: _Study, results: Results) -> dict[str, Any]:
    """Return the results as plain data."""
    best = results.best_fit
    return {
        **results.accuracy,
        "forecast_error": results.forecast_error,
        "fiducial": dict(FIDUCIAL),
        "x_obs": study.x_obs.tolist(),
        "best_fit": {"theta": best.theta.tolist(), "sigma": best.sigma.tolist(), "message": best.message},
        "forecast": {
            "sigma": results.forecast.sigma.tolist(),
            "sigma_bound": results.forecast.sigma_bound.tolist(),
        },
        "exact_sigma": results.exact_sigma.tolist(),
        "posterior": _moments(results.posterior),
        "exact_posterior": _moments(results.exact_posterior),
        "checks": {c.name: {"value": c.value, "verdict": c.verdict} for c in results.checks.checks},
    }


def _moments(posterior: Posterior) -> dict[str, Any]:
    """Return mean and spread of a posterior, and how well it was sampled."""
    return {
        "mean": posterior.mean.tolist(),
        "sd": posterior.sigma.tolist(),
        "method": posterior.method,
        "r_hat": posterior.r_hat.tolist(),
        "effective_samples": posterior.effective_samples.tolist(),
        "problems": list(posterior.problems),
    }


def _table(summary: dict[str, Any], out: Path) -> list[tuple[str, str]]:
    """Return what is printed at the end."""
    error, field = summary["score_error"], summary["field_error"]
    return [
        ("score error", f"{error['mean']:.4f} ± {error['standard_error']:.4f}"),
        ("median field error", f"{field['median']:.1%}"),
        ("worst forecast error on the 3×3 grid", f"{summary['forecast_error']:.1%}"),
        ("checks", ", ".join(f"{k} {v['verdict']}" for k, v in summary["checks"].items())),
        ("seconds in all", f"{sum(summary['seconds'].values()):.0f}"),
        ("page", str(out / "report.html")),
    ]
