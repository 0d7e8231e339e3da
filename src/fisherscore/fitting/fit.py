"""``fisherscore.fit``: from simulations to a score model, by a recipe."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .._support.arguments import as_seed
from .._support.precision import single_precision
from .._support.progress import working
from ..errors import ArgumentError, TrainingError
from ..score.fitted import FittedScore
from ..simulation.latent import AdditiveLatent
from ..simulation.simulations import Simulations
from .assemble import FitOrigin, FunctionFit, assemble
from .checks import check_failures, check_number, failure_rate, warn_if_badly_learned, warn_if_imprecise
from .design import usable
from .embed import Summaries, Wanted, learned_summary_for, summaries_of
from .memory import allowed_bytes, fit_in_parts, is_too_large
from .options import FitOptions
from .recipes import AutoRecipe, PaperRecipe, Recipe
from .unused import without_unused


def fit(
    sims: Simulations,
    *,
    recipe: str | Recipe = "auto",
    seed: int = 0,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    allow_failures: bool = False,
    memory: float | None = None,
    features: Callable[..., Any] | None = None,
    embedding: Any = "auto",
    mask: Any = None,
) -> FittedScore:
    """Learn the score ∇θ log p(x | θ) from simulations.

    A campaign whose data take more than ``memory`` is not loaded whole: networks are trained on random parts of it in
    turn, ``auto`` on one such part. Series (t,) or (t, c) and maps (n, m) or (n, m, c) of more than 100 data, with c
    channels, are first condensed into statistics by ``auto``; the model takes the data themselves.

    Args:
        sims: Simulations from :func:`fisherscore.simulate`, :func:`fisherscore.open_campaign` or
            :func:`fisherscore.from_table`.
        recipe: ``"auto"``, the best we have; ``"paper"``, the paper's estimator; or a recipe object.
        seed: Seed of everything random in the fit. Same seed, same machine, same model.
        progress: Whether to show how far the fit is; None shows what takes more than a moment.
        checkpoint: Folder in which the state of the training is kept; a fit that was stopped goes on from there.
        allow_failures: Whether to fit although more than 1 % of the simulations failed. Leaving them out biases the
            score unless they depend on the parameters alone.
        memory: Gigabytes that training may take; None allows half of what is free.
        features: A function of one observation that gives up to 1,000 numbers: used beside the statistics of series
            and maps, in place of other data. It is not saved with the model.
        embedding: A summary to learn: an Equinox module, or :class:`fisherscore.LearnedSummary`; None learns none,
            ``"auto"`` one of series and maps on accelerators, given 1,000 simulations. Used like features.
        mask: For series and maps with ``auto``, true where a pixel is observed. What others hold never matters then.

    Returns:
        The fitted score model, with its own estimate of its error where the recipe makes one.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator_from_latent, problem.proposal, 200, latent=problem.latent)
    >>> fs.fit(sims).score([0.0, 0.0], sims.x).shape
    (200, 2)
    """
    chosen = _chosen_recipe(recipe, sims)
    options = FitOptions(as_seed(seed), progress, None if checkpoint is None else Path(checkpoint))
    check_failures(sims, allow_failures=allow_failures)
    num_bytes = allowed_bytes(memory)
    with working("fit", progress), single_precision():
        statistics = isinstance(chosen, AutoRecipe) and chosen.statistics
        learned = learned_summary_for(embedding, sims, automatic=statistics)
        wanted = Wanted(features, _checked_mask(mask, chosen), learned, statistics)
        summaries = summaries_of(sims, wanted, options, num_bytes)
        source, options = _summarised(sims, summaries, options)
        fitted = _fitted(chosen, source, num_bytes, options, are_data=source is sims)
        summaries, fitted = without_unused(summaries, fitted)
        origin = FitOrigin(type(chosen).__name__, options.seed, failure_rate(source))
        model = assemble(fitted, origin, summaries.embedding, None if is_too_large(sims, num_bytes) else sims)
    warn_if_badly_learned(model)
    return model


def _checked_mask(mask: Any, recipe: Recipe) -> Any:
    """Refuse a mask where there are no statistics: they alone can leave pixels out."""
    if mask is not None and not isinstance(recipe, AutoRecipe):
        raise ArgumentError(
            f'mask: is for recipe="auto", got {type(recipe).__name__}. Leave recipe= out; or cut the pixels that are '
            "not observed out of the data, and leave mask= out."
        )
    return mask


def _is_read_in_parts(sims: Simulations, num_bytes: float, options: FitOptions) -> bool:
    """Say whether simulations are too many to be held, for which there are no checkpoints."""
    too_large = is_too_large(sims, num_bytes)
    if too_large and options.checkpoint is not None:
        raise ArgumentError("checkpoint: expected None for a campaign that does not fit in memory.")
    return too_large


def _summarised(sims: Simulations, summaries: Summaries, options: FitOptions) -> tuple[Simulations, FitOptions]:
    """Put summaries in place of data, where there are any, and say which they are."""
    embedding = summaries.embedding
    if embedding is None:
        return sims, options
    known = replace(options, blocks=embedding.blocks, scatter=summaries.scatter(sims))
    return summaries.of_simulations(sims), known


def _checked_rows(sims: Simulations, *, are_data: bool) -> Simulations:
    """Return those that a fit can use; refuse too few. Pixels that were summarised were centred before rounding."""
    check_number(len(good := sims.ok()))
    if are_data:
        warn_if_imprecise(good)
    check_number(len(good := usable(good)))
    return good


def _fitted(recipe: Recipe, sims: Simulations, num_bytes: float, options: FitOptions, *, are_data: bool) -> FunctionFit:
    """Fit, and say what a matrix means that cannot be inverted."""
    if _is_read_in_parts(sims, num_bytes, options):
        return fit_in_parts(recipe, sims, num_bytes, options)
    rows = _checked_rows(sims, are_data=are_data)
    try:
        return recipe.fit_function(rows, options)
    except np.linalg.LinAlgError as error:
        raise TrainingError(
            f"The fit came upon a matrix that cannot be inverted ({error}). Some data, or sums of them, have no noise, "
            "or some parameters are not varied by themselves: look at the simulations, and leave such data out."
        ) from error


def _chosen_recipe(recipe: Any, sims: Simulations) -> Recipe:
    """Return a recipe given by name or as an object, for what are simulations."""
    if not isinstance(sims, Simulations):
        raise ArgumentError(f"sims: expected simulations from fisherscore.simulate, got {type(sims).__name__}.")
    if isinstance(recipe, Recipe):
        return recipe
    if recipe == "auto":
        return AutoRecipe()
    if recipe == "paper":
        own_latent = sims.latent_model is not None and not isinstance(sims.latent_model, AdditiveLatent)
        return PaperRecipe.toy() if own_latent else PaperRecipe()
    raise ArgumentError(f'recipe: expected "auto", "paper" or a recipe object, got {recipe!r}.')
