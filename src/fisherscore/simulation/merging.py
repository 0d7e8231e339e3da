"""Join the shards of a campaign into one folder, and see that one simulator made them all."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._support.arguments import as_count, brief
from .._support.folder import as_folder
from ..errors import ArgumentError, CampaignError
from .campaign import open_campaign
from .continuing import NUM_CHECKED, compare_with_stored, compared_reads
from .execution.ledger import Ledger
from .execution.recording import RECORDS_A_BATCH
from .execution.rerun import choose
from .execution.run import LOST, OK
from .latent import Latent
from .plan import plan_differences, refuse_other_plan
from .proposal import Proposal
from .records import Record, Records
from .simulations import Simulations
from .simulator import Simulator


def merge_campaigns(
    out: str | Path,
    parts: Sequence[str | Path],
    *,
    proposal: Proposal | None = None,
    latent: Latent | None = None,
    simulator: Simulator | None = None,
    num_checked: int = NUM_CHECKED,
) -> Simulations:
    """Join the folders of several shards of one campaign into one, which can then be extended like any other.

    Args:
        out: Folder to write.
        parts: Folders of the shards.
        proposal: As for :func:`open_campaign`.
        latent: As for :func:`open_campaign`.
        simulator: With it, records of every part are run again, and must come out as they are stored. Without, that is
            done when the campaign is next extended.
        num_checked: How many of each part; 0 for none.

    Returns:
        All simulations.

    >>> import fisherscore as fs, tempfile
    >>> problem, folder = fs.problems.linear_gaussian(), tempfile.mkdtemp()
    >>> for k in (1, 2):
    ...     _ = fs.simulate(problem.simulator, problem.proposal, 20, out=f"{folder}/{k}", shard=f"{k}/2")
    >>> len(fs.merge_campaigns(f"{folder}/all", [f"{folder}/1", f"{folder}/2"], simulator=problem.simulator))
    20
    """
    if isinstance(parts, str | Path) or not isinstance(parts, Iterable) or not (parts := list(parts)):
        raise ArgumentError(f"parts: expected a list with the folders of at least one campaign, got {brief(parts)}.")
    num = as_count(num_checked, "num_checked", minimum=0)
    folders = [as_folder(part, "parts") for part in parts]
    target_folder = as_folder(out, "out")
    metadata = _common_metadata(folders, simulator, num)
    chosen = _chosen(folders, num)
    if simulator is not None and len(chosen):
        compare_with_stored(simulator, metadata, folders, chosen)
    with Ledger.create(target_folder, metadata) as target:
        if target.counts():
            refuse_other_plan(target.metadata(), metadata, target_folder)
        else:
            target.set_metadata(**metadata)
        for folder in folders:
            with Ledger.open(folder) as source:
                _copy_records(target, source, folder)
        if simulator is None:
            noted = np.union1d(np.asarray(target.metadata().get("unchecked", []), np.int64), chosen)
            target.set_metadata(unchecked=noted.tolist())
    return open_campaign(out, proposal=proposal, latent=latent)


def _common_metadata(parts: list[Path], simulator: Simulator | None, num_checked: int) -> dict[str, Any]:
    """Return the metadata of the first part, once all are seen to be parts of the same campaign."""
    all_metadata = []
    for part in parts:
        with Ledger.open(part) as ledger:
            all_metadata.append(ledger.metadata())
    first = all_metadata[0]
    for part, metadata in zip(parts, all_metadata, strict=True):
        if changes := plan_differences(first, metadata):
            raise CampaignError(
                f"parts: {part} belongs to another campaign than {parts[0]}: {'; '.join(changes)}. Merge only "
                "shards of one campaign."
            )
        changed = compared_reads(first.get("reads"), metadata.get("reads"))[0]
        if changed and simulator is None and num_checked:
            raise CampaignError(
                f"parts: the simulator of {part} read something else than that of {parts[0]}: {'; '.join(changed)}. "
                "Pass simulator=..., with which some records of every part are run again, so that one sees whether "
                "that matters; or, if you know that it does not, num_checked=0 (--num-checked 0)."
            )
    return first


def _chosen(parts: list[Path], num: int) -> np.ndarray:
    """Choose records of every part."""
    chosen = [np.zeros(0, np.int64)]
    for part in parts:
        with Ledger.open(part) as ledger:
            chosen.append(choose(ledger.indices(OK), num))
    return np.unique(np.concatenate(chosen))


def _copy_records(target: Ledger, source: Ledger, part: Path) -> None:
    """Copy the records of one campaign into another; those that are there already must be the same."""
    theirs, ours = source.metadata(), target.metadata()
    shapes = {tuple(shape) for shape in (theirs["x_shape"], ours["x_shape"]) if shape is not None}
    if len(shapes) > 1:
        raise CampaignError(f"parts: x of {part} has another shape than that of the others: {sorted(shapes)}.")
    shape = list(shapes.pop()) if shapes else None
    planned = max(theirs["num_simulations"], ours["num_simulations"])
    target.set_metadata(x_shape=shape, num_simulations=planned, num_planned=planned)
    present, before = target.indices(), _Earlier(source, target)
    for indices in np.array_split(source.indices(), max(1, len(source.indices()) // RECORDS_A_BATCH)):
        shared = np.intersect1d(indices, present)
        newer = before.newer(source.read(shared), target.read(shared), part) if len(shared) else shared
        copied = np.union1d(np.setdiff1d(indices, shared), newer)
        target.append(_one_by_one(source.read(copied)))
        known = {(index, status) for index, status, _ in target.earlier()} if before.theirs else set()
        number = set(copied.tolist())
        target.add_earlier([o for o in before.theirs if o[0] in number and o[:2] not in known])


class _Earlier:
    """What became of records before they were run again, in the ledger that is copied and in the one written."""

    def __init__(self, source: Ledger, target: Ledger):
        self.theirs = source.earlier()
        self.superseded = {(index, status) for index, status, _ in self.theirs}
        self.ours = {(index, status) for index, status, _ in target.earlier()}

    def newer(self, theirs: Records, ours: Records, part: Path) -> np.ndarray:
        """List the records both have that were run again in the copied ledger since; all others must be the same.

        What was lost, or failed and was asked to be run again, is older than what came of it later.
        """
        found: list[int] = []
        if _same(theirs, ours):
            return np.array(found, np.int64)
        for row, index in enumerate(theirs.indices.tolist()):
            new, old = theirs.take(slice(row, row + 1)), ours.take(slice(row, row + 1))
            if _same(new, old):
                continue
            now, before = str(new.status[0]), str(old.status[0])
            if now != before and _same_inputs(new, old):
                if before == LOST or (index, before) in self.superseded:
                    found.append(index)
                    continue
                if now == LOST or (index, now) in self.ours:
                    continue
            raise CampaignError(
                f"parts: {part} holds records that differ from those of the same number in the others: record "
                f"{index} is {now!r} there and {before!r} in what was merged so far. Merge shards of one campaign only."
            )
        return np.array(found, np.int64)


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


def _same_inputs(a: Records, b: Records) -> bool:
    if (a.latent is None) != (b.latent is None):
        return False
    same_latents = a.latent is None or b.latent is None or np.array_equal(a.latent, b.latent)
    return np.array_equal(a.theta, b.theta) and same_latents


def _same(a: Records, b: Records) -> bool:
    return _same_inputs(a, b) and (a.status == b.status).all() and np.array_equal(a.x, b.x, equal_nan=True)
