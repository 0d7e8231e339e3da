"""What an aimed inference returns: the posterior, how the region closed in on it, and whether to believe it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._support.arguments import as_count, as_seed
from ..._support.drawing import new_axes, plain
from ..._support.text import columns, html_table
from ...score.constraints import BADLY_LEARNED, NOT_CONSTRAINED, RIGHT, Constraints
from ...score.fitted import FittedScore
from ...simulation.proposal import Proposal
from ...simulation.simulations import Simulations
from ...simulation.simulator import Simulator
from ..diagnosis_result import Diagnosis
from ..posterior import Posterior
from .checking import check_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNKNOWN = "what the data constrain is not known, since this recipe does not know its own error: see check()"
# Fresh simulations share no random numbers with any round.
_CHECK = 1_000


@dataclass(frozen=True, eq=False)
class Round:
    """One round of an aimed inference.

    Attributes:
        region: Where its simulations were run, and where its score was learned.
        num_simulations: How many simulations it ran.
        num_used: How many a score was learned from: all so far that lie in the region and succeeded.
        error: The fit's own error; None where nothing was learned.
        sigma: Widths (p,) of the posterior, or of what stood for it.
        guide: What chose the next region: "posterior"; "pilot", a regression, where the fit was too bad; "end".

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> result = fs.infer(problem.simulator, [0.5, -0.5], problem.proposal, 300)
    >>> result.rounds[0].num_simulations < 300
    True
    """

    region: Proposal
    num_simulations: int
    num_used: int
    error: float | None
    sigma: np.ndarray
    guide: str


def _written(one: Round) -> str:
    """Write down a round's own error."""
    if one.error is not None:
        return f"{one.error:.2g}"
    return "nothing learned" if len(one.sigma) else ""


class Rounds(Sequence[Round]):
    """The rounds of an aimed inference, in their order; printed, they are a table.

    Args:
        rounds: The rounds.
        names: Names of the parameters.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> len(fs.infer(problem.simulator, [0.5, -0.5], problem.proposal, 300).rounds) > 1
    True
    """

    def __init__(self, rounds: Sequence[Round], names: Sequence[str]):
        self._rounds, self.names = tuple(rounds), tuple(names)

    def __getitem__(self, place: Any) -> Any:
        """Return one round, or some."""
        found = self._rounds[place]
        return Rounds(found, self.names) if isinstance(place, slice) else found

    def __len__(self) -> int:
        return len(self._rounds)

    def table(self) -> list[tuple[str, ...]]:
        """Return the rounds as rows of text, the first of which says what they hold.

        Returns:
            The rows.
        """
        head = ("round", "simulations", "used", "own error", "next region by", *(f"σ({n})" for n in self.names))
        rows = [
            (
                str(number),
                f"{r.num_simulations:,}",
                f"{r.num_used:,}",
                _written(r),
                r.guide,
                # Before the last fit, nothing is known of the last posterior.
                *([f"{s:.3g}" for s in r.sigma] or [""] * len(self.names)),
            )
            for number, r in enumerate(self._rounds, 1)
        ]
        return [head, *rows]

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw how the region closed in: the range of each parameter in every round, and the posterior's width.

        Args:
            ax: Matplotlib axes to draw into; by default those of a new figure.

        Returns:
            The axes.
        """
        axes = new_axes(ax)
        first, last = self._rounds[0].region, self._rounds[-1].region
        numbers = np.arange(1, len(self) + 1)
        for k, name in enumerate(self.names):
            width = first.high[k] - first.low[k]
            middle = ((last.low[k] + last.high[k]) / 2 - first.low[k]) / width
            ends = np.array([[r.region.low[k], r.region.high[k]] for r in self._rounds])
            ends = (ends - first.low[k]) / width
            line = axes.plot(numbers, ends[:, 0], "-o", ms=3, label=plain(name))[0]
            axes.plot(numbers, ends[:, 1], "-o", ms=3, color=line.get_color())
            axes.fill_between(numbers, ends[:, 0], ends[:, 1], color=line.get_color(), alpha=0.08)
            axes.axhline(middle, color=line.get_color(), lw=0.5, ls=":")
        axes.set_xticks(numbers)
        axes.set_xlabel("round")
        axes.set_ylabel("range of the region, in that of the first")
        axes.legend(frameon=False, fontsize="small")
        return axes

    def __str__(self) -> str:
        return "\n".join(columns(self.table()))

    def __repr__(self) -> str:
        return f"Rounds({len(self)}; {sum(r.num_simulations for r in self._rounds):,} simulations)"

    def _repr_html_(self) -> str:
        rows = self.table()[1:]
        return html_table(repr(self), [(f"round {row[0]}", ", ".join(row[1:])) for row in rows])


@dataclass(frozen=True, eq=False)
class Inference:
    """An aimed inference, from :func:`fisherscore.infer`.

    Attributes:
        posterior: The posterior of the observation.
        model: The score that was learned in the last region.
        sims: The simulations of all rounds, as simulations of the first proposal.
        rounds: The rounds: region, simulations, own error and width of the posterior of each.
        constraints: What the data constrain under the prior, and how well that was learned; None where not known.
        num_saved: Simulations that were not needed.
        notes: What is to be said of how the rounds went.
        simulator: The simulator, which :meth:`check` runs again.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> result = fs.infer(problem.simulator, [0.5, -0.5], problem.proposal, 400)
    >>> result.verdict, result.posterior.samples.shape
    ('right', (4000, 2))
    """

    posterior: Posterior
    model: FittedScore
    sims: Simulations
    rounds: Rounds
    constraints: Constraints | None
    num_saved: int
    notes: tuple[str, ...]
    simulator: Simulator

    @property
    def verdict(self) -> str:
        """``"right"``, ``"not constrained by the data"`` or ``"badly learned"``; see :attr:`findings` for why."""
        if self.posterior.problems or (self.constraints is not None and self.constraints.badly_learned):
            return BADLY_LEARNED
        return NOT_CONSTRAINED if self.constraints is not None and self.constraints.unconstrained else RIGHT

    @property
    def findings(self) -> tuple[str, ...]:
        """Why the verdict is what it is, and what would help; what is to be said of the rounds."""
        known = (_UNKNOWN,) if self.constraints is None else self.constraints.findings
        # The posterior says it more closely where it has a problem with what was learned.
        told = tuple(f for f in known if not (self.posterior.problems and f.startswith(BADLY_LEARNED)))
        return (*self.posterior.problems, *told, *self.notes, *self._advice())

    def _advice(self) -> tuple[str, ...]:
        """Say what a larger budget would be: what is said of a fit counts the simulations in its region alone."""
        if self.verdict != BADLY_LEARNED:
            return ()
        last = self.rounds[-1].num_used
        return (
            f"{len(self.sims):,} simulations were run in all, {last:,} of them lie in the last region, which numbers "
            "above are about: call infer again with twice as many in all",
        )

    def check(
        self, num_simulations: int = 1_000, *, num_posteriors: int = 200, seed: int = 1, **options: Any
    ) -> Diagnosis:
        """Check the model on fresh simulations in the last region, but for its edges.

        Identities, calibration and coverage are those of parameters that are uniform there. Around modes far apart,
        each part of the region is looked at by itself, and ``"parts"`` checks how much each weighs.

        Args:
            num_simulations: How many are run, at least 100.
            num_posteriors: For how many of them a posterior is sampled.
            seed: Seed of these simulations.
            **options: Of :func:`fisherscore.simulate`, such as ``workers`` and ``out``.

        Returns:
            The checks, as :func:`fisherscore.diagnose` returns them.
        """
        num = as_count(num_simulations, "num_simulations", minimum=100)
        own = int(np.random.SeedSequence(as_seed(seed), spawn_key=(_CHECK,)).generate_state(1, np.uint64)[0] >> 1)
        region, sizes = self.rounds[-1].region, (num, as_count(num_posteriors, "num_posteriors", minimum=0))
        return check_model(self.model, self.simulator, region, sizes, own, **options)

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Draw how the region closed in.

        Args:
            ax: Matplotlib axes to draw into; by default those of a new figure.

        Returns:
            The axes.
        """
        return self.rounds.plot(ax=ax)

    def __str__(self) -> str:
        return "\n".join([f"{self!r}", str(self.rounds), str(self.posterior), *self.notes])

    def __repr__(self) -> str:
        used = sum(r.num_simulations for r in self.rounds)
        saved = f", {self.num_saved:,} saved" if self.num_saved else ""
        return f"Inference({self.verdict}; {len(self.rounds)} rounds, {used:,} simulations{saved})"

    def _repr_html_(self) -> str:
        rows = [("verdict", self.verdict), *(("finding", text) for text in self.findings)]
        return html_table(repr(self), rows) + self.rounds._repr_html_() + self.posterior._repr_html_()
