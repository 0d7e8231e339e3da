"""At which point an analysis forecasts: the file's, else the best fit, else the middle of the training region."""

import numpy as np

from ..inference.estimate import maximum_likelihood
from .workspace import Workspace

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
