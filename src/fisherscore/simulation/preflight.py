"""Look at a simulator before a campaign: does it run, is it repeatable, what does it return, what will it cost?"""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._support.arguments import as_count, as_seed
from .._support.progress import working
from .._support.text import duration, html_table
from ..errors import ArgumentError, SimulationError
from .execution.dispatch import engine_for
from .execution.engine import Here, Job
from .execution.processes import Workers
from .execution.run import OK, Outcome, Purpose, Stream
from .proposal import Proposal
from .simulator import OneByOneSimulator, Simulator


@dataclass(frozen=True)
class SimulatorCheck:
    """What a few runs of a simulator showed; printed, a few lines.

    Attributes:
        name: Name of the simulator.
        num_runs: Runs that were made.
        counts: Runs by what became of them.
        x_shape: Shape of the data; None where it changes or no run gave any.
        repeatable: Whether the same seed gives the same data; None where that was not seen.
        seconds_a_run: Time one run takes.
        num_simulations: Simulations whose cost was asked for, or None.
        seconds_in_all: Time they take on one worker.
        problems: What is wrong, in words; empty when the simulator is fit for a campaign.
        noiseless: Whether two seeds gave the same data.

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
        """Return everything as plain data.

        Returns:
            The attributes by name.
        """
        return asdict(self)

    @property
    def _verdict(self) -> str:
        return "fit for a campaign" if not self.problems else "not fit for a campaign yet"

    def __repr__(self) -> str:
        return f"SimulatorCheck({self.name}; {self.num_runs} runs, {self._verdict})"

    def __str__(self) -> str:
        headline = f"{self.name}: {self.num_runs} runs, {self._counted()}"
        return "\n".join([headline, *(f"  {name} {text}" for name, text in self._lines()), f"  {self._verdict}"])

    def _repr_html_(self) -> str:
        return html_table(f"{self.name}: {self._verdict}", [("runs:", self._counted()), *self._lines()])

    def _counted(self) -> str:
        return ", ".join(f"{num} {kind}" for kind, num in self.counts.items())

    def _lines(self) -> list[tuple[str, str]]:
        repeatable = {None: "not seen", True: "yes", False: "no"}[self.repeatable]
        lines = [
            ("x has shape", str(self.x_shape)),
            ("the same seed gives the same data:", repeatable),
            ("one run takes", f"{self.seconds_a_run:.3g} s"),
        ]
        if self.seconds_in_all is not None:
            cost = f"about {duration(self.seconds_in_all)} on one worker"
            lines.append((f"{self.num_simulations:,} simulations take", cost))
        return lines + [("PROBLEM:", problem) for problem in self.problems]


def check_simulator(
    simulator: Simulator,
    proposal: Proposal,
    *,
    num_runs: int = 5,
    num_simulations: int | None = None,
    seed: int = 0,
) -> SimulatorCheck:
    """Run a simulator a few times over the proposal and report what one should know before a campaign.

    Programs, and functions with a time limit, are run in a worker process, so that whatever they do stays there. Other
    functions are run in this process and once more in a worker, as a campaign with ``workers`` would run them.

    Args:
        simulator: The simulator to try.
        proposal: Where it will be run.
        num_runs: Runs at different parameters; two more repeat the first.
        num_simulations: Estimate the cost of this many.
        seed: Seed of parameters and data.

    Returns:
        What was seen, and what is wrong.

    >>> import fisherscore as fs
    >>> bad = fs.from_python(lambda theta, rng: theta)
    >>> fs.check_simulator(bad, fs.uniform(a=(0.0, 1.0))).problems[0][:38]
    'two seeds at the same parameters give '
    """
    if not isinstance(simulator, Simulator) or not isinstance(proposal, Proposal):
        raise ArgumentError("simulator, proposal: expected a simulator and a proposal, as for fisherscore.simulate.")
    simulator.refuse_region(proposal.low, proposal.high, proposal.names)
    num = as_count(num_runs, "num_runs", minimum=2)
    wanted = None if num_simulations is None else as_count(num_simulations, "num_simulations")
    runner = _Runner(simulator.with_names(proposal.names), Stream(as_seed(seed), Purpose.PREFLIGHT))
    theta = proposal.sample(num, seed=seed)
    with working(f"try {simulator.name}"):
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
        problems=tuple(
            dict.fromkeys(
                [*_problems(outcomes, repeatable, first[0], other), *runner.trial(theta[:1], first[0], repeatable)]
            )
        ),
        noiseless=_same_data(first[0], other) and not _are_counts(first[0]),  # counts may agree by chance
    )


def _are_counts(outcome: Outcome) -> bool:
    return outcome.x is not None and bool(np.all(outcome.x % 1 == 0))


def _same_data(one: Outcome, other: Outcome) -> bool:
    return one.x is not None and other.x is not None and np.array_equal(one.x, other.x)


class _Runner:
    """Runs a few records where they can do no harm, and times them."""

    def __init__(self, simulator: Simulator, stream: Stream):
        self.simulator, self.stream = simulator, stream
        self.engine = engine_for(simulator)
        self.seconds = float("inf")

    def run(self, indices: np.ndarray, parameters: np.ndarray) -> list[Outcome]:
        """Run records and return their outcomes in order."""
        outcomes: dict[int, Outcome] = {}
        marks = [(time.perf_counter(), 0)]
        for results in self.engine.run(Job(self.simulator, indices, parameters, self.stream)):
            if results:
                outcomes |= dict(results)
                marks.append((time.perf_counter(), len(outcomes)))
        # The start of a worker is no part of a run: where there are several, count from the first that is done.
        (started, before), (ended, after) = marks[1 if len(marks) > 2 else 0], marks[-1]
        self.seconds = min(self.seconds, (ended - started) / (after - before))
        return [outcomes[int(i)] for i in indices]

    def trial(self, theta: np.ndarray, here: Outcome, repeatable: bool | None) -> list[str]:
        """Run the first record in a worker, if that was not done; say what is wrong, or other than here."""
        beyond = self.simulator.index_beyond_an_axis(theta[0]) if here.status == OK else None
        if beyond is not None:
            return [f"it goes beyond the end of an array, where JAX takes the last element: {beyond}"]
        if not isinstance(self.simulator, OneByOneSimulator) or self.engine != Here():
            return []
        job = Job(self.simulator, np.arange(1), theta, self.stream)
        try:
            ((_, there),) = [result for results in Workers(1).run(job) for result in results]
        except SimulationError as error:
            return [f"workers cannot run it, this process can. {error}"]
        if here.status == OK and there.status != OK:
            return [f"in a worker, unlike here, a run failed ({there.status}): {there.message}"]
        if repeatable and not _same_data(here, there):
            return [
                "a worker gives other data for the same seed: it depends on what was run before, or on a module whose "
                "globals are not what they are after its import. Pass such values to the function, by a closure or by "
                "functools.partial"
            ]
        return []


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
