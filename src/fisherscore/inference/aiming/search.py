"""The rounds of an aimed inference: simulate, find where the posterior is, simulate there; and what comes of it."""

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..._support.arguments import as_count, as_data, as_finite, as_seed
from ...errors import ArgumentError, FisherScoreWarning, TrainingError
from ...fitting.fit import fit
from ...fitting.flat import FlatRecipe
from ...score.constraints import NOT_CONSTRAINED
from ...score.fitted import FittedScore
from ...score.provenance import Provenance
from ...simulation.campaign import simulate
from ...simulation.plan import Plan
from ...simulation.proposal import Proposal
from ...simulation.simulations import Simulations
from ...simulation.simulator import Simulator
from ..constraints import precision_at_hand
from ..posterior import LARGEST_R_HAT, Posterior
from ..posterior_checks import observation_mark, problems_and_notes
from ..sampling import sample
from .beginning import first_region
from .gathered import gathered, within
from .kept import Diary
from .local_error import needs_a_closer_look, said_of, with_local_error
from .reading import AS_THEY_ARE, Reading
from .result import Inference, Round, Rounds
from .rounds import Finding, find, has_several_parts, is_settled, next_region, recipe_for, sizes_of_rounds
from .verdict import constraints_under, notes_of_rounds

# Fewer simulations than this for each parameter in a region are too few for a score.
_MIN_A_PARAMETER = 10


@dataclass(eq=False)
class Search:
    """An aimed inference under way: what is looked for, and the rounds so far."""

    simulator: Simulator
    x_obs: Any
    prior: Any
    limits: Proposal
    sizes: list[int]
    seed: int
    diary: Diary
    options: dict[str, Any]
    reading: Reading = AS_THEY_ARE
    sims: list[Simulations] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        looked_for: tuple[Simulator, Any, Any],
        proposal: Proposal,
        num_simulations: int,
        num_rounds: int | None,
        *,
        seed: int,
        out: str | Path | None,
        options: dict[str, Any],
        reading: Reading = AS_THEY_ARE,
    ) -> "Search":
        """Begin a search for the posterior of an observation under a prior, or go on with the one in a folder."""
        simulator, x_obs, prior = looked_for
        x_obs = as_finite(x_obs, "x_obs")
        plan = Plan.of(simulator, proposal, None, as_seed(seed))
        if proposal.axes is not None:
            raise ArgumentError("proposal: expected an upright range to begin with, got a region with its own axes.")
        p = proposal.num_parameters
        num = as_count(num_simulations, "num_simulations", minimum=_MIN_A_PARAMETER * p)
        sizes = sizes_of_rounds(num, p, None if num_rounds is None else as_count(num_rounds, "num_rounds"))
        if min(sizes) < _MIN_A_PARAMETER * p:
            raise ArgumentError(
                f"num_rounds: with {num_rounds} rounds of {num:,} simulations the smallest has {min(sizes)}, expected "
                f"at least {_MIN_A_PARAMETER * p} for {p} parameters. Allow more simulations, or fewer rounds."
            )
        settings = {"num_simulations": num, "sizes": sizes, **reading.marks(x_obs)}
        diary = Diary.of(out, plan, (x_obs, prior, proposal), settings)
        return cls(
            simulator=simulator,
            x_obs=x_obs,
            prior=prior,
            limits=proposal,
            sizes=sizes,
            seed=plan.seed,
            diary=diary,
            options=options,
            reading=reading,
        )

    def run(self) -> None:
        """Run rounds until simulations are used up or not needed; where the region has settled, all that are left."""
        waiting, region = list(self.sizes), first_region(self.limits, self.prior, self.seed)
        while True:
            self._simulate(region, waiting.pop(0))
            used = self.in_region(region)
            if not waiting:
                self._note(region, used, "end")
                return
            found, following = self._found(used)
            done = found.exact and len(self.sims) > 1
            self._note(region, used, "end" if done else found.guide, found)
            if done:
                return
            if found.is_good and is_settled(region, following):
                waiting = [sum(waiting)]
            region = following

    def _note(self, region: Proposal, used: Simulations, guide: str, found: Finding | None = None) -> None:
        self.rounds.append(
            Round(
                region=region,
                num_simulations=len(self.sims[-1]),
                num_used=len(used),
                error=None if found is None else found.error,
                sigma=np.array([]) if found is None else found.draws.std(axis=0),
                guide=guide,
            )
        )

    def conclude_rounds(self) -> None:
        """Keep the rounds in the folder, for who goes on from there."""
        self.diary.write_rounds(self.rounds)

    def in_region(self, region: Proposal) -> Simulations:
        """Return all simulations so far that lie in a region and succeeded."""
        return within(gathered(self.sims, self.limits), region)

    def _simulate(self, region: Proposal, num: int) -> None:
        number = len(self.sims) + 1
        folder = self.diary.folder_of_round(number)
        sims = simulate(self.simulator, region, num, seed=self.seed_of(number), out=folder, **self.options)
        x = as_data(self.x_obs, sims.x_shape, "x_obs")
        if x.shape != sims.x_shape:
            raise ArgumentError(f"x_obs: expected one observation of shape {sims.x_shape}, got shape {x.shape}.")
        self.sims.append(sims)

    def _found(self, used: Simulations) -> tuple[Finding, Proposal]:
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
        found = find(used, self.x_obs, self.prior, self.limits, self.seed_of(number), reading=self.reading)
        following = next_region(found, self.limits)
        self.diary.write_finding(number, found, following)
        return found, following

    def seed_of(self, number: int) -> int:
        """Return the seed of a round."""
        return int(np.random.SeedSequence(self.seed, spawn_key=(number,)).generate_state(1, np.uint64)[0] >> 1)

    def concluded(self, recipe: Any, options: dict[str, Any]) -> Inference:
        """Fit the score in the last region, sample its posterior, and put everything together."""
        region = self.rounds[-1].region
        recipe = recipe_for(region) if recipe == "auto" else recipe
        with warnings.catch_warnings():  # the findings say the same, under the prior and at the observation
            warnings.simplefilter("ignore", FisherScoreWarning)
            model = self._fitted(self.in_region(region), recipe)
        model = aimed(model, self.x_obs, self.limits)
        posterior = None if has_several_parts(region) else self._sampled(model, "nuts", options)
        if posterior is None or not posterior.r_hat.max() < LARGEST_R_HAT:
            # There are several modes, or there may be: chains do not cross from one to another.
            posterior = self._sampled(model, "smc", options)
        model, posterior, said = self._looked_at_closely(model, posterior)
        self.diary.write_result(model, posterior)
        last = replace(self.rounds[-1], error=model.estimated_error, sigma=posterior.sigma)
        rounds = Rounds((*self.rounds[:-1], last), self.limits.names)
        sims, num = gathered(self.sims, self.limits), sum(self.sizes)
        return Inference(
            posterior=posterior,
            model=model,
            sims=sims,
            rounds=rounds,
            constraints=constraints_under(model, self.prior, self.limits),
            num_saved=num - len(sims),
            notes=(*said, *notes_of_rounds(rounds, sims, num)),
            simulator=self.simulator,
        )

    def _looked_at_closely(
        self, model: FittedScore, posterior: Posterior
    ) -> tuple[FittedScore, Posterior, tuple[str, ...]]:
        """Where the model's own error is too large for the posterior, see what it is at the observation."""
        if not needs_a_closer_look(posterior, model):
            return model, posterior, ()
        region = self.rounds[-1].region
        recipe = replace(recipe_for(region), density=None, network=None)

        def again(sims: Simulations, seed: int) -> FittedScore:
            return fit(sims, recipe=recipe, seed=seed, progress=False, **self.reading.for_fit)

        closer = with_local_error(model, self.x_obs, posterior, self.in_region(region), again)
        if closer is model:
            return model, posterior, ()
        problems, notes = problems_and_notes(posterior, closer, precision_at_hand(closer, self.prior), self.x_obs)
        said = said_of(posterior, model, closer)
        return closer, replace(posterior, problems=problems, notes=notes), (said,)

    def _fitted(self, sims: Simulations, recipe: Any) -> FittedScore:
        """Fit the score in the last region; where data are seen to say nothing of the parameters, it is zero."""
        try:
            return fit(sims, recipe=recipe, seed=self.seed, progress=self.options["progress"], **self.reading.for_fit)
        except TrainingError as error:
            if not str(error).startswith(NOT_CONSTRAINED):
                raise
            return fit(sims, recipe=FlatRecipe(), seed=self.seed, progress=False)

    def _sampled(self, model: FittedScore, method: str, options: dict[str, Any]) -> Posterior:
        options = {"seed": self.seed, "progress": self.options["progress"], **options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FisherScoreWarning)
            return sample(model, self.x_obs, prior=self.prior, method=method, **options)


def aimed(model: FittedScore, x_obs: Any, limits: Proposal) -> FittedScore:
    """Return a model that knows at which observation it was aimed, and within which limits."""
    ends = {"low": limits.low.tolist(), "high": limits.high.tolist()}
    known = {**model.provenance, "aimed": {"observation": observation_mark(x_obs), **ends}}
    return replace(model, provenance=Provenance(known))
