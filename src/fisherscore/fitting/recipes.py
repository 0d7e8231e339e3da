"""Named ways to fit a score: ``paper``, to the letter, and ``auto``, the best we have.

A recipe is a small frozen record of choices. Users pass its name, or an instance to change a choice.
"""

import abc
import platform
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import optax

from .._support.arguments import as_seed
from .._support.legendre import affordable_degree, exponents_up_to, legendre
from ..errors import ArgumentError, FisherScoreWarning, TrainingError
from ..potentials.closed_form import CLOSED_FORMS
from ..potentials.gaussian import LARGEST_DATA
from ..potentials.networks import Network, build_network
from ..score.fitted import FittedScore
from ..score.model import Provenance
from ..score.standardize import Standardizer
from ..score.training_summary import TrainingSummary
from ..simulation.failures import thinned_rows
from ..simulation.latent import AdditiveLatent
from ..simulation.simulations import Simulations
from .auto import ResidualTrainer, Trainer, fit_stack
from .train import History, Training, latent_score_loss, train
from .trainers import LARGEST_DATA as LARGEST_FOR_DENSITY
from .trainers import DensityTrainer

# Failures that depend on θ or x bias the score; below this they are tolerated with a warning.
MOST_FAILURES = 0.01
_FEWEST = 10
# Training rows from which the Fisher surface and the spread of x are estimated; more would not sharpen them.
_REMEMBERED = 50_000
# Training holds its data many times over (as read, shuffled, standardised, in single precision, the next part of them)
# and compiles; measured, it takes some thirteen times what one part takes.
_COPIES = 20
_COPIES_OF_ALL = 5


@dataclass(frozen=True)
class Recipe(abc.ABC):
    """Base of all recipes: ways to fit, with their settings.

    >>> import fisherscore as fs
    >>> [isinstance(recipe, fs.Recipe) for recipe in (fs.AutoRecipe(), fs.PaperRecipe())]
    [True, True]
    """

    @abc.abstractmethod
    def fit(self, sims: Simulations, *, seed: int, progress: bool | None, checkpoint: Any) -> FittedScore:
        """Fit a score model to simulations that all succeeded."""


@dataclass(frozen=True)
class NetworkRecipe(Recipe):
    """One network trained on latent scores: by default conservative, in minibatches, stopped early.

    With ``num_steps`` the budget is counted in steps, so that few simulations are seen often enough and many do not
    take for ever; without it, ``training`` says how many epochs to run.

    >>> import fisherscore as fs
    >>> fs.NetworkRecipe().architecture
    'exponential_family'
    """

    architecture: str = "exponential_family"
    settings: dict[str, Any] = field(default_factory=lambda: {"hidden": (64, 64), "num_features": 16})
    training: Training = Training()
    num_steps: int | None = 10_000
    standardize_inputs: bool = True

    def training_for(self, num_simulations: int) -> Training:
        """Spread the steps over as many epochs as they make."""
        if self.num_steps is None:
            return self.training
        return self.training.for_steps(self.num_steps, num_simulations)

    def fit(self, sims: Simulations, *, seed: int, progress: bool | None, checkpoint: Any) -> FittedScore:
        """Regress the latent scores on (θ, x)."""
        return self.fit_windows(sims, None, seed=seed, progress=progress, checkpoint=checkpoint)

    def fit_windows(
        self,
        sims: Simulations,
        others: Iterator[Simulations] | None,
        *,
        seed: int,
        progress: bool | None,
        checkpoint: Any,
    ) -> FittedScore:
        """Regress the latent scores on (θ, x) of some simulations, and in turn of as many others as there are."""
        target = _targets(sims)
        standardizer = Standardizer.of(sims.theta, sims.x, target, inputs=self.standardize_inputs)

        def rows(part: Simulations) -> tuple[np.ndarray, ...]:
            weights = () if part.weights is None else (part.weights,)
            return (*standardizer.inputs(part.theta, part.x), standardizer.target(_targets(part)), *weights)

        network_key, train_key = jax.random.split(jax.random.key(seed))
        network = build_network(
            self.architecture, sims.proposal.num_parameters, int(np.prod(sims.x_shape)), self.settings, key=network_key
        )
        training = self.training_for(len(sims))
        network, history = train(
            network,
            latent_score_loss,
            rows(sims),
            training,
            key=train_key,
            progress=progress,
            checkpoint=checkpoint,
            fresh=None if others is None else lambda: rows(next(others)),
        )
        facts = {"settings": self.settings, "training": asdict(training), **_facts(history)}
        return _model(self, sims, sims.theta, seed, network, standardizer, facts)


@dataclass(frozen=True)
class PaperRecipe(NetworkRecipe):
    """The paper's estimator (its appendix D): an ELU network, Adam at a constant rate, all simulations in every step.

    The defaults are those of its weak lensing example; :meth:`toy` has those of its linear Gaussian one. The network
    sees θ and x as they are; targets are divided by their root mean square, without which Adam at these rates could not
    reach them.

    >>> import fisherscore as fs
    >>> fs.PaperRecipe.toy().settings, fs.PaperRecipe().settings
    ({'hidden': (64, 64)}, {'hidden': (64, 128, 128)})
    """

    architecture: str = "vector_field"
    settings: dict[str, Any] = field(default_factory=lambda: {"hidden": (64, 128, 128)})
    training: Training = Training(
        num_epochs=10_000, batch_size=None, learning_rate=1e-3, decay="none", held_out=0.0, patience=None
    )
    num_steps: int | None = None
    standardize_inputs: bool = False

    @classmethod
    def toy(cls) -> "PaperRecipe":
        """Return the settings of the linear Gaussian example: two layers of 64, rate 1e-2, 1,000 epochs."""
        training = replace(cls().training, num_epochs=1_000, learning_rate=1e-2)
        return cls(settings={"hidden": (64, 64)}, training=training)


@dataclass(frozen=True)
class ClosedFormRecipe(Recipe):
    """One of the closed forms of :mod:`fisherscore.potentials.closed_form`, by name: no training, no latent scores.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 1_000)
    >>> fs.accuracy.score_error(fs.fit(sims, recipe=fs.ClosedFormRecipe()), problem).mean < 0.02
    True
    """

    form: str = "gaussian"

    def __post_init__(self) -> None:
        if self.form not in CLOSED_FORMS:
            raise ArgumentError(f"form: expected one of {', '.join(CLOSED_FORMS)}, got {self.form!r}.")

    def fit(self, sims: Simulations, *, seed: int, progress: bool | None, checkpoint: Any) -> FittedScore:
        """Fit the closed form to x at the parameters it was drawn at."""
        del progress, checkpoint
        if np.prod(sims.x_shape) > LARGEST_DATA:
            raise ArgumentError(
                f"recipe: the closed forms are for up to {LARGEST_DATA} data, got {int(np.prod(sims.x_shape))}. "
                "Compress them first, or use fisherscore.NetworkRecipe()."
            )
        sims = _evened(sims, seed)
        standardizer, u, x = _in_region(sims)
        network = CLOSED_FORMS[self.form](u, x.reshape(len(x), -1))
        return _model(self, sims, sims.drawn_at, seed, network, standardizer, {"settings": network.settings})


@dataclass(frozen=True)
class AutoRecipe(Recipe):
    """The default: closed forms weighed on held-out simulations, and networks for what they leave.

    See ``fitting.auto`` for how. ``density`` is for up to 30 data, ``network`` for more; None trains none. The
    model's record names the ``weights`` of its
    members and its ``estimated_error``, the score error of :mod:`fisherscore.accuracy` as far as the fit itself can
    tell: what no candidate sees, none can count.

    >>> import fisherscore as fs
    >>> problem = fs.problems.poisson_counts()
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 400)
    >>> model = fs.fit(sims, recipe=fs.AutoRecipe(closed_forms=("gaussian", "quasi_score"), density=None))
    >>> max(model.weights, key=model.weights.get)
    'quasi_score'
    """

    closed_forms: tuple[str, ...] = tuple(CLOSED_FORMS)
    density: DensityTrainer | None = DensityTrainer()
    network: NetworkRecipe | None = NetworkRecipe(num_steps=4_000)

    def trainer(self, data_size: int) -> Trainer | None:
        """Say what networks suit so many data."""
        if data_size <= LARGEST_FOR_DENSITY:
            return self.density
        if self.network is None:
            return None
        return ResidualTrainer(self.network.architecture, self.network.settings, self.network.training_for)

    def fit(self, sims: Simulations, *, seed: int, progress: bool | None, checkpoint: Any) -> FittedScore:
        """Fit and weigh all candidates."""
        sims = _evened(sims, seed)
        standardizer, u, x = _in_region(sims)
        _warn_if_deterministic(u, x.reshape(len(x), -1))
        fitted = fit_stack(
            u,
            x,
            closed_forms=self.closed_forms,
            trainer=self.trainer(int(np.prod(sims.x_shape))),
            seed=seed,
            progress=progress,
            checkpoint=None if checkpoint is None else Path(checkpoint),
        )
        facts = {"weights": fitted.weights, "estimated_error": fitted.estimated_error, **fitted.facts}
        return _model(self, sims, sims.drawn_at, seed, fitted.network, standardizer, facts)


def _evened(sims: Simulations, seed: int) -> Simulations:
    """Undo what failures do to the law of x given θ, where the simulator was run at a latent of the user's own."""
    if sims.weights is None or sims.latent_model is None or isinstance(sims.latent_model, AdditiveLatent):
        return sims
    return replace(sims.take(thinned_rows(sims.weights, seed)), weights=None)


def _in_region(sims: Simulations) -> tuple[Standardizer, np.ndarray, np.ndarray]:
    """Scale the parameters at which x was drawn to [−1, 1] over the training region, and standardise x."""
    standardizer = Standardizer.of_region(sims.proposal.low, sims.proposal.high, sims.x)
    return standardizer, *standardizer.inputs(sims.drawn_at, sims.x)


def fit(
    sims: Simulations,
    *,
    recipe: str | Recipe = "auto",
    seed: int = 0,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    allow_failures: bool = False,
    memory: float | None = None,
) -> FittedScore:
    """Learn the score ∇θ log p(x | θ) from simulations.

    ``recipe`` is ``"auto"``, ``"paper"`` (the network of the paper's toy example where the latent is the user's own,
    that of its lensing example where it is additive noise) or a recipe object. With ``checkpoint``, a fit that was
    stopped goes on where it was. Above 1 % failed simulations a fit is refused unless ``allow_failures``: dropping
    them biases the score.

    A campaign (:func:`fisherscore.open_campaign`) whose data take more than ``memory`` gigabytes (by default half of
    what is free) is not loaded whole: networks are trained on random parts of it in turn, ``auto`` on one such part.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator_from_latent, problem.proposal, 200, latent=problem.latent)
    >>> fs.fit(sims).score([0.0, 0.0], sims.x).shape
    (200, 2)
    """
    if not isinstance(sims, Simulations):
        raise ArgumentError(f"sims: expected simulations from fisherscore.simulate, got {type(sims).__name__}.")
    chosen = _named(recipe, sims)
    _check_failures(sims, allow_failures)
    if sims.folder is not None and _COPIES_OF_ALL * sims.num_bytes > (most := _memory(memory)):
        if checkpoint is not None:
            raise ArgumentError("checkpoint: expected None for a campaign that does not fit in memory.")
        return _fit_larger_than_memory(chosen, sims, most, seed=as_seed(seed), progress=progress)
    good = sims.ok()
    if len(good) < _FEWEST:
        raise ArgumentError(f"sims: expected at least {_FEWEST} simulations that succeeded, got {len(good)}.")
    _warn_if_imprecise(good)
    model = chosen.fit(good, seed=as_seed(seed), progress=progress, checkpoint=checkpoint)
    return replace(model, provenance=Provenance({**model.provenance, "failure_rate": sims.failure_rate}))


def _memory(gigabytes: float | None) -> float:
    """Return how many bytes training data may take."""
    if gigabytes is None:
        try:
            lines = Path("/proc/meminfo").read_text().splitlines()
            return 0.5 * next(1024 * float(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
        except (OSError, StopIteration):  # some systems do not say
            return float("inf")
    if not gigabytes > 0:
        raise ArgumentError(f"memory: expected gigabytes above 0, got {gigabytes!r}.")
    return float(gigabytes) * 2**30


def _fit_larger_than_memory(
    recipe: Recipe, sims: Simulations, num_bytes: float, *, seed: int, progress: bool | None
) -> FittedScore:
    """Fit to random parts of a campaign, each a fraction of the memory, since training needs several copies."""
    size = int(len(sims) * num_bytes / sims.num_bytes / _COPIES)
    if round(len(sims) * (1 - sims.failure_rate)) < 2 * _FEWEST:
        raise ArgumentError(f"sims: expected at least {2 * _FEWEST} simulations that succeeded.")
    if size < _FEWEST:
        raise ArgumentError(f"memory: {num_bytes / 2**30:.3g} GB hold fewer than {_FEWEST} simulations to train on.")
    windows = sims.windows(size, seed=seed)
    first = next(windows)
    _warn_if_imprecise(first)
    if isinstance(recipe, NetworkRecipe):
        return recipe.fit_windows(first, windows, seed=seed, progress=progress, checkpoint=None)
    warnings.warn(
        f"sims: {len(sims):,} simulations do not fit in memory; {type(recipe).__name__} is fitted to {len(first):,} of "
        "them, drawn at random.",
        FisherScoreWarning,
        stacklevel=3,
    )
    return recipe.fit(first, seed=seed, progress=progress, checkpoint=None)


def _named(recipe: Any, sims: Simulations) -> Recipe:
    if isinstance(recipe, Recipe):
        return recipe
    if recipe == "auto":
        return AutoRecipe()
    if recipe == "paper":
        if sims.latent_model is None:
            raise ArgumentError('recipe: "paper" needs a latent. Simulate with latent="additive" or one of your own.')
        return PaperRecipe() if isinstance(sims.latent_model, AdditiveLatent) else PaperRecipe.toy()
    raise ArgumentError(f'recipe: expected "auto", "paper" or a recipe object, got {recipe!r}.')


def _warn_if_imprecise(sims: Simulations) -> None:
    """Warn when numbers vary by so little that single precision cannot follow them."""
    for name, rows in (("theta", sims.theta), ("x", sims.x.reshape(len(sims), -1))):
        size, spread = np.abs(rows).max(axis=0), rows.std(axis=0)
        blurred = (spread > 0) & (spread < 3e-5 * size)
        if blurred.any():
            column = int(np.flatnonzero(blurred)[0])
            warnings.warn(
                f"sims: column {column} of {name} is about {size[column]:.4g} and varies by {spread[column]:.2g}, "
                "which single precision hardly resolves. Subtract a constant.",
                FisherScoreWarning,
                stacklevel=3,
            )


def _warn_if_deterministic(u: np.ndarray, rows: np.ndarray) -> None:
    """Warn when the parameters all but determine a datum: then the likelihood is a spike, and its score unbounded."""
    p = u.shape[1]
    terms = legendre(u, exponents_up_to(p, min(5, affordable_degree(p, len(u) // 2, 100))))
    residuals = rows - terms @ np.linalg.lstsq(terms, rows, rcond=None)[0]
    noise, spread = residuals.std(axis=0), rows.std(axis=0)
    certain = np.flatnonzero((noise < 1e-3 * spread) & (spread > 0))
    if certain.size:
        warnings.warn(
            f"sims: datum {int(certain[0])} has hardly any noise: given the parameters it varies by "
            f"{noise[certain[0]]:.1g} of its spread over the region. A score then says little but that the "
            "parameters are known; if the simulator is deterministic, add the noise of the measurement to it.",
            FisherScoreWarning,
            stacklevel=4,
        )


def _check_failures(sims: Simulations, allowed: bool) -> None:
    rate = sims.failure_rate
    if not rate:
        return
    counts, first = sims.failures()
    listed = ", ".join(f"{c} {k}" for k, c in counts.items())
    text = (
        f"sims: {rate:.2%} of {len(sims)} simulations failed ({listed}; the first said: {first}). Training on the rest "
        "learns the score of x given success. Failures that depend on the parameters alone are made up for; those that "
        "depend on the data cannot be, and bias the score."
    )
    additive = sims.folder is None and isinstance(sims.latent_model, AdditiveLatent)
    if additive and not sims.proposal.inside(sims.drawn_at[sims.status != "ok"]).all():
        text += (
            " Some failed just outside the proposal's range, where noise added to the parameters had taken them: if "
            "that is the reason, narrow the range a little (the noise is 1/200 of it) or pass a latent of your own."
        )
    if rate > MOST_FAILURES and not allowed:
        raise ArgumentError(text + " Repair the simulator, or pass allow_failures=True.")
    warnings.warn(text, FisherScoreWarning, stacklevel=3)


def _reference(network: Network, theta: np.ndarray, x: np.ndarray) -> TrainingSummary:
    """Let the model remember its training data, or a good part of them."""
    rows = slice(0, _REMEMBERED)
    score = jax.jit(jax.vmap(network))(jnp.asarray(theta[rows], jnp.float32), jnp.asarray(x[rows], jnp.float32))
    return TrainingSummary.of(theta[rows], x[rows], np.asarray(score, np.float64))


def _targets(sims: Simulations) -> np.ndarray:
    target = sims.latent_score()
    if not np.isfinite(target).all():
        raise TrainingError("latent: its score is NaN or infinite for some records. Check its log_prob or score.")
    return target


def _model(
    recipe: Recipe,
    sims: Simulations,
    at: np.ndarray,
    seed: int,
    network: Network,
    standardizer: Standardizer,
    facts: dict[str, Any],
) -> FittedScore:
    theta, x = standardizer.inputs(at, sims.x)
    return FittedScore(
        network=network,
        standardizer=standardizer,
        training_summary=_reference(network, theta, x),
        low=sims.proposal.low,
        high=sims.proposal.high,
        names=sims.proposal.names,
        units=sims.proposal.units,
        x_shape=sims.x_shape,
        provenance=Provenance(_provenance(recipe, sims, seed) | facts),
    )


def _facts(history: History) -> dict[str, Any]:
    return {
        "num_epochs": history.num_epochs,
        "best_epoch": history.best_epoch,
        "stopped_early": history.stopped_early,
        "fit_seconds": history.seconds,
        "loss": history.loss,
        "held_out_loss": history.held_out_loss,
    }


def _provenance(recipe: Recipe, sims: Simulations, seed: int) -> dict[str, Any]:
    """Collect what one needs to know later about how a model came to be."""
    from .. import __version__

    return {
        "recipe": type(recipe).__name__,
        "seed": seed,
        "simulations": sims.origin.as_dict(),
        "num_simulations": len(sims),
        "failure_rate": sims.failure_rate,
        "data_sha256": sims.fingerprint(),
        "versions": {
            "fisherscore": __version__,
            "jax": jax.__version__,
            "equinox": equinox.__version__,
            "optax": optax.__version__,
            "python": platform.python_version(),
        },
        "device": jax.devices()[0].device_kind,
    }
