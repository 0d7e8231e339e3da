"""``fs.infer``: the posterior of one observation under a wide prior, by simulations that follow it.

A score does not depend on where simulations were run, so they may be run where the posterior is, with nothing to
correct afterwards, and all that lie in a region are used, whichever round they are of. In a small region every smooth
simulator is close to what the closed forms describe exactly.
"""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..._support.arguments import as_count, brief
from ...errors import ArgumentError, FisherScoreWarning
from ...fitting.recipes import Recipe
from ...simulation.continuing import NUM_CHECKED
from ...simulation.proposal import Proposal
from ...simulation.simulator import Simulator
from .reading import Reading
from .result import Inference
from .search import Search

# As for :func:`fisherscore.sample`.
_MIN_SAMPLES = 10


def infer(
    simulator: Simulator,
    x_obs: Any,
    proposal: Proposal,
    num_simulations: int = 1_000,
    *,
    prior: Any = None,
    num_rounds: int | None = None,
    recipe: Any = "auto",
    features: Callable[..., Any] | None = None,
    mask: Any = None,
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

    The first round simulates all over the proposal, the next ones where the posterior is by then known to be. Rounds
    end when simulations are used up, or when another would not change the posterior. With ``out``, the same call goes
    on where it was stopped and comes to the same result.

    Args:
        simulator: From :func:`from_python`, :func:`from_jax` or :func:`from_command`.
        x_obs: The observation.
        proposal: Where parameters may lie, see :func:`uniform`; no simulation is run beyond, and no posterior is.
        num_simulations: How many may be run in all, failures included.
        prior: As for :func:`sample`; None for uniform over the proposal's region.
        num_rounds: How many rounds at most; None decides by the number of simulations.
        recipe: How the score in the last region is fitted, as for :func:`fit`.
        features: A function of one observation that gives the numbers to learn from, as for :func:`fit`.
        mask: For series and maps, true where a pixel was observed, as for :func:`fit`.
        num_samples: Draws of the posterior kept in each chain.
        num_chains: Number of chains.
        seed: Seed of everything random.
        out: Folder in which everything is kept as it comes; None keeps it in memory.
        workers: As for :func:`simulate`, and so are ``dask`` and ``num_checked``.
        dask: A Dask client or address.
        num_checked: Stored records that are run again.
        progress: Whether to show progress bars; None shows them in a terminal.

    Returns:
        The posterior, the model of the last region, all simulations, the rounds, and a verdict.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> result = fs.infer(problem.simulator, [0.5, -0.5], problem.proposal, 400)
    >>> result.posterior.names, len(result.sims) <= 400
    (('theta1', 'theta2'), True)
    """
    sampling = _checked(recipe, num_samples, num_chains)
    options = {"workers": workers, "dask": dask, "num_checked": num_checked, "progress": progress}
    reading, x_obs = Reading.of(features, mask, x_obs, recipe)
    kept: dict[str, Any] = {"seed": seed, "out": out, "options": options, "reading": reading}
    search = Search.of((simulator, x_obs, prior), proposal, num_simulations, num_rounds, **kept)
    return _concluded(search, recipe, sampling)


def _checked(recipe: Any, num_samples: int, num_chains: int) -> dict[str, Any]:
    """Refuse what is no recipe, and too few draws, before anything is simulated; return how to sample."""
    if not isinstance(recipe, Recipe) and recipe not in ("auto", "paper"):
        raise ArgumentError(f'recipe: expected "auto", "paper" or a recipe object, got {brief(recipe)}.')
    least = as_count(num_samples, "num_samples", minimum=_MIN_SAMPLES)
    return {"num_samples": least, "num_chains": as_count(num_chains, "num_chains")}


def _concluded(search: Search, recipe: Any, sampling: dict[str, Any]) -> Inference:
    """Run a search to its end."""
    search.run()
    result = search.concluded(recipe, sampling)
    warn_of(result.posterior.problems)
    return result


def warn_of(problems: Sequence[str]) -> None:
    """Warn whoever called :func:`infer` of what is wrong with a posterior."""
    for problem in problems:
        warnings.warn(problem, FisherScoreWarning, stacklevel=4)
