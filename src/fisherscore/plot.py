"""Pictures. Every function draws into Matplotlib axes and returns them; no science is done here."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .accuracy import region_grid
from .arguments import as_indices, as_theta
from .errors import ArgumentError
from .score_model import ScoreModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    model: ScoreModel,
    x_obs: Any,
    *,
    exact: ScoreModel | None = None,
    truth: Any = None,
    num_per_axis: int = 13,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the score of one observation as arrows over the training region, beside the exact one where it is known.

    For two parameters. Arrow lengths are on one scale for both fields.

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
    for arrow, (_, colour, name, width, head) in zip(arrows, fields, strict=True):
        # The longest arrow spans 1.6 grid steps, so that neighbours are told apart.
        length = arrow / longest * 1.6 / num_per_axis * span
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
        ax.plot(*as_theta(truth, model.names, "truth"), "o", color="black", label="true parameters", zorder=3)
    ax.set(xlabel=label(model, 0), ylabel=label(model, 1))
    ax.set_xlim(model.low[0], model.high[0])
    ax.set_ylim(model.low[1], model.high[1])
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    return ax


def loss_curve(record: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the loss of every epoch from a model's record, with the held-out loss where there is one."""
    ax = axes_of(ax, (6.5, 4.0))
    loss = np.asarray(record["loss"], float)
    held_out = np.asarray(record["held_out_loss"], float)
    epochs = np.arange(1, len(loss) + 1)
    ax.plot(epochs, loss, color=LEARNED, label="training loss", lw=1.2)
    if np.isfinite(held_out).any():
        ax.plot(epochs, held_out, color=EXACT, label="held-out loss", lw=1.2)
        ax.axvline(record["best_epoch"], color=NEUTRAL, ls=":", label="kept epoch")
    ax.set(xlabel="epoch", ylabel="loss (mean square, standardised)", xscale="log")
    ax.legend(frameon=False)
    return ax


def save_figure(ax: Any, path: Any) -> None:
    """Write the figure that holds the axes to a file."""
    ax.figure.savefig(path, dpi=150)


def pair(model: Any, names: Sequence[str] | None) -> list[int]:
    """Return the positions of the two parameters to draw, by default the first two."""
    chosen = list(names) if names is not None else list(model.names[:2])
    if len(chosen) != 2:
        raise ArgumentError(f"names: expected two parameter names, got {chosen}.")
    return as_indices(chosen, model.names)
