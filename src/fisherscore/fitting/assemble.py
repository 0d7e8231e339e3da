"""From a fitted function to a model: what the model remembers of its simulations, and where it comes from.

All of a model's provenance is gathered here.
"""

import platform
from dataclasses import dataclass
from typing import Any

import equinox
import jax
import numpy as np
import optax

from ..potentials.base import ScoreFunction
from ..score.fitted import FittedScore
from ..score.provenance import Provenance
from ..score.standardize import Standardizer
from ..score.training_summary import TrainingSummary
from ..simulation.simulations import Simulations
from .data import Rows

# Training rows from which the Fisher surface and the spread of x are estimated; more would not sharpen them.
_NUM_REMEMBERED = 50_000


@dataclass(frozen=True, eq=False)
class FunctionFit:
    """What a recipe comes to: a function of standardised (θ, x), and what it was fitted to.

    ``theta`` are the parameters paired with ``sims.x``; ``details`` say how it was fitted.
    """

    function: ScoreFunction
    standardizer: Standardizer
    sims: Simulations
    theta: np.ndarray
    details: dict[str, Any]


@dataclass(frozen=True)
class FitOrigin:
    """How a fit came about: the name of its recipe, its seed, and the fraction of simulations that failed."""

    recipe: str
    seed: int
    failure_rate: float


def assemble(fitted: FunctionFit, origin: FitOrigin) -> FittedScore:
    """Make a model of a fitted function."""
    sims = fitted.sims
    return FittedScore(
        function=fitted.function,
        standardizer=fitted.standardizer,
        training_summary=_training_summary(fitted),
        low=sims.proposal.low,
        high=sims.proposal.high,
        names=sims.proposal.names,
        units=sims.proposal.units,
        x_shape=sims.x_shape,
        provenance=Provenance(_provenance(sims, origin) | fitted.details),
        axes=sims.proposal.axes,
    )


def _training_summary(fitted: FunctionFit) -> TrainingSummary:
    """Let the model remember its training data, or a good part of them."""
    rows = slice(0, _NUM_REMEMBERED)
    theta, x = fitted.standardizer.inputs(fitted.theta[rows], fitted.sims.x[rows])
    score = Rows(theta, x.reshape(len(x), -1)).scores(fitted.function)
    return TrainingSummary.of(theta, x, score)


def _provenance(sims: Simulations, origin: FitOrigin) -> dict[str, Any]:
    """Collect what one needs to know later about how a model came to be."""
    from .. import __version__

    return {
        "recipe": origin.recipe,
        "seed": origin.seed,
        "simulations": sims.origin.as_dict(),
        "num_simulations": len(sims),
        "failure_rate": origin.failure_rate,
        "data_sha256": sims.fingerprint(),
        "versions": {
            "fisherscore": __version__,
            "jax": jax.__version__,
            "equinox": equinox.__version__,
            "optax": optax.__version__,
            "python": platform.python_version(),
        },
        "device": jax.devices()[0].device_kind,
    }
