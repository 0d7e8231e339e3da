"""Run a simulator over a proposal: draw θ, run the simulator at θ, and keep what came of it.

Where there is a latent model, z is drawn given θ and the simulator is run at z. Simulations are kept in memory, or as a
campaign in a folder (``execution.ledger``) that survives kills, goes on where it stopped, and can be extended. Record i
is a function of (configuration, i): the data depend neither on the engine that ran them
(:mod:`fisherscore.simulation.execution.engine`), nor on the order, nor on how often the run was interrupted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._support.arguments import as_count, as_seed
from ..errors import ArgumentError, CampaignError
from .descriptions import stored_proposal
from .execution.dispatch import engine_for
from .execution.ledger import Ledger
from .execution.recording import RECORDS_A_BATCH, MemoryKeeper, run_plan
from .execution.run import OK
from .latent import Latent
from .plan import Plan, plan_differences, refuse_other_plan, stored_latent
from .proposal import Proposal
from .records import Record, Records
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
        progress: Whether to show a progress bar; None shows one in a terminal.

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
    engine = engine_for(simulator, workers, dask)
    indices = _shard(shard, num, out)
    if out is None:
        keeper = MemoryKeeper()
        run_plan(plan, indices, engine, keeper, progress=progress)
        return Simulations(MemoryStore(keeper.records()), proposal, plan.latent, plan.origin(num))
    metadata = plan.metadata(num)
    with Ledger.create(Path(out), metadata) as ledger:
        _continue(ledger, metadata, len(indices))
        run_plan(plan, indices, engine, ledger, progress=progress)
    store = CampaignStore.open(Path(out), first=num)
    return Simulations(store, proposal, plan.latent, plan.origin(len(store)))


def _continue(ledger: Ledger, metadata: dict[str, Any], num_planned: int) -> None:
    """See that a folder holds this campaign, and note down how large it will be."""
    stored = ledger.metadata()
    refuse_other_plan(stored, metadata, ledger.folder)
    ledger.set_metadata(
        num_simulations=max(metadata["num_simulations"], stored["num_simulations"]),
        num_planned=max(num_planned, stored.get("num_planned", 0)),
    )


def _shard(shard: str | None, num: int, out: Any) -> np.ndarray:
    """Return the records of one shard, "2/5" being the second of five; every fifth record, so that all grow alike."""
    if shard is None:
        return np.arange(num)
    number, _, total = str(shard).partition("/")
    if not (number.isdigit() and total.isdigit() and 1 <= int(number) <= int(total)):
        raise ArgumentError(f'shard: expected "k/n" with k from 1 to n, such as "2/5", got {shard!r}.')
    if out is None:
        raise ArgumentError("shard: expected out as well, a folder of its own for every shard.")
    chosen = np.arange(int(number) - 1, num, int(total))
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
    store = CampaignStore.open(Path(path), first=None if first is None else as_count(first, "first"))
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


def merge_campaigns(
    out: str | Path, parts: Sequence[str | Path], *, proposal: Proposal | None = None, latent: Latent | None = None
) -> Simulations:
    """Join the folders of several shards of one campaign into one, which can then be extended like any other.

    Args:
        out: Folder to write.
        parts: Folders of the shards.
        proposal: As for :func:`open_campaign`.
        latent: As for :func:`open_campaign`.

    Returns:
        All simulations.

    >>> import fisherscore as fs, tempfile
    >>> problem, folder = fs.problems.linear_gaussian(), tempfile.mkdtemp()
    >>> for k in (1, 2):
    ...     _ = fs.simulate(problem.simulator, problem.proposal, 20, out=f"{folder}/{k}", shard=f"{k}/2")
    >>> len(fs.merge_campaigns(f"{folder}/all", [f"{folder}/1", f"{folder}/2"]))
    20
    """
    if not parts:
        raise ArgumentError("parts: expected the folders of at least one campaign, got none.")
    metadata = _common_metadata([Path(part) for part in parts])
    with Ledger.create(Path(out), metadata) as target:
        refuse_other_plan(target.metadata(), metadata, Path(out))
        for part in map(Path, parts):
            with Ledger.open(part) as source:
                _copy_records(target, source, part)
    return open_campaign(out, proposal=proposal, latent=latent)


def _common_metadata(parts: list[Path]) -> dict[str, Any]:
    """Return the metadata of the first part, once all are seen to be parts of the same campaign."""
    all_metadata = []
    for part in parts:
        with Ledger.open(part) as ledger:
            all_metadata.append(ledger.metadata())
    for part, metadata in zip(parts, all_metadata, strict=True):
        if changes := plan_differences(all_metadata[0], metadata):
            raise CampaignError(
                f"parts: {part} belongs to another campaign than {parts[0]}: {'; '.join(changes)}. Merge only "
                "shards of one campaign."
            )
    return all_metadata[0]


def _copy_records(target: Ledger, source: Ledger, part: Path) -> None:
    """Copy the records of one campaign into another; those that are there already must be the same."""
    theirs, ours = source.metadata(), target.metadata()
    shapes = {tuple(shape) for shape in (theirs["x_shape"], ours["x_shape"]) if shape is not None}
    if len(shapes) > 1:
        raise CampaignError(f"parts: x of {part} has another shape than that of the others: {sorted(shapes)}.")
    shape = list(shapes.pop()) if shapes else None
    planned = max(theirs["num_simulations"], ours["num_simulations"])
    target.set_metadata(x_shape=shape, num_simulations=planned, num_planned=planned)
    present = target.indices()
    for indices in np.array_split(source.indices(), max(1, len(source.indices()) // RECORDS_A_BATCH)):
        shared = np.intersect1d(indices, present)
        if len(shared) and not _same(source.read(shared), target.read(shared)):
            raise CampaignError(f"parts: {part} holds records that differ from those of the same number in the others.")
        target.append(_one_by_one(source.read(np.setdiff1d(indices, shared))))


def _one_by_one(records: Records) -> list[Record]:
    return [
        Record(
            index=int(index),
            status=str(records.status[row]),
            theta=records.theta[row],
            latent=None if records.latent is None else records.latent[row],
            x=records.x[row] if records.status[row] == OK else None,
            message=records.messages.get(int(index), ""),
        )
        for row, index in enumerate(records.indices)
    ]


def _same(a: Records, b: Records) -> bool:
    if (a.latent is None) != (b.latent is None):
        return False
    same_latents = a.latent is None or b.latent is None or np.array_equal(a.latent, b.latent)
    same_inputs = np.array_equal(a.theta, b.theta) and same_latents
    return same_inputs and (a.status == b.status).all() and np.array_equal(a.x, b.x, equal_nan=True)
