"""The paper's weak lensing experiment from simulation to page: its figures 2, 3 and 4, best fit, checks, numbers."""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__, plot
from .._support.versions import print_table, versions, write_json
from ..accuracy import field_error, forecast_error, region_grid, score_error
from ..analysis.page import Page
from ..errors import FisherScoreWarning
from ..fitting.fit import fit
from ..inference.diagnosis import Diagnosis
from ..inference.diagnostics import diagnose
from ..inference.estimate import Estimate, maximum_likelihood
from ..inference.forecast import Forecast
from ..inference.forecasting import forecast, forecast_grid
from ..inference.posterior import Posterior
from ..inference.sampling import sample
from ..problems import Problem, weak_lensing
from ..problems.lensing_spectra import FIDUCIAL
from ..score.fitted import FittedScore
from ..simulation.campaign import simulate
from ..simulation.simulator import Simulator


@dataclass(frozen=True)
class Effort:
    """How much is spent on comparing and checking, which takes longer than the fit itself."""

    num_pairs: int = 4_000
    num_exact_samples: int = 500
    num_forecast: int = 15_000
    num_test: int = 4_000
    num_posteriors: int = 200


QUICK = Effort(num_pairs=500, num_exact_samples=50, num_forecast=2_000, num_test=500, num_posteriors=50)


# What the page lists under its settings.
_SETTINGS = ("recipe", "weights", "estimated_error", "num_simulations", "seed", "seconds", "versions")


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
    clock = _Clock()
    with clock("set up"):
        problem = weak_lensing()
        simulator = problem.simulator
    with clock("simulate"):
        latent = "additive" if recipe == "paper" else None  # the paper's data, to the letter
        sims = simulate(simulator, problem.proposal, num_simulations, latent=latent, seed=seed, progress=progress)
    with clock("fit"):
        model = fit(sims, recipe=recipe, seed=seed, progress=progress)
        model.save(out / "model")
    study = _Study(problem, simulator, model, out, seed, QUICK if quick else Effort(), progress)
    with clock("compare with the exact score"):
        accuracy = _compare(study)
    with clock("posteriors"):
        posterior, exact_posterior = _infer(study)
    with clock("forecasts"):
        grid_error, here = _forecast(study)
    with clock("best fit and checks"):
        best = maximum_likelihood(model, study.x_obs)
        checks = _check(study)
    result = {
        "experiment": "weak-lensing",
        "fisherscore": __version__,
        "recipe": recipe,
        "weights": model.weights or None,
        "estimated_error": model.estimated_error,
        "num_simulations": num_simulations,
        "seed": seed,
        **accuracy,
        "forecast_error": grid_error,
        "fiducial": dict(FIDUCIAL),
        "x_obs": study.x_obs.tolist(),
        "best_fit": {"theta": best.theta.tolist(), "sigma": best.sigma.tolist(), "message": best.message},
        "forecast": {"sigma": here.sigma.tolist(), "sigma_bound": here.sigma_bound.tolist()},
        "exact_sigma": np.sqrt(np.diag(np.linalg.inv(problem.fisher(study.truth)))).tolist(),
        "posterior": _moments(posterior),
        "exact_posterior": _moments(exact_posterior),
        "checks": {c.name: {"value": c.value, "verdict": c.verdict} for c in checks.checks},
        "seconds": clock.seconds,
        "versions": versions(),
    }
    write_json(result, out / "results.json")
    _write_page(study, result, here, best, posterior, checks)
    print_table(f"weak lensing, recipe {recipe}, {num_simulations:,} simulations", _summary(result, out))
    return result


@dataclass(frozen=True)
class _Study:
    """What the stages after the fit share."""

    problem: Problem
    simulator: Simulator
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
        return self.simulator.draw(self.truth, seed=self.seed + 1)


def _compare(study: _Study) -> dict[str, Any]:
    """Measure score and field error, and draw figure 2."""
    problem, model = study.problem, study.model
    error = score_error(model, problem, num_pairs=study.effort.num_pairs, seed=study.seed + 2)
    field = field_error(model, problem, study.x_obs)
    axes = plot.score_field(
        model, study.x_obs, exact=problem.exact_model(), truth=study.truth, fisher=problem.fisher(study.truth)
    )
    plot.save_figure(axes, study.out / "figure2_score_field.png")
    return {"score_error": asdict(error), "field_error": asdict(field)}


def _infer(study: _Study) -> tuple[Posterior, Posterior]:
    """Sample with learned and with exact scores, and draw figure 3."""
    num = study.effort.num_exact_samples
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FisherScoreWarning)  # problems are listed in the results
        learned = sample(study.model, study.x_obs, seed=study.seed + 3, progress=study.progress)
        exact = sample(
            study.problem.exact_model(),
            study.x_obs,
            seed=study.seed + 4,
            num_samples=num,
            num_warmup=min(300, 2 * num),
            progress=study.progress,
        )
    axes = plot.triangle([learned, exact], truth=study.truth, labels=["learned score", "exact score"])
    plot.save_figure(axes, study.out / "figure3_posterior.png")
    return learned, exact


def _forecast(study: _Study) -> tuple[float, Forecast]:
    """Forecast on a 3×3 grid and at the fiducial cosmology, and draw figure 4."""
    grid = region_grid(study.problem, 3, margin=0.2)
    num = study.effort.num_forecast
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FisherScoreWarning)  # plug-in and bound stand side by side in the table
        forecasts = forecast_grid(study.model, grid, study.simulator, num_simulations=num, seed=study.seed + 5)
        here = forecast(study.model, study.truth, study.simulator, num_simulations=num, seed=study.seed + 50)
    fishers = study.problem.fisher(grid)
    plot.save_figure(plot.fisher_ellipses(forecasts, exact=list(fishers)), study.out / "figure4_fisher.png")
    return forecast_error(forecasts, fishers), here


def _check(study: _Study) -> Diagnosis:
    """Run the checks that need no truth on fresh simulations."""
    test = simulate(
        study.simulator, study.problem.proposal, study.effort.num_test, seed=study.seed + 7, progress=study.progress
    )
    checks = diagnose(
        study.model,
        test,
        x_obs=study.x_obs,
        num_posteriors=study.effort.num_posteriors,
        seed=study.seed + 8,
        progress=study.progress,
    )
    plot.save_figure(plot.coverage(checks), study.out / "coverage.png")
    plot.save_figure(plot.identities(checks), study.out / "identities.png")
    return checks


class _Clock:
    """Times the stages and names each as it starts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        print(f"{stage} ...", flush=True)
        started = time.perf_counter()
        yield
        self.seconds[stage] = round(time.perf_counter() - started, 2)


def _moments(posterior: Posterior) -> dict[str, Any]:
    return {
        "mean": posterior.samples.mean(axis=0).tolist(),
        "sd": posterior.samples.std(axis=0).tolist(),
        "method": posterior.method,
        "r_hat": posterior.r_hat.tolist(),
        "effective_samples": posterior.effective_samples.tolist(),
        "problems": list(posterior.problems),
    }


def _summary(result: dict[str, Any], out: Path) -> list[tuple[str, str]]:
    error, field = result["score_error"], result["field_error"]
    return [
        ("score error", f"{error['mean']:.4f} ± {error['standard_error']:.4f}"),
        ("median field error", f"{field['median']:.1%}"),
        ("worst forecast error on the 3×3 grid", f"{result['forecast_error']:.1%}"),
        ("checks", ", ".join(f"{k} {v['verdict']}" for k, v in result["checks"].items())),
        ("seconds in all", f"{sum(result['seconds'].values()):.0f}"),
        ("page", str(out / "report.html")),
    ]


def _write_page(
    study: _Study,
    result: dict[str, Any],
    here: Forecast,
    best: Estimate,
    learned: Posterior,
    checks: Diagnosis,
) -> None:
    out = study.out
    page = Page("Weak lensing: score, forecast and posterior")
    page.verdict(str(checks).split("\n")[0], good=checks.passed)
    page.verdict(
        f"Against the exact score: error {result['score_error']['mean']:.4f} (0 is perfect, 1 is predicting zero).",
        good=result["score_error"]["mean"] < 0.1,
    )
    page.section("Parameters", "Errors from the Fisher forecast at the fiducial cosmology, best fit and posterior.")
    page.table(
        ("parameter", "fiducial", "exact σ", "forecast σ", "conservative σ", "best fit", "posterior"),
        [
            (
                name,
                f"{here.theta0[i]:.4f}",
                f"{result['exact_sigma'][i]:.4f}",
                f"{here.sigma[i]:.4f}",
                f"{here.sigma_bound[i]:.4f}",
                f"{best.theta[i]:.4f} ± {best.sigma[i]:.4f}",
                f"{learned.samples[:, i].mean():.4f} ± {learned.samples[:, i].std():.4f}",
            )
            for i, name in enumerate(study.problem.proposal.names)
        ],
    )
    page.section("Score field", "Figure 2 of the paper.")
    page.figure(
        out / "figure2_score_field.png",
        "Learned (blue) and exact (red) score of one observation over the training region, with the one and two sigma "
        "Fisher ellipses at the true parameters. Arrows are as long as the square root of the score.",
    )
    page.section("Posterior", "Figure 3 of the paper.")
    page.figure(out / "figure3_posterior.png", "Posterior under a uniform prior, from learned and exact scores.")
    page.text(str(learned))
    page.section("Forecasts", "Figure 4 of the paper.")
    page.figure(out / "figure4_fisher.png", "One-sigma Fisher ellipses at nine cosmologies, learned and exact.")
    page.text(str(here))
    page.section("Checks", "None of these uses the exact score.")
    page.figure(out / "identities.png", "How far the learned score is from obeying the identities every score obeys.")
    page.figure(out / "coverage.png", "Coverage and ranks of posteriors of simulated data; the diagonal is right.")
    page.text(str(checks))
    page.section("Settings")
    page.settings({k: result[k] for k in _SETTINGS} | {"data sha256": study.model.provenance["data_sha256"]})
    page.write(out / "report.html")
