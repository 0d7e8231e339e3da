"""Posteriors in scales of order one where ranges are narrow and far from zero, which single precision cannot bear."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro.distributions as dist

from .._support.axes import Axes
from ..errors import ArgumentError
from ..score.model import ScoreModel
from ..score.scales import Scales, is_far
from ..simulation.proposal import Proposal
from .priors.along_axes import along_axes
from .priors.blocks import Ends, Prior
from .priors.given import Parameters, RestrictedPrior, pieces_of, prior_of

# Along the axes of a region θ is computed for the prior's density alone, which may be rounded more.
_FAR_ALONG_AXES = 10_000.0
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
    # The ends of each parameter's prior where they cannot be read off the law: along axes of a region's own.
    upright: tuple[Ends, ...] | None = None

    @classmethod
    def of(cls, model: ScoreModel, x: Any, prior: Any) -> "ScaledProblem":
        """Move only those parameters that need it, so that all other priors are taken as they are."""
        own = model.own_scales()
        if own is None:
            return cls(Scales.none(len(model.names)), model, x, prior_of(Parameters.of(model), prior))
        if own.turn is not None or (isinstance(prior, Proposal) and prior.axes is not None):
            return cls._along_axes(model, (own, x), prior)
        far = is_far(model.low, model.high)
        scales = Scales(np.where(far, own.centre, 0.0), np.where(far, own.scale, 1.0))
        inner = model.in_scales(scales)
        law = prior_of(Parameters.of(inner), _moved(model.names, prior, scales, far) if far.any() else prior)
        return cls(scales, inner, model.data_in_scales(x), law)

    @classmethod
    def _along_axes(cls, model: ScoreModel, data: tuple[Scales, Any], prior: Any) -> "ScaledProblem":
        """Take a prior along the axes of a model's training region; only its density is computed in θ."""
        (own, x), (low, high) = data, (model.low, model.high)
        if isinstance(prior, Proposal) and prior.axes is not None:
            # Uniform in a region: along the axes of that.
            own = Scales.of_region(prior.low, prior.high, prior.axes)
            low, high, prior = np.maximum(low, prior.low), np.minimum(high, prior.high), None
        far = is_far(low, high, _FAR_ALONG_AXES)
        near = Scales(np.where(far, (low + high) / 2, 0.0), np.where(far, (high - low) / 2, 1.0))
        ends = near.inner(low), near.inner(high)
        parameters = Parameters(model.names, *ends)
        inner = prior_of(parameters, _moved(model.names, prior, near, far) if far.any() else prior)
        axes = Axes(own.centre, own.factor).moved(near.centre, near.scale)
        block = along_axes(inner, axes, *ends)
        inside = [[-np.inf if a is None else a, np.inf if b is None else b] for a, b in inner.ends()]
        sides = np.maximum(ends[0], np.array(inside)[:, 0]), np.minimum(ends[1], np.array(inside)[:, 1])
        upright = tuple(zip(near.outer(sides[0]).tolist(), near.outer(sides[1]).tolist(), strict=True))
        return cls(own, model.in_scales(own), model.data_in_scales(x), Prior((block,)), upright)

    def outer(self, u: Any) -> np.ndarray:
        """Turn draws of u into θ; along axes, those that rounding puts just beyond the support are at its end."""
        theta = self.scales.outer(u)
        if self.upright is None:
            return theta
        low, high = zip(*self.upright, strict=True)
        return np.clip(theta, np.asarray(low, np.float64), np.asarray(high, np.float64))

    def log_density(self, log_density: Any) -> np.ndarray:
        """Turn log-densities in u into those in θ."""
        return np.asarray(log_density) - self.scales.log_volume

    def ends(self) -> tuple[Ends, ...]:
        """Return the ends of each parameter's prior, in θ."""
        if self.upright is not None:
            return self.upright

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
