"""Joint priors: one NumPyro distribution over several parameters at once."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to

from ..._support.keys import key_of
from ...errors import ArgumentError
from .blocks import Block, Ends, ends_from
from .laws import flat_law

# Draws by which coordinates are centred and scaled.
_NUM_PILOT = 1024


class WhitenedNormal(dist.Distribution):  # type: ignore[misc]
    """A multivariate normal law whose density needs no triangular solve, which on a CPU can hang inside JAX functions.

    ``whitener`` is the inverse of ``scale_tril``; leading axes are a batch.
    """

    arg_constraints = {  # noqa: RUF012  as NumPyro wants it
        "loc": constraints.real_vector,
        "scale_tril": constraints.lower_cholesky,
        "whitener": constraints.dependent(is_discrete=False, event_dim=2),
    }
    support = constraints.real_vector

    def __init__(self, loc: Any, scale_tril: Any, whitener: Any):
        self.loc, self.scale_tril, self.whitener = loc, scale_tril, whitener
        super().__init__(np.shape(loc)[:-1], np.shape(loc)[-1:], validate_args=False)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw from it."""
        noise = jax.random.normal(key, (*sample_shape, *self.batch_shape, *self.event_shape))
        return self.loc + (self.scale_tril @ noise[..., None])[..., 0]

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Give the log-density."""
        del intermediates
        white = (self.whitener @ (value - self.loc)[..., None])[..., 0]
        return self._half_log_det() - 0.5 * (white**2).sum(-1) - 0.5 * white.shape[-1] * np.float32(np.log(2 * np.pi))

    def _half_log_det(self) -> Any:
        return jnp.log(jnp.diagonal(self.whitener, axis1=-2, axis2=-1)).sum(-1)


class WhitenedStudentT(dist.Distribution):  # type: ignore[misc]
    """A multivariate t law whose density needs no triangular solve."""

    arg_constraints = {  # noqa: RUF012
        "df": constraints.positive,
        **WhitenedNormal.arg_constraints,
    }
    support = constraints.real_vector

    def __init__(self, df: Any, loc: Any, scale_tril: Any, whitener: Any):
        self.df, self.loc, self.scale_tril, self.whitener = df, loc, scale_tril, whitener
        super().__init__(np.shape(loc)[:-1], np.shape(loc)[-1:], validate_args=False)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw from it."""
        normal, other = jax.random.split(key)
        noise = jax.random.normal(normal, (*sample_shape, *self.batch_shape, *self.event_shape))
        chi2 = dist.Chi2(self.df).sample(other, (*sample_shape, *self.batch_shape))
        return self.loc + (self.scale_tril @ noise[..., None])[..., 0] * jnp.sqrt(self.df / chi2)[..., None]

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Give the log-density."""
        del intermediates
        white = (self.whitener @ (value - self.loc)[..., None])[..., 0]
        df, k = self.df, white.shape[-1]
        size = jax.scipy.special.gammaln((df + k) / 2) - jax.scipy.special.gammaln(df / 2)
        log_det = jnp.log(jnp.diagonal(self.whitener, axis1=-2, axis2=-1)).sum(-1)
        return size - 0.5 * k * jnp.log(df * np.pi) + log_det - 0.5 * (df + k) * jnp.log1p((white**2).sum(-1) / df)


class JointLaw(Block):
    """A NumPyro distribution over several parameters; u is whitened, so that correlations are no matter."""

    numbers: tuple[Any, ...]
    shift: np.ndarray
    factor: np.ndarray
    inverse: np.ndarray
    log_det: np.ndarray
    ends_of: tuple[np.ndarray, np.ndarray]
    structure: Any = eqx.field(static=True)
    order: tuple[int, ...] = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)

    def _law(self) -> Any:
        leaves = dict(zip(self.order, self.numbers, strict=True))
        return jax.tree.unflatten(self.structure, [leaves[i] for i in range(len(leaves))])

    @property
    def is_box(self) -> bool:
        """Whether the support is the whole space, or an interval for each parameter."""
        return is_box(self)

    def holds(self, theta: Float[Array, " k"]) -> Array:
        """Say whether θ is in the support."""
        return jnp.asarray(True) if self.is_box else jnp.asarray(self._law().support(theta)).all()

    def to_theta(self, u: Float[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        """Map u to θ: by the whitening, then into the support."""
        v = self.shift + self.factor @ u
        bijection = biject_to(self._law().support)
        theta = bijection(v)
        return theta, jnp.sum(bijection.log_abs_det_jacobian(v, theta)) + self.log_det

    def to_u(self, theta: Float[Array, " k"]) -> Float[Array, " k"]:
        """Map θ to u."""
        return self.inverse @ (biject_to(self._law().support).inv(theta) - self.shift)

    def draw(self, words: Array, num: int) -> Float[Array, "num k"]:
        """Draw from the distribution."""
        return self._law().sample(jax.random.wrap_key_data(words[0]), (num,))

    def log_base_at(self, theta: Float[Array, " k"]) -> Float[Array, ""]:
        """Give the log-density of the distribution."""
        return self._law().log_prob(theta)

    def ends(self) -> tuple[Ends, ...]:
        """Return the ends of an elementwise support."""
        return tuple(ends_from(low, high) for low, high in zip(*self.ends_of, strict=True))


def joint(law: Any, places: tuple[int, ...], argument: str) -> JointLaw:
    """Make a block of a joint distribution, or say why it will not do."""
    k = len(places)
    if not _is_usable(law, k):
        raise ArgumentError(
            f"{argument}: expected a proper continuous NumPyro distribution over {k} parameters (event shape ({k},), "
            f"no batch shape), got {law!r}. Several independent ones can be made joint with .to_event(1)."
        )
    law = _without_solves(law)
    try:
        bijection = biject_to(law.support)
        same = bijection.inverse_shape((k,)) == (k,)
    except NotImplementedError:
        same = False
    if not same:
        raise ArgumentError(
            f"{argument}: the support of {type(law).__name__} ({law.support}) is no region of {k} dimensions. Give "
            "a law with a density over all of its parameters."
        )
    draws = law.sample(key_of(0), (_NUM_PILOT,))
    trace = str(jax.make_jaxpr(law.log_prob)(draws[0]))
    if "triangular_solve" in trace:
        raise ArgumentError(
            f"{argument}: the density of {type(law).__name__} needs a triangular solve, which can hang on a CPU. Give "
            "a MultivariateNormal, a mixture of them, draws (prior_from_samples) or a log-density (prior_from_density)."
        )
    shift, factor = _whitening(law, np.asarray(bijection.inv(draws), np.float64))
    if not np.isfinite(np.asarray(law.log_prob(draws))).all() or not np.isfinite(factor).all():
        raise ArgumentError(f"{argument}: the log-density of its own draws is not finite. Is {law!r} a proper law?")
    numbers, structure, order = flat_law(law)
    return JointLaw(
        numbers=numbers,
        shift=shift.astype(np.float32),
        factor=factor.astype(np.float32),
        inverse=np.linalg.inv(factor).astype(np.float32),
        log_det=np.asarray(np.log(np.diag(factor)).sum(), np.float32),
        ends_of=_ends(law.support, k),
        structure=structure,
        order=order,
        places=places,
    )


def _is_usable(law: Any, k: int) -> bool:
    wrong = (dist.Delta, dist.ImproperUniform)
    if not isinstance(law, dist.Distribution) or isinstance(law, wrong) or law.is_discrete:
        return False
    return law.batch_shape == () and law.event_shape == (k,)


def _without_solves(law: Any) -> Any:
    """Put laws that need no triangular solve in the place of those that do, wherever in a law they stand."""
    kinds = dist.MultivariateNormal | dist.LowRankMultivariateNormal | dist.MultivariateStudentT

    def other(part: Any) -> Any:
        if not isinstance(part, kinds):
            return part
        if isinstance(part, dist.LowRankMultivariateNormal):
            scale = np.linalg.cholesky(np.asarray(part.covariance_matrix, np.float64))
        else:
            scale = np.asarray(part.scale_tril, np.float64)
        batch = np.broadcast_shapes(np.shape(part.loc)[:-1], scale.shape[:-2])
        loc = np.broadcast_to(part.loc, (*batch, scale.shape[-1]))
        scale = np.broadcast_to(scale, (*batch, *scale.shape[-2:]))
        arrays = [np.asarray(a, np.float32) for a in (loc, scale, np.tril(np.linalg.inv(scale)))]
        if isinstance(part, dist.MultivariateStudentT):
            return WhitenedStudentT(np.asarray(part.df, np.float32), *arrays)
        return WhitenedNormal(*arrays)

    return jax.tree.map(other, law, is_leaf=lambda part: isinstance(part, kinds))


def _whitening(law: Any, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return centre and factor of unconstrained draws; far ones are pulled in, so that heavy tails do not matter."""
    if isinstance(law, WhitenedNormal):
        return np.asarray(law.loc, np.float64), np.asarray(law.scale_tril, np.float64)
    good = points[np.isfinite(points).all(axis=1)]
    near = np.clip(good, *np.quantile(good, [0.02, 0.98], axis=0))
    covariance = np.cov(near, rowvar=False).reshape(points.shape[1], -1)
    return near.mean(axis=0), np.linalg.cholesky(covariance + 1e-9 * np.diag(np.diag(covariance)))


def _ends(support: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of a support that is an interval for each parameter; NaN where there is none."""
    inner = getattr(support, "base_constraint", support)
    sides = (getattr(inner, name, None) for name in ("lower_bound", "upper_bound"))
    low, high = (np.full(k, np.nan) if side is None else np.broadcast_to(side, (k,)).astype(float) for side in sides)
    return low, high


def is_box(block: JointLaw) -> bool:
    """Say whether the support is the whole space, or an interval for each parameter."""
    support = block._law().support
    inner = getattr(support, "base_constraint", support)
    return inner is constraints.real or hasattr(inner, "lower_bound") or hasattr(inner, "upper_bound")
