"""The forecast of an analysis as plain data and as a printed table: of the data alone, and with the prior."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._support.text import columns, with_errors
from ..inference.estimate import maximum_likelihood
from ..inference.fisher_matrix import FisherMatrix
from ..inference.forecast_result import Forecast
from ..score.constraints import TRAINING_RANGE
from .workspace import Workspace

_NONE = "none"
# How far from the edge of the training region a forecast is made at least, as a fraction of each range.
_MARGIN = 0.02


def forecast_point(workspace: Workspace) -> tuple[dict[str, float], str]:
    """Return the point of the forecast, and how it was chosen."""
    c = workspace.configuration
    if c.forecast_theta0 is not None:
        return c.forecast_theta0, "the point the file gives"
    if c.observation is not None:
        iid, shown = c.observation.iid, workspace.progress
        best = maximum_likelihood(workspace.model(), workspace.observation(), iid=iid, progress=shown)
        if best.converged:
            # At the very edge of the region nothing could be simulated on its other side.
            margin = _MARGIN * (c.proposal.high - c.proposal.low)
            point = np.clip(best.theta, c.proposal.low + margin, c.proposal.high - margin)
            return dict(zip(best.names, point.tolist(), strict=True)), "the best fit of the observation"
    middle = (c.proposal.low + c.proposal.high) / 2
    return dict(zip(c.proposal.names, middle.tolist(), strict=True)), "the middle of the training region"


def forecast_result(alone: Forecast, with_prior: Forecast, prior: str) -> dict[str, Any]:
    """Return the numbers of a forecast, σ of the data alone as None where there are none."""
    return {
        "at": dict(zip(alone.names, alone.theta0.tolist(), strict=True)),
        "names": list(alone.names),
        "prior": prior,
        "sigma": _sigma(alone.plug_in),
        "sigma_error": _sigma_error(alone.plug_in),
        "sigma_bound": _sigma(alone.bound),
        "sigma_bound_error": _sigma_error(alone.bound),
        "with_prior": {
            "sigma": _sigma(with_prior.plug_in),
            "sigma_error": _sigma_error(with_prior.plug_in),
            "sigma_bound": _sigma(with_prior.bound),
            "sigma_bound_error": _sigma_error(with_prior.bound),
        },
        "conditional_sigma": [None if not np.isfinite(s) else s for s in alone.conditional_sigma.tolist()],
        "fisher": alone.fisher.tolist(),
        "fisher_bound": alone.fisher_bound.tolist(),
        "num_simulations": alone.num_simulations,
    }


def forecast_table(alone: Forecast, with_prior: Forecast, prior: str) -> str:
    """Print σ of the data alone and with the prior, plug-in and bound of each."""
    added = f"with {prior}" if prior == TRAINING_RANGE else f"with {prior} of the file"
    head = ("parameter", "value", "σ plug-in", "σ bound", "σ plug-in, with prior", "σ bound, with prior")
    cells = [_cells(matrix) for matrix in (alone.plug_in, alone.bound, with_prior.plug_in, with_prior.bound)]
    rows: list[Sequence[str]] = [head]
    rows += zip(alone.names, [f"{value:.6g}" for value in alone.theta0], *cells, strict=True)
    first = f"Fisher forecast, {alone.num_simulations:,} simulations; of the data alone, and {added}"
    return "\n".join([first, *columns(rows)])


def _cells(matrix: FisherMatrix) -> list[str]:
    sigma = _sigma(matrix)
    return [_NONE] * len(matrix.names) if sigma is None else with_errors(sigma, _sigma_error(matrix))


def _sigma(matrix: FisherMatrix) -> list[float] | None:
    """Return marginal errors; None where the matrix is singular, and has none."""
    return None if matrix.degenerate_direction() else matrix.sigma.tolist()


def _sigma_error(matrix: FisherMatrix) -> list[float] | None:
    if matrix.degenerate_direction():
        return None
    error = matrix.sigma_error
    return None if error is None else error.tolist()
