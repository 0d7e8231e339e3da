"""Posteriors in scales of order one, where ranges are narrow and far from zero, so that single precision can bear them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro.distributions as dist

from ..errors import ArgumentError
from ..score.model import ScoreModel
from ..score.scales import Scales, is_far

# Laws of (θ − centre) / scale by kind of the law of θ.
_MOVED: dict[type, Callable[[Any, float, float], Any]] = {
    dist.Uniform: lambda law, c, s: dist.Uniform((float(law.low) - c) / s, (float(law.high) - c) / s),
    dist.Normal: lambda law, c, s: dist.Normal((float(law.loc) - c) / s, float(law.scale) / s),
    dist.Cauchy: lambda law, c, s: dist.Cauchy((float(law.loc) - c) / s, float(law.scale) / s),
    dist.Laplace: lambda law, c, s: dist.Laplace((float(law.loc) - c) / s, float(law.scale) / s),
}


@dataclass(frozen=True, eq=False)
class ScaledProblem:
    """A model, data and priors as samplers take them, and the scales that lead back to θ."""

    scales: Scales
    model: ScoreModel
    x: Any
    laws: Any

    @classmethod
    def of(cls, model: ScoreModel, x: Any, laws: Sequence[Any]) -> "ScaledProblem":
        """Move only those parameters that need it, so that all other priors are taken as they are."""
        own = model.own_scales()
        if own is None:
            return cls(Scales.none(len(model.names)), model, x, laws)
        far = is_far(model.low, model.high)
        scales = Scales(np.where(far, own.centre, 0.0), np.where(far, own.scale, 1.0))
        if far.any():
            places = zip(model.names, laws, far, scales.centre.tolist(), scales.scale.tolist(), strict=True)
            laws = tuple(_moved(name, law, c, s) if moves else law for name, law, moves, c, s in places)
        return cls(scales, model.in_scales(scales), model.data_in_scales(x), laws)

    def log_density(self, log_density: Any) -> np.ndarray:
        """Turn log-densities in u into those in θ."""
        return np.asarray(log_density) - np.log(self.scales.scale).sum()


def _moved(name: str, law: Any, centre: float, scale: float) -> Any:
    if type(law) not in _MOVED:
        known = ", ".join(kind.__name__ for kind in _MOVED)
        raise ArgumentError(
            f"prior[{name!r}]: the training region is narrow and far from zero, so the prior must be one of {known}; "
            f"got {type(law).__name__}. Measure {name} from a point inside its range to use any other."
        )
    return _MOVED[type(law)](law, centre, scale)
