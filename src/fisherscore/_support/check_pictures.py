"""Pictures of checks: what a posterior predicts beside what was observed, and profiles of a likelihood."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .drawing import new_axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAND, _OBSERVED, _SURPRISING = "#1f5fa8", "black", "#c8372d"


def draw_predictions(result: Any, ax: "Axes | None") -> "Axes":
    """Draw the median and the 68 % and 95 % bands of each datum in units of its spread, with what was observed."""
    ax = new_axes(ax, (8.0, 4.0))
    places = np.arange(1, len(result.p_values) + 1)
    middle = np.median(result.replicates, axis=0)
    spread = result.replicates.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    for levels, shade, label in (((0.025, 0.975), 0.2, "95 % predicted"), ((0.16, 0.84), 0.4, "68 % predicted")):
        low, high = (np.quantile(result.replicates, levels, axis=0) - middle) / spread
        ax.bar(places, high - low, bottom=low, width=0.8, color=_BAND, alpha=shade, lw=0, label=label)
    rare = result.p_values < 0.01
    observed = (result.observed - middle) / spread
    ax.plot(places[~rare], observed[~rare], "o", ms=4, color=_OBSERVED, label="observed")
    if rare.any():
        ax.plot(places[rare], observed[rare], "o", ms=5, color=_SURPRISING, label="observed, p < 0.01")
    ax.axhline(0.0, color=_BAND, lw=0.8)
    ax.set(xlabel="datum", ylabel="distance from the median prediction\nin standard deviations")
    ax.legend(frameon=False, fontsize="small", ncols=2)
    return ax


def draw_profile(result: Any, ax: "Axes | None") -> "Axes":
    """Draw twice the fall of the log-likelihood from its maximum, of one parameter or two."""
    ax = new_axes(ax)
    ax.set_xlabel(plain(result.names[0]))
    if len(result.names) == 1:
        ax.plot(result.grid[0], result.fall, color=_BAND, label="profile")
        for level, height in ((0.683, 1.0), (0.954, 4.0)):
            ax.axhline(height, color="#555555", lw=0.8, ls=":", label=f"{level:.1%}")
        ax.set(
            ylabel="twice the fall of the log-likelihood", ylim=(0.0, min(9.0, 1.05 * np.nanmax(result.fall) + 1e-9))
        )
        ax.legend(frameon=False)
        return ax
    fall = np.ma.masked_invalid(result.fall).T
    ax.contour(*result.grid, fall, levels=[2.296, 6.180], colors=[_BAND, "#555555"])
    ax.plot(*result.best, "+", color=_OBSERVED)
    ax.set_ylabel(plain(result.names[1]))
    return ax
