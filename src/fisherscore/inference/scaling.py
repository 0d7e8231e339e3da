"""Posteriors in scales of order one where ranges are narrow and far from zero, which single precision cannot bear."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro.distributions as dist

from ..errors import ArgumentError
from ..score.model import ScoreModel
from ..score.scales import Scales, is_far
from .priors.blocks import Ends, Prior
from .priors.given import Parameters, RestrictedPrior, pieces_of, prior_of

# Laws of (θ − centre) / scale by kind of the law of θ.
_MOVED: dict[type, Callable[[Any, float, float], Any]] = {
    dist.Uniform: lambda law, c, s: dist.Uniform((float(law.low) - c) / s, (float(law.high) - c) / s),
    dist.Normal: lambda law, c, s: dist.Normal((float(law.loc) - c) / s, float(law.scale) / s),
    dist.Cauchy: lambda law, c, s: dist.Cauchy((float(law.loc) - c) / s, float(law.scale) / s),
    dist.Laplace: lambda law, c, s: dist.Laplace((float(law.loc) - c) / s, float(law.scale) / s),
}


@dataclass(frozen=True, eq=False)
class ScaledProblem:
    """A model, data and a prior as samplers take them, and the scales that lead back to θ."""

    scales: Scales
    model: ScoreModel
    x: Any
    law: Prior

    @classmethod
    def of(cls, model: ScoreModel, x: Any, prior: Any) -> "ScaledProblem":
        """Move only those parameters that need it, so that all other priors are taken as they are."""
        own = model.own_scales()
        if own is None:
            return cls(Scales.none(len(model.names)), model, x, prior_of(Parameters.of(model), prior))
        far = is_far(model.low, model.high)
        scales = Scales(np.where(far, own.centre, 0.0), np.where(far, own.scale, 1.0))
        inner = model.in_scales(scales)
        law = prior_of(Parameters.of(inner), _moved(model.names, prior, scales, far) if far.any() else prior)
        return cls(scales, inner, model.data_in_scales(x), law)

    def log_density(self, log_density: Any) -> np.ndarray:
        """Turn log-densities in u into those in θ."""
        return np.asarray(log_density) - np.log(self.scales.scale).sum()

    def ends(self) -> tuple[Ends, ...]:
        """Return the ends of each parameter's prior, in θ."""

        def outer(end: float | None, c: float, s: float) -> float | None:
            return None if end is None else c + s * end

        places = zip(self.law.ends(), self.scales.centre.tolist(), self.scales.scale.tolist(), strict=True)
        return tuple((outer(low, c, s), outer(high, c, s)) for (low, high), c, s in places)


def _moved(names: tuple[str, ...], prior: Any, scales: Scales, far: np.ndarray) -> dict[Any, Any]:
    """Return the laws of a prior, those of far parameters as laws of u."""
    if isinstance(prior, RestrictedPrior):
        raise ArgumentError(f"prior: no region other than a box can be cut out{_too_far(names, far)}")
    moved: dict[Any, Any] = {}
    for own, law in pieces_of(prior, names):
        places = [names.index(name) for name in own]
        if not far[places].any():
            moved[own[0] if len(own) == 1 else own] = law
            continue
        if len(own) > 1 or type(law) not in _MOVED:
            known = ", ".join(kind.__name__ for kind in _MOVED)
            raise ArgumentError(
                f"prior: expected one of {known} for each of {', '.join(own)}, got {type(law).__name__}"
                f"{_too_far(names, far)}"
            )
        moved[own[0]] = _MOVED[type(law)](law, float(scales.centre[places[0]]), float(scales.scale[places[0]]))
    return moved


def _too_far(names: tuple[str, ...], far: np.ndarray) -> str:
    listed = ", ".join(name for name, is_so in zip(names, far, strict=True) if is_so)
    return (
        f": the training region of {listed} is narrow and far from zero, beyond single precision. Measure {listed} "
        "from a point inside the range, in units of its size, to use any prior."
    )
