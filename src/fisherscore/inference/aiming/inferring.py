"""``fs.infer``: the posterior of one observation under a wide prior, by simulations that follow it.

A score does not depend on where simulations were run, so they may be run where the posterior is, with nothing to
correct afterwards, and all that lie in a region are used, whichever round they are of. In a small region every smooth
simulator is close to what the closed forms describe exactly.
"""

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..._support.arguments import as_count, as_data, as_seed
from ...errors import ArgumentError, FisherScoreWarning
from ...fitting.fit import fit
from ...score.fitted import FittedScore
from ...score.provenance import Provenance
from ...simulation.campaign import simulate
from ...simulation.continuing import NUM_CHECKED
from ...simulation.plan import Plan
from ...simulation.proposal import Proposal
from ...simulation.simulations import Simulations
from ...simulation.simulator import Simulator
from ..posterior import LARGEST_R_HAT, Posterior
from ..posterior_checks import observation_mark
from ..sampling import sample
from .beginning import first_region
from .gathered import gathered, within
from .kept import Diary
from .result import Inference, Round, Rounds
from .rounds import Finding, find, is_settled, next_region, sizes_of_rounds
from .verdict import constraints_under, notes_of_rounds

# Fewer simulations than this for each parameter in the last region are too few for a score.
_MIN_A_PARAMETER = 10


def infer(
    simulator: Simulator,
    x_obs: Any,
    proposal: Proposal,
    num_simulations: int = 1_000,
    *,
    prior: Any = None,
    num_rounds: int | None = None,
    recipe: Any = "auto",
    num_samples: int = 1_000,
    num_chains: int = 4,
    seed: int = 0,
    out: str | Path | None = None,
    workers: int | None = None,
    dask: Any = None,
    num_checked: int = NUM_CHECKED,
    progress: bool | None = None,
) -> Inference:
    """Infer the parameters behind one observation, by simulations that follow its posterior.

    The first round simulates all over the proposal, the next ones where the posterior of the observation is by then
    known to be, and everything simulated there is used. A fit that knows itself to be bad does not choose a region.
    Rounds end when the simulations are used up, or when another would not change the posterior.

    With ``out``, the same call goes on where it was stopped, in whatever round, and comes to the same result.

    Args:
        simulator: From :func:`from_python`, :func:`from_jax` or :func:`from_command`.
        x_obs: The observation.
        proposal: Where parameters may lie, see :func:`uniform`; no simulation is run beyond, and no posterior is.
        num_simulations: How many may be run in all, failures included.
        prior: As for :func:`sample`; None for uniform over the proposal's region.
        num_rounds: How many rounds at most; None decides by the number of simulations.
        recipe: How the score in the last region is fitted, as for :func:`fit`.
        num_samples: Draws of the posterior kept in each chain.
        num_chains: Number of chains.
        seed: Seed of everything random.
        out: Folder in which everything is kept as it comes; None keeps it in memory.
        workers: As for :func:`simulate`.
        dask: As for :func:`simulate`.
        num_checked: As for :func:`simulate`.
        progress: Whether to show progress bars; None shows them in a terminal.

    Returns:
        The posterior, the model of the last region, all simulations, the rounds, and a verdict.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> result = fs.infer(problem.simulator, [0.5, -0.5], problem.proposal, 400)
    >>> result.posterior.names, len(result.sims) <= 400
    (('theta1', 'theta2'), True)
    """
    plan = Plan.of(simulator, proposal, None, as_seed(seed))
    if proposal.axes is not None:
        raise ArgumentError("proposal: expected an upright range to begin with, got a region with axes of its own.")
    num = as_count(num_simulations, "num_simulations", minimum=_MIN_A_PARAMETER * proposal.num_parameters)
    sizes = sizes_of_rounds(
        num, proposal.num_parameters, None if num_rounds is None else as_count(num_rounds, "num_rounds")
    )
    first = first_region(proposal, prior, plan.seed)
    diary = Diary.of(out, plan, (x_obs, prior, proposal), {"num_simulations": num, "sizes": sizes})
    search = _Search(
        simulator=simulator,
        x_obs=x_obs,
        limits=proposal,
        prior=prior,
        seed=plan.seed,
        diary=diary,
        options={"workers": workers, "dask": dask, "num_checked": num_checked, "progress": progress},
    )
    search.run(first, sizes)
    model, posterior = search.conclusion(recipe, {"num_samples": num_samples, "num_chains": num_chains})
    result = search.result(model, posterior, num)
    for problem in posterior.problems:
        warnings.warn(problem, FisherScoreWarning, stacklevel=2)
    return result


@dataclass(eq=False)
class _Search:
    """An aimed inference under way: what is looked for, and the rounds so far."""

    simulator: Simulator
    x_obs: Any
    limits: Proposal
    prior: Any
    seed: int
    diary: Diary
    options: dict[str, Any]
    sims: list[Simulations] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)

    def run(self, region: Proposal, sizes: list[int]) -> None:
        """Run rounds until simulations are used up; where the region has settled, all that are left at once."""
        waiting = list(sizes)
        while True:
            self._simulate(region, waiting.pop(0))
            used = within(gathered(self.sims, self.limits), region)
            if not waiting:
                self.rounds.append(Round(region, len(self.sims[-1]), len(used), None, np.array([]), "end"))
                return
            found, following = self._found(used, region)
            self.rounds.append(
                Round(region, len(self.sims[-1]), len(used), found.error, found.draws.std(axis=0), found.guide)
            )
            if found.guide == "posterior" and is_settled(region, following):
                waiting = [sum(waiting)]
            region = following

    def _simulate(self, region: Proposal, num: int) -> None:
        number = len(self.sims) + 1
        sims = simulate(
            self.simulator,
            region,
            num,
            seed=self.seed_of(number),
            out=self.diary.folder_of_round(number),
            **self.options,
        )
        if self.sims or len(sims.ok()):
            self._check_observation(sims)
        self.sims.append(sims)

    def _check_observation(self, sims: Simulations) -> None:
        x = as_data(self.x_obs, sims.x_shape, "x_obs")
        if x.shape != sims.x_shape:
            raise ArgumentError(f"x_obs: expected one observation of shape {sims.x_shape}, got shape {x.shape}.")

    def _found(self, used: Simulations, region: Proposal) -> tuple[Finding, Proposal]:
        """Find the next region, or read in the diary what was found before the run was stopped."""
        number = len(self.sims)
        kept = self.diary.finding(number, self.limits)
        if kept is not None:
            return kept
        if len(used) < _MIN_A_PARAMETER * self.limits.num_parameters:
            raise ArgumentError(
                f"num_simulations: of round {number} only {len(used)} simulations succeeded in the region, too few "
                f"for {self.limits.num_parameters} parameters. Allow more simulations, or fewer rounds."
            )
        found = find(used, self.x_obs, self.prior, self.seed_of(number))
        following = next_region(found, self.limits)
        self.diary.write_finding(number, found, following)
        return found, following

    def seed_of(self, number: int) -> int:
        """Return the seed of a round."""
        return int(np.random.SeedSequence(self.seed, spawn_key=(number,)).generate_state(1, np.uint64)[0] >> 1)

    def conclusion(self, recipe: Any, options: dict[str, Any]) -> tuple[FittedScore, Posterior]:
        """Fit the score in the last region and sample its posterior."""
        region = self.rounds[-1].region
        used = within(gathered(self.sims, self.limits), region)
        model = fit(used, recipe=recipe, seed=self.seed, progress=self.options["progress"])
        aimed = {
            "observation": observation_mark(self.x_obs),
            "low": self.limits.low.tolist(),
            "high": self.limits.high.tolist(),
        }
        model = replace(model, provenance=Provenance({**model.provenance, "aimed": aimed}))
        several = region.parts is not None and len(region.parts.boxes) > 1
        posterior = None if several else self._sampled(model, "nuts", options)
        if posterior is None or not posterior.r_hat.max() < LARGEST_R_HAT:
            # There are several modes, or there may be: chains do not cross from one to another.
            posterior = self._sampled(model, "smc", options)
        self.diary.write_result(model, posterior)
        return model, posterior

    def _sampled(self, model: FittedScore, method: str, options: dict[str, Any]) -> Posterior:
        options = {"seed": self.seed, "progress": self.options["progress"], **options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FisherScoreWarning)
            return sample(model, self.x_obs, prior=self.prior, method=method, **options)

    def result(self, model: FittedScore, posterior: Posterior, num: int) -> Inference:
        """Put everything together."""
        last = replace(self.rounds[-1], error=model.estimated_error, sigma=posterior.sigma)
        rounds = Rounds((*self.rounds[:-1], last), self.limits.names)
        sims = gathered(self.sims, self.limits)
        return Inference(
            posterior=posterior,
            model=model,
            sims=sims,
            rounds=rounds,
            constraints=constraints_under(model, self.prior, self.limits),
            num_saved=num - len(sims),
            notes=notes_of_rounds(rounds, sims, num),
            simulator=self.simulator,
        )
