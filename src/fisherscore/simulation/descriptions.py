"""Proposals and latent models as plain data, for the folders of campaigns and exported files.

Proposals of the common distributions and Gaussian latents are made anew from their description; others must be passed
again when a folder is opened. Nothing is ever unpickled.
"""

from typing import Any

import numpy as np
import numpyro.distributions as dist

from .._support import fields as read
from ..errors import ArgumentError
from .latent import AdditiveLatent, GaussianLatent, Latent
from .proposal import Proposal

# The closed list of distributions a campaign's folder may name; all numbers of theirs but these are above 0.
_KNOWN = ("Uniform", "Normal", "LogNormal", "Gamma", "Beta", "Exponential", "HalfNormal", "Cauchy", "LogUniform")
_OF_ANY_SIGN = ("loc", "low", "high")


def describe_proposal(proposal: Proposal) -> dict[str, Any]:
    """Describe a proposal in plain data."""
    return {
        "names": list(proposal.names),
        "units": list(proposal.units),
        "low": proposal.low.tolist(),
        "high": proposal.high.tolist(),
        "distributions": [
            {"name": type(law).__name__, **{k: float(getattr(law, k)) for k in sorted(law.arg_constraints)}}
            if _is_known(law)
            else {"name": type(law).__name__}
            for law in proposal.distributions
        ],
    }


def _is_known(law: dist.Distribution) -> bool:
    return type(law) is getattr(dist, type(law).__name__, None) and type(law).__name__ in _KNOWN


def rebuild_proposal(description: dict[str, Any]) -> Proposal:
    """Make a proposal anew from its description, all of which is checked."""
    try:
        names, units = read.names(description["names"]), read.tuple_of(read.text)(description["units"])
        laws = {name: _law(name, law) for name, law in zip(names, description["distributions"], strict=True)}
        proposal = Proposal.of(laws, units=dict(zip(names, units, strict=True)))
        limits = np.array([proposal.low, proposal.high])
        if not (limits[0] < limits[1]).all() or not np.allclose(limits, [description[k] for k in ("low", "high")]):
            raise ValueError("its region is not that of its distributions")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"proposal: its description is damaged ({error}).") from None
    return proposal


def _law(name: str, description: dict[str, Any]) -> dist.Distribution:
    kind, values = description["name"], {k: v for k, v in description.items() if k != "name"}
    if kind not in _KNOWN or not values:
        raise ArgumentError(
            f"proposal: the distribution of {name!r} ({str(kind)[:60]}) cannot be made anew. Pass the proposal the "
            "simulations were drawn from as proposal=..."
        )
    known = getattr(dist, kind)
    if values.keys() != known.arg_constraints.keys():
        raise ValueError(f"a {kind} has {', '.join(known.arg_constraints)}")
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
    theirs = describe_proposal(given)
    changed = [key for key in ("names", "distributions", "low", "high") if theirs[key] != description.get(key)]
    if changed:
        raise ArgumentError(
            f"proposal: expected the one the simulations were drawn from, with {changed[0]} "
            f"{description.get(changed[0])}; got {theirs[changed[0]]}. To learn in another region use "
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
