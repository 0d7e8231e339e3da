"""A mixture of Gaussians as samplers see it, in coordinates that respect the hard ends of parameters."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtr, ndtri

from .blocks import Block, Ends, ends_from

_EDGE = 1e-6  # draws at a hard end are moved inside by this fraction


@dataclass(frozen=True, eq=False)
class Maps:
    """From θ to whitened u: each parameter to the line by its hard ends, then all by their mean and covariance.

    Between two ends the map is that which makes a uniform law normal, from one end that which makes half a normal law a
    whole one: densities that do not vanish at an end stay smooth.
    """

    kinds: tuple[str, ...]
    start: np.ndarray
    scale: np.ndarray
    shift: np.ndarray
    factor: np.ndarray

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return the numbers of the maps, and the inverse of the factor."""
        return (self.start, self.scale, self.shift, self.factor, np.linalg.inv(self.factor))

    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the hard ends, infinite where there is none."""
        low = np.where([k in ("lower", "both") for k in self.kinds], self.start, -np.inf)
        high = np.where([k == "both" for k in self.kinds], self.start + self.scale, np.inf)
        return low, np.where([k == "upper" for k in self.kinds], self.start, high)

    def to_line(self, theta: np.ndarray) -> np.ndarray:
        """Map each parameter to the line."""
        z = np.empty_like(theta)
        for i, kind in enumerate(self.kinds):
            t = (theta[:, i] - self.start[i]) / self.scale[i]
            if kind == "both":
                z[:, i] = ndtri(np.clip(t, _EDGE, 1 - _EDGE))
            elif kind == "none":
                z[:, i] = t
            else:
                t = np.maximum(-t if kind == "upper" else t, _EDGE)
                z[:, i] = -ndtri(2 * ndtr(-t))
        return z

    def to_u(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return u and the logarithm of |∂θ/∂u|."""
        z = self.to_line(theta)
        log_jacobian = np.full(len(z), np.log(np.diag(self.factor)).sum())
        for i, kind in enumerate(self.kinds):
            log_jacobian += _log_slope(np, kind, z[:, i], self.scale[i], theta[:, i] - self.start[i])
        return np.linalg.solve(self.factor, (z - self.shift).T).T, log_jacobian

    def to_theta(self, u: np.ndarray) -> np.ndarray:
        """Map u to θ."""
        z = self.shift + u @ self.factor.T
        lines = enumerate(self.kinds)
        out = [self.start[i] + self.scale[i] * _from_line(np, (ndtr, ndtri), kind, z[:, i]) for i, kind in lines]
        return np.stack(out, axis=1)


def _from_line(xp: Any, normal: tuple[Any, Any], kind: str, z: Any) -> Any:
    """Map z to (θ − start) / scale, by the normal law's distribution and quantile functions."""
    cdf, quantile = normal
    if kind == "both":
        return cdf(z)
    if kind == "none":
        return z
    # Each half by the form that loses no digits there.
    half = xp.where(z > 0, -quantile(cdf(-xp.abs(z)) / 2), quantile(0.5 + cdf(-xp.abs(z)) / 2))
    return -half if kind == "upper" else half


def _log_slope(xp: Any, kind: str, z: Any, scale: Any, offset: Any) -> Any:
    """Return the logarithm of |∂θ/∂z|."""
    if kind == "none":
        return xp.log(scale) + 0 * z
    if kind == "both":
        return xp.log(scale) - 0.5 * z**2 - 0.5 * np.float32(np.log(2 * np.pi))
    return xp.log(scale / 2) - 0.5 * z**2 + 0.5 * (offset / scale) ** 2


class MixtureBlock(Block):
    """A mixture of Gaussians in whitened coordinates u, carried to θ by the hard ends."""

    sizes: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    whiteners: np.ndarray
    log_weights: np.ndarray
    maps: tuple[np.ndarray, ...]
    kinds: tuple[str, ...] = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)

    def to_theta(self, u: Float[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        """Map u to θ."""
        start, scale, shift, factor, _ = map(jnp.asarray, self.maps)
        z, normal = shift + factor @ u, (jax.scipy.special.ndtr, jax.scipy.special.ndtri)
        lines = list(enumerate(self.kinds))
        offset = jnp.stack([scale[i] * _from_line(jnp, normal, kind, z[i]) for i, kind in lines])
        slopes = jnp.stack([_log_slope(jnp, kind, z[i], scale[i], offset[i]) for i, kind in lines])
        return start + offset, slopes.sum() + jnp.log(jnp.diagonal(factor)).sum()

    def to_u(self, theta: Float[Array, " k"]) -> Float[Array, " k"]:
        """Map θ to u."""
        start, scale, shift, _, inverse = map(jnp.asarray, self.maps)
        cdf, quantile = jax.scipy.special.ndtr, jax.scipy.special.ndtri

        def line(kind: str, t: Array) -> Array:
            if kind == "none":
                return t
            if kind == "both":
                return quantile(jnp.clip(t, _EDGE, 1 - _EDGE))
            return -quantile(2 * cdf(-jnp.maximum(-t if kind == "upper" else t, _EDGE)))

        t = (theta - start) / scale
        return inverse @ (jnp.stack([line(kind, t[i]) for i, kind in enumerate(self.kinds)]) - shift)

    def draw(self, words: Array, num: int) -> Float[Array, "num k"]:
        """Draw from the mixture."""
        first, second = jax.random.split(jax.random.wrap_key_data(words[0]))
        chosen = jax.random.categorical(first, self.log_weights, shape=(num,))
        noise = jax.random.normal(second, (num, len(self.kinds)))
        u = jnp.asarray(self.means)[chosen] + jnp.einsum("nij,nj->ni", jnp.asarray(self.factors)[chosen], noise)
        return jax.vmap(lambda row: self.to_theta(row)[0])(u)

    def log_base(self, u: Float[Array, " k"]) -> Float[Array, ""]:
        """Give the log-density at u: the mixture itself."""
        white = jnp.einsum("kij,kj->ki", self.whiteners, u - self.means)
        return jax.scipy.special.logsumexp(self.sizes - 0.5 * (white**2).sum(axis=1))

    def log_base_at(self, theta: Float[Array, " k"]) -> Float[Array, ""]:
        """Give the log-density at θ."""
        u = self.to_u(theta)
        return self.log_base(u) - self.to_theta(u)[1]

    def ends(self) -> tuple[Ends, ...]:
        """Return the hard ends."""
        start, scale = (np.asarray(a, np.float64) for a in self.maps[:2])
        low, high = Maps(self.kinds, start, scale, start, start).limits()
        return tuple(ends_from(a, b) for a, b in zip(low, high, strict=True))
