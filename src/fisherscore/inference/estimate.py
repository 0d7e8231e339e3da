"""Maximum likelihood from a score: solve ŝ(θ, x) = 0 inside the training region.

Steps are those of Newton's method with H = −∂ŝ/∂θ where it is positive definite, and of Fisher scoring (or of |H|, its
eigenvalues made positive) where it is not. A step is halved until the line integral of the score along it is positive,
which is to say until the likelihood rises; that needs no density, so plain vector fields will do. Parameters at the
edge of the region whose score points outwards are held there. All observations are solved in one compiled call, in
which the model is evaluated in one place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import plot
from .._support.arguments import as_count, as_theta, refuse_outside
from .._support.compiling import quickly_compiled
from .._support.progress import working
from .._support.quadrature import gauss_legendre
from .._support.rows import rows_mapped
from .._support.text import html_table
from ..errors import ArgumentError
from ..score.combined import observed
from ..score.model import ScoreModel
from ..score.scales import inner_model
from .best_fits import Ended, findings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Converged when the next step is below this fraction of the error bar.
_TOLERANCE = 1e-3
# Points spread over the region, the likeliest of which is where a fit starts.
_NUM_CANDIDATES = 64
_MAX_HALVINGS = 10
# Up to this many observations are filled up to a power of two, so that few sizes are compiled.
_MOST_ROWS_FILLED = 4096
_NODES, _WEIGHTS = gauss_legendre(4)
# No step moves a parameter by more than this fraction of its range.
_LONGEST_STEP = 0.2


@dataclass(frozen=True, eq=False)
class Estimate:
    """Best fits with errors: arrays with the leading axes of the observations.

    Attributes:
        names: Parameter names.
        theta: Best fits, shape (..., p).
        sigma: Their errors, from the observed information −∂ŝ/∂θ at the best fit; NaN where a fit did not converge.
        covariance: Their covariances, shape (..., p, p), likewise.
        converged: Whether each fit converged; a plain bool for one observation.
        message: What became of each fit, in words; a plain text for one observation.
        num_steps: Number of steps each fit took.
        rarity: Fraction of training data farther from their mean than each observation; None where not known.
        model_error: How far the model's own error may move each parameter, one standard deviation, shape (..., p); None
            where the model does not know its error.

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
    model_error: Any = None

    def plot(self, *, names: Sequence[str] | None = None, ax: "Axes | None" = None) -> "Axes":
        """Draw best fits of two parameters with their error ellipses; many observations as points alone.

        Args:
            names: The two parameters, by default the first two.
            ax: Matplotlib axes to draw into; by default those of a new figure.

        Returns:
            The axes.
        """
        return plot.best_fits(self, names=names, ax=ax)

    def __str__(self) -> str:
        if self.theta.ndim > 1:
            return self._headline()
        rows = [f"{n} = {t:.6g} ± {s:.2g}" for n, t, s in zip(self.names, self.theta, self.sigma, strict=True)]
        if self.model_error is not None:
            rows = [f"{row} (model ± {e:.1g})" for row, e in zip(rows, self.model_error, strict=True)]
        return "\n".join([*rows, str(self.message)])

    def __repr__(self) -> str:
        if self.theta.ndim > 1:
            return f"Estimate({', '.join(self.names)}; {self.theta[..., 0].size:,} observations)"
        values = ", ".join(f"{n}={t:.4g}" for n, t in zip(self.names, self.theta, strict=True))
        return f"Estimate({values}; {self.message.split(':')[0]})"

    def _repr_html_(self) -> str:
        if self.theta.ndim > 1:
            return html_table(self._headline(), [])
        values = zip(self.names, self.theta, self.sigma, strict=True)
        rows = [(n, f"{t:.6g} ± {s:.2g}") for n, t, s in values]
        return html_table("Maximum likelihood", [*rows, ("message", str(self.message))])

    def _headline(self) -> str:
        num, fraction = self.theta[..., 0].size, np.mean(self.converged)
        return f"{num} maximum-likelihood fits of {', '.join(self.names)}: {fraction:.1%} converged"


def maximum_likelihood(
    model: ScoreModel,
    x_obs: Any,
    *,
    iid: bool = False,
    theta0: Any = None,
    max_steps: int = 100,
    progress: bool | None = None,
) -> Estimate:
    """Find the maximum-likelihood parameters of one observation, or of each of many.

    Args:
        model: A score model.
        x_obs: One observation, or many along leading axes; with ``iid``, the last of these axes holds independent draws
            at the same θ.
        iid: Whether ``x_obs`` holds independent draws at the same θ.
        theta0: Where to start, shape (p,) or a mapping by name: one point for all observations, or one for each, whose
            leading axes are those of the observations. By default the likeliest of a spread of points, or the centre of
            the training region for a model without a density.
        max_steps: Largest number of steps of each fit.
        progress: Whether to show how far it is; by default what takes more than a moment is shown.

    Returns:
        Best fits, errors, and whether each fit converged.

    >>> import fisherscore as fs
    >>> best = fs.maximum_likelihood(fs.problems.linear_gaussian().exact_model(), [0.5, -0.25])
    >>> best.theta.round(3).tolist(), best.sigma.round(3).tolist(), best.converged
    ([0.5, -0.25], [1.0, 1.0], True)
    """
    whole, x = observed(model, x_obs, iid)
    batch = whole.data_batch_shape(x)
    num = int(np.prod(batch))
    scales, inner, data = inner_model(whole, x)
    rows = jax.tree.map(lambda a: np.asarray(a.reshape(num, *a.shape[len(batch) :]), np.float32), data)
    limit = np.asarray(as_count(max_steps, "max_steps"), np.int32)
    given = None if theta0 is None else np.asarray(scales.inner(_given_starts(whole, theta0, batch)), np.float32)
    size = num if num > _MOST_ROWS_FILLED else 1 << (num - 1).bit_length()
    rows, given = jax.tree.map(lambda a: _filled(a, size), (rows, given))
    with working("maximum likelihood", progress):
        starts = spread_starts(inner, rows, size) if given is None else given
        solved = solve_from(inner, starts, rows, limit)
        u, covariance, reason, steps, edges = (np.asarray(a)[:num] for a in solved)
    covariance, rarity = scales.covariances(covariance), whole.rarity(x)
    said = findings(whole, Ended(covariance, reason, edges, None if rarity is None else np.ravel(rarity)))
    covariance = np.where(said.converged[:, None, None], covariance, np.nan)
    one = not batch
    converged = said.converged.reshape(batch)
    return Estimate(
        names=whole.names,
        theta=scales.outer(u).reshape(*batch, -1),
        sigma=np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1)).reshape(*batch, -1),
        covariance=covariance.reshape(*batch, *covariance.shape[1:]),
        converged=bool(converged) if one else converged,
        message=str(said.messages[0]) if one else said.messages.reshape(batch),
        num_steps=int(steps[0]) if one else steps.reshape(batch),
        rarity=rarity,
        model_error=None if said.moved is None else said.moved.reshape(*batch, -1),
    )


def _filled(rows: np.ndarray, size: int) -> np.ndarray:
    """Repeat the first row at the end until there are ``size``."""
    return np.concatenate([rows, np.repeat(rows[:1], size - len(rows), axis=0)])


def _given_starts(model: ScoreModel, theta0: Any, batch: tuple[int, ...]) -> Any:
    """Return the user's point once for each observation, or the user's points."""
    given = np.asarray(as_theta(theta0, model.names, "theta0"))
    refuse_outside(given, model, "theta0")
    try:
        starts = np.broadcast_to(given, (*batch, len(model.names)))
    except ValueError:
        raise ArgumentError(
            f"theta0: expected one point of shape ({len(model.names)},), or one for each observation, shape "
            f"{(*batch, len(model.names))}; got shape {given.shape}."
        ) from None
    return starts.reshape(-1, len(model.names))


def spread_starts(model: ScoreModel, rows: Any, num: int) -> Any:
    """Choose where to begin: the likeliest of a spread of points, or the centre for a model without a density."""
    centre = (model.low + model.high) / 2
    if not model.has_density:
        return np.tile(np.asarray(centre, np.float32), (num, 1))
    spread = _spread_points(_NUM_CANDIDATES, len(model.names))
    points = np.concatenate([centre[None], model.low + (0.02 + 0.96 * spread) * (model.high - model.low)])
    return _likeliest(model, np.asarray(points, np.float32), rows)


def _spread_points(num: int, dimension: int) -> np.ndarray:
    """Spread points evenly over the unit cube: multiples, without their whole part, of 1/g, 1/g², ...

    Here g^(d+1) = g + 1, the golden ratio for d = 1 (Roberts 2018). SciPy's sequences take half a second to import.
    """
    root = 1.5
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (dimension + 1))
    return (0.5 + np.outer(np.arange(1, num + 1), root ** -np.arange(1.0, dimension + 1))) % 1.0


@quickly_compiled
def _likeliest(model: ScoreModel, points: Any, rows: Any) -> Any:
    def best(x: Any) -> Any:
        values = jax.vmap(model.log_likelihood_one, (0, None))(points, x)
        return points[jnp.argmax(jnp.where(jnp.isfinite(values), values, -jnp.inf))]

    return rows_mapped(best, (rows,), max(1, min(256, model.rows_at_once // len(points))))


@quickly_compiled
def solve_from(model: ScoreModel, starts: Any, rows: Any, max_steps: Any) -> Any:
    """Solve for each row of data: best fits, covariances, reasons for ending, steps, and edges they are held at."""
    at_once = max(1, model.rows_at_once // (len(_NODES) + len(model.names)))
    return rows_mapped(lambda start, x: _solve_one(model, start, x, max_steps), (starts, rows), at_once)


class _UnitScore(eqx.Module):
    """The score of one observation in units of the region's ranges, where all parameters run from 0 to 1."""

    model: ScoreModel
    x: Any
    low: Array
    span: Array

    @classmethod
    def of(cls, model: ScoreModel, x: Any) -> "_UnitScore":
        return cls(model, x, jnp.asarray(model.low, jnp.float32), jnp.asarray(model.high - model.low, jnp.float32))

    def theta(self, u: Array) -> Array:
        return self.low + self.span * u

    def unit(self, theta: Array) -> Array:
        return jnp.clip((theta - self.low) / self.span, 0.0, 1.0)

    def along(self, u: Array, way: Array) -> tuple[Array, Array, Array]:
        """Return the line integral of the score from u to u + way, and at its end the score and the information."""
        p = len(u)

        def score_and_slope(point: Array, direction: Array) -> tuple[Array, Array]:
            score = lambda v: self.span * self.model.score_one(self.theta(v), self.x)  # noqa: E731
            return jax.jvp(score, (point,), (direction,))

        # All evaluations of a step at once, so that the model is compiled in one place: the nodes of the quadrature,
        # and the end once for each column of its Jacobian.
        points = jnp.concatenate([u + _NODES[:, None] * way, jnp.broadcast_to(u + way, (p, p))])
        directions = jnp.concatenate([jnp.broadcast_to(way, (len(_NODES), p)), jnp.eye(p, dtype=u.dtype)])
        scores, slopes = jax.vmap(score_and_slope)(points, directions)
        jacobian = slopes[len(_NODES) :].T
        return jnp.asarray(_WEIGHTS) @ (scores[: len(_NODES)] @ way), scores[-1], -(jacobian + jacobian.T) / 2

    def scaled(self, matrix: Array) -> Array:
        """Scale rows and columns of a matrix by the ranges."""
        return self.span[:, None] * matrix * self.span


class _Progress(NamedTuple):
    """Where a fit stands: at u with its score and information, about to try a fraction of a step from there."""

    u: Array
    score: Array
    information: Array
    direction: Array
    fraction: Array
    num_halvings: Array
    num_steps: Array
    wanted: Array

    @classmethod
    def at(cls, u: Array) -> "_Progress":
        """Begin at a point, of which nothing is known yet."""
        none, zeros = jnp.zeros((), jnp.int32), jnp.zeros_like(u)
        return cls(
            u=u,
            score=zeros,
            information=jnp.zeros((len(u), len(u)), u.dtype),
            direction=zeros,
            fraction=jnp.ones((), u.dtype),
            num_halvings=none,
            num_steps=none,
            wanted=jnp.full((), jnp.inf, u.dtype),
        )


def _held(u: Array, score: Array) -> Array:
    """Say which parameters are at an edge of the region with a score that points outwards."""
    return ((u <= 0) & (score < 0)) | ((u >= 1) & (score > 0))


def _solve_one(model: ScoreModel, start: Float[Array, " params"], x: Any, max_steps: Array) -> Any:
    """Iterate to the best fit; return it with its covariance, the reason for ending, steps, and edges it is held at.

    Each iteration tries a point and takes it if the likelihood rises on the way there; the first point has no way.
    """
    fit = _UnitScore.of(model, x)

    def attempt(now: _Progress) -> _Progress:
        tried = jnp.clip(now.u + now.fraction * now.direction, 0.0, 1.0)
        rise, score, information = fit.along(now.u, tried - now.u)
        taken = (rise >= 0) | (now.num_halvings >= _MAX_HALVINGS)
        direction, wanted = _next_step(fit, tried, score, information)
        there = _Progress(
            u=tried,
            score=score,
            information=information,
            direction=direction,
            fraction=jnp.ones_like(rise),
            num_halvings=jnp.zeros_like(now.num_halvings),
            num_steps=now.num_steps + 1,
            wanted=wanted,
        )
        shorter = now._replace(fraction=now.fraction / 2, num_halvings=now.num_halvings + 1)
        return jax.tree.map(lambda a, b: jnp.where(taken, a, b), there, shorter)

    def go_on(now: _Progress) -> Array:
        return (now.num_steps <= max_steps) & (now.wanted > _TOLERANCE) & jnp.isfinite(now.u).all()

    end = jax.lax.while_loop(go_on, attempt, _Progress.at(fit.unit(start)))
    edges = _held(end.u, end.score)
    maximum = jnp.linalg.eigvalsh(end.information)[0] > 0
    finite = jnp.isfinite(end.u).all() & jnp.isfinite(end.score).all()
    # The first that applies, as places in _REASONS.
    reason = jnp.select([~finite, edges.any(), ~(end.wanted <= _TOLERANCE), ~maximum], [4, 2, 1, 3], 0)
    # The last step, too short to be worth another evaluation, is still taken.
    u = jnp.where(reason == 0, jnp.clip(end.u + end.direction, 0.0, 1.0), end.u)
    num_steps = jnp.minimum(end.num_steps, max_steps)
    return fit.theta(u), fit.scaled(jnp.linalg.inv(end.information)), reason, num_steps, edges


def _next_step(fit: _UnitScore, u: Array, score: Array, information: Array) -> tuple[Array, Array]:
    """Return the next step, and how far it goes in units of the error bar.

    It is Newton's where H is positive definite, else that of Fisher scoring, else one with |H|.
    """
    held = _held(u, score)
    free, score = ~held, jnp.where(held, 0.0, score)
    values, vectors = jnp.linalg.eigh(information)
    if fit.model.knows_fisher:
        fallback = fit.scaled(fit.model.fisher_one(fit.theta(u)))
    else:
        fallback = (vectors * jnp.maximum(jnp.abs(values), 1e-3 * jnp.max(jnp.abs(values)) + 1e-12)) @ vectors.T
    matrix = jnp.where(values[0] > 1e-6 * values[-1], information, fallback)
    matrix = jnp.where(free[:, None] & free[None, :], matrix, jnp.eye(len(score)))
    direction = jnp.where(free, jnp.linalg.solve(matrix, score), 0.0)
    wanted = jnp.sqrt(jnp.maximum(direction @ score, 0.0))
    return direction * jnp.minimum(1.0, _LONGEST_STEP / (jnp.max(jnp.abs(direction)) + 1e-30)), wanted
