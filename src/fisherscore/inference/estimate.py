"""Maximum likelihood from a score: solve ŝ(θ, x) = 0 inside the training region.

Steps are those of Newton's method with H = −∂ŝ/∂θ where it is positive definite, and of Fisher scoring (or of |H|, its
eigenvalues made positive) where it is not. A step is halved until the line integral of the score along it is positive,
which is to say until the likelihood rises; that needs no density, so plain vector fields will do. Parameters at the
edge of the region whose score points outwards are held there. All observations are solved in one compiled call.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.stats import qmc

from .. import plot
from .._support.arguments import as_count, as_theta, refuse_outside
from .._support.quadrature import gauss_legendre
from .._support.rows import rows_mapped
from .._support.text import html_table
from ..errors import ArgumentError
from ..score.combined import observed
from ..score.model import ScoreModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Converged when the next step is below this fraction of the error bar.
_TOLERANCE = 1e-3
# Points spread over the region, the likeliest of which is where a fit starts.
_NUM_CANDIDATES = 64
_MAX_HALVINGS = 10
_NODES, _WEIGHTS = gauss_legendre(4)
# No step moves a parameter by more than this fraction of its range.
_LONGEST_STEP = 0.2

_REASONS = (
    "converged",
    "not converged: the score is still pulling after the last step; raise max_steps or give another theta0",
    "not converged: the likelihood still rises at the edge of the training region in {edges}; train on a larger region",
    "not converged: the solution is no maximum (the information matrix is not positive definite there)",
    "not converged: the score became NaN or infinite",
)


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
    model: ScoreModel, x_obs: Any, *, iid: bool = False, theta0: Any = None, max_steps: int = 100
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
    rows = jax.tree.map(lambda a: a.reshape(num, *a.shape[len(batch) :]), x)
    starts = _spread_starts(whole, rows, num) if theta0 is None else _given_starts(whole, theta0, batch)
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
    return jnp.asarray(starts.reshape(-1, len(model.names)), jnp.float32)


def _spread_starts(model: ScoreModel, rows: Any, num: int) -> Any:
    """Choose where to begin: the likeliest of a spread of points, or the centre for a model without a density."""
    centre = (model.low + model.high) / 2
    if not model.has_density:
        return jnp.broadcast_to(jnp.asarray(centre, jnp.float32), (num, len(model.names)))
    spread = qmc.Sobol(len(model.names), scramble=False).random(_NUM_CANDIDATES)
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

    def score(self, u: Array) -> Array:
        return self.span * self.model.score_one(self.theta(u), self.x)

    def information(self, u: Array) -> Array:
        jacobian = -jax.jacfwd(self.score)(u)
        return (jacobian + jacobian.T) / 2

    def scaled(self, matrix: Array) -> Array:
        """Scale rows and columns of a matrix by the ranges."""
        return self.span[:, None] * matrix * self.span


def _held(u: Array, score: Array) -> Array:
    """Say which parameters are at an edge of the region with a score that points outwards."""
    return ((u <= 0) & (score < 0)) | ((u >= 1) & (score > 0))


def _solve_one(model: ScoreModel, start: Float[Array, " params"], x: Any, max_steps: int) -> Any:
    """Iterate to the best fit; return it with its covariance, the reason for ending, steps, and edges it is held at."""
    fit = _UnitScore.of(model, x)

    def step(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        u, number, _ = carry
        score = fit.score(u)
        held = _held(u, score)
        score = jnp.where(held, 0.0, score)
        direction = _direction(fit, u, score, held)
        # In units of the error bar, how far the next step wants to go.
        wanted = jnp.sqrt(jnp.maximum(direction @ score, 0.0))
        direction = direction * jnp.minimum(1.0, _LONGEST_STEP / (jnp.max(jnp.abs(direction)) + 1e-30))
        return _line_search(fit.score, u, direction), number + 1, wanted

    def go_on(carry: tuple[Array, Array, Array]) -> Array:
        u, number, wanted = carry
        return (number < max_steps) & (wanted > _TOLERANCE) & jnp.isfinite(u).all()

    first = (fit.unit(start), jnp.zeros((), jnp.int32), jnp.asarray(jnp.inf))
    u, number, wanted = jax.lax.while_loop(go_on, step, first)
    score, information = fit.score(u), fit.information(u)
    edges = _held(u, score)
    maximum = jnp.linalg.eigvalsh(information)[0] > 0
    # The first that applies, as places in _REASONS.
    reason = jnp.select(
        [~(jnp.isfinite(u).all() & jnp.isfinite(score).all()), edges.any(), ~(wanted <= _TOLERANCE), ~maximum],
        [4, 2, 1, 3],
        0,
    )
    return fit.theta(u), fit.scaled(jnp.linalg.inv(information)), reason, number, edges


def _direction(fit: _UnitScore, u: Array, score: Array, held: Array) -> Array:
    """Solve for the step: Newton's where H is positive definite, else Fisher scoring, else with |H|."""
    information = fit.information(u)
    free = ~held
    values, vectors = jnp.linalg.eigh(information)
    if fit.model.knows_fisher:
        fallback = fit.scaled(fit.model.fisher_one(fit.theta(u)))
    else:
        fallback = (vectors * jnp.maximum(jnp.abs(values), 1e-3 * jnp.max(jnp.abs(values)) + 1e-12)) @ vectors.T
    matrix = jnp.where(values[0] > 1e-6 * values[-1], information, fallback)
    matrix = jnp.where(free[:, None] & free[None, :], matrix, jnp.eye(len(score)))
    return jnp.where(free, jnp.linalg.solve(matrix, score), 0.0)


def _line_search(score: Callable[[Array], Array], u: Array, direction: Array) -> Array:
    """Halve the step until the likelihood rises along it: the line integral of the score, by quadrature."""

    def moved(fraction: Array) -> Array:
        return jnp.clip(u + fraction * direction, 0.0, 1.0)

    def falls(carry: tuple[Array, Array]) -> Array:
        fraction, count = carry
        way = moved(fraction) - u
        slopes = jax.vmap(score)(u + _NODES[:, None] * way) @ way
        return ~(jnp.asarray(_WEIGHTS) @ slopes >= 0) & (count < _MAX_HALVINGS)

    fraction, _ = jax.lax.while_loop(falls, lambda c: (c[0] / 2, c[1] + 1), (jnp.ones(()), jnp.zeros((), jnp.int32)))
    return moved(fraction)
