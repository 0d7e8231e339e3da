"""Pictures. Every function draws into Matplotlib axes and returns them; no science is done here.

The functions draw whatever has the right attributes, so this module knows nothing of models and results, and these can
have ``plot()`` methods.

>>> import fisherscore as fs
>>> axes = fs.plot.score_field(fs.problems.linear_gaussian().exact_model(), [0.5, 0.5])
"""

import warnings
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._support.arguments import as_theta
from ._support.drawing import (
    axis_label,
    ellipse,
    getdist_names,
    label_pair,
    labels_of,
    legend_above,
    losses_of,
    matrices_of,
    new_axes,
    pair_of,
    plain,
    several_of,
)
from ._support.grid import region_grid
from ._support.whole_file import whole_file
from .errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "best_fits",
    "coverage",
    "diagnosis",
    "fisher_ellipses",
    "identities",
    "loss_curve",
    "save_figure",
    "score_field",
    "triangle",
]


def __dir__() -> list[str]:
    return list(__all__)


# Deviations of more tolerances than this are drawn at the edge.
_FARTHEST = 3.0

LEARNED, EXACT, NEUTRAL = "#1f5fa8", "#c8372d", "#555555"
_COLOURS = (LEARNED, EXACT, "#2b8a3e", "#e67700")
_ESTIMATES = ("plug_in", "slope", "bound")
_VERDICTS = {"pass": "#2b8a3e", "FAIL": EXACT, "unclear": "#e67700"}


def score_field(
    model: Any,
    x_obs: Any,
    *,
    exact: Any = None,
    truth: Any = None,
    fisher: Any = None,
    num_per_axis: int = 13,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the score of one observation as arrows over the training region, for two parameters.

    Arrows are as long as the square root of the score, on one scale for both fields, so that those near the best fit
    can still be seen.

    Args:
        model: A score model of two parameters.
        x_obs: The observation.
        exact: A score model with the exact score, to be drawn behind the learned one.
        truth: Parameters to mark, shape (2,), or a mapping by name.
        fisher: A Fisher matrix, whose one and two sigma ellipses are drawn around ``truth``.
        num_per_axis: Number of arrows along each parameter.
        ax: Matplotlib axes to draw into; by default those of a new figure.

    Returns:
        The axes.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> fs.plot.score_field(problem.exact_model(), [0.5, 0.5], truth=[0.0, 0.0]).get_xlabel()
    'theta1'
    """
    if model.num_parameters != 2:
        raise ArgumentError(f"model: a score field is drawn for 2 parameters, got {model.num_parameters}.")
    ax = new_axes(ax)
    # The exact field is drawn first and broader, so that it shows behind the learned one wherever they differ.
    fields = [(exact, {"color": EXACT, "label": "exact score", "width": 0.009, "headwidth": 3.0})]
    fields += [(model, {"color": LEARNED, "label": "learned score", "width": 0.004, "headwidth": 4.5})]
    _arrows(ax, [f for f in fields if f[0] is not None], x_obs, num_per_axis)
    if truth is not None:
        centre = as_theta(truth, model.names, "truth")
        ax.plot(*centre, "o", color="black", label="true parameters", zorder=3)
        for level in () if fisher is None else (1.0, 2.0):
            ax.plot(*ellipse(centre, np.linalg.inv(fisher), level), color=NEUTRAL, lw=1.0, zorder=3)
    ax.set(xlabel=axis_label(model, 0), ylabel=axis_label(model, 1))
    ax.set_xlim(model.low[0], model.high[0])
    ax.set_ylim(model.low[1], model.high[1])
    legend_above(ax)
    return ax


def _arrows(ax: "Axes", fields: list[tuple[Any, dict[str, Any]]], x_obs: Any, num_per_axis: int) -> None:
    """Draw the scores of models, each with its style, on one scale."""
    region = fields[-1][0]
    grid, span = region_grid(region, num_per_axis, margin=0.03), region.high - region.low
    grid = grid[np.asarray(region.inside(grid))]  # regions with axes of their own do not fill their ranges
    scores = [np.asarray(model.score(grid, x_obs)) * span for model, _ in fields]
    longest = np.max(np.linalg.norm(scores[0], axis=1))
    for score, (_, style) in zip(scores, fields, strict=True):
        root = score / np.sqrt(np.linalg.norm(score, axis=1, keepdims=True) * longest + 1e-300)
        # The longest arrow spans 1.3 grid steps, so that neighbours are told apart.
        arrows = root * 1.3 / num_per_axis * span
        ax.quiver(*grid.T, *arrows.T, angles="xy", scale_units="xy", scale=1, zorder=2, **style)


def loss_curve(provenance: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the loss of every epoch of a fit, with the held-out loss where there is one.

    Args:
        provenance: The provenance of a model that was trained, ``model.provenance``.
        ax: Matplotlib axes to draw into; by default those of a new figure.

    Returns:
        The axes.

    >>> import fisherscore as fs
    >>> fs.plot.loss_curve({"loss": [3.0, 2.0], "held_out_loss": [3.2, 2.1], "best_epoch": 2}).get_xlabel()
    'epoch'
    """
    loss, held_out = losses_of(provenance)
    ax = new_axes(ax, (6.5, 4.0))
    epochs = np.arange(1, len(loss) + 1)
    ax.plot(epochs, loss, color=LEARNED, label="training loss", lw=1.2)
    if np.isfinite(held_out).any():
        ax.plot(epochs, held_out, color=EXACT, label="held-out loss", lw=1.2)
        if "best_epoch" in provenance:
            ax.axvline(provenance["best_epoch"], color=NEUTRAL, ls=":", label="kept epoch")
    ax.set(xlabel="epoch", ylabel="loss (mean square, standardised)", xscale="log")
    ax.legend(frameon=False)
    return ax


def save_figure(ax: Any, path: Any) -> None:
    """Write a figure to a file.

    Args:
        ax: Axes of the figure: one, or an array of them.
        path: The file, written whole or not at all; its ending says in which format.

    >>> import io, fisherscore as fs
    >>> ax = fs.plot.loss_curve({"loss": [3.0, 2.0], "held_out_loss": [3.2, 2.1], "best_epoch": 2})
    >>> fs.plot.save_figure(ax, io.BytesIO())
    """
    from matplotlib import MatplotlibDeprecationWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MatplotlibDeprecationWarning)  # GetDist's tick marks still use an old name
        figure, options = np.ravel(ax)[0].figure, {"dpi": 150, "bbox_inches": "tight"}
        if not isinstance(path, str | PathLike):
            figure.savefig(path, **options)
            return
        target = Path(path)
        with whole_file(target) as partial:
            figure.savefig(partial, format=target.suffix[1:] or "png", **options)


def fisher_ellipses(
    forecasts: Any,
    *,
    names: Sequence[str] | None = None,
    exact: Any = None,
    level: float = 1.0,
    estimate: str = "plug_in",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw error ellipses of forecasts for two parameters.

    Args:
        forecasts: One forecast, or a list of them over the same parameters.
        names: The two parameters, by default the first two.
        exact: One exact Fisher matrix per forecast, over the forecast's parameters, to be drawn beside; for one
            forecast also the matrix alone.
        level: Number of standard deviations of a one-dimensional marginal that the ellipse spans.
        estimate: Which estimate to draw: ``"plug_in"``, ``"slope"`` or ``"bound"``.
        ax: Matplotlib axes to draw into; by default those of a new figure.

    Returns:
        The axes.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> forecast = fs.forecast(problem.exact_model(), [0.0, 0.0], problem.simulator)
    >>> ax = fs.plot.fisher_ellipses(forecast, exact=problem.fisher([0.0, 0.0]))
    """
    several = several_of(forecasts, "forecasts")
    if estimate not in _ESTIMATES:
        raise ArgumentError(f'estimate: expected "plug_in", "slope" or "bound", got {estimate!r}.')
    chosen = pair_of(several[0].names, names)
    ax = new_axes(ax)
    truths = matrices_of(exact, len(several), len(several[0].names))
    for number, (forecast, truth) in enumerate(zip(several, truths, strict=True)):
        centre = forecast.theta0[chosen]
        covariances = [(getattr(forecast, estimate).covariance, LEARNED, "-", "learned score")]
        if truth is not None:
            covariances.insert(0, (np.linalg.inv(truth), EXACT, "--", "exact"))
        for covariance, colour, style, label in covariances:
            curve = ellipse(centre, covariance[np.ix_(chosen, chosen)], level)
            ax.plot(*curve, style, color=colour, label=None if number else label, lw=1.6)
        ax.plot(*centre, "+", color=NEUTRAL)
    label_pair(ax, several[0].names, chosen)
    legend_above(ax)
    return ax


def best_fits(estimate: Any, *, names: Sequence[str] | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw maximum-likelihood estimates of two parameters; one of them with its one and two sigma ellipses.

    Args:
        estimate: What :func:`fisherscore.maximum_likelihood` returned.
        names: The two parameters, by default the first two.
        ax: Matplotlib axes to draw into; by default those of a new figure.

    Returns:
        The axes.

    >>> import fisherscore as fs
    >>> best = fs.maximum_likelihood(fs.problems.linear_gaussian().exact_model(), [0.5, -0.25])
    >>> len(fs.plot.best_fits(best).lines)
    3
    """
    chosen = pair_of(estimate.names, names)
    ax = new_axes(ax)
    points = estimate.theta.reshape(-1, estimate.theta.shape[-1])[:, chosen]
    good = np.ravel(estimate.converged)
    ax.plot(*points[good].T, "o", color=LEARNED, label="best fit", ms=6 if len(points) == 1 else 3)
    if not good.all():
        ax.plot(*points[~good].T, "x", color=EXACT, label="not converged")
    elif len(points) == 1:
        covariance = estimate.covariance.reshape(estimate.covariance.shape[-2:])[np.ix_(chosen, chosen)]
        for level in (1.0, 2.0):
            ax.plot(*ellipse(points[0], covariance, level), color=LEARNED, lw=1.6, label=f"{level:.0f} σ")
    label_pair(ax, estimate.names, chosen)
    legend_above(ax)
    return ax


def triangle(posteriors: Any, *, truth: Any = None, labels: Sequence[str] | None = None) -> "np.ndarray":
    """Draw posteriors as a GetDist triangle plot.

    Args:
        posteriors: One posterior, or a list of them over the same parameters.
        truth: Parameters to mark, shape (p,), or a mapping by name.
        labels: What to call each posterior in the legend.

    Returns:
        The axes of the triangle, shape (p, p), None above the diagonal. A parameter that is the same in all draws has
        no density and is left out.

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> posterior = fs.sample(model, [0.5, -0.5], num_samples=200, num_warmup=200)
    >>> fs.plot.triangle(posterior, truth={"theta1": 0.5, "theta2": -0.5}).shape
    (2, 2)
    """
    several = several_of(posteriors, "posteriors")
    legend = labels_of(labels, len(several))
    names = legend if legend is not None else [None] * len(several)
    samples = [p.to_getdist(label=name) for p, name in zip(several, names, strict=True)]
    from getdist import plots

    plotter = plots.get_subplot_plotter(width_inch=2.3 * len(several[0].names) + 1.2)
    markers = None
    if truth is not None:
        values = as_theta(truth, several[0].names, "truth").tolist()
        markers = dict(zip(getdist_names(several[0].names), values, strict=True))
    plotter.triangle_plot(
        samples,
        filled=[True] + [False] * (len(samples) - 1),
        contour_colors=list(_COLOURS[: len(samples)]),
        legend_labels=legend,
        markers=markers,
    )
    return plotter.subplots


def diagnosis(result: Any) -> "np.ndarray":
    """Draw a diagnosis: its identities, and the coverage of its posteriors, as far as it has them.

    Args:
        result: What :func:`fisherscore.diagnose` or :func:`fisherscore.check_calibration` returned.

    Returns:
        An array of axes, one for each picture.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 5_000)
    >>> len(fs.plot.diagnosis(fs.diagnose(problem.exact_model(), sims, num_posteriors=0)))
    1
    """
    from matplotlib.figure import Figure

    pictures = [identities] if _identity_checks(result) else []
    pictures += [coverage] if result.coverage is not None else []
    figure = Figure(figsize=(6.0 * len(pictures), 4.5), layout="constrained")
    axes = figure.subplots(1, len(pictures), squeeze=False)[0]
    for picture, ax in zip(pictures, axes, strict=True):
        picture(result, ax=ax)
    return axes


def coverage(diagnosis: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw expected coverage (TARP) and distributions of ranks against the diagonal, with a 95 % band.

    Args:
        diagnosis: A diagnosis that holds posteriors.
        ax: Matplotlib axes to draw into; by default those of a new figure.

    Returns:
        The axes.

    >>> import fisherscore as fs, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> diagnosis = fs.check_calibration(rng.normal(size=(100, 1)), rng.normal(size=(100, 200, 1)))
    >>> fs.plot.coverage(diagnosis).get_xlabel()
    'credibility level or rank'
    """
    if diagnosis.ranks is None or diagnosis.coverage is None:
        raise ArgumentError("diagnosis: it holds no posteriors; call diagnose with num_posteriors above 0.")
    ax = new_axes(ax)
    level = np.linspace(0, 1, 201)
    num = len(diagnosis.coverage)
    band = 1.36 / np.sqrt(num)  # 95 % of Kolmogorov's distribution
    ax.fill_between(level, level - band, level + band, color=NEUTRAL, alpha=0.15, lw=0, label="95 % band")
    ax.plot(level, level, color=NEUTRAL, lw=0.8)

    def curve(values: np.ndarray) -> np.ndarray:
        return np.searchsorted(np.sort(values), level) / num

    for i, name in enumerate(diagnosis.names):
        ax.plot(level, curve(diagnosis.ranks[:, i]), lw=1.0, label=plain(f"ranks of {name}"))
    ax.plot(level, curve(diagnosis.coverage), color=LEARNED, lw=2.0, label="expected coverage")
    ax.set(xlabel="credibility level or rank", ylabel="fraction of simulations", xlim=(0, 1), ylim=(0, 1))
    ax.legend(frameon=False, loc="upper left")
    return ax


def identities(diagnosis: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw how far off each identity is in units of its tolerance (at most three), with two standard errors.

    Args:
        diagnosis: A diagnosis of a model.
        ax: Matplotlib axes to draw into; by default those of a new figure.

    Returns:
        The axes.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 5_000)
    >>> diagnosis = fs.diagnose(problem.exact_model(), sims, num_posteriors=0)
    >>> [tick.get_text() for tick in fs.plot.identities(diagnosis).get_yticklabels()]
    ['symmetry', 'information', 'zero mean']
    """
    ax = new_axes(ax, (6.5, 2.8))
    checks = _identity_checks(diagnosis)[::-1]
    for row, check in enumerate(checks):
        ax.errorbar(
            min(check.value / check.tolerance, _FARTHEST),
            row,
            xerr=2 * check.standard_error / check.tolerance,
            fmt="o",
            color=_VERDICTS[check.verdict],
            capsize=3,
        )
        ax.annotate(check.verdict, (1.01, row), xycoords=("axes fraction", "data"), va="center", size=9)
    ax.axvline(1.0, color=NEUTRAL, ls="--", lw=1)
    ax.set_yticks(range(len(checks)), [check.name for check in checks])
    ax.set(xlabel="deviation in units of its tolerance", ylim=(-0.6, len(checks) - 0.4))
    ax.set_xlim(0, _FARTHEST + 0.1)
    return ax


def _identity_checks(diagnosis: Any) -> list[Any]:
    return [c for c in diagnosis.checks if c.tolerance > 0 and c.name != "observation"]
