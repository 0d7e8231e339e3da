"""What is looked at before a campaign is gone on with: its plan, what its simulator reads, and a few of its records."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CampaignError
from .execution.dispatch import engine_for
from .execution.engine import Job
from .execution.ledger import Ledger
from .execution.rerun import OtherDataError, Recheck, choose, refusal, repeats, run_again
from .execution.run import OK, Purpose, Stream
from .jax_simulator import JaxSimulator
from .plan import Plan, refuse_other_plan
from .reads import Reads, changed_reads
from .simulator import Simulator

# How many stored records are run again by default, and how many at least where something the simulator reads is known
# to have changed.
NUM_CHECKED, _NUM_IN_DOUBT = 2, 10
# Parameters drawn again may differ by so much of their range: other machines round otherwise.
_SAME_PARAMETERS = 1e-5


def go_on(ledger: Ledger, plan: Plan, metadata: dict[str, Any], num_planned: int, num_checked: int) -> Recheck | None:
    """See that a folder holds this campaign, note down how large it will be, and choose records to be run again.

    A folder without a single record is no obstacle: it is taken over, whatever it was meant for.
    """
    if not ledger.counts():
        ledger.set_metadata(**metadata, num_planned=num_planned)
        return None
    stored = ledger.metadata()
    refuse_other_plan(stored, metadata, ledger.folder)
    constants, state = compared_reads(stored.get("reads"), metadata["reads"])
    if constants and not num_checked:
        raise CampaignError(
            f"out: since the campaign in {ledger.folder} was begun these changed, which its simulator reads: "
            f"{'; '.join(constants)}. Go back to what it was, or choose another folder; or leave num_checked=0 out, so "
            "that some records are run again, which shows whether that matters."
        )
    num = max(num_checked, _NUM_IN_DOUBT) if num_checked and (constants or state) else num_checked
    unchecked = np.asarray(stored.get("unchecked", []), np.int64) if num_checked else np.zeros(0, np.int64)
    succeeded = ledger.indices(OK) if num > 2 or len(unchecked) else ledger.ends(OK)
    chosen = np.union1d(choose(succeeded, num), np.intersect1d(unchecked, succeeded))
    recheck = recheck_of(ledger, plan.simulator, chosen, (*constants, *state))
    if recheck is not None:
        _refuse_other_parameters(plan, recheck, ledger)
    ledger.set_metadata(
        num_simulations=max(metadata["num_simulations"], stored["num_simulations"]),
        num_planned=max(num_planned, stored.get("num_planned", 0)),
    )
    return recheck


def recheck_of(
    ledger: Ledger, simulator: Simulator, chosen: np.ndarray, changed: tuple[str, ...] = ()
) -> Recheck | None:
    """Read records that are to be run again; of functions of JAX a whole batch, which takes hardly longer than one."""
    if not len(chosen):
        return None
    if isinstance(simulator, JaxSimulator):
        chosen = np.union1d(chosen, choose(ledger.indices(OK), simulator.batch_size))[: simulator.batch_size]
    return Recheck(ledger.read(chosen), exact=not isinstance(simulator, JaxSimulator), changed=changed)


def compare_with_stored(
    simulator: Simulator,
    metadata: dict[str, Any],
    folders: Sequence[Path],
    chosen: np.ndarray,
    argument: str = "parts",
) -> None:
    """Run stored records of one campaign, or of its parts, again; they must come out as they are stored."""
    plan = metadata["plan"]
    known = simulator.with_names(plan["proposal"]["names"]) if _at_parameters(plan) else simulator
    identity = known.identity | ({"code": known.code} if known.code else {})
    refuse_other_plan(metadata, {**metadata, "plan": {**plan, "simulator": identity}}, folders[0])
    engine, stream = engine_for(known), Stream(plan["seed"], Purpose.TRAINING, short_keys="drawing" not in plan)
    for folder in folders:
        with Ledger.open(folder) as ledger:
            constants, state = compared_reads(metadata.get("reads"), known.reads)
            there = np.intersect1d(chosen, ledger.indices(OK))
            recheck = recheck_of(ledger, known, there, (*constants, *state))
        if recheck is None:
            continue
        try:
            run_again(recheck, Job(known, recheck.stored.indices, recheck.inputs, stream), engine)
        except OtherDataError as found:
            repeatable = repeats(recheck, found, known, stream, engine)
            raise refusal(recheck, found, f"{argument}: {folder}", repeatable) from None


def see_same_simulator(simulator: Simulator, folder: Path, num: int) -> None:
    """See that a simulator still gives what a campaign holds, before other simulations of it go with the campaign."""
    if num:
        with Ledger.open(folder) as ledger:
            metadata, chosen = ledger.metadata(), choose(ledger.indices(OK), num)
        compare_with_stored(simulator, metadata, [folder], chosen, "out")


def _at_parameters(plan: dict[str, Any]) -> bool:
    return plan["latent"] is None or bool(plan.get("additive_noise"))


def first_record(ledger: Ledger) -> Callable[[], Recheck | None] | None:
    """Return what reads the first record of a new campaign, to see whether it can be repeated; None for an old one."""
    if ledger.counts():
        return None

    def read() -> Recheck | None:
        succeeded = ledger.indices(OK)[:1]
        return Recheck(ledger.read(succeeded), exact=True, only_warn=True) if len(succeeded) else None

    return read


def compared_reads(stored: Reads | None, now: Reads | None) -> tuple[list[str], list[str]]:
    """List in words what a simulator reads and what has changed: constants, and what it may change itself.

    Campaigns of earlier versions do not know what was read.
    """
    if stored is None or now is None:
        return [], []
    return changed_reads(stored, now, "constants"), changed_reads(stored, now, "state")


def _refuse_other_parameters(plan: Plan, recheck: Recheck, ledger: Ledger) -> None:
    """Stop where the parameters of stored records are not those that are drawn now."""
    theta, latent = plan.parameters(recheck.stored.indices)
    width = plan.proposal.high - plan.proposal.low
    same = np.abs(theta - recheck.stored.theta) <= _SAME_PARAMETERS * width
    if latent is not None and recheck.stored.latent is not None:
        scale = np.abs(recheck.stored.latent).max(axis=0)
        same = np.concatenate([same, np.abs(latent - recheck.stored.latent) <= _SAME_PARAMETERS * scale], axis=1)
    if not same.all():
        index = int(recheck.stored.indices[np.flatnonzero(~same.all(axis=1))[0]])
        raise CampaignError(
            f"out: the parameters of record {index} of the campaign in {ledger.folder} would be drawn otherwise now. "
            "The proposal, the latent model or a setting of JAX has changed, or JAX or NumPyro draws otherwise in this "
            "version. Go back to what it was, or choose another folder."
        )
