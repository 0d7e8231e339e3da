"""Maximum likelihood from a score: solve ŝ(θ, x) = 0 inside the training region.

Steps are those of Newton's method with H = −∂ŝ/∂θ where it is positive definite, and of Fisher scoring (or of |H|, its
eigenvalues made positive) where it is not. A step is halved until the line integral of the score along it is positive,
which is to say until the likelihood rises; that needs no density, so plain vector fields will do. Parameters at the
edge of the region whose score points outwards are held there. All observations are solved in one compiled call.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.stats import qmc

from .._support.arguments import as_count, as_theta
from .._support.quadrature import gauss_legendre
from .._support.rows import rows_mapped
from ..errors import ArgumentError
from ..score.combined import observed
from ..score.model import ScoreModel

# Converged when the next step is below this fraction of the error bar.
_TOLERANCE = 1e-3
_NUM_STARTS = 64
_MOST_HALVINGS = 10
_NODES, _WEIGHTS = gauss_legendre(4)
# No step moves a parameter by more than this fraction of its range.
_LONGEST_STEP = 0.2

_REASONS = (
    "converged",
    "not converged: the score is still pulling after the last step; raise max_steps or give another start",
    "not converged: the likelihood still rises at the edge of the training region in {edges}; train on a larger region",
    "not converged: the solution is no maximum (the information matrix is not positive definite there)",
    "not converged: the score became NaN or infinite",
)


@dataclass(frozen=True)
class Estimate:
    """Best fits with errors: arrays with the leading axes of the observations.

    ``sigma`` and ``covariance`` come from the observed information −∂ŝ/∂θ at the best fit; where a fit did not converge
    they are NaN and ``message`` says why.

    >>> import fisherscore as fs
    >>> model = fs.problems.linear_gaussian().exact_model()
    >>> fs.maximum_likelihood(model, [0.5, -0.25]).message
    'converged'
    """

    names: tuple[str, ...]
    theta: np.ndarray
    sigma: np.ndarray
    covariance: np.ndarray
    converged: Any
    message: Any
    num_steps: Any
    rarity: Any = None

    def __str__(self) -> str:
        if self.theta.ndim > 1:
            done = np.mean(self.converged)
            return f"{self.theta[..., 0].size} maximum-likelihood fits of {', '.join(self.names)}: {done:.1%} converged"
        rows = [f"{n} = {t:.6g} ± {s:.2g}" for n, t, s in zip(self.names, self.theta, self.sigma, strict=True)]
        return "\n".join([*rows, str(self.message)])


def maximum_likelihood(
    model: ScoreModel, x_obs: Any, *, iid: bool = False, start: Any = None, max_steps: int = 100
) -> Estimate:
    """Find the maximum-likelihood parameters of one observation, or of each of many.

    >>> import fisherscore as fs
    >>> best = fs.maximum_likelihood(fs.problems.linear_gaussian().exact_model(), [0.5, -0.25])
    >>> best.theta.round(3).tolist(), best.sigma.round(3).tolist(), best.converged
    ([0.5, -0.25], [1.0, 1.0], True)
    """
    whole, x = observed(model, x_obs, iid)
    batch = whole.data_batch_shape(x)
    num = int(np.prod(batch))
    rows = jax.tree.map(lambda a: a.reshape(num, *a.shape[len(batch) :]), x)
    starts = _starts(whole, rows, start, num)
    out = _solve(whole, starts, rows, as_count(max_steps, "max_steps"))
    theta, covariance, reason, steps, edges = (np.asarray(a) for a in out)
    messages = np.array(
        [
            _REASONS[r].format(edges=", ".join(n for n, at in zip(whole.names, e, strict=True) if at))
            for r, e in zip(reason, edges, strict=True)
        ]
    )
    covariance = np.where((reason == 0)[:, None, None], covariance, np.nan)
    one = not batch
    converged = (reason == 0).reshape(batch)
    return Estimate(
        names=whole.names,
        theta=np.asarray(theta, np.float64).reshape(*batch, -1),
        sigma=np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1)).astype(np.float64).reshape(*batch, -1),
        covariance=covariance.astype(np.float64).reshape(*batch, *covariance.shape[1:]),
        converged=bool(converged) if one else converged,
        message=str(messages[0]) if one else messages.reshape(batch),
        num_steps=int(steps[0]) if one else steps.reshape(batch),
        rarity=whole.rarity(x),
    )


def _starts(model: ScoreModel, rows: Any, start: Any, num: int) -> Any:
    """Choose where to begin: the user's point, else the likeliest of a spread of points, else the centre."""
    if start is not None:
        given = as_theta(start, model.names, "start")
        if not np.all(model.inside(given)):
            raise ArgumentError(f"start: {np.asarray(given).tolist()} lies outside the training region.")
        return jnp.broadcast_to(jnp.asarray(given, jnp.float32), (num, len(model.names)))
    centre = (model.low + model.high) / 2
    if not model.has_density:
        return jnp.broadcast_to(jnp.asarray(centre, jnp.float32), (num, len(model.names)))
    spread = qmc.Sobol(len(model.names), scramble=False).random(_NUM_STARTS)
    points = np.concatenate([centre[None], model.low + (0.02 + 0.96 * spread) * (model.high - model.low)])
    return _likeliest(model, jnp.asarray(points, jnp.float32), rows)


@eqx.filter_jit
def _likeliest(model: ScoreModel, points: Any, rows: Any) -> Any:
    def best(x: Any) -> Any:
        values = jax.vmap(model.log_likelihood_one, (0, None))(points, x)
        return points[jnp.argmax(jnp.where(jnp.isfinite(values), values, -jnp.inf))]

    return jax.lax.map(best, rows, batch_size=max(1, min(256, model.rows_at_once // len(points))))


@eqx.filter_jit
def _solve(model: ScoreModel, starts: Any, rows: Any, max_steps: int) -> Any:
    at_once = max(1, model.rows_at_once // (1 + len(model.names)))
    return rows_mapped(lambda start, x: _solve_one(model, start, x, max_steps), (starts, rows), at_once)


def _solve_one(model: ScoreModel, start: Float[Array, " params"], x: Any, max_steps: int) -> Any:
    """Iterate in units of the region's ranges, where all parameters are of order one."""
    low, span = jnp.asarray(model.low, jnp.float32), jnp.asarray(model.high - model.low, jnp.float32)

    def score(u: Array) -> Array:
        return span * model.score_one(low + span * u, x)

    def information(u: Array) -> Array:
        jacobian = -jax.jacfwd(score)(u)
        return (jacobian + jacobian.T) / 2

    def held(u: Array, s: Array) -> Array:
        return ((u <= 0) & (s < 0)) | ((u >= 1) & (s > 0))

    def step(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        u, number, _ = carry
        s = score(u)
        stuck = held(u, s)
        direction = _direction(model, information(u), low + span * u, span, jnp.where(stuck, 0.0, s), stuck)
        # In units of the error bar, how far the next step wants to go.
        wanted = jnp.sqrt(jnp.maximum(direction @ jnp.where(stuck, 0.0, s), 0.0))
        direction = direction * jnp.minimum(1.0, _LONGEST_STEP / (jnp.max(jnp.abs(direction)) + 1e-30))
        return _line_search(score, u, direction), number + 1, wanted

    def go_on(carry: tuple[Array, Array, Array]) -> Array:
        u, number, wanted = carry
        return (number < max_steps) & (wanted > _TOLERANCE) & jnp.isfinite(u).all()

    first = (jnp.clip((start - low) / span, 0.0, 1.0), jnp.zeros((), jnp.int32), jnp.asarray(jnp.inf))
    u, number, wanted = jax.lax.while_loop(go_on, step, first)
    s, h = score(u), information(u)
    edges = held(u, s)
    maximum = jnp.linalg.eigvalsh(h)[0] > 0
    reason = jnp.select(
        [~(jnp.isfinite(u).all() & jnp.isfinite(s).all()), edges.any(), ~(wanted <= _TOLERANCE), ~maximum],
        [4, 2, 1, 3],
        0,
    )
    covariance = span[:, None] * jnp.linalg.inv(h) * span
    return low + span * u, covariance, reason, number, edges


def _direction(model: ScoreModel, h: Array, theta: Array, span: Array, s: Array, stuck: Array) -> Array:
    """Solve for the step: Newton's where H is positive definite, else Fisher scoring, else with |H|."""
    free = ~stuck
    mask = free[:, None] & free[None, :]
    values, vectors = jnp.linalg.eigh(h)
    if model.knows_fisher:
        fallback = span[:, None] * model.fisher_one(theta) * span
    else:
        fallback = (vectors * jnp.maximum(jnp.abs(values), 1e-3 * jnp.max(jnp.abs(values)) + 1e-12)) @ vectors.T
    matrix = jnp.where(values[0] > 1e-6 * values[-1], h, fallback)
    matrix = jnp.where(mask, matrix, jnp.eye(len(s)))
    return jnp.where(free, jnp.linalg.solve(matrix, s), 0.0)


def _line_search(score: Any, u: Array, direction: Array) -> Array:
    """Halve the step until the likelihood rises along it: the line integral of the score, by quadrature."""

    def moved(fraction: Array) -> Array:
        return jnp.clip(u + fraction * direction, 0.0, 1.0)

    def falls(carry: tuple[Array, Array]) -> Array:
        fraction, count = carry
        way = moved(fraction) - u
        slopes = jax.vmap(score)(u + _NODES[:, None] * way) @ way
        return ~(_WEIGHTS @ slopes >= 0) & (count < _MOST_HALVINGS)

    fraction, _ = jax.lax.while_loop(falls, lambda c: (c[0] / 2, c[1] + 1), (jnp.ones(()), jnp.zeros((), jnp.int32)))
    return moved(fraction)
