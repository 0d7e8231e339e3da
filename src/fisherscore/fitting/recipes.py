"""Named ways to fit a score: the best we have, the paper to the letter, single networks and closed forms.

A recipe is a small frozen set of choices. Users pass its name, or an instance to change a choice.
"""

import abc
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..errors import ArgumentError
from ..potentials.base import Fitter, build
from ..potentials.closed_forms import CLOSED_FORMS
from ..potentials.mixture_density import MixtureDensity
from ..potentials.rare_events import RareEventsFitter
from ..score.fitted import FittedScore
from ..score.standardize import Standardizer
from ..simulation.failures import thinned_rows
from ..simulation.latent import AdditiveLatent
from ..simulation.simulations import Simulations
from .assemble import FitOrigin, FunctionFit, assemble
from .auto import fit_stack
from .checks import refuse_too_few, warn_if_deterministic
from .data import Rows
from .design import refuse_dependent
from .field_forms import field_forms, may_have_network
from .latent_pairs import LatentPairs, latent_pairs
from .options import FitOptions
from .rare_events import hardly_ever_changes, usual_values
from .train import Monitor, Task, Training, latent_score_loss, train
from .trainers import DensityTrainer, ResidualTrainer, Trainer


@dataclass(frozen=True)
class Recipe(abc.ABC):
    """Base of all recipes: ways to fit, with their settings.

    >>> import fisherscore as fs
    >>> [isinstance(recipe, fs.Recipe) for recipe in (fs.AutoRecipe(), fs.PaperRecipe())]
    [True, True]
    """

    @abc.abstractmethod
    def fit_function(self, sims: Simulations, options: FitOptions) -> FunctionFit:
        """Fit a function of standardised (θ, x).

        Args:
            sims: Simulations that all succeeded.
            options: Seed, display and checkpoint of the fit.

        Returns:
            The function, and what it was fitted to.

        """

    def fit(self, sims: Simulations, *, seed: int, progress: bool | None = None, checkpoint: Any = None) -> FittedScore:
        """Fit a score model, with none of the checks of :func:`fisherscore.fit`.

        Args:
            sims: Simulations that all succeeded.
            seed: Seed of everything random in the fit.
            progress: Whether to show a progress bar; None shows one in a terminal.
            checkpoint: Folder in which the state of a training is kept, or None.

        Returns:
            The model.

        """
        options = FitOptions(seed, progress, None if checkpoint is None else Path(checkpoint))
        return assemble(self.fit_function(sims, options), FitOrigin(type(self).__name__, seed, sims.failure_rate))


@dataclass(frozen=True)
class NetworkRecipe(Recipe):
    """One network trained on latent scores: by default conservative, in minibatches, stopped early.

    Simulations without a latent get additive noise of 1/200 of each parameter's range, as in the paper.

    Args:
        architecture: Registered name of the network: ``"exponential_family"``, ``"vector_field"`` and others.
        settings: Sizes of the network.
        training: How to train.
        num_steps: Budget in steps, so that few simulations are seen often enough and many do not take for ever; None
            leaves the number of epochs to ``training``.
        standardize_inputs: Whether the network sees standardised θ and x, or both as they are.

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
        """Spread the steps over epochs.

        Args:
            num_simulations: How many simulations there are.

        Returns:
            The training, with the epochs that the steps make.

        """
        if self.num_steps is None:
            return self.training
        return self.training.for_steps(self.num_steps, num_simulations)

    def fit_function(
        self, sims: Simulations, options: FitOptions, others: Iterator[Simulations] | None = None
    ) -> FunctionFit:
        """Regress the latent scores on (θ, x).

        Args:
            sims: Simulations that all succeeded.
            options: Seed, display and checkpoint of the fit.
            others: Other simulations, the same number at a time, to go on with in turn.

        Returns:
            The network, and what it was fitted to.

        """
        rng = np.random.default_rng(np.random.SeedSequence(options.seed, spawn_key=(5,)))
        pairs = latent_pairs(sims, rng)
        standardizer = Standardizer.of(pairs.theta, pairs.x, pairs.target, inputs=self.standardize_inputs)

        def rows(pairs: LatentPairs) -> tuple[np.ndarray, ...]:
            weights = () if pairs.weights is None else (pairs.weights,)
            return (*standardizer.inputs(pairs.theta, pairs.x), standardizer.target(pairs.target), *weights)

        network_key, train_key = jax.random.split(jax.random.key(options.seed))
        sizes = (sims.proposal.num_parameters, int(np.prod(sims.x_shape)))
        network = build(self.architecture, *sizes, self.settings, key=network_key)
        training = self.training_for(len(sims))
        fresh = None if others is None else lambda: rows(latent_pairs(next(others), rng))
        task = Task(latent_score_loss, rows(pairs), fresh)
        monitor = Monitor(progress=options.progress, checkpoint=options.checkpoint)
        network, history = train(network, task, training, key=train_key, monitor=monitor)
        details = {"settings": self.settings, "training": asdict(training), **history.as_dict()}
        return FunctionFit(network, standardizer, sims, pairs.theta, details)


@dataclass(frozen=True)
class PaperRecipe(NetworkRecipe):
    """The paper's estimator (its appendix D): an ELU network, Adam at a constant rate, all simulations in every step.

    The defaults are those of its weak lensing example; :meth:`toy` has those of its linear Gaussian one. The network
    sees θ and x as they are; targets are divided by their root mean square, without which Adam at these rates could not
    reach them.

    Args:
        architecture: Registered name of the network.
        settings: Hidden sizes of the network.
        training: How to train.
        num_steps: Budget in steps; None leaves the number of epochs to ``training``.
        standardize_inputs: Whether the network sees standardised θ and x, or both as they are.

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
        """Give the settings of the linear Gaussian example.

        Returns:
            A recipe with two layers of 64, rate 1e-2 and 1,000 epochs.

        """
        training = replace(cls().training, num_epochs=1_000, learning_rate=1e-2)
        return cls(settings={"hidden": (64, 64)}, training=training)


@dataclass(frozen=True)
class ClosedFormRecipe(Recipe):
    """One of the closed forms of :mod:`fisherscore.potentials.closed_forms`: no training, no latent scores.

    Args:
        form: ``"gaussian"``, ``"location_scale"``, ``"quasi_score"`` or ``"mapped"``.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator, problem.proposal, 1_000)
    >>> fs.accuracy.score_error(fs.fit(sims, recipe=fs.ClosedFormRecipe()), problem).mean < 0.02
    True

    """

    form: str = "gaussian"

    def __post_init__(self) -> None:
        if self.form not in CLOSED_FORMS:
            hint = ' It is called "quasi_score" since version 0.2.0.' if self.form == "moments" else ""
            raise ArgumentError(f"form: expected one of {', '.join(CLOSED_FORMS)}, got {self.form!r}.{hint}")

    def fit_function(self, sims: Simulations, options: FitOptions) -> FunctionFit:
        """Fit the closed form to x at the parameters it was drawn at.

        Args:
            sims: Simulations that all succeeded.
            options: Seed, display and checkpoint of the fit.

        Returns:
            The closed form, and what it was fitted to.

        """
        form, data_size = CLOSED_FORMS[self.form], int(np.prod(sims.x_shape))
        if data_size > form.max_data:
            raise ArgumentError(
                f"recipe: {self.form} is for up to {form.max_data} data, got {data_size}. "
                "Compress them first, or use fisherscore.NetworkRecipe()."
            )
        sims = _thinned(sims, options.seed)
        standardizer, rows = rows_in_region(sims)
        warn_if_deterministic(rows)
        fitted = form.fit(rows.u, rows.x)
        return FunctionFit(fitted, standardizer, sims, sims.drawn_at, {"settings": fitted.settings})


@dataclass(frozen=True)
class AutoRecipe(Recipe):
    """The default: closed forms weighed on held-out simulations, and networks for what they leave.

    See ``fitting.auto`` for how. ``model.weights`` names the weights of the members, and ``model.estimated_error`` is
    the score error of :mod:`fisherscore.accuracy` as far as the fit itself can tell: what no candidate sees, none can
    count. Of data with one value in all but a few simulations, only how often they differ is learned.

    Args:
        closed_forms: Names of the closed forms to try.
        density: Trains networks for up to 30 data; None trains none.
        network: The network for larger data but maps and long series; None trains none.
        statistics: Whether series and maps are condensed into statistics; without these, features and a learned
            summary are all there is.

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
    statistics: bool = True

    def trainer(self, data_size: int) -> Trainer | None:
        """Choose the networks for data of a size.

        Args:
            data_size: The number of data in one observation.

        Returns:
            What trains them, or None.

        """
        if data_size <= MixtureDensity.max_data:
            return self.density
        if self.network is None:
            return None
        return ResidualTrainer(self.network.architecture, self.network.settings, self.network.training_for)

    def fit_function(self, sims: Simulations, options: FitOptions) -> FunctionFit:
        """Fit and weigh all candidates.

        Args:
            sims: Simulations that all succeeded.
            options: Seed, display and checkpoint of the fit.

        Returns:
            The weighted sum, and what it was fitted to.

        """
        sims = _thinned(sims, options.seed)
        standardizer, rows, rare = rows_with_rare_events(sims, is_read=not options.blocks)
        refuse_too_few(rows)
        warn_if_deterministic(rows)
        forms: dict[str, Fitter] = {name: CLOSED_FORMS[name] for name in self.closed_forms}
        if rare:
            forms = {name: RareEventsFitter(form, rare) for name, form in forms.items()}
        trainer = self.trainer(rows.data_size)
        if options.blocks:
            forms = field_forms(options.blocks, np.asarray(standardizer.x_scale), self.closed_forms)
            trainer = trainer if may_have_network(options.blocks) else None
        fitted = fit_stack(rows, forms, trainer, options, _scattered(standardizer, options))
        details = {
            "weights": fitted.weights,
            "estimated_error": fitted.estimated_error,
            "error_covariance": fitted.error_covariance,
            "information": fitted.information,
            **fitted.details,
        }
        return FunctionFit(fitted.stack, standardizer, sims, sims.drawn_at, details)


def _thinned(sims: Simulations, seed: int) -> Simulations:
    """Leave out rows at random in place of weights, where the simulator was run at a latent of the user's own.

    Elsewhere failures do not change the law of x given the parameters it was drawn at.
    """
    if sims.weights is None or sims.latent_model is None or isinstance(sims.latent_model, AdditiveLatent):
        return sims
    return replace(sims.take(thinned_rows(sims.weights, seed)), weights=None)


def _scattered(standardizer: Standardizer, options: FitOptions) -> list[Rows]:
    """Give the same rows as each network of a learned summary has them."""
    if options.scatter is None:
        return []
    return [Rows(*standardizer.inputs(options.scatter.theta, x)) for x in options.scatter.x]


def rows_in_region(sims: Simulations) -> tuple[Standardizer, Rows]:
    """Scale the parameters at which x was drawn to [−1, 1] over the training region, and standardise x.

    Data that hardly ever change are zero then, in all rows, unless there are no others.
    """
    return rows_with_rare_events(sims, is_read=False)[:2]


def rows_with_rare_events(sims: Simulations, *, is_read: bool) -> tuple[Standardizer, Rows, tuple[int, ...]]:
    """Return the same, and the places of data that hardly ever change.

    Where these are read, they are next to zero, for ``potentials.rare_events`` to find; else there are no places.
    """
    refuse_dependent(sims)
    standardizer = Standardizer.of_region(sims.proposal.low, sims.proposal.high, sims.x, sims.proposal.axes)
    rare = hardly_ever_changes(sims.x)
    if (rare | (sims.x == sims.x[0]).all(axis=0)).all():
        rare = np.zeros_like(rare)
    places: tuple[int, ...] = tuple(np.flatnonzero(rare.ravel()).tolist())
    if is_read and places:
        standardizer = standardizer.counting(rare, usual_values(sims.x), sims.x)
        u, x = standardizer.inputs(sims.drawn_at, sims.x)
        return standardizer, Rows(u, x.reshape(len(x), -1)), places
    u, x = standardizer.inputs(sims.drawn_at, sims.x)
    return standardizer.leaving_out(rare), Rows(u, np.where(rare, 0.0, x).reshape(len(x), -1)), ()
