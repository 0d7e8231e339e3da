"""The page of the lensing maps: maps, statistics, forecasts and posteriors, beside full-field HMC."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..analysis.page import Page
from ..inference.aiming.result import Inference
from ..inference.forecast_result import Forecast
from ..inference.posterior import Posterior
from ..plot import save_figure
from ..problems import Problem
from ..problems.lensing_statistics import NUM_SPECTRA
from ..problems.problem import Observed

_SETTINGS = ("recipe", "weights", "estimated_error", "num_simulations", "seed", "seconds", "versions")
# Pixels are averaged for the picture over blocks of so many a side: single ones are noise.
_BLOCK = 4
_PAIRS = ((0, 2), (2, 5), (0, 5))
_HMC, _LEARNED, _SPECTRA = "#1f5fa8", "#c8372d", "#2b8a3e"


@dataclass(frozen=True, eq=False)
class Results:
    """What the experiment finds."""

    inference: Inference
    spectra: Posterior
    hmc: Posterior
    forecasts: tuple[Forecast, Forecast]
    at_mean: np.ndarray
    observed: Observed

    def numbers(self) -> dict[str, Any]:
        """Return them as plain data."""
        posterior, hmc = self.inference.posterior, self.hmc
        learned, spectra = self.forecasts
        return {
            "names": list(posterior.names),
            "truth": self.observed.truth.tolist(),
            "posterior": _moments(posterior),
            "posterior_of_spectra": _moments(self.spectra),
            "hmc": _moments(hmc),
            "widths_over_hmc": (posterior.sigma / hmc.sigma).tolist(),
            "widths_of_spectra_over_hmc": (self.spectra.sigma / hmc.sigma).tolist(),
            "offsets_in_hmc_widths": ((posterior.mean - hmc.mean) / hmc.sigma).tolist(),
            "forecast": {"sigma": learned.sigma.tolist(), "sigma_bound": learned.sigma_bound.tolist()},
            "forecast_of_spectra": {"sigma": spectra.sigma.tolist(), "sigma_bound": spectra.sigma_bound.tolist()},
            "problems": list(posterior.problems),
        }


def _moments(posterior: Posterior) -> dict[str, Any]:
    return {"mean": posterior.mean.tolist(), "sigma": posterior.sigma.tolist()}


def draw_maps(problem: Problem, results: Results, path: Path) -> None:
    """Draw the observed map and one drawn at the mean of the posterior, in all bins, averaged over blocks."""
    import matplotlib.pyplot as plt

    assert problem.observed is not None
    drawn = problem.simulator.draw(results.inference.posterior.mean, seed=3)
    figure, axes = plt.subplots(2, 5, figsize=(12.0, 4.8), layout="constrained")
    for row, (x, label) in enumerate(((problem.observed.x, "observed"), (drawn, "simulated at the posterior mean"))):
        side = x.shape[0] // _BLOCK
        blocks = x.reshape(side, _BLOCK, side, _BLOCK, -1).mean(axis=(1, 3))
        for k, ax in enumerate(axes[row]):
            picture = ax.imshow(blocks[..., k], extent=(0, 10, 0, 10), cmap="magma", vmin=-0.04, vmax=0.08)
            ax.set(xticks=[0, 5, 10], yticks=[0, 5, 10])
            ax.label_outer()
            if not row:
                ax.set_title(f"bin {k + 1}", fontsize=10)
        axes[row, 0].set_ylabel(f"{label}\n[degrees]", fontsize=9)
    figure.colorbar(picture, ax=axes, label="convergence", shrink=0.8)
    save_figure(axes, path)
    plt.close(figure)


def draw_summaries(results: Results, path: Path) -> None:
    """Draw the observed statistics in units of their scatter at the mean of the posterior."""
    import matplotlib.pyplot as plt

    middle, spread = results.at_mean.mean(axis=0), results.at_mean.std(axis=0, ddof=1)
    deviation = (results.observed.x - middle) / spread
    figure, ax = plt.subplots(figsize=(9.0, 3.0), layout="constrained")
    place, farthest = np.arange(len(deviation)), max(4.5, 1.1 * float(np.abs(deviation).max()))
    ax.axhspan(-2, 2, color="0.93")
    ax.axhspan(-1, 1, color="0.86")
    kinds = ((0, NUM_SPECTRA, "spectra", _SPECTRA), (NUM_SPECTRA, len(place), "third moments", _LEARNED))
    for start, stop, label, colour in kinds:
        ax.plot(place[start:stop], deviation[start:stop], "o", ms=3.5, color=colour, label=label)
    ax.set(xlabel="statistic", ylabel="observed − mean, in σ", ylim=(-farthest, farthest))
    ax.legend(ncols=2, frameon=False, loc="upper right", fontsize=9)
    save_figure(ax, path)
    plt.close(figure)


def draw_ellipses(results: Results, path: Path) -> None:
    """Draw one-sigma ellipses of both forecasts and of the covariance of HMC, for the parameters of interest."""
    import matplotlib.pyplot as plt

    from .._support.drawing import ellipse

    truth, names = results.observed.truth, results.hmc.names
    learned, spectra = results.forecasts
    covariances = (
        (np.cov(results.hmc.samples.T), _HMC, "-", "full-field HMC"),
        (learned.covariance, _LEARNED, "-", "forecast, learned score"),
        (spectra.covariance, _SPECTRA, "--", "forecast, spectra alone"),
    )
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.6), layout="constrained")
    for ax, pair in zip(axes, _PAIRS, strict=True):
        for covariance, colour, style, label in covariances:
            curve = ellipse(truth[list(pair)], covariance[np.ix_(pair, pair)], 1.0)
            ax.plot(*curve, style, color=colour, label=label, lw=1.6)
        ax.plot(*truth[list(pair)], "+", color="0.3")
        ax.set(xlabel=names[pair[0]], ylabel=names[pair[1]])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    save_figure(axes, path)
    plt.close(figure)


def write_page(out: Path, summary: dict[str, Any], results: Results) -> None:
    """Write report.html beside the figures, which must be there."""
    page = Page("Lensing maps: what a learned score makes of them, beside full-field HMC")
    found, hmc = results.inference, results.hmc
    ratio = np.array(summary["widths_over_hmc"])
    spent = len(found.sims)
    page.verdict(
        found.posterior.problems[0] if found.posterior.problems else "The posterior has no known problem.",
        good=not found.posterior.problems,
    )
    page.verdict(
        f"Widths of omega_c, sigma8 and w0 are {ratio[0]:.2f}, {ratio[2]:.2f} and {ratio[5]:.2f} times those of HMC, "
        f"from {spent:,} simulations in all.",
        good=bool((ratio[[0, 2, 5]] < 1.15).all()),
    )
    _parameters(page, results)
    page.section("Maps", "Ten degrees a side, five bins of redshift, with the noise of ten years of LSST.")
    page.figure(out / "maps.png", f"Averages over {_BLOCK} × {_BLOCK} pixels. Pixels of the data are noisier.")
    page.section("Statistics", "What the score is learned from: the whole map condensed into few numbers.")
    page.figure(
        out / "summaries.png",
        "The observed statistics, less their mean over maps simulated at the mean of the posterior, in units of their "
        "scatter; grey are one and two σ.",
    )
    page.section("Forecasts", "At the true parameters, under the prior of HMC.")
    page.figure(out / "ellipses.png", "One-sigma ellipses of forecasts, and of the covariance of the draws of HMC.")
    page.preformatted(str(results.forecasts[0]))
    page.section("Posterior", "Under the prior of HMC.")
    page.figure(out / "posterior.png", "Draws of full-field HMC, of the learned score, and of spectra alone.")
    page.preformatted(str(found.posterior))
    page.section("Rounds", "Simulations were run where the posterior was by then known to be.")
    page.preformatted(str(found.rounds))
    page.section("Settings")
    page.settings({k: summary[k] for k in _SETTINGS} | {"draws of HMC": len(hmc.samples)})
    page.write(out / "report.html")


def _parameters(page: Page, results: Results) -> None:
    """Add the table of parameters."""
    posterior, spectra, hmc = results.inference.posterior, results.spectra, results.hmc
    learned, of_spectra = results.forecasts
    page.section("Parameters", "Forecasts of σ at the true parameters, and posteriors of the observed map.")
    page.table(
        ("parameter", "true", "forecast, spectra", "forecast, learned", "spectra alone", "learned score", "HMC"),
        [
            (
                name,
                f"{results.observed.truth[i]:.4f}",
                f"{of_spectra.sigma[i]:.4f}",
                f"{learned.sigma[i]:.4f}",
                *(f"{p.mean[i]:.4f} ± {p.sigma[i]:.4f}" for p in (spectra, posterior, hmc)),
            )
            for i, name in enumerate(posterior.names)
        ],
    )
