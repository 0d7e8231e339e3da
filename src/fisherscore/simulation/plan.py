"""The plan of a campaign: draws θ and z of every record, and says whether two campaigns simulate the same.

Record i is a function of (plan, i): θ from the proposal, z from the latent model where there is one, and x from the
simulator at z, or at θ where there is no latent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._support.keys import key_of
from ..errors import ArgumentError, CampaignError
from .descriptions import describe_latent, describe_proposal, rebuild_latent
from .latent import AdditiveLatent, Latent, additive_latent
from .proposal import Proposal
from .simulations import Origin
from .simulator import Simulator

# Parameters are drawn for so many records at a time, always: one size, so that one is compiled.
_RECORDS_AT_ONCE = 1_024


@dataclass(frozen=True, eq=False)
class Plan:
    """A simulator, a proposal, a latent model or None, and a seed."""

    simulator: Simulator
    proposal: Proposal
    latent: Latent | None
    seed: int

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
        return cls(simulator.with_names(proposal.names) if at_parameters else simulator, proposal, model, seed)

    def parameters(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Draw θ, and z where there is a latent, of the given records, each from its own key."""
        num, size = len(indices), _RECORDS_AT_ONCE
        numbers = np.resize(np.asarray(indices, np.uint32), -(-max(num, 1) // size) * size)
        draw, key = _draws(self.proposal) if self.latent is None else self._draws_of_latent, key_of(self.seed)
        parts = [draw(key, numbers[start : start + size]) for start in range(0, len(numbers), size)]
        theta, z = jax.tree.map(lambda *arrays: np.concatenate(arrays)[:num], *parts)
        return self.proposal.in_support(theta), None if z is None else np.asarray(z, dtype=np.float64)

    @cached_property
    def _draws_of_latent(self) -> Callable[..., Any]:
        return _compiled_draws(self.proposal, self.latent)

    def metadata(self, num: int) -> dict[str, Any]:
        """Describe the plan in plain data, by which a campaign knows itself."""
        theta, z = self.parameters(np.arange(1))
        first = theta[0] if z is None else np.concatenate([theta[0], z[0]])
        return {
            "plan": {
                # Tells apart latents and proposals that cannot be described; in few digits, for other machines' sake.
                "first_parameters": [f"{value:.4g}" for value in first],
                "simulator": self.simulator.identity | ({"code": self.simulator.code} if self.simulator.code else {}),
                "proposal": describe_proposal(self.proposal),
                **describe_latent(self.latent),
                "seed": self.seed,
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


@lru_cache(maxsize=32)
def _draws(proposal: Proposal) -> Callable[..., Any]:
    """Compile the draws of a proposal once, however many campaigns draw from it."""
    return _compiled_draws(proposal, None)


def _compiled_draws(proposal: Proposal, latent: Latent | None) -> Callable[..., Any]:
    """Compile draws of θ and z, given a key and the numbers of records."""

    def records(seed_key: Any, numbers: Any) -> tuple[Any, Any]:
        def one(index: Any) -> tuple[Any, Any]:
            theta_key, latent_key = jax.random.split(jax.random.fold_in(seed_key, index))
            theta = proposal.draw_one(theta_key)
            return theta, None if latent is None else latent.sample(latent_key, theta)

        # One by one: in a batch, rounding depends on how many others there are.
        return jax.lax.map(one, numbers)

    return jax.jit(records)


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
    theta = jax.eval_shape(proposal.draw_one, jax.random.key(0))
    try:
        z = jax.eval_shape(latent.sample, jax.random.key(0), theta)
        score = jax.eval_shape(latent.score, theta, z)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"latent: does not work with the {proposal.num_parameters} parameters of the proposal: {error}"
        ) from error
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
