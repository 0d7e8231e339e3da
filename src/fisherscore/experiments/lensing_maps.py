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
from ..score.fitted import FittedScore
from ..simulation.jax_simulator import from_jax
from ..simulation.simulations import Simulations, from_table
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
        observed = _observed(problem)
    with stopwatch.time("infer from statistics"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FisherScoreWarning)  # the page says them
        found = infer(
            problem.simulator,
            observed.x,
            problem.proposal,
            num_simulations,
            prior=observed.prior,
            recipe=recipe,
            num_samples=effort.num_samples,
            num_chains=NUM_CHAINS,
            seed=seed,
            progress=progress,
        )
        found.model.save(out / "model")
    study = _Study(problem=problem, found=found, effort=effort, seed=seed, progress=progress)
    with stopwatch.time("spectra alone"):
        spectra = study.spectra_alone()
    with stopwatch.time("forecasts"):
        forecasts = study.forecasts(spectra)
    results = Results(
        inference=found,
        spectra=study.sampled(spectra),
        hmc=hmc_posterior(problem, effort.num_hmc, seed),
        forecasts=forecasts,
        at_mean=study.at_mean(),
        observed=observed,
    )
    with stopwatch.time("figures"):
        draw_maps(lensing_maps(), results, out / "maps.png")
        draw_summaries(results, out / "summaries.png")
        draw_ellipses(results, out / "ellipses.png")
        labels = ["full-field HMC", "learned score", "spectra alone"]
        axes = plot.triangle([results.hmc, found.posterior, results.spectra], truth=observed.truth, labels=labels)
        plot.save_figure(axes, out / "posterior.png")
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


def _observed(problem: Problem) -> Any:
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
    """What everything after the inference works with."""

    problem: Problem
    found: Inference
    effort: Effort
    seed: int
    progress: bool | None

    def spectra_alone(self) -> FittedScore:
        """Fit the score of the spectra to the same simulations, in the same region."""
        used: Simulations = self.found.sims
        region = self.found.rounds[-1].region
        inside = np.asarray(region.inside(used.theta))
        return fit(
            from_table(used.theta[inside], used.x[inside, :NUM_SPECTRA], region), seed=self.seed, progress=self.progress
        )

    def sampled(self, spectra: FittedScore) -> Posterior:
        """Sample the posterior of the spectra alone."""
        observed = _observed(self.problem)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FisherScoreWarning)
            return sample(
                spectra,
                observed.x[:NUM_SPECTRA],
                prior=observed.prior,
                num_samples=self.effort.num_samples,
                num_chains=NUM_CHAINS,
                seed=self.seed,
                progress=self.progress,
            )

    def forecasts(self, spectra: FittedScore) -> tuple[Forecast, Forecast]:
        """Forecast at the true parameters under the prior: from all statistics, and from spectra alone."""
        draw_one, observed = self.problem.draw_one, _observed(self.problem)

        def draw_spectra(key: Any, theta: Any) -> Any:
            return draw_one(key, theta)[:NUM_SPECTRA]

        simulators: tuple[Simulator, Simulator] = (
            self.problem.simulator,
            from_jax(draw_spectra, name="lensing-spectra", batch_size=self.problem.batch_size, precision="single"),
        )
        made = []
        for model, simulator in zip((self.found.model, spectra), simulators, strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FisherScoreWarning)
                alone = forecast(
                    model,
                    observed.truth,
                    simulator,
                    num_simulations=self.effort.num_forecast,
                    seed=self.seed + 1,
                    progress=self.progress,
                )
            made.append(alone.add(observed.prior))
        return made[0], made[1]

    def at_mean(self) -> np.ndarray:
        """Draw statistics of maps at the mean of the posterior."""
        mean = self.found.posterior.mean
        return self.problem.simulator.draw(np.tile(mean, (self.effort.num_at_mean, 1)), seed=self.seed + 2)
