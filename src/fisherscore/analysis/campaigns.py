"""The campaigns of an analysis: simulations to train on, and fresh ones for the checks.

Before the first simulation of a new campaign the simulator is tried, and a long campaign stops early when too many of
its first runs fail, so that no time is spent on simulations nobody can use.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CampaignError, SimulationError
from ..fitting.checks import MAX_FAILURE_RATE
from ..simulation.campaign import open_campaign, simulate
from ..simulation.continuing import see_same_simulator
from ..simulation.execution.ledger import FILE as LEDGER
from ..simulation.execution.ledger import Ledger
from ..simulation.execution.run import LOST, OK
from ..simulation.merging import merge_campaigns
from ..simulation.plan import Plan, refuse_other_plan
from ..simulation.preflight import check_simulator
from ..simulation.proposal import Proposal
from ..simulation.simulations import Simulations
from ..simulation.status import campaign_status
from .aimed import AimedCampaign
from .workspace import TEST_SEED, Workspace, digest

# Stop after the first 100 records if more than 4 % of them fail: a simulator that fails in 1 % of its runs, which is
# what a fit accepts, hardly ever does so by chance.
_PILOT_RECORDS, _MOST_PILOT_FAILURES = 100, 0.04


@dataclass(frozen=True)
class AnalysisCampaign:
    """One campaign in the folder of an analysis, with the number of simulations and the seed the file asks for."""

    workspace: Workspace
    name: str
    num_simulations: int
    seed: int
    proposal: Proposal

    @classmethod
    def training(cls, workspace: Workspace) -> "AnalysisCampaign | AimedCampaign":
        """Return the campaign the model is trained on; with rounds, those."""
        c = workspace.configuration
        if c.rounds is not None:
            return AimedCampaign(workspace)
        return cls(workspace, "campaign", c.num_simulations, c.seed, c.proposal)

    @classmethod
    def tests(cls, workspace: Workspace) -> "list[AnalysisCampaign]":
        """Return the campaigns of the checks: one all over the file's range or the last region, or one for each part.

        The rounds, if any, must be finished.
        """
        c = workspace.configuration
        if not c.num_test:
            return []
        seed = c.seed + TEST_SEED
        parts = [c.proposal] if c.rounds is None else AimedCampaign(workspace).parts
        if len(parts) == 1:
            return [cls(workspace, "test", c.num_test, seed, parts[0])]
        share, seeds = -(-c.num_test // len(parts)), np.random.SeedSequence(seed).generate_state(len(parts))
        return [cls(workspace, f"test-{k}", share, int(seeds[k - 1]), part) for k, part in enumerate(parts, 1)]

    @property
    def folder(self) -> Path:
        """Where its records are kept."""
        return self.workspace.out / self.name

    @property
    def is_there(self) -> bool:
        """Whether it has been begun."""
        return (self.folder / LEDGER).exists()

    def run(self, shard: str | None = None, retry: Sequence[str] = ()) -> None:
        """Run the simulations that are not there yet, or those of one shard, and kinds of failures again."""
        checked = self.workspace.configuration.num_checked
        if shard is None and not retry and self.num_simulations > _PILOT_RECORDS:
            pilot = self._finished_pilot()
            if pilot is None:
                pilot = self._simulate(_PILOT_RECORDS, checked)
                checked = 0  # this has just been done
            refuse_failures(self.workspace, pilot, most=_MOST_PILOT_FAILURES)
        self._simulate(self.num_simulations, checked, shard, retry)
        self.workspace.say(str(campaign_status(self._folder_of(shard))))

    def _finished_pilot(self) -> Simulations | None:
        """Open the first simulations where they are there already."""
        proposal = self.proposal
        if (self.folder / LEDGER).exists():
            with Ledger.open(self.folder) as ledger:
                there, lost = ledger.indices(), ledger.indices(LOST)
                num_there = int((there < _PILOT_RECORDS).sum() - (lost < _PILOT_RECORDS).sum())
            if num_there == _PILOT_RECORDS:
                return open_campaign(self.folder, proposal=proposal, first=_PILOT_RECORDS)
        return None

    def _simulate(
        self, num_simulations: int, num_checked: int, shard: str | None = None, retry: Sequence[str] = ()
    ) -> Simulations:
        c = self.workspace.configuration
        folder = self._folder_of(shard)
        return simulate(
            c.simulator,
            self.proposal,
            num_simulations,
            latent=_latent_of_old_campaign(folder),
            seed=self.seed,
            out=folder,
            shard=shard,
            retry=retry,
            num_checked=num_checked,
            progress=self.workspace.progress,
            **c.engine,
        )

    def _folder_of(self, shard: str | None) -> Path:
        if shard is None:
            return self.folder
        return self.workspace.out / "shards" / f"{self.name}-{shard.replace('/', '-of-')}"

    def join_shards(self) -> None:
        """Put together the shards that a job array has left, unless the campaign is there already."""
        parts = sorted((self.workspace.out / "shards").glob(f"{self.name}-*-of-*"))
        if parts and not (self.folder / LEDGER).exists():
            c = self.workspace.configuration
            merge_campaigns(
                self.folder, parts, proposal=self.proposal, simulator=c.simulator, num_checked=c.num_checked
            )
            self.workspace.say(f"{self.folder}: {len(parts)} shards joined")

    def simulations(self) -> Simulations:
        """Open the campaign, which must be finished."""
        try:
            status = campaign_status(self.folder)
        except CampaignError:
            raise self.workspace.missing("simulate") from None
        if status.num_done < self.num_simulations:
            done = f"{status.num_done:,} of {self.num_simulations:,} simulations are done"
            raise self.workspace.missing("simulate", done)
        return open_campaign(self.folder, proposal=self.proposal, first=self.num_simulations)

    def key(self) -> str:
        """Hash what the data depend on, and the checksums of some of them; hashing all data would take long.

        A campaign of another simulator, range or seed than the file's is refused.
        """
        with Ledger.open(self.folder) as ledger:
            stored, succeeded = ledger.metadata(), ledger.indices(OK)
            self._refuse_other(stored)
            again = [len(earlier)] if (earlier := ledger.earlier()) else []  # what was run again may be other data
            # What is done of an analysis of version 0.1.0 stays done.
            data = [ledger.mark(succeeded[succeeded < self.num_simulations])] if "drawing" in stored["plan"] else []
            return digest(stored["plan"], self.num_simulations, ledger.counts(), *again, *data)

    def see_same_simulator(self) -> None:
        """Run stored records again before simulations that are not kept go with the campaign."""
        c = self.workspace.configuration
        see_same_simulator(c.simulator, self.folder, c.num_checked)

    def _refuse_other(self, stored: dict[str, Any]) -> None:
        c = self.workspace.configuration
        latent = "additive" if stored["plan"]["additive_noise"] else None
        plan = Plan.of(c.simulator, self.proposal, latent, self.seed).as_begun(stored)
        refuse_other_plan(stored, plan.metadata(self.num_simulations), self.folder)


def _latent_of_old_campaign(folder: Path) -> str | None:
    """Go on with a campaign of version 0.1.0 as it was begun: with noise added to the parameters."""
    if not (folder / LEDGER).exists():
        return None
    with Ledger.open(folder) as ledger:
        return "additive" if ledger.metadata()["plan"]["additive_noise"] else None


def run_campaigns(workspace: Workspace, shard: str | None = None, retry: Sequence[str] = ()) -> None:
    """Run all campaigns the file asks for, or one shard of each; what is done already is not done again.

    Failures of the kinds in ``retry`` are.
    """
    _try_simulator(workspace)
    training = AnalysisCampaign.training(workspace)
    if isinstance(training, AimedCampaign):  # what checks are about is known after the last round
        training.run(shard, retry)
    campaigns = [] if isinstance(training, AimedCampaign) else [training]
    campaigns += AnalysisCampaign.tests(workspace)
    if shard is None:
        for campaign in campaigns:
            campaign.join_shards()
    for campaign in campaigns:
        campaign.run(shard, retry)


def _try_simulator(workspace: Workspace) -> None:
    """Try the simulator before a new campaign; its data must have the shape of the observation."""
    if AnalysisCampaign.training(workspace).is_there or (workspace.out / "shards").exists():
        return
    workspace.refuse_strangers()
    c = workspace.configuration
    total = c.num_simulations + c.num_test + c.num_forecast
    trial = check_simulator(c.simulator, c.proposal, num_runs=3, num_simulations=total)
    if trial.x_shape is not None:
        if c.shape is not None and trial.x_shape != c.shape:
            raise c.document.error(
                ("simulator", "shape"),
                f"expected what the simulator returns, {list(trial.x_shape)}, got {list(c.shape)}.",
            )
        c.check_observation(trial.x_shape)
    workspace.say(str(trial))
    if not trial.counts.get(OK):
        raise SimulationError("No trial run of the simulator succeeded, so no campaign is begun.")
    if trial.noiseless:
        raise SimulationError("The simulator has no noise, so there is nothing to learn; no campaign is begun.")
    if trial.problems:
        workspace.say("  going on all the same: fit and checks will tell")


def refuse_failures(workspace: Workspace, simulations: Simulations, most: float = MAX_FAILURE_RATE) -> None:
    """Refuse too many failures as ``fit`` does, in words of the analysis file instead of Python."""
    c = workspace.configuration
    if simulations.failure_rate > most and not c.allow_failures:
        kinds, first = simulations.failures()
        raise c.document.error(
            ("simulator",),
            f"{simulations.failure_rate:.2%} of {len(simulations):,} simulations failed "
            f"({', '.join(f'{n:,} {kind}' for kind, n in kinds.items())}; the first said: {first[:300]}). Leaving "
            "them out can bias the score. Repair the simulator, or narrow its parameters; if failures depend on "
            "the parameters alone, set allow_failures = true under [fit].",
        )
