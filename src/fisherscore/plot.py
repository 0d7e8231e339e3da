"""Pictures. Every function draws into Matplotlib axes and returns them; no science is done here.

>>> import fisherscore as fs
>>> axes = fs.plot.score_field(fs.problems.linear_gaussian().exact_model(), [0.5, 0.5])
"""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._support.arguments import as_indices, as_theta
from ._support.grid import region_grid
from .errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Deviations beyond so many tolerances are drawn at the edge.
_FARTHEST = 3.0

LEARNED, EXACT, NEUTRAL = "#1f5fa8", "#c8372d", "#555555"


def axes_of(ax: "Axes | None", size: tuple[float, float] = (5.5, 5.0)) -> "Axes":
    """Return the given axes, or those of a new figure that no window system knows of."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").subplots()


def label(model: Any, index: int) -> str:
    """Name a parameter with its unit, as an axis label; a dollar sign is shown, not read as mathematics."""
    unit = f" [{model.units[index]}]" if model.units[index] else ""
    return (model.names[index] + unit).replace("$", r"\$")


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
    """Draw the score of one observation as arrows over the training region, beside the exact one where it is known.

    For two parameters. Arrows are as long as the square root of the score, on one scale for both fields, so that those
    near the best fit can still be seen. With a Fisher matrix, its one and two sigma ellipses are drawn at the truth.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> fs.plot.score_field(problem.exact_model(), [0.5, 0.5], truth=[0.0, 0.0]).get_xlabel()
    'theta1'
    """
    if model.num_parameters != 2:
        raise ArgumentError(f"model: a score field is drawn for 2 parameters, got {model.num_parameters}.")
    ax = axes_of(ax)
    grid = region_grid(model, num_per_axis, margin=0.03)
    span = model.high - model.low
    # The exact field is drawn first and broader, so that it shows behind the learned one wherever they differ.
    fields = [(exact, EXACT, "exact score", 0.009, 3.0)] if exact is not None else []
    fields += [(model, LEARNED, "learned score", 0.004, 4.5)]
    arrows = [np.asarray(m.score(grid, x_obs)) * span for m, *_ in fields]
    longest = np.max(np.linalg.norm(arrows[0], axis=1))
    arrows = [a / np.sqrt(np.linalg.norm(a, axis=1, keepdims=True) * longest + 1e-300) for a in arrows]
    for arrow, (_, colour, name, width, head) in zip(arrows, fields, strict=True):
        # The longest arrow spans 1.3 grid steps, so that neighbours are told apart.
        length = arrow * 1.3 / num_per_axis * span
        ax.quiver(
            *grid.T,
            *length.T,
            angles="xy",
            scale_units="xy",
            scale=1,
            color=colour,
            label=name,
            width=width,
            headwidth=head,
            zorder=2,
        )
    if truth is not None:
        centre = as_theta(truth, model.names, "truth")
        ax.plot(*centre, "o", color="black", label="true parameters", zorder=3)
        if fisher is not None:
            for level in (1.0, 2.0):
                ax.plot(*_ellipse(centre, np.linalg.inv(fisher), level), color=NEUTRAL, lw=1.0, zorder=3)
    ax.set(xlabel=label(model, 0), ylabel=label(model, 1))
    ax.set_xlim(model.low[0], model.high[0])
    ax.set_ylim(model.low[1], model.high[1])
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    return ax


def loss_curve(provenance: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the loss of every epoch from a model's provenance, with the held-out loss where there is one."""
    if "loss" not in provenance:
        raise ArgumentError("provenance: this model was fitted in closed form and has no loss curve.")
    ax = axes_of(ax, (6.5, 4.0))
    loss = np.asarray(provenance["loss"], float)
    held_out = np.asarray(provenance["held_out_loss"], float)
    epochs = np.arange(1, len(loss) + 1)
    ax.plot(epochs, loss, color=LEARNED, label="training loss", lw=1.2)
    if np.isfinite(held_out).any():
        ax.plot(epochs, held_out, color=EXACT, label="held-out loss", lw=1.2)
        ax.axvline(provenance["best_epoch"], color=NEUTRAL, ls=":", label="kept epoch")
    ax.set(xlabel="epoch", ylabel="loss (mean square, standardised)", xscale="log")
    ax.legend(frameon=False)
    return ax


def save_figure(ax: Any, path: Any) -> None:
    """Write the figure that holds the axes (one, or an array of them) to a file."""
    from matplotlib import MatplotlibDeprecationWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MatplotlibDeprecationWarning)  # GetDist's tick marks still use an old name
        np.ravel(ax)[0].figure.savefig(path, dpi=150, bbox_inches="tight")


def pair(model: Any, names: Sequence[str] | None) -> list[int]:
    """Return the positions of the two parameters to draw, by default the first two."""
    chosen = list(names) if names is not None else list(model.names[:2])
    if len(chosen) != 2:
        raise ArgumentError(f"names: expected two parameter names, got {chosen}.")
    return as_indices(chosen, model.names)


def fisher_ellipses(
    forecasts: Any,
    *,
    names: Sequence[str] | None = None,
    exact: Any = None,
    level: float = 1.0,
    estimate: str = "plug_in",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw error ellipses of forecasts (one or a list) for two parameters, beside exact Fisher matrices if given.

    ``level`` is the number of standard deviations of a one-dimensional marginal that the ellipse spans; ``exact`` holds
    one exact Fisher matrix per forecast, over the forecast's parameters.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> forecast = fs.forecast(problem.exact_model(), [0.0, 0.0], problem.simulator)
    >>> ax = fs.plot.fisher_ellipses(forecast, exact=[problem.fisher([0.0, 0.0])])
    """
    ax = axes_of(ax)
    several = list(forecasts) if isinstance(forecasts, list | tuple) else [forecasts]
    chosen = pair(several[0], names)
    truths = [None] * len(several) if exact is None else list(exact)
    for number, (forecast, truth) in enumerate(zip(several, truths, strict=True)):
        centre = forecast.theta[chosen]
        covariances = [(getattr(forecast, estimate).covariance, LEARNED, "-", "learned score")]
        if truth is not None:
            covariances.insert(0, (np.linalg.inv(truth), EXACT, "--", "exact"))
        for covariance, colour, style, name in covariances:
            curve = _ellipse(centre, covariance[np.ix_(chosen, chosen)], level)
            ax.plot(*curve, style, color=colour, label=None if number else name, lw=1.6)
        ax.plot(*centre, "+", color=NEUTRAL)
    first = several[0]
    ax.set(xlabel=first.names[chosen[0]], ylabel=first.names[chosen[1]])
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    return ax


def _ellipse(centre: np.ndarray, covariance: np.ndarray, level: float) -> np.ndarray:
    angle = np.linspace(0, 2 * np.pi, 200)
    return centre[:, None] + level * np.linalg.cholesky(covariance) @ np.stack([np.cos(angle), np.sin(angle)])


def triangle(posteriors: Any, *, truth: Any = None, labels: Sequence[str] | None = None) -> "np.ndarray":
    """Draw posteriors (one or a list, over the same parameters) as a GetDist triangle plot; returns its axes."""
    several = list(posteriors) if isinstance(posteriors, list | tuple) else [posteriors]
    names = labels if labels is not None else [None] * len(several)
    samples = [p.to_getdist(label=name) for p, name in zip(several, names, strict=True)]
    from getdist import plots

    plotter = plots.get_subplot_plotter(width_inch=2.3 * len(several[0].names) + 1.2)
    markers = None
    if truth is not None:
        values = as_theta(truth, several[0].names, "truth")
        markers = {f"p{i}": float(v) for i, v in enumerate(values)}
    plotter.triangle_plot(
        samples,
        filled=[True] + [False] * (len(samples) - 1),
        contour_colors=[LEARNED, EXACT, "#2b8a3e", "#e67700"][: len(samples)],
        legend_labels=list(labels) if labels is not None else None,
        markers=markers,
    )
    return plotter.subplots


def coverage(diagnosis: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw expected coverage (TARP) and rank distributions (calibration) against the diagonal, with a 95 % band."""
    if diagnosis.ranks is None or diagnosis.coverage is None:
        raise ArgumentError("diagnosis: it holds no posteriors; call diagnose with num_posteriors above 0.")
    ax = axes_of(ax)
    level = np.linspace(0, 1, 201)
    num = len(diagnosis.coverage)
    band = 1.36 / np.sqrt(num)  # 95 % of Kolmogorov's distribution
    ax.fill_between(level, level - band, level + band, color=NEUTRAL, alpha=0.15, lw=0, label="95 % band")
    ax.plot(level, level, color=NEUTRAL, lw=0.8)

    def curve(values: np.ndarray) -> np.ndarray:
        return np.searchsorted(np.sort(values), level) / num

    for i, name in enumerate(diagnosis.names):
        ax.plot(level, curve(diagnosis.ranks[:, i]), lw=1.0, label=f"ranks of {name}".replace("$", r"\$"))
    ax.plot(level, curve(diagnosis.coverage), color=LEARNED, lw=2.0, label="expected coverage")
    ax.set(xlabel="credibility level or rank", ylabel="fraction of simulations", xlim=(0, 1), ylim=(0, 1))
    ax.legend(frameon=False, loc="upper left")
    return ax


def identities(diagnosis: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw how far off each identity is in units of its tolerance (at most three), with two standard errors."""
    ax = axes_of(ax, (6.5, 2.8))
    shown = [c for c in diagnosis.checks if c.tolerance > 0 and c.name != "observation"]
    colours = {"pass": "#2b8a3e", "FAIL": EXACT, "unclear": "#e67700"}
    for row, check in enumerate(reversed(shown)):
        ax.errorbar(
            min(check.value / check.tolerance, _FARTHEST),
            row,
            xerr=2 * check.standard_error / check.tolerance,
            fmt="o",
            color=colours[check.verdict],
            capsize=3,
        )
        ax.annotate(check.verdict, (1.01, row), xycoords=("axes fraction", "data"), va="center", size=9)
    ax.axvline(1.0, color=NEUTRAL, ls="--", lw=1)
    ax.set_yticks(range(len(shown)), [c.name for c in reversed(shown)])
    ax.set(xlabel="deviation in units of its tolerance", ylim=(-0.6, len(shown) - 0.4))
    ax.set_xlim(0, _FARTHEST + 0.1)
    return ax
