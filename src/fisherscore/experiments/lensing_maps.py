"""Lensing maps from simulations to a page: aimed inference from statistics, beside spectra alone and full-field HMC."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import plot
from .._support.versions import print_table, write_json
from ..errors import FisherScoreWarning
from ..fitting.fit import fit
from ..inference.aiming.inferring import infer
from ..inference.aiming.result import Inference
from ..inference.convergence import convergence
from ..inference.forecast_result import Forecast
from ..inference.forecasting import forecast
from ..inference.posterior import Posterior
from ..inference.sampling import sample
from ..problems import Problem, lensing_maps
from ..problems.lensing_statistics import NUM_SPECTRA
from ..problems.problem import Observed
from ..score.fitted import FittedScore
from ..simulation.jax_simulator import from_jax
from ..simulation.simulations import from_table
from ..simulation.simulator import Simulator
from .common import Stopwatch, settings
from .lensing_maps_page import Results, draw_ellipses, draw_maps, draw_summaries, write_page

NUM_CHAINS = 4


@dataclass(frozen=True)
class Effort:
    """How much is spent beside the inference itself."""

    num_forecast: int = 1_300
    num_samples: int = 1_000
    num_hmc: int = 10_000
    num_at_mean: int = 100


QUICK = Effort(num_forecast=390, num_samples=500, num_hmc=2_000, num_at_mean=30)


def run(
    out: Path,
    *,
    num_simulations: int = 2_000,
    recipe: str = "auto",
    seed: int = 0,
    quick: bool = False,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Simulate, infer, compare with spectra alone and with HMC, and report; everything is written to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    effort, stopwatch = QUICK if quick else Effort(), Stopwatch()
    with stopwatch.time("set up"):
        problem = lensing_maps(statistics=True)
    study = _Study(problem=problem, effort=effort, seed=seed, progress=progress)
    with stopwatch.time("infer from statistics"):
        found = study.inferred(num_simulations, recipe)
        found.model.save(out / "model")
    results = _measure(study, found, stopwatch)
    with stopwatch.time("figures"):
        _draw(results, out)
    summary = (
        settings("lensing-maps", recipe=recipe, num_simulations=num_simulations, seed=seed)
        | {"weights": found.model.weights or None, "estimated_error": found.model.estimated_error}
        | results.numbers()
        | {"seconds": stopwatch.seconds}
    )
    write_json(summary, out / "results.json")
    write_page(out, summary, results)
    widths = ", ".join(f"{n} {r:.2f}" for n, r in zip(found.posterior.names, summary["widths_over_hmc"], strict=True))
    rows = [
        ("widths over those of HMC", widths),
        ("seconds in all", f"{sum(stopwatch.seconds.values()):.0f}"),
        ("page", str(out / "report.html")),
    ]
    print_table(f"lensing maps, {num_simulations:,} simulations", rows)
    return summary


def _measure(study: "_Study", found: Inference, stopwatch: Stopwatch) -> Results:
    """Do the same with spectra alone, and forecast with both."""
    with stopwatch.time("spectra alone"):
        spectra = study.spectra_alone(found)
        posterior = study.sampled(spectra)
    with stopwatch.time("forecasts"):
        forecasts = study.forecasts(found.model, spectra)
        at_mean = study.at(found.posterior.mean)
    return Results(
        inference=found,
        spectra=posterior,
        hmc=hmc_posterior(study.problem, study.effort.num_hmc, study.seed),
        forecasts=forecasts,
        at_mean=at_mean,
        observed=study.observed,
    )


def _draw(results: Results, out: Path) -> None:
    """Draw all figures of the page."""
    draw_maps(lensing_maps(), results, out / "maps.png")
    draw_summaries(results, out / "summaries.png")
    draw_ellipses(results, out / "ellipses.png")
    axes = plot.triangle(
        [results.hmc, results.inference.posterior, results.spectra],
        truth=results.observed.truth,
        labels=["full-field HMC", "learned score", "spectra alone"],
    )
    plot.save_figure(axes, out / "posterior.png")


def _observed(problem: Problem) -> Observed:
    assert problem.observed is not None
    return problem.observed


def hmc_posterior(problem: Problem, num: int, seed: int) -> Posterior:
    """Put some draws of HMC, in random order, into a posterior."""
    observed = _observed(problem)
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(observed.draws), size=(NUM_CHAINS, num // NUM_CHAINS), replace=False)
    chains = observed.draws[chosen].astype(np.float64)
    r_hat, effective_samples = convergence(chains)
    return Posterior(
        names=problem.proposal.names,
        units=problem.proposal.units,
        chains=chains,
        log_density=np.zeros(chains.shape[:2]),
        method="HMC",
        correction="the full field",
        r_hat=r_hat,
        effective_samples=effective_samples,
        num_divergent=0,
        fraction_outside=0.0,
        rarity=None,
        seconds={},
        support=tuple(_ends(observed.prior[name]) for name in problem.proposal.names),
    )


def _ends(law: Any) -> tuple[float | None, float | None]:
    """Give the ends of a prior, None where it has none."""
    low, high = (getattr(law.support, name, None) for name in ("lower_bound", "upper_bound"))
    return None if low is None else float(low), None if high is None else float(high)


@dataclass(frozen=True, eq=False)
class _Study:
    """What everything works with."""

    problem: Problem
    effort: Effort
    seed: int
    progress: bool | None

    @property
    def observed(self) -> Observed:
        return _observed(self.problem)

    @property
    def _chains(self) -> dict[str, Any]:
        return {
            "prior": self.observed.prior,
            "num_samples": self.effort.num_samples,
            "num_chains": NUM_CHAINS,
            "seed": self.seed,
            "progress": self.progress,
        }

    def inferred(self, num_simulations: int, recipe: str) -> Inference:
        """Infer the parameters of the observed map from its statistics, in rounds."""
        problem = self.problem
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FisherScoreWarning)  # the page says them
            return infer(
                problem.simulator, self.observed.x, problem.proposal, num_simulations, recipe=recipe, **self._chains
            )

    def spectra_alone(self, found: Inference) -> FittedScore:
        """Fit the score of the spectra to the same simulations, in the same region."""
        region = found.rounds[-1].region
        inside = np.asarray(region.inside(found.sims.theta))
        sims = from_table(found.sims.theta[inside], found.sims.x[inside, :NUM_SPECTRA], region)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FisherScoreWarning)
            return fit(sims, seed=self.seed, progress=self.progress)

    def sampled(self, spectra: FittedScore) -> Posterior:
        """Sample the posterior of the spectra alone."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FisherScoreWarning)
            return sample(spectra, self.observed.x[:NUM_SPECTRA], **self._chains)

    def forecasts(self, learned: FittedScore, spectra: FittedScore) -> tuple[Forecast, Forecast]:
        """Forecast at the true parameters under the prior: from all statistics, and from spectra alone."""
        draw_one, batch_size = self.problem.draw_one, self.problem.batch_size

        def draw_spectra(key: Any, theta: Any) -> Any:
            return draw_one(key, theta)[:NUM_SPECTRA]

        of_spectra = from_jax(draw_spectra, name="lensing-spectra", batch_size=batch_size, precision="single")
        return self._forecast(learned, self.problem.simulator), self._forecast(spectra, of_spectra)

    def _forecast(self, model: FittedScore, simulator: Simulator) -> Forecast:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FisherScoreWarning)
            alone = forecast(
                model,
                self.observed.truth,
                simulator,
                num_simulations=self.effort.num_forecast,
                seed=self.seed + 1,
                progress=self.progress,
            )
            return alone.add(self.observed.prior)

    def at(self, theta: np.ndarray) -> np.ndarray:
        """Draw statistics of maps at one point."""
        return self.problem.simulator.draw(np.tile(theta, (self.effort.num_at_mean, 1)), seed=self.seed + 2)
