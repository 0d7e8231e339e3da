"""Run the failed records of a program's campaign again, given no more than its folder and the program."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, CampaignError
from .campaign import Run, failure_kinds
from .continuing import NUM_CHECKED
from .descriptions import stored_proposal
from .execution.dispatch import engine_for
from .execution.ledger import Ledger
from .plan import Plan, stored_latent
from .simulations import Simulations
from .simulator import from_command


def retry_program(
    folder: Path,
    arguments: Sequence[str] | None,
    retry: str | Sequence[str] = "all",
    *,
    timeout: float | None = None,
    workers: int | None = None,
    dask: Any = None,
    num_checked: int = NUM_CHECKED,
) -> Simulations:
    """Run failed records of a campaign again; all else in the folder stays as it is.

    The program must be given, and be the one the campaign was made with: none is ever started because a file names it.
    """
    with Ledger.open(folder) as ledger:
        metadata, indices = ledger.metadata(), ledger.indices()
    plan = metadata["plan"]
    stored = plan["simulator"]
    if stored.get("kind") != "command":
        raise CampaignError(
            f"TARGET: the simulator of the campaign in {folder} is a Python function, which a folder cannot hold. Give "
            "the analysis file it was made with, or call fisherscore.simulate(..., out=..., retry=...) in Python."
        )
    if not arguments:
        line = shlex.join(map(str, stored["arguments"]))
        raise CampaignError(
            f"COMMAND: expected the program of the campaign in {folder}, since no program is started only because a "
            f"file names it. Give it after a --; the folder says that it was: {line}"
        )
    if not len(indices):
        raise ArgumentError(f"TARGET: the campaign in {folder} has no records yet.")
    proposal = stored_proposal(plan["proposal"], None)
    names = stored.get("names")
    simulator = from_command(
        arguments, input_format=stored["input_format"], timeout=timeout, names=names, name=stored["name"]
    )
    run = Run(engine_for(simulator, workers, dask), indices, failure_kinds(retry, folder), None)
    made = Plan.of(simulator, proposal, stored_latent(plan, None, proposal), plan["seed"])
    return run.in_folder(made, metadata["num_simulations"], folder, num_checked)
