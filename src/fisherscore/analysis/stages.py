"""The stages of an analysis, in their order: simulate, fit, forecast, sample, check, report.

A stage is an object with a name; those with results also have a key, a hash of everything the results depend on, and
work that computes them. A stage whose document carries the right key is done and is not run again, so a run that was
stopped goes on where it was, and a change of the file runs again just what depends on it.
"""

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, ClassVar

import numpy as np

from .. import plot
from .._support.progress import working
from .._support.text import duration
from .._support.whole_file import whole_file
from ..errors import (
    CampaignError,
    ConfigurationError,
    FisherScoreWarning,
    MissingExtraError,
    ModelFolderError,
)
from ..inference.estimate import maximum_likelihood
from ..inference.fisher_matrix import FisherMatrix
from ..inference.forecast_notes import forecast_notes
from ..inference.forecast_result import Forecast as FisherForecast
from ..inference.forecasting import forecast
from ..inference.posterior import Posterior
from ..inference.sampling import sample
from ..score.fitted import FittedScore
from .aimed import as_aimed, checked, recipe_of, rounds_of, sampler_of_rounds
from .campaigns import AnalysisCampaign, refuse_failures, run_campaigns
from .configuration import Configuration
from .forecasts import forecast_point, forecast_result, forecast_table
from .report import write_report
from .trust import constraints_under_prior, fit_or_say_why, own_error_of, precision_of, prior_in_words
from .workspace import FORECAST_SEED, SAMPLE_SEED, Workspace, digest


class Stage(ABC):
    """A step of an analysis."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, workspace: Workspace) -> None:
        """Run the stage, or say why there is nothing to do."""


class ResultStage(Stage):
    """A stage whose results are kept in a document of the workspace, under a key."""

    @abstractmethod
    def key(self, workspace: Workspace) -> str:
        """Hash everything the results depend on."""

    @abstractmethod
    def work(self, workspace: Workspace) -> dict[str, Any]:
        """Compute the results, as plain data for the document; pictures and arrays go beside it."""

    def reason_to_skip(self, configuration: Configuration) -> str:
        """Say why the file asks for no such stage; empty if it does."""
        return ""

    def check_inputs(self, workspace: Workspace) -> None:
        """Refuse to start before the stages this one depends on are done."""
        training = AnalysisCampaign.training(workspace)
        if training.is_there:
            training.key()  # says what differs where the file has been edited since
        if not FIT.is_done(workspace):
            raise workspace.missing(FIT.name)

    def draws(self, workspace: Workspace) -> bool:
        """Say whether the simulator will be run, which then must be that of the campaign."""
        return workspace.draws_observation

    def document(self, workspace: Workspace) -> dict[str, Any] | None:
        """Return the document of the stage if it is there and up to date."""
        with suppress(ConfigurationError, CampaignError):
            document = workspace.read(self.name)
            if document["key"] == self.key(workspace):
                return document
        return None

    def is_done(self, workspace: Workspace) -> bool:
        """Say whether the results are there and up to date."""
        return self.document(workspace) is not None

    def run(self, workspace: Workspace) -> None:
        """Do the work unless it is done or not asked for, and keep its results."""
        if reason := self.reason_to_skip(workspace.configuration):
            workspace.say(f"{self.name}: left out, since {reason}")
            return
        workspace.refuse_other_document(self.name)
        self.check_inputs(workspace)
        if self is not FIT and nothing_learned(workspace):
            workspace.say(f"{self.name}: left out, since nothing was learned")
            return
        if self.is_done(workspace):
            workspace.say(f"{self.name}: done already")
            return
        key = self.key(workspace)
        if self.draws(workspace) and AnalysisCampaign.training(workspace).is_there:
            AnalysisCampaign.training(workspace).see_same_simulator()
        workspace.say(f"{self.name} ...")
        workspace.out.mkdir(parents=True, exist_ok=True)
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught, working(self.name, workspace.progress):
            warnings.simplefilter("always", FisherScoreWarning)
            result = self.work(workspace)
        seconds = round(time.perf_counter() - started, 2)
        messages = list(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, FisherScoreWarning)))
        for message in messages:
            workspace.say(f"warning: {message}")
        workspace.write(self.name, key=key, seconds=seconds, warnings=messages, result=result)
        if "table" in result:
            workspace.say(result["table"])
        workspace.say(f"{self.name}: done in {duration(seconds)}")


class Simulate(Stage):
    """Run the campaigns: simulations to train on, and fresh ones for the checks. They know themselves what is done."""

    name = "simulate"

    def run(self, workspace: Workspace) -> None:
        """Run the campaigns, or go on with them."""
        run_campaigns(workspace)


class Fit(ResultStage):
    """Learn the score from the simulations."""

    name = "fit"

    def key(self, workspace: Workspace) -> str:
        """Hash the simulations and how they are fitted."""
        c = workspace.configuration
        return digest(AnalysisCampaign.training(workspace).key(), c.recipe, c.seed, c.allow_failures)

    def draws(self, workspace: Workspace) -> bool:
        """A fit runs no simulations."""
        return False

    def check_inputs(self, workspace: Workspace) -> None:
        """Refuse unfinished campaigns, and those in which too many simulations failed."""
        refuse_failures(workspace, AnalysisCampaign.training(workspace).simulations())

    def work(self, workspace: Workspace) -> dict[str, Any]:
        """Fit a model and save it."""
        c = workspace.configuration
        sims = AnalysisCampaign.training(workspace).simulations()
        options = {"recipe": recipe_of(workspace), "seed": c.seed, "allow_failures": c.allow_failures}
        model = fit_or_say_why(sims, progress=workspace.progress, **options)
        if isinstance(model, str):
            return {"num_simulations": len(sims), "nothing_learned": model, "table": model}
        model = as_aimed(workspace, model)
        model.save(workspace.out / "model")
        result = {
            **rounds_of(workspace),
            "recipe": c.recipe,
            "num_simulations": len(sims),
            "failure_rate": sims.failure_rate,
            "estimated_error": model.estimated_error,
            "own_error": own_error_of(model),
            "weights": model.weights or None,
            "data_sha256": model.provenance["data_sha256"],
        }
        known = constraints_under_prior(c, result)
        return result if known is None else {**result, "outcome": known.outcome, "table": str(known)}


class Forecast(ResultStage):
    """Forecast errors at one point: the file's, else the best fit, else the middle of the training region."""

    name = "forecast"

    def reason_to_skip(self, configuration: Configuration) -> str:
        """Skip a forecast without simulations."""
        return "" if configuration.num_forecast else "budget.forecast = 0"

    def draws(self, workspace: Workspace) -> bool:
        """A forecast runs simulations, unless it has them from under another prior."""
        return super().document(workspace) is None

    def key(self, workspace: Workspace) -> str:
        """Hash the fit, the point or the observation it is derived from, and the simulations of the forecast."""
        c = workspace.configuration
        theta0 = c.forecast_theta0 or workspace.observation_key()
        return digest(FIT.key(workspace), theta0, c.num_forecast, c.seed)

    def document(self, workspace: Workspace) -> dict[str, Any] | None:
        """Return the document if it is up to date and under the prior of the file; 0.1.0 did not say under which."""
        document, prior = super().document(workspace), digest(_prior_key(workspace.configuration))
        up_to_date = document is not None and document["result"].get("prior_key", prior) == prior
        return document if up_to_date else None

    def work(self, workspace: Workspace) -> dict[str, Any]:
        """Forecast from fresh simulations, and draw the ellipses."""
        c = workspace.configuration
        model = workspace.model()
        alone, chosen = self._of_the_data(workspace, model)
        precision = precision_of(c)
        notes = forecast_notes(alone, model, (precision, prior_in_words(c)))
        result = alone.add(FisherMatrix(alone.names, precision))
        if c.proposal.num_parameters > 1:
            plot.save_figure(plot.fisher_ellipses(result), workspace.out / "forecast.png")
        return forecast_result(alone, result, prior_in_words(c)) | {
            "chosen": chosen,
            "prior_key": digest(_prior_key(c)),
            "notes": list(notes),
            "table": "\n".join([forecast_table(alone, result, prior_in_words(c)), *notes]),
        }

    def _of_the_data(self, workspace: Workspace, model: FittedScore) -> tuple[FisherForecast, str]:
        """Forecast what the data alone say, from simulations or as it was kept; say how the point was chosen."""
        c, folder = workspace.configuration, workspace.out / "forecast"
        earlier = super().document(workspace)
        if earlier is not None:  # under another prior, for which nothing has to be simulated again
            with suppress(ModelFolderError):
                return FisherForecast.load(folder), earlier["result"]["chosen"]
        theta0, chosen = forecast_point(workspace)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FisherScoreWarning)  # its notes, which are made anew under the prior
            alone = forecast(
                model,
                theta0,
                c.simulator,
                num_simulations=c.num_forecast,
                seed=c.seed + FORECAST_SEED,
                progress=workspace.progress,
                **c.engine,
            )
        alone.save(folder)
        return alone, chosen


def _prior_key(configuration: Configuration) -> Any:
    """Return what the prior depends on."""
    prior = configuration.document.tree.get("prior")
    return [prior, *configuration.prior_files] if configuration.prior_files else prior


class Sample(ResultStage):
    """Find the best fit and sample the posterior of the observation."""

    name = "sample"

    def reason_to_skip(self, configuration: Configuration) -> str:
        """Skip a posterior of nothing."""
        return "" if configuration.observation is not None else "there is no [observation]"

    def key(self, workspace: Workspace) -> str:
        """Hash the fit, the observation, the prior and the settings of the sampler."""
        c = workspace.configuration
        return digest(FIT.key(workspace), workspace.observation_key(), _prior_key(c), c.sampler, c.seed)

    def work(self, workspace: Workspace) -> dict[str, Any]:
        """Maximise and sample, keep the draws, and draw the pictures."""
        c = workspace.configuration
        assert c.observation is not None
        mock, iid = c.observation.mock, c.observation.iid
        model, x = workspace.model(), workspace.observation()
        best = maximum_likelihood(model, x, iid=iid, progress=workspace.progress)
        workspace.say(f"best fit of the likelihood\n{best}")
        sampler = c.sampler | sampler_of_rounds(workspace)
        posterior = sample(
            model, x, prior=c.prior, iid=iid, seed=c.seed + SAMPLE_SEED, progress=workspace.progress, **sampler
        )
        posterior.save(workspace.out / "posterior")
        # The draws once more, for programs that know nothing of fisherscore.
        with whole_file(workspace.out / "posterior.npz") as partial, partial.open("wb") as file:
            names = np.array(posterior.names)
            np.savez(file, chains=posterior.chains, log_density=posterior.log_density, names=names)
        self._draw(workspace, model, posterior)
        return {
            "x": x.tolist(),
            "iid": iid,
            "mock": mock,
            "names": list(posterior.names),
            "best_fit": best.theta.tolist(),
            "best_fit_sigma": [s if np.isfinite(s) else None for s in best.sigma.tolist()],
            "best_fit_message": best.message,
            "best_fit_converged": bool(best.converged),
            "mean": posterior.mean.tolist(),
            "sd": posterior.sigma.tolist(),
            "interval": posterior.quantiles([0.16, 0.84]).T.tolist(),
            "problems": list(posterior.problems),
            "notes": list(posterior.notes),
            "rarity": posterior.rarity,
            "table": str(posterior),
        }

    @staticmethod
    def _draw(workspace: Workspace, model: FittedScore, posterior: Posterior) -> None:
        """Draw the posterior and, of two parameters, the score field."""
        observation = workspace.configuration.observation
        assert observation is not None
        try:
            axes = plot.triangle(posterior, truth=observation.mock)
            plot.save_figure(axes, workspace.out / "posterior.png")
        except MissingExtraError as missing:
            workspace.say(f"posterior.png is left out: {missing}")
        if model.num_parameters == 2 and not observation.iid:
            field = plot.score_field(model, workspace.observation(), truth=observation.mock)
            plot.save_figure(field, workspace.out / "score_field.png")


class Check(ResultStage):
    """Check the model on simulations it has not seen."""

    name = "check"

    def reason_to_skip(self, configuration: Configuration) -> str:
        """Skip checks without simulations."""
        return "" if configuration.num_test else "budget.test = 0"

    def key(self, workspace: Workspace) -> str:
        """Hash the fit, the simulations to check it on, and the observation."""
        c = workspace.configuration
        tests = [campaign.key() for campaign in AnalysisCampaign.tests(workspace)]
        marks = tests if len(tests) > 1 else [tests[0] if tests else None]
        return digest(FIT.key(workspace), *marks, workspace.observation_key(), c.seed, c.num_posteriors)

    def check_inputs(self, workspace: Workspace) -> None:
        """Refuse to start before the campaign of the checks is finished and the model fitted."""
        for campaign in AnalysisCampaign.tests(workspace):
            campaign.simulations()
        super().check_inputs(workspace)

    def work(self, workspace: Workspace) -> dict[str, Any]:
        """Run the checks and draw them."""
        diagnosis = checked(workspace, [campaign.simulations() for campaign in AnalysisCampaign.tests(workspace)])
        # What was learned, under the prior of the file, is the verdict's to say.
        diagnosis = replace(diagnosis, findings=())
        plot.save_figure(plot.identities(diagnosis), workspace.out / "checks.png")
        if diagnosis.coverage is not None:
            plot.save_figure(plot.coverage(diagnosis), workspace.out / "coverage.png")
        return {
            "passed": diagnosis.passed,
            "verdict": str(diagnosis).split("\n")[0],
            "checks": [asdict(check) for check in diagnosis.checks],
            "num_simulations": diagnosis.num_simulations,
            "table": str(diagnosis),
        }


class Report(Stage):
    """Write the page of the analysis, with everything that is done so far; it is quick, so never taken as done."""

    name = "report"

    def run(self, workspace: Workspace) -> None:
        """Write the page."""
        c, results = workspace.configuration, up_to_date_results(workspace)
        stages = [FIT] if nothing_learned(workspace) else STAGES.values()
        asked = [s.name for s in stages if isinstance(s, ResultStage) and not s.reason_to_skip(c)]
        path = workspace.out / "report.html"
        write_report(c, results, path, missing=[name for name in asked if name not in results])
        workspace.say(f"report: {path}")


FIT = Fit()
STAGES: dict[str, Stage] = {stage.name: stage for stage in (Simulate(), FIT, Forecast(), Sample(), Check(), Report())}


def nothing_learned(workspace: Workspace) -> bool:
    """Say whether the fit found nothing to learn, so that there is nothing to go on with."""
    document = FIT.document(workspace)
    return document is not None and "nothing_learned" in document["result"]


def run_stages(workspace: Workspace, names: Iterable[str] = tuple(STAGES)) -> dict[str, Any]:
    """Run stages in the order given, and return the documents of all stages that are done."""
    for name in names:
        STAGES[name].run(workspace)
    return up_to_date_results(workspace)


def up_to_date_results(workspace: Workspace) -> dict[str, Any]:
    """Return the documents of all stages that are done and up to date, by stage."""
    stages = [stage for stage in STAGES.values() if isinstance(stage, ResultStage)]
    documents = {stage.name: stage.document(workspace) for stage in stages}
    return {name: document for name, document in documents.items() if document is not None}
