"""The paper's weak lensing experiment from simulation to page: its figures 2, 3 and 4, best fit, checks, numbers."""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__, plot
from ..accuracy import field_error, forecast_error, region_grid, score_error
from ..campaign import simulate
from ..diagnostics import Diagnosis, diagnose
from ..errors import FisherScoreWarning
from ..estimate import Estimate, maximum_likelihood
from ..forecasting import Forecast, forecast
from ..posterior import Posterior
from ..problems import Problem, weak_lensing
from ..problems.weak_lensing import FIDUCIAL
from ..recipe import fit
from ..report import Page
from ..sampling import sample
from ..score_model import NetworkScore
from .results import print_table, versions, write_json


def run(
    out: Path, *, num_simulations: int = 5_000, recipe: str = "auto", seed: int = 0, progress: bool | None = None
) -> dict[str, Any]:
    """Simulate, fit, forecast, infer, check and report; everything is written to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    clock = _Clock()
    with clock("set up"):
        problem = weak_lensing()
        simulator = problem.simulator
    truth = np.array([FIDUCIAL[n] for n in problem.proposal.names])
    with clock("simulate"):
        sims = simulate(simulator, problem.proposal, num_simulations, seed=seed, progress=progress)
    with clock("fit"):
        model = fit(sims, recipe=recipe, seed=seed, progress=progress)
        model.save(out / "model")
    x_obs = simulator.draw(truth, seed=seed + 1)
    with clock("compare with the exact score"):
        error = score_error(model, problem, num_pairs=4_000, seed=seed + 2)
        field = field_error(model, problem, x_obs)
        axes = plot.score_field(model, x_obs, exact=problem.exact_model(), truth=truth)
        plot.save_figure(axes, out / "figure2_score_field.png")
    with clock("posteriors"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FisherScoreWarning)  # problems are listed in the results
        learned = sample(model, x_obs, seed=seed + 3, progress=progress)
        exact = sample(problem.exact_model(), x_obs, seed=seed + 4, num_samples=500, num_warmup=300, progress=progress)
        _draw_posteriors(learned, exact, truth, out / "figure3_posterior.png")
    with clock("forecasts"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FisherScoreWarning)  # plug-in and bound stand side by side in the table
        grid = region_grid(problem, 3, margin=0.2)
        forecasts = forecast(model, grid, simulator, num_simulations=5_000, seed=seed + 5)
        here = forecast(model, truth, simulator, seed=seed + 6)
        fishers = problem.fisher(grid)
        axes = plot.fisher_ellipses(forecasts, exact=list(fishers))
        plot.save_figure(axes, out / "figure4_fisher.png")
    with clock("best fit and checks"):
        best = maximum_likelihood(model, x_obs)
        test = simulate(simulator, problem.proposal, 4_000, seed=seed + 7, progress=progress)
        checks = diagnose(model, test, x_obs=x_obs, seed=seed + 8, progress=progress)
        plot.save_figure(plot.coverage(checks), out / "coverage.png")
        plot.save_figure(plot.identities(checks), out / "identities.png")
    result = {
        "experiment": "weak-lensing",
        "fisherscore": __version__,
        "recipe": recipe,
        "chosen": model.record.get("chosen"),
        "num_simulations": num_simulations,
        "seed": seed,
        "score_error": asdict(error),
        "field_error": asdict(field),
        "forecast_error": forecast_error(forecasts, fishers),
        "fiducial": dict(FIDUCIAL),
        "x_obs": x_obs.tolist(),
        "best_fit": {"theta": best.theta.tolist(), "sigma": best.sigma.tolist(), "message": best.message},
        "forecast": {"sigma": here.sigma.tolist(), "sigma_bound": here.sigma_bound.tolist()},
        "exact_sigma": np.sqrt(np.diag(np.linalg.inv(problem.fisher(truth)))).tolist(),
        "posterior": _moments(learned),
        "exact_posterior": _moments(exact),
        "checks": {c.name: {"value": c.value, "verdict": c.verdict} for c in checks.checks},
        "seconds": clock.seconds,
        "versions": versions(),
    }
    write_json(result, out / "results.json")
    _write_page(out, result, problem, model, here, best, learned, checks)
    print_table(f"weak lensing, recipe {recipe}, {num_simulations:,} simulations", _summary(result, out))
    return result


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


def _draw_posteriors(learned: Posterior, exact: Posterior, truth: np.ndarray, path: Path) -> None:
    axes = plot.triangle([learned, exact], truth=truth, labels=["learned score", "exact score"])
    axes[0, 0].figure.savefig(path, dpi=150, bbox_inches="tight")


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
    out: Path,
    result: dict[str, Any],
    problem: Problem,
    model: NetworkScore,
    here: Forecast,
    best: Estimate,
    learned: Posterior,
    checks: Diagnosis,
) -> None:
    page = Page("Weak lensing: score, forecast and posterior")
    page.verdict(checks.table().split("\n")[0], good=checks.passed)
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
                f"{here.theta[i]:.4f}",
                f"{result['exact_sigma'][i]:.4f}",
                f"{here.sigma[i]:.4f}",
                f"{here.sigma_bound[i]:.4f}",
                f"{best.theta[i]:.4f} ± {best.sigma[i]:.4f}",
                f"{learned.samples[:, i].mean():.4f} ± {learned.samples[:, i].std():.4f}",
            )
            for i, name in enumerate(problem.proposal.names)
        ],
    )
    page.section("Score field", "Figure 2 of the paper.")
    page.figure(
        out / "figure2_score_field.png",
        "Learned (blue) and exact (red) score of one observation over the training region. The score is steep across "
        "the degeneracy of weak lensing and flat along it.",
    )
    page.section("Posterior", "Figure 3 of the paper.")
    page.figure(out / "figure3_posterior.png", "Posterior under a uniform prior, from learned and exact scores.")
    page.text(learned.table())
    page.section("Forecasts", "Figure 4 of the paper.")
    page.figure(out / "figure4_fisher.png", "One-sigma Fisher ellipses at nine cosmologies, learned and exact.")
    page.text(here.table())
    page.section("Checks", "None of these uses the exact score.")
    page.figure(out / "identities.png", "How far the learned score is from obeying the identities every score obeys.")
    page.figure(out / "coverage.png", "Coverage and ranks of posteriors of simulated data; the diagonal is right.")
    page.text(checks.table())
    page.section("Settings")
    page.settings(
        {k: result[k] for k in ("recipe", "chosen", "num_simulations", "seed", "seconds", "versions")}
        | {"data sha256": model.record["data_sha256"]}
    )
    page.write(out / "report.html")
