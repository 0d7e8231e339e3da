"""The No-U-Turn sampler as a machine that makes one leapfrog step at a time, so that lanes never wait for one another.

A lane is one chain for one observation. Each iteration evaluates the energy and its gradient once in every lane,
wherever the lane is: still looking for a start, in the middle of a trajectory, or at the end of one. So there is one
place in the compiled program where the model is evaluated, and a lane with short trajectories makes many while another
makes a long one.

Trajectories are doubled until they turn (Hoffman and Gelman 2014), with a draw from each by multinomial weights
(Betancourt 2017), a criterion of turning from summed momenta, and memory for the tree that grows with its depth alone
(Phan et al. 2019, arXiv 1912.11554). Momenta w are whitened: u moves by L w, with L Lᵀ the covariance of the posterior,
so kinetic energies and turns are plain products.

A start is the likeliest of some draws from the prior, from where gradient steps of Barzilai and Borwein's length
descend; a step that would climb is taken back.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

from .adaptation import Moments, Schedule, StepSize
from .target import OUTSIDE
from .walls import Walls, carried

NUM_CANDIDATES = 32
_NUM_SEARCH_STEPS = NUM_CANDIDATES + 60
_MAX_DEPTH = 10
_MAX_ENERGY_ERROR = 1000.0
_FIRST_STEP = 0.1
# The longest step when sampling, in units of the mass matrix. Beyond 2 no Gaussian can be followed; a flat posterior
# would ask for any step, and meet too many walls on its way.
_LONGEST_STEP = 3.0
# The first descent step and the longest, in standard deviations of the prior.
_FIRST_DESCENT, _LONGEST_DESCENT = 0.05, 0.5

Energy = Callable[[Array], tuple[Array, Array]]
# A truth value the compiler does not know; None where it is not needed.
Fence = Any


class Surroundings(NamedTuple):
    """What lanes move in: their energies and gradients, and the walls that all of them share."""

    energy: Energy
    walls: Walls


class Start(NamedTuple):
    """The search for a start: draws from the prior with a penalty each, and the state of the descent."""

    candidates: Float[Array, "candidates params"]
    penalties: Float[Array, " candidates"]
    number: Int[Array, ""]
    lowest: Float[Array, ""]
    step: Float[Array, ""]


class Lane(NamedTuple):
    """All a chain is at one moment.

    A draw is one array of u, gradient and energy; an edge of a trajectory has three rows, u, the whitened momentum w
    and the whitened gradient. Few arrays make a program that compiles quickly.
    """

    key: UInt32[Array, " two"]
    start: Start
    transition: Int[Array, ""]
    window: Int[Array, ""]
    scale: Float[Array, " params"]
    factor: Float[Array, "params params"]
    step_size: StepSize
    moments: Moments
    # The trajectory: a draw from it, log-weight, sum of momenta, ends.
    draw: Float[Array, " point"]
    log_weight: Float[Array, ""]
    total: Float[Array, " params"]
    left: Float[Array, "3 params"]
    right: Float[Array, "3 params"]
    depth: Int[Array, ""]
    first_energy: Float[Array, ""]
    acceptance: Float[Array, ""]
    num_leaps: Float[Array, ""]
    # The half that is being added to it, and its end that moves.
    half_draw: Float[Array, " point"]
    half_log_weight: Float[Array, ""]
    half_total: Float[Array, " params"]
    moving: Float[Array, "3 params"]
    forward: Bool[Array, ""]
    num_leaves: Int[Array, ""]
    # Whether the trajectory is to be dropped and begun anew.
    stale: Bool[Array, ""]
    # First momenta of open subtrees, and the sums of momenta up to them.
    subtrees: Float[Array, "depth 2 params"]


class Event(NamedTuple):
    """What an iteration tells the host: whether a trajectory ended, and with what draw."""

    ended: Bool[Array, ""]
    diverged: Bool[Array, ""]
    draw: Float[Array, " point"]


class Noise(NamedTuple):
    """Random numbers of one iteration."""

    normal: Float[Array, " params"]
    uniform: Float[Array, " three"]


class _Leaf(NamedTuple):
    """What follows from one leapfrog step: what is taken, what has come to its end."""

    acceptance: Array
    log_weight: Array
    joint_log_weight: Array
    taken: Array
    joint_taken: Array
    complete: Array
    ended: Array
    diverged: Array


class _Found(NamedTuple):
    """What follows from one evaluation in the search for a start."""

    better: Array
    lowest: Array
    step: Array
    u: Array


def first_lane(key: Array, candidates: Array, penalties: Array, scale: Array) -> Lane:
    """Begin with draws from the prior, the first of which is evaluated first."""
    p = candidates.shape[-1]
    number, zeros = jnp.zeros((), jnp.int32), jnp.zeros(p, jnp.float32)
    zero, infinite = zeros[0], zeros[0] + np.float32(np.inf)
    point = jnp.concatenate([candidates[0], zeros, infinite[None]])
    edge = jnp.stack([candidates[0], zeros, zeros])
    return Lane(
        key=key,
        start=Start(candidates, penalties, number, infinite, zero),
        transition=number,
        window=number,
        scale=scale,
        factor=jnp.diag(scale),
        step_size=StepSize.around(zero + np.float32(np.log(_FIRST_STEP))),
        moments=Moments.none(zeros),
        draw=point,
        log_weight=zero,
        total=zeros,
        left=edge,
        right=edge,
        depth=number,
        first_energy=zero,
        acceptance=zero,
        num_leaps=zero,
        half_draw=point,
        half_log_weight=zero,
        half_total=zeros,
        moving=edge,
        forward=jnp.asarray(True),
        num_leaves=number,
        stale=jnp.asarray(True),
        subtrees=jnp.zeros((_MAX_DEPTH, 2, p), jnp.float32),
    )


def noise(lane: Lane, num: int) -> tuple[Lane, Noise]:
    """Draw the random numbers of ``num`` iterations."""
    p = len(lane.scale)
    # In one row of round length, for which the generator compiles four times quicker.
    size = -(-num * (p + 3) // 128) * 128
    bits = jax.random.bits(jax.random.wrap_key_data(lane.key), (size,), jnp.uint32)
    # Strictly between 0 and 1.
    uniform = ((bits >> 8).astype(jnp.float32) + 0.5) * 2.0**-24
    numbers = uniform[: num * (p + 3)].reshape(num, p + 3)
    normal = np.float32(np.sqrt(2)) * jax.lax.erf_inv(2 * numbers[:, :p] - 1)
    # Streams are numbered: the second word of the key counts them.
    return lane._replace(key=lane.key + jnp.array([0, 1], jnp.uint32)), Noise(normal, numbers[:, p:])


def iterate(lane: Lane, random: Noise, surroundings: Surroundings, plan: Schedule, fence: Fence) -> tuple[Lane, Event]:
    """Evaluate the energy once in every lane and move all on: in the search for a start, or along a trajectory.

    Every array has the lanes as its first axis.
    """
    walls = surroundings.walls
    edge, step = jax.vmap(_half_leap, (0, None, None))(lane, plan, walls)
    value, gradient = surroundings.energy(edge[:, 0])
    edge = jax.vmap(_whole_leap)(lane, edge, step, gradient)
    here = jnp.concatenate([edge[:, 0], gradient, value[:, None]], axis=1)
    leaf, subtrees = _apart(fence, jax.vmap(_leaf), (lane, here, edge, random))
    found = _apart(fence, jax.vmap(_found, (0, 0, None)), (lane, here, walls))
    moved, event = jax.vmap(_moved)(lane._replace(subtrees=subtrees), (here, edge, random), leaf, found)
    step_size, counted = _apart(fence, jax.vmap(_learned, (0, 0, None)), (lane, leaf, plan))
    moments = jax.vmap(_observed, (0, 0, 0, None))(lane, event.draw, counted, plan)
    moved = moved._replace(step_size=step_size, moments=moments, transition=lane.transition + counted)
    return moved, event._replace(ended=counted)


def refreshed(lane: Lane, plan: Schedule) -> Lane:
    """Where a window of the warm-up has ended, go on with the covariance of its positions, from a new trajectory."""
    new = lane._replace(
        factor=lane.moments.factor(lane.scale),
        moments=Moments.none(lane.scale),
        step_size=StepSize.around(lane.step_size.current),
        window=lane.window + 1,
        stale=jnp.ones_like(lane.stale),
    )
    return _where(_waits(lane, plan), new, lane)


def _apart(fence: Fence, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Compute in a part of the program of its own.

    The compiler for CPUs would otherwise compute the same again for everything that depends on it, in five times the
    code.
    """
    if fence is None:
        return function(*arguments)
    shapes = jax.eval_shape(function, *arguments)
    nothing = lambda *_: jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)  # noqa: E731
    return jax.lax.cond(fence, function, nothing, *arguments)


def _searching(lane: Lane) -> Array:
    return lane.start.number < _NUM_SEARCH_STEPS


def _waits(lane: Lane, plan: Schedule) -> Array:
    """Say whether a window has ended; until the mass matrix is made, the chain moves on uncounted."""
    return lane.transition >= plan.ends[lane.window]


def _half_leap(lane: Lane, plan: Schedule, walls: Walls) -> tuple[Array, Array]:
    """Move to where the energy is needed next, with the momentum of half a step; return also the step."""
    warming = lane.transition < plan.num_warmup
    learned = jnp.minimum(lane.step_size.averaged, np.float32(np.log(_LONGEST_STEP)))
    size = jnp.exp(jnp.where(warming, lane.step_size.current, learned))
    step = jnp.where(lane.forward, size, -size)
    w = lane.moving[1] - step / 2 * lane.moving[2]
    u, w = carried(lane.moving[0], w, jnp.where(_searching(lane), 0.0, step), lane.factor, walls)
    return jnp.stack([u, w, w]), step


def _whole_leap(lane: Lane, edge: Array, step: Array, gradient: Array) -> Array:
    slope = lane.factor.T @ gradient
    return jnp.stack([edge[0], edge[1] - step / 2 * slope, slope])


def _leaf(lane: Lane, here: Array, edge: Array, random: Noise) -> tuple[_Leaf, Array]:
    """Add a leaf to the half that grows; when that is as long as the trajectory, the two are joined."""
    w = edge[1]
    error = here[-1] + w @ w / 2 - lane.first_energy
    error = jnp.where(jnp.isnan(error), jnp.inf, error)
    diverged = error > _MAX_ENERGY_ERROR
    log_weight = jnp.logaddexp(lane.half_log_weight, -error)
    subtrees, turned = _subtrees(lane, w)
    complete = (lane.num_leaves + 1 == 1 << lane.depth) & ~(turned | diverged | lane.stale)
    left, right = jnp.where(lane.forward, lane.left[1], w), jnp.where(lane.forward, w, lane.right[1])
    turned_whole = _turns(left, right, lane.total + lane.half_total + w)
    last = turned_whole | (lane.depth + 1 >= _MAX_DEPTH)
    chance = jnp.log(random.uniform)
    leaf = _Leaf(
        acceptance=jnp.exp(-jnp.maximum(error, 0.0)),
        log_weight=log_weight,
        joint_log_weight=jnp.logaddexp(lane.log_weight, log_weight),
        taken=chance[0] < -error - log_weight,
        # With a preference for what is new.
        joint_taken=complete & (chance[1] < log_weight - lane.log_weight),
        complete=complete,
        ended=(turned | diverged | lane.stale | (complete & last)) & ~_searching(lane),
        diverged=diverged,
    )
    return leaf, subtrees


def _subtrees(lane: Lane, w: Array) -> tuple[Array, Array]:
    """Say whether one of the balanced subtrees that end with this leaf turns.

    A subtree's first momentum, and the sum up to it, are kept at the place given by the number of ones in the binary
    form of its first leaf; that many subtrees are open at a time.
    """
    leaf, total = lane.num_leaves, lane.half_total + w
    place = jax.lax.population_count(leaf >> 1)
    closing = jax.lax.population_count((~leaf & (leaf + 1)) - 1)
    places = jnp.arange(_MAX_DEPTH)
    written = (places == place) & (leaf % 2 == 0)
    subtrees = jnp.where(written[:, None, None], jnp.stack([w, total]), lane.subtrees)
    momenta, totals = subtrees[:, 0], subtrees[:, 1]
    inner = total - totals + (momenta - w) / 2
    turned = (jnp.sum(momenta * inner, axis=1) <= 0) | (inner @ w <= 0)
    return subtrees, (turned & (places <= place) & (places > place - closing)).any()


def _turns(left: Array, right: Array, total: Array) -> Array:
    """Say whether a trajectory has turned at either end, from its momenta and their sum."""
    inner = total - (left + right) / 2
    return (left @ inner <= 0) | (right @ inner <= 0)


def _found(lane: Lane, here: Array, walls: Walls) -> _Found:
    """Take in an evaluation of the search for a start, and say where to evaluate next."""
    p, start, best = len(lane.scale), lane.start, lane.draw
    drawing = start.number < NUM_CANDIDATES
    penalised = here[-1] + start.penalties[jnp.minimum(start.number, NUM_CANDIDATES - 1)]
    better = jnp.where(drawing, penalised < start.lowest, here[-1] < best[-1])
    change = (here[:p] - best[:p]) / lane.scale
    bend = change @ ((here[p:-1] - best[p:-1]) * lane.scale)
    step = jnp.where(better, jnp.where(bend > 0, change @ change / bend, 4 * start.step), start.step / 5)
    best = jnp.where(better, here, best)
    downhill = -best[p:-1] * lane.scale
    steepest = jnp.max(jnp.abs(downhill)) + 1e-20
    number = start.number + 1
    step = jnp.where(
        number <= NUM_CANDIDATES, _FIRST_DESCENT / steepest, jnp.minimum(step, _LONGEST_DESCENT / steepest)
    )
    candidate = start.candidates[jnp.minimum(number, NUM_CANDIDATES - 1)]
    descended = jnp.clip(best[:p] + step * downhill * lane.scale, *walls)
    u = jnp.where(number < NUM_CANDIDATES, candidate, descended)
    return _Found(better, jnp.where(better, penalised, start.lowest), step, u)


def _fresh(draw: Array, random: Noise, factor: Array) -> tuple[Array, Array]:
    """Return a trajectory of one point, with a new momentum, and its total energy."""
    p, w = len(random.normal), random.normal
    return jnp.stack([draw[:p], w, factor.T @ draw[p:-1]]), draw[-1] + w @ w / 2


def _moved(lane: Lane, new: tuple[Array, Array, Noise], leaf: _Leaf, found: _Found) -> tuple[Lane, Event]:
    """Put everything in its new place, once it is known what to take."""
    here, edge, random = new
    searching = _searching(lane)
    number = lane.start.number + searching
    begins = leaf.ended
    renewed = begins | leaf.complete
    half_draw = jnp.where(leaf.taken, here, lane.half_draw)
    draw = jnp.where(
        searching, jnp.where(found.better, here, lane.draw), jnp.where(leaf.joint_taken, half_draw, lane.draw)
    )
    fresh, energy = _fresh(draw, random, lane.factor)
    left = jnp.where(leaf.complete & ~lane.forward, edge, lane.left)
    right = jnp.where(leaf.complete & lane.forward, edge, lane.right)
    forward = jnp.where(renewed, random.uniform[2] < 0.5, lane.forward)
    looked_at = jnp.stack([found.u, edge[1], edge[2]])
    end = jnp.where(searching, looked_at, jnp.where(leaf.complete, jnp.where(forward, right, left), edge))
    total = lane.half_total + edge[1]
    zero = jnp.zeros_like(lane.first_energy)
    moved = lane._replace(
        start=lane.start._replace(number=number, lowest=found.lowest, step=found.step),
        draw=draw,
        log_weight=jnp.where(begins, 0.0, jnp.where(leaf.complete, leaf.joint_log_weight, lane.log_weight)),
        total=jnp.where(begins, random.normal, jnp.where(leaf.complete, lane.total + total, lane.total)),
        left=jnp.where(begins, fresh, left),
        right=jnp.where(begins, fresh, right),
        depth=jnp.where(begins, 0, lane.depth + leaf.complete),
        first_energy=jnp.where(begins, energy, lane.first_energy),
        acceptance=jnp.where(begins, zero, lane.acceptance + leaf.acceptance),
        num_leaps=jnp.where(begins, zero, lane.num_leaps + 1),
        half_draw=half_draw,
        half_log_weight=jnp.where(renewed, -jnp.inf, leaf.log_weight),
        half_total=jnp.where(renewed, 0.0, total),
        moving=jnp.where(begins, fresh, end),
        forward=forward,
        num_leaves=jnp.where(renewed, 0, lane.num_leaves + 1),
        stale=lane.stale & ~begins,
    )
    # To meet an edge of the support is no sign of a density that cannot be followed.
    return moved, Event(leaf.ended, leaf.diverged & (here[-1] < -OUTSIDE / 2), draw)


def _learned(lane: Lane, leaf: _Leaf, plan: Schedule) -> tuple[StepSize, Array]:
    """Count a trajectory that has ended, and while warming up learn the step size from its acceptance."""
    counted = leaf.ended & ~lane.stale & ~_waits(lane, plan)
    new = lane.step_size.updated((lane.acceptance + leaf.acceptance) / (lane.num_leaps + 1))
    return _where(counted & (lane.transition < plan.num_warmup), new, lane.step_size), counted


def _observed(lane: Lane, draw: Array, counted: Array, plan: Schedule) -> Moments:
    """Take a draw of the warm-up into the moments of its window."""
    used = counted & (lane.transition < plan.num_warmup) & (lane.transition >= plan.begin)
    return lane.moments.added(draw[: len(lane.scale)], used)


def _where(chosen: Array, one: Any, other: Any) -> Any:
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(chosen, a, b), one, other)
