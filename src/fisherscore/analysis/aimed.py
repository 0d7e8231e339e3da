"""Simulations to train on that follow the observation in rounds, where an analysis file asks for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .. import plot
from ..errors import CampaignError
from ..inference.aiming.checking import check_on, parts_of
from ..inference.aiming.kept import DOCUMENT, read_rounds
from ..inference.aiming.result import Rounds
from ..inference.aiming.rounds import has_several_parts, recipe_for
from ..inference.aiming.search import Search, aimed
from ..inference.diagnosis_result import Diagnosis
from ..inference.diagnostics import diagnose
from ..score.fitted import FittedScore
from ..simulation.continuing import see_same_simulator
from ..simulation.execution.ledger import Ledger
from ..simulation.execution.run import OK
from ..simulation.proposal import Proposal
from ..simulation.simulations import Simulations
from .workspace import Workspace, digest


@dataclass(frozen=True)
class AimedCampaign:
    """The rounds of an analysis, each a campaign of its own in the folder ``rounds``."""

    workspace: Workspace

    @property
    def is_there(self) -> bool:
        """Whether it has been begun."""
        return (self._folder / DOCUMENT).exists()

    @property
    def _folder(self) -> Any:
        return self.workspace.out / "rounds"

    def run(self, shard: str | None = None, retry: Sequence[str] = ()) -> None:
        """Run the rounds that are not there yet, all of which lead to the next."""
        c = self.workspace.configuration
        if shard is not None or retry:
            raise c.document.error(
                ("budget", "rounds"),
                "rounds follow one another: they cannot be run in shards, and failures are not run again. Run the "
                "analysis without.",
            )
        search = self._search()
        search.run()
        search.conclude_rounds()
        self.workspace.say(str(Rounds(search.rounds, c.proposal.names)))

    def simulations(self) -> Simulations:
        """Return the simulations of all rounds that lie in the last region."""
        return self._kept[0]

    @property
    def rounds(self) -> Rounds:
        """The rounds, which must be finished."""
        return self._kept[1]

    @property
    def region(self) -> Proposal:
        """The region of the last round, in which the score is learned."""
        last: Proposal = self.rounds[-1].region
        return last

    @property
    def parts(self) -> list[Proposal]:
        """The parts of that region, but for their edges: what checks are about, each by itself."""
        return parts_of(self.region)

    @property
    def method(self) -> str | None:
        """The sampler that a posterior in several parts needs; None where any will do."""
        return "smc" if has_several_parts(self.region) else None

    def key(self) -> str:
        """Hash the rounds, and the checksums of some of their data; other settings than the file's are refused."""
        if not self.is_there:
            raise self.workspace.missing("simulate")
        self._search()
        marks = []
        for number, one in enumerate(self.rounds, 1):
            with Ledger.open(self._folder / f"round-{number}") as ledger:
                succeeded = ledger.indices(OK)
                marks.append([one.num_simulations, ledger.counts(), ledger.mark(succeeded)])
        return digest(self._search().diary.document, marks)

    def see_same_simulator(self) -> None:
        """Run stored records again before simulations that are not kept go with the rounds."""
        c = self.workspace.configuration
        see_same_simulator(c.simulator, self._folder / f"round-{len(self.rounds)}", c.num_checked)

    @cached_property
    def _kept(self) -> tuple[Simulations, Rounds]:
        try:
            return read_rounds(self._folder, self.workspace.configuration.proposal)
        except CampaignError as error:
            raise self.workspace.missing("simulate", str(error)) from None

    def _search(self) -> Search:
        c = self.workspace.configuration
        return Search.of(
            (c.simulator, self.workspace.observation(), c.prior),
            c.proposal,
            c.num_simulations,
            None if isinstance(c.rounds, str) else c.rounds,
            seed=c.seed,
            out=self._folder,
            options={"num_checked": c.num_checked, "progress": self.workspace.progress, **c.engine},
        )


def recipe_of(workspace: Workspace) -> Any:
    """Return the recipe that the file asks for; of several modes far apart, the default knows densities alone."""
    c = workspace.configuration
    return c.recipe if c.rounds is None or c.recipe != "auto" else recipe_for(AimedCampaign(workspace).region)


def as_aimed(workspace: Workspace, model: FittedScore) -> FittedScore:
    """Return a model that knows at which observation it was aimed, where there are rounds."""
    c = workspace.configuration
    return model if c.rounds is None else aimed(model, workspace.observation(), c.proposal)


def checked(workspace: Workspace, fresh_of: list[Simulations]) -> Diagnosis:
    """Check the model on the fresh simulations of an analysis; with rounds, those of each part of the last region."""
    c, model = workspace.configuration, workspace.model()
    known = c.observation is not None and not c.observation.iid
    options: dict[str, Any] = {
        "x_obs": workspace.observation() if known else None,
        "num_posteriors": c.num_posteriors,
        "seed": c.seed,
        "progress": workspace.progress,
    }
    if c.rounds is None:
        return diagnose(model, fresh_of[0], **options)
    return check_on(model, fresh_of, AimedCampaign(workspace).region, **options)


def rounds_of(workspace: Workspace) -> dict[str, Any]:
    """Return how rounds went, for the page, with a picture of how the region closed in; nothing without rounds."""
    if workspace.configuration.rounds is None:
        return {}
    rounds = AimedCampaign(workspace).rounds
    plot.save_figure(rounds.plot(), workspace.out / "rounds.png")
    return {"rounds": [list(row) for row in rounds.table()]}


def sampler_of_rounds(workspace: Workspace) -> dict[str, Any]:
    """Return the settings of the sampler that the last region asks for."""
    method = None if workspace.configuration.rounds is None else AimedCampaign(workspace).method
    return {} if method is None else {"method": method}
