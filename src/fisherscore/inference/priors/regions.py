"""Priors on regions that are no boxes: within linear inequalities, and within any shape.

A region of linear inequalities has coordinates u on the whole space: seen from a point c inside,
θ = c + h(g(u)) F u, where g is the gauge (how far u is on the way from c to the nearest face: 1 at the face) and
g h(g) = tanh g, so that u runs over everything while θ stays inside. The Jacobian is h^(k−1) |F| d(tanh g)/dg. Along
directions without a face g is 0 and θ is linear in u.

A region of any shape has no such coordinates: the density is zero outside, and a sampler turns back there.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._support.compiling import quickly_compiled
from ...errors import ArgumentError
from ..walls import Walls
from .blocks import Block, Ends, Prior, ends_from
from .joint import JointLaw, is_box

# Draws from the prior within the region that are kept, and how many are tried for them.
_NUM_KEPT, _MIN_KEPT = 8192, 256
_NUM_AT_ONCE, _NUM_ROUNDS = 1 << 16, 64


class _Kept(Block):
    """A prior over the same parameters, cut down to a region, with draws made beforehand."""

    inner: eqx.AbstractVar[Prior]
    pool: eqx.AbstractVar[np.ndarray]

    @property
    def has_rest(self) -> bool:
        """Whether the prior inside has."""
        return self.inner.has_rest

    @property
    def is_box(self) -> bool:
        """Whether the support is a box: it is cut."""
        return False

    def draw(self, words: Array, num: int) -> Float[Array, "num k"]:
        """Take draws that were made beforehand, from a random place on."""
        begin = jnp.asarray(words[0, 0] % np.uint32(_NUM_KEPT), jnp.int32)
        return jnp.asarray(self.pool)[(begin + jnp.arange(num)) % _NUM_KEPT]

    def log_base_at(self, theta: Float[Array, " k"]) -> Float[Array, ""]:
        """Give the density of the prior inside, which within the region is the same up to a constant."""
        return self.inner.log_base_at(theta)

    def log_rest_at(self, theta: Float[Array, " k"]) -> Float[Array, ""]:
        """Give the rest of the prior inside."""
        return self.inner.log_rest_at(theta)


class Polytope(_Kept):
    """A prior within linear inequalities; ``faces`` are their normals in units of the way from the centre to each."""

    inner: Prior
    pool: np.ndarray
    centre: np.ndarray
    factor: np.ndarray
    inverse: np.ndarray
    faces: np.ndarray
    ends_of: tuple[np.ndarray, np.ndarray]
    places: tuple[int, ...] = eqx.field(static=True)

    def _gauge(self, y: Array) -> Array:
        return jnp.maximum(jnp.max(jnp.asarray(self.faces) @ y), 0.0)

    def to_theta(self, u: Float[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        """Map u into the region."""
        gauge = self._gauge(u)
        far = gauge > 1e-3
        safe = jnp.where(far, gauge, 1.0)
        # h = tanh(g) / g, by its series near zero.
        shrink = jnp.where(far, jnp.tanh(safe) / safe, 1 - gauge**2 / 3)
        log_slope = 2 * (np.float32(np.log(2)) - gauge - jnp.log1p(jnp.exp(-2 * gauge)))
        log_det = jnp.log(jnp.abs(jnp.diagonal(self.factor))).sum()
        return jnp.asarray(self.centre) + shrink * (jnp.asarray(self.factor) @ u), (len(u) - 1) * jnp.log(
            shrink
        ) + log_slope + log_det

    def to_u(self, theta: Float[Array, " k"]) -> Float[Array, " k"]:
        """Map θ to u; not finite outside."""
        y = jnp.asarray(self.inverse) @ (theta - self.centre)
        reached = self._gauge(y)
        return y * jnp.where(reached > 1e-3, jnp.arctanh(reached) / jnp.maximum(reached, 1e-3), 1.0)

    def holds(self, theta: Float[Array, " k"]) -> Array:
        """Say whether θ is within the inequalities, and in the support of the prior inside."""
        return (self._gauge(jnp.asarray(self.inverse) @ (theta - self.centre)) < 1) & self.inner.holds(theta)

    def ends(self) -> tuple[Ends, ...]:
        """Return the ends of the smallest box around the region."""
        return tuple(ends_from(low, high) for low, high in zip(*self.ends_of, strict=True))


class Within(_Kept):
    """A prior cut off where a function of θ, in the order of ``places``, says that it is outside."""

    inner: Prior
    pool: np.ndarray
    within: Any
    places: tuple[int, ...] = eqx.field(static=True)

    @property
    def is_cut(self) -> bool:
        """These."""
        return True

    def walls(self) -> Walls:
        """Let u end where that of the prior inside does."""
        return self.inner.walls()

    def to_theta(self, u: Float[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        """Map u to θ as the prior inside does."""
        return self.inner.to_theta(u)

    def to_u(self, theta: Float[Array, " k"]) -> Float[Array, " k"]:
        """Map θ to u as the prior inside does."""
        return self.inner.to_u(theta)

    def inside(self, theta: Float[Array, " k"]) -> Array:
        """Say whether θ is within the support."""
        return self.within(theta)

    def holds(self, theta: Float[Array, " k"]) -> Array:
        """Say whether θ is within the support, and in that of the prior inside."""
        return self.within(theta) & self.inner.holds(theta)

    def ends(self) -> tuple[Ends, ...]:
        """Return the ends of the prior inside."""
        return self.inner.ends()


def polytope(inner: Prior, rows: np.ndarray, bounds: np.ndarray, places: tuple[int, ...]) -> Polytope:
    """Cut a prior down to A θ ≤ b."""
    for block in inner.blocks:
        if isinstance(block, JointLaw) and not is_box(block):
            raise ArgumentError(
                "where: a joint law on a support that is no box cannot be cut by linear inequalities as well. Give its "
                "log-density with prior_from_density."
            )
    given = rows, bounds
    rows, bounds = _with_ends(inner, rows, bounds)
    pool = _pool(inner, lambda theta: (theta @ given[0].T <= given[1]).all(axis=1))
    middle = np.median(pool, axis=0)
    spread = np.subtract(*np.quantile(pool, [0.75, 0.25], axis=0)) + 1e-12 * np.abs(middle)
    # The mean of draws that are not far out: like that of any, it is inside a convex region.
    near = pool[(np.abs(pool - middle) <= 5 * spread).all(axis=1)]
    centre = near.mean(axis=0)
    factor = np.linalg.cholesky(np.cov(near, rowvar=False).reshape(len(places), -1) + 1e-12 * np.diag(spread**2))
    room = bounds - rows @ centre
    if not (room > 0).all():
        raise ArgumentError("where: the region is too thin to sample. Use fewer parameters instead.")
    return Polytope(
        inner=inner,
        pool=pool.astype(np.float32),
        centre=centre.astype(np.float32),
        factor=factor.astype(np.float32),
        inverse=np.linalg.inv(factor).astype(np.float32),
        faces=(rows @ factor / room[:, None]).astype(np.float32),
        ends_of=_box(rows, bounds),
        places=places,
    )


def cut_off(inner: Prior, within: Callable[[Any], Any], places: tuple[int, ...]) -> Within:
    """Cut a prior down to where a function of θ is true."""
    got = eqx.filter_eval_shape(within, np.zeros(len(places), np.float32))
    if jnp.shape(got) != () or not jnp.issubdtype(got.dtype, jnp.bool_):
        raise ArgumentError(
            f"where: expected a JAX function of one array of {len(places)} parameters that returns one truth value, "
            f"got {got!r}."
        )
    each = eqx.filter_jit(jax.vmap(within))
    pool = _pool(inner, lambda theta: np.asarray(each(theta.astype(np.float32))))
    return Within(inner=inner, pool=pool.astype(np.float32), within=within, places=places)


def _with_ends(inner: Prior, rows: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add the ends of the prior to inequalities."""
    unit = np.eye(rows.shape[1])
    more = []
    for i, (low, high) in enumerate(inner.ends()):
        more += [] if low is None else [(-unit[i], -low)]
        more += [] if high is None else [(unit[i], high)]
    return (
        np.concatenate([rows, *(row[None] for row, _ in more)]),
        np.concatenate([bounds, np.array([bound for _, bound in more])]),
    )


def _pool(inner: Prior, keep: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Draw from a prior and keep what lies in the region."""
    parts, num_tried, num = [], 0, 0
    words = np.random.SeedSequence(0).generate_state(2 * _NUM_ROUNDS * inner.num_parameters, np.uint32)
    for own in words.reshape(_NUM_ROUNDS, inner.num_parameters, 2):
        theta = np.asarray(drawn(inner, own, _NUM_AT_ONCE), np.float64)
        parts.append(theta[keep(theta)])
        num, num_tried = num + len(parts[-1]), num_tried + len(theta)
        if num >= _NUM_KEPT:
            break
    if num < _MIN_KEPT:
        raise ArgumentError(
            f"where: of {num_tried:,} draws from the prior {num} lie in the region. Is it empty? If not, give a prior "
            "whose ranges fit it closer."
        )
    return np.resize(np.concatenate(parts), (_NUM_KEPT, inner.num_parameters))


@quickly_compiled
def drawn(prior: Prior, words: Any, num: int) -> Any:
    """Draw from the base of a prior, compiled."""
    return prior.draw(words, num)


def _box(rows: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the smallest box around A θ ≤ b, by linear programming."""
    from scipy.optimize import linprog  # a third of a second to import, and rarely needed

    sides = np.full((2, rows.shape[1]), np.nan)
    for i, cost in enumerate(np.eye(rows.shape[1])):
        for side, sign in enumerate((1, -1)):
            found = linprog(sign * cost, A_ub=rows, b_ub=bounds, bounds=(None, None))
            sides[side, i] = sign * found.fun if found.success else np.nan
    return sides[0], sides[1]
