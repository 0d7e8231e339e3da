"""How far a campaign is, while it runs or afterwards."""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .._support.folder import as_folder
from .._support.text import duration, html_table
from .execution.ledger import Ledger
from .execution.lock import is_running
from .execution.run import OK, STATUSES


@dataclass(frozen=True)
class CampaignStatus:
    """How far a campaign is; printed, a few lines.

    Attributes:
        folder: Folder of the campaign.
        num_planned: Records asked for.
        counts: Records that have been run, by what became of them.
        running: Whether a process is simulating just now.
        records_a_second: Speed of the latest run, or None before the first.
        seconds_left: Time the rest takes at that speed; None where nothing is left or no speed is known.
        first_failure: What the simulator said when it first failed.
        earlier: What became of records before they were run again, in numbers.
        num_cured: Records that were run again and succeeded.

    >>> import fisherscore as fs, tempfile
    >>> problem, folder = fs.problems.linear_gaussian(), tempfile.mkdtemp()
    >>> _ = fs.simulate(problem.simulator, problem.proposal, 30, out=folder)
    >>> fs.campaign_status(folder).num_done
    30
    """

    folder: str
    num_planned: int
    counts: dict[str, int]
    running: bool
    records_a_second: float | None
    seconds_left: float | None
    first_failure: str
    earlier: dict[str, int] = field(default_factory=dict)
    num_cured: int = 0

    @property
    def num_done(self) -> int:
        """Records that have been run, failures included."""
        return sum(self.counts.values())

    @property
    def num_failed(self) -> int:
        """Records that failed."""
        return self.num_done - self.counts.get(OK, 0)

    @property
    def state(self) -> str:
        """One of "running", "finished" and "stopped"."""
        return "running" if self.running else ("finished" if self.num_done >= self.num_planned else "stopped")

    def __repr__(self) -> str:
        return f"CampaignStatus({self.folder}; {self.state}, {self.num_done:,} of {self.num_planned:,} done)"

    def __str__(self) -> str:
        return "\n".join([self._headline(), *(f"  {name} {text}" for name, text in self._lines())])

    def _repr_html_(self) -> str:
        return html_table(self._headline(), self._lines())

    def _headline(self) -> str:
        return f"{self.folder}: {self.state}, {self.num_done:,} of {self.num_planned:,} simulations done"

    def _lines(self) -> list[tuple[str, str]]:
        lines = []
        if self.num_failed:
            kinds = ", ".join(f"{num:,} {kind}" for kind, num in self.counts.items() if kind != OK)
            lines.append(("failed:", f"{self.num_failed:,} ({self.num_failed / self.num_done:.2%}): {kinds}"))
            lines.append(("the first said:", self.first_failure[:200]))
        if self.earlier:
            kinds = ", ".join(f"{num:,} {kind}" for kind, num in self.earlier.items())
            lines.append(("run again:", f"{kinds}; {self.num_cured:,} of these records have succeeded since"))
        if self.records_a_second:
            lines.append(("speed:", f"{self.records_a_second:,.3g} a second in the latest run"))
        if self.seconds_left is not None:
            lines.append(("time left:", f"about {duration(self.seconds_left)} at that speed"))
        return lines


def campaign_status(path: str | Path) -> CampaignStatus:
    """Say how far a campaign is, while it runs or afterwards.

    Args:
        path: Folder of the campaign.

    Returns:
        Numbers of records, speed and time left.

    >>> import fisherscore as fs, tempfile
    >>> problem, folder = fs.problems.linear_gaussian(), tempfile.mkdtemp()
    >>> _ = fs.simulate(problem.simulator, problem.proposal, 30, out=folder)
    >>> fs.campaign_status(folder).counts
    {'ok': 30}
    """
    folder = as_folder(path)
    with Ledger.open(folder) as ledger:
        counts = {status: num for status in STATUSES if (num := ledger.counts().get(status))}
        metadata, runs, message = ledger.metadata(), ledger.runs(), ledger.first_message()
        earlier, succeeded = ledger.earlier(), ledger.indices(OK)
    planned = metadata.get("num_planned") or metadata["num_simulations"]
    running = is_running(folder)
    speed = None
    if runs:
        started, latest, num = runs[-1]
        speed = num / max(time.time() - started if running else latest - started, 1e-3)
    left = planned - sum(counts.values())
    return CampaignStatus(
        folder=str(folder),
        num_planned=planned,
        counts=counts,
        running=running,
        records_a_second=speed,
        seconds_left=left / speed if speed and left > 0 else None,
        first_failure=message,
        earlier=dict(Counter(kind for _, kind, _ in earlier)),
        num_cured=int(np.isin(succeeded, [index for index, *_ in earlier]).sum()) if earlier else 0,
    )
