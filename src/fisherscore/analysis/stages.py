"""A whole analysis in a folder: simulate, fit, forecast, sample, check, report.

Each stage writes a JSON document with its results, beside its pictures and arrays, and a key: a hash of everything the
results depend on. A stage whose document carries the right key is done and is not run again, so a run that was stopped
goes on where it was, and a change of the file runs again just what depends on it.
"""

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import plot
from .._support.text import duration
from .._support.versions import versions
from ..errors import CampaignError, ConfigurationError, FisherScoreWarning, MissingExtraError, SimulationError
from ..fitting.checks import MAX_FAILURE_RATE
from ..fitting.fit import fit
from ..inference.diagnostics import diagnose
from ..inference.estimate import maximum_likelihood
from ..inference.forecasting import forecast
from ..inference.posterior import Posterior
from ..inference.sampling import sample
from ..score.fitted import FittedScore, load
from ..simulation.campaign import merge_campaigns, open_campaign, simulate
from ..simulation.execution.ledger import FILE as LEDGER
from ..simulation.execution.ledger import Ledger
from ..simulation.execution.run import OK
from ..simulation.preflight import check_simulator
from ..simulation.simulations import Simulations
from ..simulation.status import campaign_status
from .configuration import Configuration
from .report import write_report

STAGES = ("simulate", "fit", "forecast", "sample", "check", "report")
_SCHEMA = "fisherscore.stage"
# A campaign stops after its first records if more of them fail than could be by chance where 1 % do.
_PILOT, _MOST_IN_PILOT = 100, 0.04
# Seeds of the parts, apart from that of the training simulations.
_TEST, _MOCK, _FORECAST, _SAMPLE = 1, 2, 3, 4


@dataclass
class Analysis:
    """An analysis file at work in its folder; ``say`` is told what is going on."""

    configuration: Configuration
    progress: bool | None = None
    say: Callable[[str], None] = print

    @property
    def out(self) -> Path:
        """Where everything is written."""
        return self.configuration.out

    def run(self, stages: Sequence[str] = STAGES) -> dict[str, Any]:
        """Run stages in their order and return the results of all that are done."""
        for stage in stages:
            if stage == "report":
                write_report(self.configuration, self.results(), self.out / "report.html")
                self.say(f"report: {self.out / 'report.html'}")
            else:
                getattr(self, f"run_{stage}")()
        return self.results()

    # ------------------------------------------------------------------ simulate

    def run_simulate(self, shard: str | None = None) -> None:
        """Run both campaigns, or go on with them: simulations to train on, and fresh ones for the checks."""
        self._look_at_simulator()
        if shard is None:
            self._join_shards()
        for folder, num, seed in self._campaigns():
            part = folder if shard is None else self._shard_folder(folder, shard)

            def run(count: int, out: Path = part, seed: int = seed) -> Simulations:
                c = self.configuration
                return simulate(
                    c.simulator,
                    c.proposal,
                    count,
                    latent=_stored_latent(out),
                    seed=seed,
                    out=out,
                    shard=shard,
                    progress=self.progress,
                    **c.engine,
                )

            if shard is None and num > _PILOT:
                self._refuse_failures(run(_PILOT), most=_MOST_IN_PILOT)  # before a long campaign has been for nothing
            run(num)
            self.say(str(campaign_status(part)))

    def _campaigns(self) -> list[tuple[Path, int, int]]:
        """Folder, number and seed of each campaign."""
        c = self.configuration
        found = [(self.out / "campaign", c.num_simulations, c.seed)]
        return found + ([(self.out / "test", c.num_test, c.seed + _TEST)] if c.num_test else [])

    def _look_at_simulator(self) -> None:
        """Try the simulator before a new campaign; its data must have the shape of the observation."""
        if (self.out / "campaign" / LEDGER).exists() or (self.out / "shards").exists():
            return
        c = self.configuration
        total = c.num_simulations + c.num_test + c.num_forecast
        found = check_simulator(c.simulator, c.proposal, num_runs=3, num_simulations=total)
        if found.x_shape is not None:
            if c.shape is not None and found.x_shape != c.shape:
                raise c.document.error(
                    ("simulator", "shape"),
                    f"expected what the simulator returns, {list(found.x_shape)}, got {list(c.shape)}.",
                )
            c.check_observation(found.x_shape)
        self.say(str(found))
        if not found.counts.get(OK):
            raise SimulationError("No trial run of the simulator succeeded, so no campaign is begun.")
        if found.noiseless:
            raise SimulationError("The simulator has no noise, so there is nothing to learn; no campaign is begun.")
        if found.problems:
            self.say("  going on all the same: fit and checks will tell")

    @staticmethod
    def _shard_folder(folder: Path, shard: str) -> Path:
        return folder.parent / "shards" / f"{folder.name}-{shard.replace('/', '-of-')}"

    def _join_shards(self) -> None:
        """Put shards that a job array has left into the campaigns they are parts of."""
        for folder, *_ in self._campaigns():
            parts = sorted((self.out / "shards").glob(f"{folder.name}-*-of-*"))
            if parts and not (folder / LEDGER).exists():
                merge_campaigns(folder, parts, proposal=self.configuration.proposal)
                self.say(f"{folder}: {len(parts)} shards joined")

    def simulations(self, kind: str = "campaign") -> Simulations:
        """Open a finished campaign."""
        wanted = {folder.name: num for folder, num, _ in self._campaigns()}[kind]
        try:
            status = campaign_status(self.out / kind)
        except CampaignError:
            raise self._missing("simulate") from None
        if status.num_done < wanted:
            raise self._missing("simulate", f"{status.num_done:,} of {wanted:,} simulations are done")
        return open_campaign(self.out / kind, proposal=self.configuration.proposal, first=wanted)

    # ------------------------------------------------------------------ fit

    def run_fit(self) -> None:
        """Learn the score."""
        c = self.configuration
        sims = self.simulations()
        self._refuse_failures(sims)

        def work() -> dict[str, Any]:
            model = fit(sims, recipe=c.recipe, seed=c.seed, progress=self.progress, allow_failures=c.allow_failures)
            model.save(self.out / "model")
            return {
                "recipe": c.recipe,
                "num_simulations": len(sims),
                "failure_rate": sims.failure_rate,
                "estimated_error": model.estimated_error,
                "weights": model.weights or None,
                "data_sha256": model.provenance["data_sha256"],
            }

        self._stage("fit", work)

    def _refuse_failures(self, sims: Simulations, most: float = MAX_FAILURE_RATE) -> None:
        """Say in words of the file what ``fit`` would say in words of Python."""
        if sims.failure_rate > most and not self.configuration.allow_failures:
            kinds, first = sims.failures()
            raise self.configuration.document.error(
                ("simulator",),
                f"{sims.failure_rate:.2%} of {len(sims):,} simulations failed "
                f"({', '.join(f'{n:,} {kind}' for kind, n in kinds.items())}; the first said: {first[:300]}). Leaving "
                "them out can bias the score. Repair the simulator, or narrow its parameters; if failures depend on "
                "the parameters alone, set allow_failures = true under [fit].",
            )

    def model(self) -> FittedScore:
        """Load the fitted model."""
        self._document("fit")
        return load(self.out / "model")

    # ------------------------------------------------------------------ forecast

    def run_forecast(self) -> None:
        """Forecast errors at the chosen point, by default the best fit, else the middle of the region."""
        c = self.configuration
        if not c.num_forecast:
            self.say("forecast: left out, since budget.forecast = 0")
            return

        def work() -> dict[str, Any]:
            point, why = self._forecast_point()
            found = forecast(
                self.model(),
                point,
                c.simulator,
                num_simulations=c.num_forecast,
                seed=c.seed + _FORECAST,
                **c.engine,
            )
            if c.proposal.num_parameters > 1:
                plot.save_figure(plot.fisher_ellipses(found), self.out / "forecast.png")
            return {
                "at": dict(zip(found.names, found.theta0.tolist(), strict=True)),
                "chosen": why,
                "names": list(found.names),
                "sigma": found.sigma.tolist(),
                "sigma_error": None if found.sigma_error is None else found.sigma_error.tolist(),
                "sigma_bound": found.sigma_bound.tolist(),
                "sigma_bound_error": None if found.bound.sigma_error is None else found.bound.sigma_error.tolist(),
                "conditional_sigma": found.conditional_sigma.tolist(),
                "fisher": found.fisher.tolist(),
                "fisher_bound": found.fisher_bound.tolist(),
                "num_simulations": found.num_simulations,
                "table": str(found),
            }

        self._stage("forecast", work)

    def _forecast_point(self) -> tuple[dict[str, float], str]:
        c, model = self.configuration, self.model()
        if c.forecast_at is not None:
            return c.forecast_at, "as the file says"
        if c.observation is not None:
            best = maximum_likelihood(model, self.observation(), iid=c.observation.iid)
            if best.converged:
                return dict(zip(best.names, best.theta.tolist(), strict=True)), "the best fit of the observation"
        middle = (c.proposal.low + c.proposal.high) / 2
        return dict(zip(c.proposal.names, middle.tolist(), strict=True)), "the middle of the training region"

    # ------------------------------------------------------------------ sample

    def observation(self) -> np.ndarray:
        """Return what was observed; a mock observation is drawn once and kept."""
        c = self.configuration
        if c.observation is None:
            raise ConfigurationError(f"{c.document.path}: no [observation], so there is nothing to infer from. Add it.")
        if c.observation.x is not None:
            return c.observation.x
        assert c.observation.mock is not None
        kept = self.out / f"mock-{self._observation_key()[:12]}.npy"
        if not kept.exists():
            theta = [c.observation.mock[name] for name in c.proposal.names]
            x = c.simulator.with_names(c.proposal.names).draw(theta, seed=c.seed + _MOCK)
            self.out.mkdir(parents=True, exist_ok=True)
            np.save(kept, x)
        return np.asarray(np.load(kept, allow_pickle=False))

    def run_sample(self) -> None:
        """Find the best fit and sample the posterior of the observation."""
        c = self.configuration
        if c.observation is None:
            self.say("sample: left out, since there is no [observation]")
            return
        mock, iid = c.observation.mock, c.observation.iid

        def work() -> dict[str, Any]:
            model, x = self.model(), self.observation()
            best = maximum_likelihood(model, x, iid=iid)
            posterior = sample(
                model, x, prior=c.prior, iid=iid, seed=c.seed + _SAMPLE, progress=self.progress, **c.sampler
            )
            self._draw_posterior(model, posterior, x)
            return {
                "x": x.tolist(),
                "iid": iid,
                "mock": mock,
                "names": list(posterior.names),
                "best_fit": best.theta.tolist(),
                "best_fit_sigma": [s if np.isfinite(s) else None for s in best.sigma.tolist()],
                "best_fit_message": best.message,
                "best_fit_converged": bool(best.converged),
                "mean": posterior.samples.mean(axis=0).tolist(),
                "sd": posterior.samples.std(axis=0).tolist(),
                "interval": np.quantile(posterior.samples, [0.16, 0.84], axis=0).T.tolist(),
                "problems": list(posterior.problems),
                "rarity": posterior.rarity,
                "table": str(posterior),
            }

        self._stage("sample", work)

    def _draw_posterior(self, model: FittedScore, posterior: Posterior, x: np.ndarray) -> None:
        """Keep the draws as an array, and draw the triangle and, of two parameters, the score field."""
        np.savez(self.out / "posterior.npz", chains=posterior.chains, names=np.array(posterior.names))
        found = self.configuration.observation
        truth = None if found is None else found.mock
        try:
            plot.save_figure(plot.triangle(posterior, truth=truth), self.out / "posterior.png")
        except MissingExtraError as missing:
            self.say(f"posterior.png is left out: {missing}")
        if model.num_parameters == 2 and not (found and found.iid):
            plot.save_figure(plot.score_field(model, x, truth=truth), self.out / "score_field.png")

    # ------------------------------------------------------------------ check

    def run_check(self) -> None:
        """Check the model on simulations it has not seen."""
        c = self.configuration
        if not c.num_test:
            self.say("check: left out, since budget.test = 0")
            return
        test = self.simulations("test")

        def work() -> dict[str, Any]:
            x = None if c.observation is None or c.observation.iid else self.observation()
            found = diagnose(
                self.model(), test, x_obs=x, num_posteriors=c.num_posteriors, seed=c.seed, progress=self.progress
            )
            plot.save_figure(plot.identities(found), self.out / "checks.png")
            if found.coverage is not None:
                plot.save_figure(plot.coverage(found), self.out / "coverage.png")
            return {
                "passed": found.passed,
                "verdict": str(found).split("\n")[0],
                "checks": [asdict(check) for check in found.checks],
                "num_simulations": found.num_simulations,
                "table": str(found),
            }

        self._stage("check", work)

    # ------------------------------------------------------------------ bookkeeping

    def results(self) -> dict[str, Any]:
        """Return the documents of all stages that are done and up to date, by stage."""
        found = {}
        for stage in STAGES[1:-1]:
            with suppress(ConfigurationError, CampaignError):
                document = self._document(stage)
                if document["key"] == self.key(stage):
                    found[stage] = document
        return found

    def key(self, stage: str) -> str:
        """Hash everything the results of a stage depend on."""
        c = self.configuration
        if stage == "fit":
            return _hash(self._campaign_key("campaign"), c.recipe, c.seed, c.allow_failures)
        after = self.key("fit")
        if stage == "forecast":
            at = c.forecast_at or self._observation_key()
            return _hash(after, at, c.num_forecast, c.seed)
        if stage == "sample":
            return _hash(after, self._observation_key(), c.document.tree.get("prior"), c.sampler, c.seed)
        return _hash(
            after, self._campaign_key("test") if c.num_test else None, self._observation_key(), c.seed, c.num_posteriors
        )

    def _campaign_key(self, kind: str) -> str:
        """Hash what the data of a campaign depend on; reading them all would take long."""
        wanted = {folder.name: num for folder, num, _ in self._campaigns()}[kind]
        with Ledger.open(self.out / kind) as ledger:
            return _hash(ledger.metadata()["plan"], wanted, ledger.counts())

    def _observation_key(self) -> str:
        c = self.configuration
        found = c.observation
        if found is None:
            return _hash(None)
        if found.x is not None:
            return _hash(found.x.tolist(), found.iid)
        return _hash(found.mock, c.seed, c.simulator.identity, c.simulator.code)

    def _path(self, stage: str) -> Path:
        return self.out / f"{stage}.json"

    def _document(self, stage: str) -> dict[str, Any]:
        try:
            document = json.loads(self._path(stage).read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            raise self._missing(stage) from None
        if not isinstance(document, dict) or document.get("schema") != _SCHEMA or document.get("stage") != stage:
            raise self._missing(stage, f"{self._path(stage)} was not written by fisherscore")
        return document

    def _missing(self, stage: str, why: str = "") -> ConfigurationError:
        path = self.configuration.document.path
        reason = why or f"the stage {stage!r} has not been run"
        return ConfigurationError(f"{self.out}: {reason}. First run: fisherscore {stage} {path}")

    def _stage(self, stage: str, work: Callable[[], dict[str, Any]]) -> None:
        """Do the work of a stage unless it is done, and keep its results, written whole or not at all."""
        if stage in self.results():
            self.say(f"{stage}: done already")
            return
        if stage != "fit" and "fit" not in self.results():
            raise self._missing("fit")
        key = self.key(stage)
        self.say(f"{stage} ...")
        self.out.mkdir(parents=True, exist_ok=True)
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FisherScoreWarning)
            result = work()
        said = list(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, FisherScoreWarning)))
        for warning in said:
            self.say(f"warning: {warning}")
        seconds = round(time.perf_counter() - started, 2)
        document = {
            "schema": _SCHEMA,
            "stage": stage,
            "key": key,
            "seconds": seconds,
            "warnings": said,
            "result": result,
            "versions": versions(),
        }
        fresh = self._path(stage).with_suffix(".json.new")
        fresh.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        os.replace(fresh, self._path(stage))
        if "table" in result:
            self.say(result["table"])
        self.say(f"{stage}: done in {duration(seconds)}")


def _hash(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _stored_latent(folder: Path) -> str | None:
    """Go on with a campaign of version 0.1.0 as it was begun: with noise added to the parameters."""
    if not (folder / LEDGER).exists():
        return None
    with Ledger.open(folder) as ledger:
        return "additive" if ledger.metadata()["plan"]["additive_noise"] else None
