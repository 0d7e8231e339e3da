"""Learn the Fisher score of any simulator, and put it to work.

Names are imported when they are first used, so that ``import fisherscore`` and the command line start at once. No
module has the name of a function exported here: importing it would put the module in the function's place.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:  # the same names for type checkers; a test holds the two lists together
    from . import accuracy as accuracy
    from . import plot as plot
    from . import problems as problems
    from ._support.compilation_cache import use_compilation_cache as use_compilation_cache
    from .errors import ArgumentError as ArgumentError
    from .errors import CampaignError as CampaignError
    from .errors import ConfigurationError as ConfigurationError
    from .errors import FisherScoreError as FisherScoreError
    from .errors import FisherScoreWarning as FisherScoreWarning
    from .errors import MissingExtraError as MissingExtraError
    from .errors import ModelFolderError as ModelFolderError
    from .errors import SimulationError as SimulationError
    from .errors import TrainingError as TrainingError
    from .fitting.fit import fit as fit
    from .fitting.learned_summary import LearnedSummary as LearnedSummary
    from .fitting.recipes import AutoRecipe as AutoRecipe
    from .fitting.recipes import ClosedFormRecipe as ClosedFormRecipe
    from .fitting.recipes import NetworkRecipe as NetworkRecipe
    from .fitting.recipes import PaperRecipe as PaperRecipe
    from .fitting.recipes import Recipe as Recipe
    from .fitting.train import Training as Training
    from .fitting.trainers import DensityTrainer as DensityTrainer
    from .inference.aiming.inferring import infer as infer
    from .inference.aiming.result import Inference as Inference
    from .inference.aiming.result import Round as Round
    from .inference.aiming.result import Rounds as Rounds
    from .inference.calibration import check_calibration as check_calibration
    from .inference.compression import Summary as Summary
    from .inference.compression import compress as compress
    from .inference.constraints import constraints as constraints
    from .inference.diagnosis_result import Check as Check
    from .inference.diagnosis_result import Diagnosis as Diagnosis
    from .inference.diagnostics import diagnose as diagnose
    from .inference.estimate import Estimate as Estimate
    from .inference.estimate import maximum_likelihood as maximum_likelihood
    from .inference.fisher_matrix import FisherMatrix as FisherMatrix
    from .inference.forecast_result import Forecast as Forecast
    from .inference.forecasting import forecast as forecast
    from .inference.forecasting import forecast_grid as forecast_grid
    from .inference.posterior import Posterior as Posterior
    from .inference.posteriors import Posteriors as Posteriors
    from .inference.predictive import PredictiveCheck as PredictiveCheck
    from .inference.predictive import predictive_check as predictive_check
    from .inference.priors.density import DensityPrior as DensityPrior
    from .inference.priors.density import prior_from_density as prior_from_density
    from .inference.priors.given import RestrictedPrior as RestrictedPrior
    from .inference.priors.given import restricted_prior as restricted_prior
    from .inference.priors.samples import SamplePrior as SamplePrior
    from .inference.priors.samples import prior_from_samples as prior_from_samples
    from .inference.profile import Profile as Profile
    from .inference.profile import profile_likelihood as profile_likelihood
    from .inference.sampling import sample as sample
    from .inference.sampling import sample_many as sample_many
    from .inference.worth_of_prior import prior_information as prior_information
    from .score.combined import CombinedScore as CombinedScore
    from .score.combined import combine as combine
    from .score.constraints import Combination as Combination
    from .score.constraints import Constraints as Constraints
    from .score.fitted import FittedScore as FittedScore
    from .score.fitted import load as load
    from .score.function import FunctionScore as FunctionScore
    from .score.model import ScoreModel as ScoreModel
    from .simulation.campaign import open_campaign as open_campaign
    from .simulation.campaign import simulate as simulate
    from .simulation.files import export_simulations as export_simulations
    from .simulation.files import import_simulations as import_simulations
    from .simulation.jax_simulator import from_jax as from_jax
    from .simulation.latent import AdditiveLatent as AdditiveLatent
    from .simulation.latent import CustomLatent as CustomLatent
    from .simulation.latent import GaussianLatent as GaussianLatent
    from .simulation.latent import Latent as Latent
    from .simulation.merging import merge_campaigns as merge_campaigns
    from .simulation.preflight import SimulatorCheck as SimulatorCheck
    from .simulation.preflight import check_simulator as check_simulator
    from .simulation.proposal import Proposal as Proposal
    from .simulation.proposal import normal as normal
    from .simulation.proposal import uniform as uniform
    from .simulation.simulations import Origin as Origin
    from .simulation.simulations import Simulations as Simulations
    from .simulation.simulations import from_table as from_table
    from .simulation.simulator import Simulator as Simulator
    from .simulation.simulator import from_command as from_command
    from .simulation.simulator import from_python as from_python
    from .simulation.status import CampaignStatus as CampaignStatus
    from .simulation.status import campaign_status as campaign_status

_HOMES = {
    "simulation.campaign": ("open_campaign", "simulate"),
    "simulation.merging": ("merge_campaigns",),
    "score.combined": ("CombinedScore", "combine"),
    "inference.compression": ("Summary", "compress"),
    "inference.aiming.inferring": ("infer",),
    "inference.aiming.result": ("Inference", "Round", "Rounds"),
    "inference.calibration": ("check_calibration",),
    "inference.diagnosis_result": ("Check", "Diagnosis"),
    "inference.diagnostics": ("diagnose",),
    "errors": (
        "ArgumentError",
        "CampaignError",
        "ConfigurationError",
        "FisherScoreError",
        "FisherScoreWarning",
        "MissingExtraError",
        "ModelFolderError",
        "SimulationError",
        "TrainingError",
    ),
    "inference.estimate": ("Estimate", "maximum_likelihood"),
    "inference.fisher_matrix": ("FisherMatrix",),
    "inference.forecast_result": ("Forecast",),
    "inference.constraints": ("constraints",),
    "inference.forecasting": ("forecast", "forecast_grid"),
    "simulation.jax_simulator": ("from_jax",),
    "simulation.latent": ("AdditiveLatent", "CustomLatent", "GaussianLatent", "Latent"),
    "score.fitted": ("FittedScore", "load"),
    "inference.posterior": ("Posterior",),
    "inference.predictive": ("PredictiveCheck", "predictive_check"),
    "inference.profile": ("Profile", "profile_likelihood"),
    "inference.worth_of_prior": ("prior_information",),
    "inference.priors.density": ("DensityPrior", "prior_from_density"),
    "inference.priors.given": ("RestrictedPrior", "restricted_prior"),
    "inference.priors.samples": ("SamplePrior", "prior_from_samples"),
    "inference.posteriors": ("Posteriors",),
    "simulation.preflight": ("SimulatorCheck", "check_simulator"),
    "simulation.proposal": ("Proposal", "normal", "uniform"),
    "fitting.fit": ("fit",),
    "fitting.learned_summary": ("LearnedSummary",),
    "fitting.recipes": ("AutoRecipe", "ClosedFormRecipe", "NetworkRecipe", "PaperRecipe", "Recipe"),
    "inference.sampling": ("sample", "sample_many"),
    "score.constraints": ("Combination", "Constraints"),
    "score.function": ("FunctionScore",),
    "score.model": ("ScoreModel",),
    "simulation.simulations": ("Origin", "Simulations", "from_table"),
    "simulation.simulator": ("Simulator", "from_command", "from_python"),
    "simulation.status": ("CampaignStatus", "campaign_status"),
    "fitting.train": ("Training",),
    "fitting.trainers": ("DensityTrainer",),
    "_support.compilation_cache": ("use_compilation_cache",),
    "simulation.files": ("export_simulations", "import_simulations"),
}
_MODULES = ("accuracy", "plot", "problems")
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*_HOME, *_MODULES]  # noqa: PLE0604  put together at run time


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module 'fisherscore' has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
