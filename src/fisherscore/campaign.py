"""Run a simulator over a proposal, in memory: draw θ, draw z given θ, run the simulator at z."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .arguments import as_count, as_seed
from .errors import ArgumentError, SimulationError
from .latent import Latent, additive_latent
from .progress import progress_bar
from .proposal import Proposal
from .simulations import Simulations
from .simulator import OK, Block, Simulator, training_stream

# When the first records all fail there is nothing to wait for.
_FIRST_LOOK = 10


def simulate(
    simulator: Simulator,
    proposal: Proposal,
    num_simulations: int,
    *,
    latent: Latent | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Simulations:
    """Draw ``num_simulations`` triplets (θ, z, x), the training data of a fit.

    With ``latent`` the model is decomposable and the simulator is x given z. Without it, additive Gaussian noise of
    1/200 of each parameter's range is put between θ and the simulator, as in the paper. The first records do not
    depend on how many follow.

    >>> import fisherscore as fs
    >>> problem = fs.problems.linear_gaussian()
    >>> sims = fs.simulate(problem.simulator_from_latent, problem.proposal, 100, latent=problem.latent)
    >>> sims.latent.shape
    (100, 2)
    """
    _check(simulator, proposal)
    num = as_count(num_simulations, "num_simulations")
    seed = as_seed(seed)
    chosen = additive_latent(proposal) if latent is None else _checked_latent(latent, proposal)
    theta, z = _parameters(proposal, chosen, num, seed)

    blocks: list[Block] = []
    with progress_bar("simulate", num, progress) as advance:
        for start in range(0, num, simulator.block_size):
            part = slice(start, min(start + simulator.block_size, num))
            blocks.append(simulator.run(z[part], np.arange(part.start, part.stop), training_stream(seed)))
            _stop_if_all_fail(blocks[0], simulator)
            advance(part.stop - part.start)
    return Simulations(
        theta=theta,
        latent=z,
        x=_join([b.x for b in blocks], simulator.name),
        status=np.concatenate([b.status for b in blocks]),
        proposal=proposal,
        latent_model=chosen,
        provenance={
            "simulator": simulator.name,
            "seed": seed,
            "num_simulations": num,
            "additive_noise": latent is None,
        },
        messages={i: m for b in blocks for i, m in b.messages.items()},
    )


def _parameters(proposal: Proposal, latent: Latent, num: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw θ and z of records 0 to num − 1, each from its own key."""

    def one(index: Any) -> tuple[Any, Any]:
        theta_key, latent_key = jax.random.split(jax.random.fold_in(jax.random.key(seed), index))
        theta = proposal.draw_one(theta_key)
        return theta, latent.sample(latent_key, theta)

    theta, z = jax.jit(jax.vmap(one))(jnp.arange(num, dtype=jnp.uint32))
    return np.asarray(theta, dtype=np.float64), np.asarray(z, dtype=np.float64)


def _check(simulator: Any, proposal: Any) -> None:
    if not isinstance(simulator, Simulator):
        raise ArgumentError(
            f"simulator: expected a simulator, got {simulator!r}. Wrap a function with fisherscore.from_python or "
            "fisherscore.from_jax."
        )
    if not isinstance(proposal, Proposal):
        raise ArgumentError(f"proposal: expected a proposal, got {proposal!r}. Make one with fisherscore.uniform.")


def _checked_latent(latent: Any, proposal: Proposal) -> Latent:
    """Try the latent model on shapes alone, so that a mistake is found before any simulation is run."""
    if not isinstance(latent, Latent):
        raise ArgumentError(
            f"latent: expected a latent model, got {latent!r}. Use fisherscore.GaussianLatent or CustomLatent."
        )
    theta = jax.eval_shape(proposal.draw_one, jax.random.key(0))
    try:
        z = jax.eval_shape(latent.sample, jax.random.key(0), theta)
        score = jax.eval_shape(latent.score, theta, z)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"latent: does not work with the {proposal.num_parameters} parameters of the proposal: {error}"
        ) from error
    if z.ndim != 1 or score.shape != theta.shape:
        raise ArgumentError(
            f"latent: expected z of shape (q,) and a score of shape {theta.shape}, got {z.shape} and {score.shape}."
        )
    return latent


def _stop_if_all_fail(first: Block, simulator: Simulator) -> None:
    look = first.status[:_FIRST_LOOK]
    if (look != OK).all():
        words = next(iter(first.messages.values()))
        raise SimulationError(
            f"The simulator {simulator.name!r} failed on each of its first {len(look)} runs, so nothing more was run. "
            f"It said: {words}"
        )


def _join(parts: list[np.ndarray], name: str) -> np.ndarray:
    """Stack blocks, giving those in which every record failed the shape of the others."""
    shapes = {p.shape[1:] for p in parts if math.prod(p.shape[1:])}
    if len(shapes) > 1:
        raise SimulationError(
            f"The simulator {name!r} returned x of changing shape: {sorted(shapes)}. Every x must have the same shape; "
            "pad it, or return summaries of fixed length."
        )
    shape = shapes.pop()
    return np.concatenate([p if p.shape[1:] == shape else np.full((len(p), *shape), np.nan) for p in parts])
