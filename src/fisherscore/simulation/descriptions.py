"""Proposals and latent models as plain data, for the folders of campaigns and exported files.

Proposals of the common distributions and Gaussian latents are made anew from their description; others must be passed
again when a folder is opened. Nothing is ever unpickled.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpyro.distributions as dist

from .._support import fields as read
from .._support.axes import Axes
from ..errors import ArgumentError
from .latent import AdditiveLatent, GaussianLatent, Latent
from .proposal import Proposal
from .quantiles import KNOWN, is_known, numbers_of
from .regions import Parts

# How far the ends of a region may be from those described, in widths of the region: version 0.1.0 computed quantiles
# in single precision, and those of some distributions from draws.
_ROUNDING, _SAMPLED = 1e-5, 0.2
# All numbers of the known distributions but these are above 0.
_OWN_AXES = ("axes", "parts", "shares")
# Axes of a region that are more alike than this span nothing that double precision can tell.
_FLATTEST = 1e12
_OF_ANY_SIGN = ("loc", "low", "high")


def describe_proposal(proposal: Proposal) -> dict[str, Any]:
    """Describe a proposal in plain data."""
    axes, parts = proposal.axes, proposal.parts
    own: dict[str, Any] = {}
    if axes is not None and parts is not None:
        boxes = [_described(box) for box in parts.boxes]
        own = {"axes": _described(axes), "parts": boxes, "shares": list(parts.shares)}
    return own | {
        "names": list(proposal.names),
        "units": list(proposal.units),
        "low": proposal.low.tolist(),
        "high": proposal.high.tolist(),
        "distributions": [
            {"name": type(law).__name__, **(numbers_of(law) if is_known(law) else {})} for law in proposal.distributions
        ],
    }


def rebuild_proposal(description: dict[str, Any]) -> Proposal:
    """Make a proposal anew from its description, all of which is checked."""
    try:
        names, units = read.names(description["names"]), read.tuple_of(read.text)(description["units"])
        laws = {name: _law(name, law) for name, law in zip(names, description["distributions"], strict=True)}
        proposal = Proposal.of(laws, units=dict(zip(names, units, strict=True)))
        if "axes" in description:
            boxes = tuple(_axes(box, len(names)) for box in description["parts"])
            parts = Parts(boxes, read.tuple_of(read.number)(description["shares"]))
            if not 0 < len(boxes) == len(parts.shares) or not all(share > 0 for share in parts.shares):
                raise ValueError("its parts and their shares do not go together")
            proposal = replace(proposal, axes=_axes(description["axes"], len(names)), parts=parts)
        stored = with_stored_region(description, proposal)
        if [stored.low.tolist(), stored.high.tolist()] != [description["low"], description["high"]]:
            raise ValueError("its region is not that of its distributions")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"proposal: its description is damaged ({error}).") from None
    return stored


def with_stored_region(description: dict[str, Any], proposal: Proposal) -> Proposal:
    """Return a proposal with the training region of its description, where both say the same.

    A region follows from the distributions; it is kept as version 0.1.0 computed it, since noise was sized by it.
    """
    theirs = describe_proposal(proposal)
    if any(theirs.get(key) != description.get(key) for key in ("names", "distributions", *_OWN_AXES)):
        return proposal
    ends = [np.array(read.tuple_of(read.number)(description[key])) for key in ("low", "high")]
    if any(end.shape != proposal.low.shape for end in ends):
        return proposal
    known = np.array([is_known(law) for law in proposal.distributions])
    apart = np.maximum(np.abs(ends[0] - proposal.low), np.abs(ends[1] - proposal.high))
    if np.any(ends[0] >= ends[1]) or np.any(apart > np.where(known, _SAMPLED, _ROUNDING) * (ends[1] - ends[0])):
        return proposal
    for end in ends:
        end.setflags(write=False)
    return replace(proposal, low=ends[0], high=ends[1])


def _described(axes: Axes) -> dict[str, Any]:
    return {"centre": np.asarray(axes.centre).tolist(), "factor": np.asarray(axes.factor).tolist()}


def _axes(description: dict[str, Any], num: int) -> Axes:
    """Make axes of their description; raise ValueError where they span nothing."""
    centre = np.array(read.tuple_of(read.number)(description["centre"]))
    factor = np.array(read.tuple_of(read.tuple_of(read.number))(description["factor"]))
    size = np.linalg.norm(factor, axis=-1) if factor.shape == (num, num) else np.zeros(1)
    if centre.shape != (num,) or not (size > 0).all() or not np.linalg.cond(factor / size[:, None]) < _FLATTEST:
        raise ValueError("its axes span nothing")
    return Axes(centre, factor)


def _law(name: str, description: dict[str, Any]) -> dist.Distribution:
    kind, values = description["name"], {k: v for k, v in description.items() if k != "name"}
    if kind not in KNOWN or not values:
        raise ArgumentError(
            f"proposal: the distribution of {name!r} ({str(kind)[:60]}) cannot be made anew. Pass the proposal the "
            "simulations were drawn from as proposal=..."
        )
    known = getattr(dist, kind)
    if values.keys() != known.arg_constraints.keys():
        raise ValueError(f"a {kind} has {', '.join(known.arg_constraints)}")
    if "high" in values and not read.number(values["low"]) < read.number(values["high"]):
        raise ValueError(f"the range of {name!r} is empty")
    for key, value in values.items():
        if read.number(value) <= 0 and key not in _OF_ANY_SIGN:
            raise ValueError(f"{key} of {name!r} is {value}")
    return known(**values)


def stored_proposal(description: dict[str, Any], given: Proposal | None) -> Proposal:
    """Return the proposal that simulations were drawn from: made anew, or the one given where it is the same."""
    if given is None:
        return rebuild_proposal(description)
    if not isinstance(given, Proposal):
        raise ArgumentError(f"proposal: expected a proposal, got {given!r}. Make one with fisherscore.uniform.")
    if not isinstance(description, dict):
        raise ArgumentError("proposal: its description is damaged.")
    given = with_stored_region(description, given)
    theirs = describe_proposal(given)
    changed = [
        key for key in ("names", "distributions", "low", "high", *_OWN_AXES) if theirs.get(key) != description.get(key)
    ]
    if changed:
        raise ArgumentError(
            f"proposal: expected the one the simulations were drawn from, with {changed[0]} "
            f"{description.get(changed[0])}; got {theirs.get(changed[0])}. To learn in another region use "
            "fisherscore.from_table(sims.theta, sims.x, proposal)."
        )
    return given


def describe_latent(latent: Latent | None) -> dict[str, Any]:
    """Describe a latent model in plain data, as two entries of a description.

    Additive noise is written as version 0.1.0 wrote it, so that its campaigns can be gone on with.
    """
    if latent is None:
        return {"latent": None, "additive_noise": False}
    additive = isinstance(latent, AdditiveLatent)
    if type(latent) in (AdditiveLatent, GaussianLatent):
        assert isinstance(latent, GaussianLatent)
        covariance = latent.covariance.tolist()
        return {"latent": {"name": "GaussianLatent", "covariance": covariance}, "additive_noise": additive}
    return {"latent": {"name": type(latent).__name__}, "additive_noise": additive}


def rebuild_latent(description: dict[str, Any]) -> Latent | None:
    """Make a latent model anew, or one that says what is missing when it is used."""
    try:
        latent, additive = description["latent"], read.optional(bool)(description.get("additive_noise"))
        if latent is None:
            return None
        if "covariance" not in latent:
            if additive:
                raise ArgumentError(f"latent: pass the {latent['name']} the simulations were drawn with as latent=...")
            return _MissingLatent()
        covariance = np.array(read.tuple_of(read.tuple_of(read.number))(latent["covariance"]))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"latent: its description is damaged ({error!r}).") from None
    return AdditiveLatent(covariance) if additive else GaussianLatent(covariance)


class _MissingLatent(Latent):
    """Stands for a latent model of the user's own, which no folder can hold."""

    def sample(self, key: Any, theta: Any) -> Any:
        """Refuse."""
        raise ArgumentError("latent: pass the latent model the simulations were drawn with as latent=...")

    def score(self, theta: Any, latent: Any) -> Any:
        """Refuse."""
        return self.sample(None, theta)
