"""Learn the Fisher score of any simulator, and put it to work.

Names are imported when they are first used, so that ``import fisherscore`` and the command line start at once. No
module has the name of a function exported here: importing it would put the module in the function's place.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:  # the same names for type checkers; a test holds the two lists together
    from . import accuracy as accuracy
    from . import plot as plot
    from . import problems as problems
    from .campaign import merge_campaigns as merge_campaigns
    from .campaign import simulate as simulate
    from .combination import CombinedScore as CombinedScore
    from .combination import combine as combine
    from .compression import Summary as Summary
    from .compression import compress as compress
    from .diagnostics import Check as Check
    from .diagnostics import Diagnosis as Diagnosis
    from .diagnostics import diagnose as diagnose
    from .errors import ArgumentError as ArgumentError
    from .errors import CampaignError as CampaignError
    from .errors import ConfigurationError as ConfigurationError
    from .errors import FisherScoreError as FisherScoreError
    from .errors import FisherScoreWarning as FisherScoreWarning
    from .errors import MissingExtraError as MissingExtraError
    from .errors import ModelFolderError as ModelFolderError
    from .errors import SimulationError as SimulationError
    from .errors import TrainingError as TrainingError
    from .estimate import Estimate as Estimate
    from .estimate import maximum_likelihood as maximum_likelihood
    from .fisher_matrix import FisherMatrix as FisherMatrix
    from .forecasting import Forecast as Forecast
    from .forecasting import forecast as forecast
    from .latent import CustomLatent as CustomLatent
    from .latent import GaussianLatent as GaussianLatent
    from .latent import Latent as Latent
    from .network_score import NetworkScore as NetworkScore
    from .network_score import load as load
    from .posterior import Posterior as Posterior
    from .preflight import SimulatorCheck as SimulatorCheck
    from .preflight import check_simulator as check_simulator
    from .proposal import Proposal as Proposal
    from .proposal import normal as normal
    from .proposal import uniform as uniform
    from .recipe import AutoRecipe as AutoRecipe
    from .recipe import BaselineRecipe as BaselineRecipe
    from .recipe import NetworkRecipe as NetworkRecipe
    from .recipe import PaperRecipe as PaperRecipe
    from .recipe import Recipe as Recipe
    from .recipe import fit as fit
    from .sampling import sample as sample
    from .score_model import FunctionScore as FunctionScore
    from .score_model import ScoreModel as ScoreModel
    from .simulations import Simulations as Simulations
    from .simulations import from_table as from_table
    from .simulator import Simulator as Simulator
    from .simulator import from_command as from_command
    from .simulator import from_jax as from_jax
    from .simulator import from_python as from_python
    from .stored import CampaignStatus as CampaignStatus
    from .stored import StoredSimulations as StoredSimulations
    from .stored import campaign_status as campaign_status
    from .stored import open_campaign as open_campaign
    from .train import Training as Training
    from .transfer import export_simulations as export_simulations
    from .transfer import import_simulations as import_simulations

_HOMES = {
    "campaign": ("merge_campaigns", "simulate"),
    "combination": ("CombinedScore", "combine"),
    "compression": ("Summary", "compress"),
    "diagnostics": ("Check", "Diagnosis", "diagnose"),
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
    "estimate": ("Estimate", "maximum_likelihood"),
    "fisher_matrix": ("FisherMatrix",),
    "forecasting": ("Forecast", "forecast"),
    "latent": ("CustomLatent", "GaussianLatent", "Latent"),
    "network_score": ("NetworkScore", "load"),
    "posterior": ("Posterior",),
    "preflight": ("SimulatorCheck", "check_simulator"),
    "proposal": ("Proposal", "normal", "uniform"),
    "recipe": ("AutoRecipe", "BaselineRecipe", "NetworkRecipe", "PaperRecipe", "Recipe", "fit"),
    "sampling": ("sample",),
    "score_model": ("FunctionScore", "ScoreModel"),
    "simulations": ("Simulations", "from_table"),
    "simulator": ("Simulator", "from_command", "from_jax", "from_python"),
    "stored": ("CampaignStatus", "StoredSimulations", "campaign_status", "open_campaign"),
    "train": ("Training",),
    "transfer": ("export_simulations", "import_simulations"),
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
