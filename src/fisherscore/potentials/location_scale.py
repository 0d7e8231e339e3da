"""A closed form whose location, scale and correlations move with θ, with noise of free shape.

With e the data multiplied by the lower triangular whitening matrix of the Gaussian (``potentials.gaussian``), each
datum given those before it is

    e_i = m_i(θ) + Σ_{j<i} L_ij(θ) e_j + exp(½ q_i(θ)) z_i,    z_i ~ noise of its own shape,

with m, q and L smooth functions of θ. How they are fitted: ``potentials.location_scale_fit``.

The order of the data matters little here, and not at all where they are independent given θ.
"""

from typing import Any, ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.legendre import Basis
from .base import ClosedForm, Evaluation, Frame, Jets, multiply, register
from .gaussian import fit_mean_and_covariance
from .location_scale_fit import bounded_log_variance, fit_location_scale
from .noise import Noise
from .points import Points

MAX_TERMS = 150


@register("location_scale_baseline")
class LocationScale(ClosedForm):
    """Location, scale and correlations that move with θ, and noise of free shape."""

    max_data: ClassVar[int] = 100

    whitening: Float[Array, "data data"]
    location: Float[Array, "terms data"]
    log_variance: Float[Array, "terms data"]
    mixing: Float[Array, "mixing_terms data data"]
    noise: Float[Array, "4 data components"]  # log heights, centres, widths, degrees of freedom
    basis: Basis = eqx.field(static=True)
    mixing_basis: Basis = eqx.field(static=True)

    def __init__(
        self,
        num_parameters: int,
        data_size: int,
        *,
        degree: int,
        mixing_degree: int,
        num_components: int,
        key: Array | None = None,
    ):
        del key
        self.basis, self.mixing_basis = Basis(num_parameters, degree), Basis(num_parameters, mixing_degree)
        self.location = self.log_variance = jnp.zeros((len(self.basis), data_size))
        self.whitening = jnp.eye(data_size)
        self.mixing = jnp.zeros((len(self.mixing_basis), data_size, data_size))
        self.noise = jnp.ones((4, data_size, num_components))

    @classmethod
    def fit(cls, u: np.ndarray | Points, rows: np.ndarray) -> Self:
        """Fit standardised rows (n, d) drawn at u in [−1, 1]^p, with Student's t as noise."""
        return cls.fit_components(Points.of(u), rows, num_components=1, name="data")

    @classmethod
    def fit_components(cls, points: Points, rows: np.ndarray, *, num_components: int, name: str) -> Self:
        """Fit as :meth:`fit`, with noise of several components; ``name`` says what the rows are."""
        gaussian = fit_mean_and_covariance(points, rows, MAX_TERMS, name)
        fitted = fit_location_scale(
            points, gaussian, rows, num_components=num_components, name=f"location_scale {name}"
        )
        settings = {
            "degree": gaussian.basis.degree,
            "mixing_degree": fitted.mixing_basis.degree,
            "num_components": num_components,
        }
        noise = fitted.blocks.noise
        return cls._filled(
            points.num_parameters,
            rows.shape[1],
            settings=settings,
            whitening=gaussian.whitening,
            location=fitted.blocks.location,
            log_variance=fitted.blocks.log_variance,
            mixing=fitted.blocks.mixing,
            noise=np.stack([noise.log_heights(), noise.centres, noise.widths, noise.freedom]),
        )

    def evaluate(self, points: Points, x: np.ndarray, frame: Frame) -> Evaluation:
        """Give scores and the trace of their Jacobians.

        With r the derivative of m + L e, that of z is −(r exp(−½ q) + ½ q' z), and so on to the second order.
        """
        values, white = points.values(self.basis), x @ np.asarray(self.whitening, np.float64).T
        location, moved, bent = self._location(points, white, frame)
        log_variance, widened, bent_width = (values @ c for c in frame.differentiated(self.basis, self.log_variance))
        bounded = bounded_log_variance(log_variance)
        free = bounded == log_variance  # at a bound, the variance does not move
        widened, bent_width = widened * free, bent_width * free
        narrow = np.exp(-0.5 * bounded)
        z = (white - location) * narrow
        slope, steepness = self._slopes(z)
        dz = -(moved * narrow + 0.5 * widened * z)
        scores = -(dz * slope + 0.5 * widened).sum(axis=2).T
        ddz = narrow * (0.5 * np.sum(moved * widened, axis=0) - bent) - 0.5 * bent_width * z
        ddz -= 0.5 * np.sum(widened * dz, axis=0)
        traces = -steepness * np.sum(dz**2, axis=0) - slope * ddz - 0.5 * bent_width
        return Evaluation(scores, traces.sum(axis=1))

    def _location(self, points: Points, white: np.ndarray, frame: Frame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give m + L e of every row (n, data), its derivatives (directions, n, data) and the sum of second ones."""
        values = points.values(self.basis)
        location, moved, bent = (values @ c for c in frame.differentiated(self.basis, self.location))
        terms, matrices = points.values(self.mixing_basis), frame.derivatives(self.mixing_basis)
        slopes = terms @ matrices  # (directions, n, terms)
        bends = terms @ np.einsum("kst,ktr->sr", matrices, matrices)
        for b, mixing in enumerate(np.asarray(self.mixing, np.float64)):
            earlier = white @ mixing.T
            location = location + terms[:, [b]] * earlier
            moved = moved + slopes[:, :, [b]] * earlier
            bent = bent + bends[:, [b]] * earlier
        return location, moved, bent

    def _slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give −d log density / dz of the noise, and its derivative."""
        log_heights, centres, widths, freedom = np.asarray(self.noise, np.float64)
        return Noise.of_heights(log_heights, centres, widths, freedom).slopes(z)

    def value_and_score(
        self, theta: Float[Array, " params"], x: Float[Array, " ..."], jets: Jets | None = None
    ) -> tuple[Float[Array, ""], Float[Array, " params"]]:
        """Give Σ_i log density of datum i given those before it, and its gradient.

        With r the derivative of m + L e and ψ = −d log density / dz, that is Σ_i ψ r exp(−½ q) + ½ q' (ψ z − 1).
        """
        jets = jets or Jets(theta)
        terms, slopes = jets.of(self.basis)
        mixing_terms, mixing_slopes = jets.of(self.mixing_basis)
        white = multiply(self.whitening, x.ravel())
        earlier = multiply(self.mixing, white)  # (mixing terms, data)
        free = multiply(terms, self.log_variance)
        log_variance = bounded_log_variance(free, jnp)
        narrow = jnp.exp(-0.5 * log_variance)
        z = (white - multiply(terms, self.location) - multiply(mixing_terms, earlier)) * narrow
        logs, slope = _log_density_and_slope(z, self.noise)
        pull = slope * narrow
        widening = jnp.where(free == log_variance, 0.5 * (slope * z - 1.0), 0.0)
        score = multiply(slopes, multiply(self.location, pull) + multiply(self.log_variance, widening))
        score += multiply(mixing_slopes, multiply(earlier, pull))
        return jnp.sum(logs - 0.5 * log_variance), score

    @property
    def settings(self) -> dict[str, Any]:
        """The degrees of the polynomials and the number of components of the noise."""
        return {
            "degree": self.basis.degree,
            "mixing_degree": self.mixing_basis.degree,
            "num_components": self.noise.shape[2],
        }


def _log_density_and_slope(z: Array, noise: Array) -> tuple[Array, Array]:
    """Give the log-density of every datum's noise at z (data,), and minus its derivative."""
    log_heights, centres, widths, freedom = noise
    t = (z[:, None] - centres) / widths
    logs = log_heights - (freedom + 1) / 2 * jnp.log1p(t**2 / freedom)
    largest = jnp.max(logs, axis=1, keepdims=True)
    heights = jnp.exp(logs - largest)
    total = jnp.sum(heights, axis=1)
    pulls = (freedom + 1) * t / ((freedom + t**2) * widths)
    return largest[:, 0] + jnp.log(total), jnp.sum(heights * pulls, axis=1) / total
