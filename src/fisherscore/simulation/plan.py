"""The plan of a campaign: draws θ and z of every record, and says whether two campaigns simulate the same.

Record i is a function of (plan, i): θ from the proposal, z from the latent model where there is one, and x from the
simulator at z, or at θ where there is no latent.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._support.keys import key_of
from .._support.precision import single_precision
from ..errors import ArgumentError, CampaignError
from .descriptions import describe_latent, describe_proposal, rebuild_latent, with_stored_region
from .drawing import Draws, Scheme
from .execution.run import Purpose, Stream
from .latent import AdditiveLatent, Latent, additive_latent
from .proposal import Proposal
from .simulations import Origin
from .simulator import Simulator


@dataclass(frozen=True, eq=False)
class Plan:
    """A simulator, a proposal, a latent model or None, and a seed."""

    simulator: Simulator
    proposal: Proposal
    latent: Latent | None
    seed: int
    sized_by_range: bool = False  # whether the latent is noise sized by the ranges of the proposal
    scheme: Scheme = Scheme.CURRENT

    @classmethod
    def of(cls, simulator: Any, proposal: Any, latent: Any, seed: int) -> "Plan":
        """Check what the user gave; a simulator that is run at parameters is told their names."""
        if not isinstance(simulator, Simulator):
            raise ArgumentError(
                f"simulator: expected a simulator, got {simulator!r}. Wrap a function with fisherscore.from_python or "
                "fisherscore.from_jax, a program with fisherscore.from_command."
            )
        if not isinstance(proposal, Proposal):
            raise ArgumentError(f"proposal: expected a proposal, got {proposal!r}. Make one with fisherscore.uniform.")
        model = checked_latent(latent, proposal)
        at_parameters = model is None or isinstance(model, AdditiveLatent)
        if at_parameters:
            simulator.refuse_region(proposal.low, proposal.high, proposal.names)
        named = simulator.with_names(proposal.names) if at_parameters else simulator
        return cls(named, proposal, model, seed, sized_by_range=isinstance(latent, str))

    def parameters(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Draw θ, and z where there is a latent, of the given records."""
        return self._draws.parameters(indices)

    @cached_property
    def _draws(self) -> Draws:
        return Draws(self.scheme, self.proposal, self.latent, self.seed)

    def stream(self) -> Stream:
        """Return the random numbers of the simulator."""
        return Stream(self.seed, Purpose.TRAINING, short_keys=self.scheme.has_short_keys)

    def as_begun(self, stored: dict[str, Any]) -> "Plan":
        """Return the plan by which a campaign can be gone on with: parameters are drawn as they were at its beginning.

        Folders of version 0.1.0 do not say how they were drawn; whether JAX was set to double precision then is seen
        from the first record.
        """
        plan = stored["plan"]
        if "drawing" in plan:
            return self
        proposal = with_stored_region(plan["proposal"], self.proposal)
        latent = additive_latent(proposal) if self.sized_by_range else self.latent
        plans = [
            replace(self, proposal=proposal, latent=latent, scheme=scheme)
            for scheme in (Scheme.FIRST, Scheme.FIRST_IN_DOUBLE)
        ]
        return next((p for p in plans if p.first_parameters() == plan["first_parameters"]), plans[0])

    def first_parameters(self) -> list[str]:
        """Write down θ, and z, of the first record, in few digits, for other machines' sake."""
        theta, z = self.parameters(np.arange(1))
        return [f"{value:.4g}" for value in (theta[0] if z is None else np.concatenate([theta[0], z[0]]))]

    def metadata(self, num: int) -> dict[str, Any]:
        """Describe the plan in plain data, by which a campaign knows itself."""
        _, z = self.parameters(np.arange(1))
        return {
            "plan": {
                # Tells apart latents and proposals that cannot be described.
                "first_parameters": self.first_parameters(),
                "simulator": self.simulator.identity | ({"code": self.simulator.code} if self.simulator.code else {}),
                "proposal": describe_proposal(self.proposal),
                **describe_latent(self.latent),
                "seed": self.seed,
                **({"drawing": self.scheme.value} if self.scheme is Scheme.CURRENT else {}),
            },
            "num_parameters": self.proposal.num_parameters,
            "num_latents": 0 if z is None else z.shape[1],
            "x_shape": None,
            "num_simulations": num,
            "reads": self.simulator.reads,
        }

    def origin(self, num: int) -> Origin:
        """Say where ``num`` simulations of this plan come from."""
        return Origin(simulator=self.simulator.name, seed=self.seed, num_simulations=num)


def checked_latent(latent: Any, proposal: Proposal) -> Latent | None:
    """Make the latent model the user asks for, and try it on shapes alone, before any simulation is run."""
    if latent is None:
        return None
    if isinstance(latent, str) and latent == "additive":
        return additive_latent(proposal)
    if not isinstance(latent, Latent):
        raise ArgumentError(
            f'latent: expected a latent model, "additive" or None, got {latent!r}. Use fisherscore.GaussianLatent or '
            "CustomLatent."
        )
    num = proposal.num_parameters
    theta = np.zeros(num, np.float32)
    try:
        with single_precision():
            z = jax.eval_shape(latent.sample, key_of(0), theta)
            score = jax.eval_shape(latent.score, theta, z)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"latent: does not work with the {num} parameters of the proposal: {error}") from error
    if z.ndim != 1 or score.shape != theta.shape:
        raise ArgumentError(
            f"latent: expected z of shape (q,) and a score of shape {theta.shape}, got {z.shape} and {score.shape}."
        )
    return latent


def stored_latent(description: dict[str, Any], given: Any, proposal: Proposal) -> Latent | None:
    """Return the latent model simulations were drawn with: the one given, else made anew from its description."""
    if given is None:
        return rebuild_latent(description)
    if description["latent"] is None:
        raise ArgumentError(
            f"latent: expected None, since these simulations have no latent, got a {type(given).__name__}."
        )
    return checked_latent(given, proposal)


def refuse_other_plan(stored: dict[str, Any], wanted: dict[str, Any], folder: Path) -> None:
    """Stop where a folder holds a campaign that simulates something else."""
    if stored["plan"]["additive_noise"] and wanted["plan"]["latent"] is None:
        raise CampaignError(
            f"out: the campaign in {folder} adds noise to the parameters before it runs the simulator, as version "
            '0.1.0 did by default. To go on with it, pass latent="additive"; to do without, choose another folder.'
        )
    if changes := plan_differences(stored, wanted):
        raise CampaignError(
            f"out: {folder} holds a campaign with another configuration: {'; '.join(changes)}. Data of two "
            "configurations must not be mixed: go back to the old one, or choose another folder."
        )


def plan_differences(stored: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """List what differs between the plans of two campaigns."""
    return _differences(stored["plan"], wanted["plan"])


def _differences(stored: Any, wanted: Any, name: str = "") -> list[str]:
    """List what differs between two descriptions, by name."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        keys = sorted(stored.keys() | wanted.keys())
        inner = [_differences(stored.get(k), wanted.get(k), f"{name}.{k}" if name else k) for k in keys]
        return [line for lines in inner for line in lines]
    return [] if stored == wanted else [f"{name} was {stored!r}, is {wanted!r}"]
