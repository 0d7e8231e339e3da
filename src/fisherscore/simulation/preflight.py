"""Look at a simulator before a campaign: does it run, is it repeatable, what does it return, what will it cost?"""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._support.arguments import as_count, as_seed
from .._support.text import duration
from ..errors import ArgumentError
from .execution.engine import Here, Job, Workers
from .execution.run import OK, Outcome, Stream
from .proposal import Proposal
from .simulator import RecordSimulator, Simulator

_PURPOSE = 4  # a stream of its own: what is tried here is not what will be simulated


@dataclass(frozen=True)
class SimulatorCheck:
    """What a few runs of a simulator showed; ``problems`` is empty when it is fit for a campaign.

    >>> import fisherscore as fs
    >>> check = fs.check_simulator(fs.from_python(lambda theta, rng: rng.normal(theta)), fs.uniform(a=(0.0, 1.0)))
    >>> check.problems, check.x_shape
    ((), (1,))
    """

    name: str
    num_runs: int
    counts: dict[str, int]
    x_shape: tuple[int, ...] | None
    repeatable: bool | None
    seconds_a_run: float
    num_simulations: int | None
    seconds_in_all: float | None
    problems: tuple[str, ...]
    noiseless: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        repeatable = {None: "not seen", True: "yes", False: "no"}[self.repeatable]
        lines = [
            f"{self.name}: {self.num_runs} runs, " + ", ".join(f"{n} {kind}" for kind, n in self.counts.items()),
            f"  x has shape {self.x_shape}",
            f"  the same seed gives the same data: {repeatable}",
            f"  one run takes {self.seconds_a_run:.3g} s",
        ]
        if self.seconds_in_all is not None:
            lines.append(
                f"  {self.num_simulations:,} simulations take about {duration(self.seconds_in_all)} on one worker"
            )
        lines += [f"  PROBLEM: {problem}" for problem in self.problems]
        return "\n".join([*lines, "  fit for a campaign" if not self.problems else "  not fit for a campaign yet"])


def check_simulator(
    simulator: Simulator,
    proposal: Proposal,
    *,
    num_runs: int = 5,
    num_simulations: int | None = None,
    seed: int = 0,
) -> SimulatorCheck:
    """Run a simulator a few times over the proposal and report what one should know before a campaign.

    Programs, and functions with a time limit, are run in a worker process, so that whatever they do stays there. With
    ``num_simulations`` the cost of that many is estimated.

    >>> import fisherscore as fs
    >>> bad = fs.from_python(lambda theta, rng: theta)
    >>> fs.check_simulator(bad, fs.uniform(a=(0.0, 1.0))).problems[0][:38]
    'two seeds at the same parameters give '
    """
    if not isinstance(simulator, Simulator) or not isinstance(proposal, Proposal):
        raise ArgumentError("simulator, proposal: expected a simulator and a proposal, as for fisherscore.simulate.")
    num = as_count(num_runs, "num_runs", minimum=2)
    wanted = None if num_simulations is None else as_count(num_simulations, "num_simulations")
    runner = _Runner(simulator.with_names(proposal.names), Stream(as_seed(seed), _PURPOSE))
    theta = proposal.sample(num, seed=seed)
    first = runner.run(np.arange(num), theta)
    again = runner.run(np.arange(1), theta[:1])[0]
    other = runner.run(np.array([num]), theta[:1])[0]
    outcomes = [*first, again, other]
    names, counts = np.unique([o.status for o in outcomes], return_counts=True)
    shapes = {o.x.shape for o in outcomes if o.x is not None}
    repeatable = None if first[0].x is None or again.x is None else np.array_equal(first[0].x, again.x, equal_nan=True)
    return SimulatorCheck(
        name=simulator.name,
        num_runs=len(outcomes),
        counts=dict(zip(map(str, names), map(int, counts), strict=True)),
        x_shape=shapes.pop() if len(shapes) == 1 else None,
        repeatable=repeatable,
        seconds_a_run=runner.seconds,
        num_simulations=wanted,
        seconds_in_all=None if wanted is None else wanted * runner.seconds,
        problems=tuple(dict.fromkeys(_problems(outcomes, repeatable, first[0], other))),
        noiseless=_same_data(first[0], other) and not _are_counts(first[0]),  # counts may agree by chance
    )


def _are_counts(outcome: Outcome) -> bool:
    return outcome.x is not None and bool(np.all(outcome.x % 1 == 0))


def _same_data(one: Outcome, other: Outcome) -> bool:
    return one.x is not None and other.x is not None and np.array_equal(one.x, other.x)


class _Runner:
    """Runs a few records where they can do no harm, and times them."""

    def __init__(self, simulator: Simulator, stream: Stream):
        risky = isinstance(simulator, RecordSimulator) and (simulator.is_command or simulator.timeout is not None)
        self.simulator, self.stream = simulator, stream
        self.engine = Workers(1) if risky else Here()
        self.seconds = float("inf")

    def run(self, indices: np.ndarray, parameters: np.ndarray) -> list[Outcome]:
        """Run records and return their outcomes in order."""
        found: dict[int, Outcome] = {}
        marks = [(time.perf_counter(), 0)]
        for results in self.engine.run(Job(self.simulator, indices, parameters, self.stream)):
            if results:
                found |= dict(results)
                marks.append((time.perf_counter(), len(found)))
        # The start of a worker is no part of a run: where there are several, count from the first that is done.
        (started, before), (ended, after) = marks[1 if len(marks) > 2 else 0], marks[-1]
        self.seconds = min(self.seconds, (ended - started) / (after - before))
        return [found[int(i)] for i in indices]


def _problems(outcomes: list[Outcome], repeatable: bool | None, first: Outcome, other: Outcome) -> list[str]:
    problems = [f"a run failed ({o.status}): {o.message}" for o in outcomes if o.status != OK][:3]
    shapes = sorted({o.x.shape for o in outcomes if o.x is not None})
    if len(shapes) > 1:
        problems.append(f"x changes its shape: {shapes}. Pad it, or return summaries of fixed length")
    if repeatable is False:
        problems.append(
            "the same seed gives different data, so a lost run cannot be repeated: draw all random numbers from the "
            "generator or the seed that is passed"
        )
    if _same_data(first, other):
        problems.append(
            "two seeds at the same parameters give the same data: without noise there is no likelihood. Use the "
            "generator or the seed that is passed, and add the noise of the measurement"
        )
    return problems
