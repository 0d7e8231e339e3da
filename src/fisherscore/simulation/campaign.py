"""Run a simulator over a proposal: draw θ, run the simulator at θ, and keep what came of it.

Where there is a latent model, z is drawn given θ and the simulator is run at z. Simulations are kept in memory, or as a
campaign in a folder (``execution.ledger``) that survives kills, goes on where it stopped, and can be extended. Record i
is a function of (configuration, i): the data depend neither on the engine that ran them
(:mod:`fisherscore.simulation.execution.engine`), nor on the order, nor on how often the run was interrupted.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._support.arguments import as_count, as_seed, brief
from .._support.folder import as_folder
from ..errors import ArgumentError, CampaignError
from .continuing import NUM_CHECKED, first_record, go_on
from .descriptions import stored_proposal
from .execution.dispatch import engine_for
from .execution.engine import Engine
from .execution.ledger import Ledger
from .execution.recording import MemoryKeeper, run_plan
from .execution.run import OK, STATUSES
from .latent import Latent
from .plan import Plan, stored_latent
from .proposal import Proposal
from .simulations import Origin, Simulations
from .simulator import Simulator
from .stores import CampaignStore, MemoryStore


def simulate(
    simulator: Simulator,
    proposal: Proposal,
    num_simulations: int,
    *,
    latent: Latent | str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    workers: int | None = None,
    dask: Any = None,
    shard: str | None = None,
    retry: str | Sequence[str] = (),
    num_checked: int = NUM_CHECKED,
    progress: bool | None = None,
) -> Simulations:
    """Draw parameters from a proposal and run a simulator at each: the training data of a fit.

    The first records do not depend on how many follow. With ``out``, the same call goes on where it was stopped, and
    one with a larger number adds to what is there.

    Args:
        simulator: From :func:`from_python`, :func:`from_jax` or :func:`from_command`.
        proposal: Where to learn; see :func:`uniform`.
        num_simulations: How many, failures included.
        latent: None: x is drawn at θ. A latent model, for a decomposable simulator: z is drawn given θ, and x at z.
            "additive" or :class:`AdditiveLatent`: the paper's indecomposable case, z = θ + w with Gaussian noise w,
            for "additive" of 1/200 of each parameter's range; x is drawn at z, which may lie outside the range.
        seed: Seed of parameters and data.
        out: Folder in which the simulations are kept as they come; None keeps them in memory.
        workers: Processes on this machine that run a Python function or a program. JAX functions run in batches on the
            device.
        dask: A Dask client or address to run them on instead.
        shard: "2/5" runs the second fifth of the records, for job arrays; :func:`merge_campaigns` joins the folders.
        retry: Kinds of failures in ``out``, such as "timeout", or "all": records of these are run again, at the same
            parameters and with the same seed. It stays known that they were.
        num_checked: Stored records that are run again before a folder is gone on with; they must come out as they are
            stored, to the last bit (for JAX up to rounding), or the simulator has changed. 0 for costly ones.
        progress: Whether to show how far it is; by default what takes more than a moment is shown.

    Returns:
        The simulations, failures included.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> fs.simulate(problem.simulator, problem.proposal, 100).x.shape
    (100, 2)
    >>> fs.simulate(problem.simulator_from_latent, problem.proposal, 100, latent=problem.latent).latent.shape
    (100, 2)
    """
    plan = Plan.of(simulator, proposal, latent, as_seed(seed))
    num = as_count(num_simulations, "num_simulations")
    run = Run(engine_for(simulator, workers, dask), _shard(shard, num, out), failure_kinds(retry, out), progress)
    if out is None:
        return run.in_memory(plan, num)
    return run.in_folder(plan, num, as_folder(out, "out"), as_count(num_checked, "num_checked", minimum=0))


@dataclass(frozen=True)
class Run:
    """How records of a plan are run: where, which, which failures again, and whether progress is shown."""

    engine: Engine
    indices: np.ndarray
    retry: tuple[str, ...]
    progress: bool | None

    def in_memory(self, plan: Plan, num: int) -> Simulations:
        """Run records and keep them in memory."""
        keeper = MemoryKeeper()
        run_plan(plan, self.indices, self.engine, keeper, progress=self.progress)
        return Simulations(MemoryStore(keeper.records()), plan.proposal, plan.latent, plan.origin(num))

    def in_folder(self, plan: Plan, num: int, folder: Path, num_checked: int) -> Simulations:
        """Run the records that a folder does not hold yet."""
        place = folder.absolute()  # the simulator may change the current folder
        with Ledger.create(place, plan.metadata(num)) as ledger:
            plan = plan.as_begun(ledger.metadata()) if ledger.counts() else plan
            metadata = plan.metadata(num)
            recheck = go_on(ledger, plan, metadata, len(self.indices), num_checked)
            run_plan(
                plan,
                self.indices,
                self.engine,
                ledger,
                retry=self.retry,
                recheck=recheck,
                repeat_first=first_record(ledger) if num_checked else None,
                progress=self.progress,
            )
            ledger.set_metadata(reads=metadata["reads"], **({"unchecked": []} if num_checked else {}))
        store = replace(CampaignStore.open(place, first=num), folder=folder)
        return Simulations(store, plan.proposal, plan.latent, plan.origin(len(store)))


def failure_kinds(retry: str | Sequence[str], out: Any) -> tuple[str, ...]:
    """Check which kinds of failures are to be run again."""
    known = [kind for kind in STATUSES if kind != OK]
    given: Any = retry or ()
    kinds: tuple[Any, ...] = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    if kinds and out is None:
        raise ArgumentError("retry: expected out as well, the folder with the records that failed.")
    for kind in kinds:
        if kind != "all" and kind not in known:
            raise ArgumentError(f'retry: expected kinds of failures among {", ".join(known)}, or "all"; got {kind!r}.')
    return tuple(known) if "all" in kinds else kinds


def _shard(shard: str | None, num: int, out: Any) -> np.ndarray:
    """Return the records of one shard, "2/5" being the second of five; every fifth record, so that all grow alike."""
    if shard is None:
        return np.arange(num)
    parts = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", str(shard))
    number, total = map(int, parts.groups()) if parts else (0, 0)
    if not 1 <= number <= total:
        raise ArgumentError(f'shard: expected "k/n" with k from 1 to n, such as "2/5", got {brief(shard)}.')
    if out is None:
        raise ArgumentError("shard: expected out as well, a folder of its own for every shard.")
    chosen = np.arange(number - 1, num, total)
    if not len(chosen):
        raise ArgumentError(f"shard: there are only {num} simulations for {total} shards.")
    return chosen


def open_campaign(
    path: str | Path,
    *,
    proposal: Proposal | None = None,
    latent: Latent | None = None,
    first: int | None = None,
) -> Simulations:
    """Open the simulations of a campaign, finished or not; none is read before it is used.

    Args:
        path: Folder of the campaign.
        proposal: Needed only where the folder cannot hold it: distributions that are not common.
        latent: Needed only where the folder cannot hold it: latent models the user wrote.
        first: Take only records with a number below this; None takes all.

    Returns:
        The simulations, failures included.

    >>> import fisherscore as fs, tempfile
    >>> problem, folder = fs.problems.linear_gaussian(), tempfile.mkdtemp()
    >>> _ = fs.simulate(problem.simulator, problem.proposal, 30, out=folder)
    >>> fs.open_campaign(folder).x.shape
    (30, 2)
    """
    store = CampaignStore.open(as_folder(path), first=None if first is None else as_count(first, "first"))
    if not len(store):
        raise CampaignError(f"path: the campaign in {path} has no records yet.")
    plan = store.metadata["plan"]
    chosen = stored_proposal(plan["proposal"], proposal)
    return Simulations(
        store,
        chosen,
        stored_latent(plan, latent, chosen),
        Origin(simulator=plan["simulator"]["name"], seed=plan["seed"], num_simulations=len(store)),
    )
