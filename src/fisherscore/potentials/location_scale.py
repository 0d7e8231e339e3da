"""A closed form whose location, scale and correlations move with θ, with noise of free shape.

With e the data multiplied by the lower triangular whitening matrix of the Gaussian (``potentials.gaussian``), each
datum given those before it is

    e_i = m_i(θ) + Σ_{j<i} L_ij(θ) e_j + exp(½ q_i(θ)) z_i,    z_i ~ noise of its own shape,

with m, q and L smooth functions of θ (``_support.legendre``). Every block is fitted in turn by Fisher scoring:
a weighted least squares problem in which empirical Bayes sets the smoothness. A few rounds suffice, since the blocks
are nearly independent after whitening.

The order of the data matters little here, and not at all where they are independent given θ.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.legendre import Basis
from .base import ClosedForm, register
from .gaussian import MeanAndCovariance, fit_mean_and_covariance
from .noise import GAUSSIAN, Noise, first_noise, fit_noise
from .shrinkage import NormalEquations, ridge, shrink

_NUM_ROUNDS = 6
_MAX_TERMS = 150
_MAX_LOG_VARIANCE = 14.0
_MIN_INFORMATION = 0.02


def bounded_log_variance(log_variance: Any, array_module: Any = np) -> Any:
    """Keep a log variance within bounds, in NumPy or in JAX; every evaluation goes through here."""
    return array_module.clip(log_variance, -_MAX_LOG_VARIANCE, _MAX_LOG_VARIANCE)


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
    def fit(cls, u: np.ndarray, rows: np.ndarray) -> Self:
        """Fit standardised rows (n, d) drawn at u in [−1, 1]^p, with Student's t as noise."""
        return cls.fit_components(u, rows, num_components=1)

    @classmethod
    def fit_components(cls, u: np.ndarray, rows: np.ndarray, *, num_components: int) -> Self:
        """Fit as :meth:`fit`, with noise of several components."""
        fitted = fit_location_scale(u, rows, num_components=num_components)
        form = cls(
            u.shape[1],
            rows.shape[1],
            degree=fitted.basis.degree,
            mixing_degree=fitted.mixing_basis.degree,
            num_components=num_components,
        )
        shapes = [(n.log_heights, n.centres, n.widths, n.freedom) for n in fitted.noise]
        return form._filled(
            whitening=fitted.whitening,
            location=fitted.location,
            log_variance=fitted.log_variance,
            mixing=fitted.mixing,
            noise=np.moveaxis(np.array(shapes), 0, 1),
        )

    def potential(self, theta: Float[Array, " params"], x: Float[Array, " ..."]) -> Float[Array, ""]:
        """Give Σ_i log density of datum i given those before it."""
        terms = self.basis(theta, jnp)
        white = self.whitening @ x.ravel()
        log_variance = bounded_log_variance(terms @ self.log_variance, jnp)
        mixed = jnp.tensordot(self.mixing_basis(theta, jnp), self.mixing, 1) @ white
        z = (white - terms @ self.location - mixed) * jnp.exp(-0.5 * log_variance)
        log_heights, centres, widths, freedom = self.noise
        squares = ((z[:, None] - centres) / widths) ** 2
        logs = log_heights - (freedom + 1) / 2 * jnp.log1p(squares / freedom)
        return jnp.sum(jax.scipy.special.logsumexp(logs, axis=1) - 0.5 * log_variance)

    @property
    def settings(self) -> dict[str, Any]:
        """The degrees of the polynomials and the number of components of the noise."""
        return {
            "degree": self.basis.degree,
            "mixing_degree": self.mixing_basis.degree,
            "num_components": self.noise.shape[2],
        }


@dataclass(frozen=True, eq=False)
class LocationScaleFit:
    """The fit in double precision, all in Legendre polynomials: first axis terms, then data."""

    basis: Basis
    whitening: np.ndarray
    location: np.ndarray
    log_variance: np.ndarray
    mixing_basis: Basis
    mixing: np.ndarray  # (terms, data, earlier data), strictly lower triangular
    noise: tuple[Noise, ...]


def fit_location_scale(u: np.ndarray, rows: np.ndarray, *, num_components: int | None) -> LocationScaleFit:
    """Fit standardised rows (n, d) drawn at u in [−1, 1]^p.

    ``num_components`` is that of the noise; None keeps it Gaussian, so that location and scale are mean and variance.
    """
    state = _FitInProgress(u, rows, fit_mean_and_covariance(u, rows, _MAX_TERMS), num_components)
    best, highest = state.fitted, -np.inf
    for _ in range(_NUM_ROUNDS):
        value = state.refit_noise()
        if not np.isfinite(value) or value < highest + 1e-5 * abs(highest):
            best = state.fitted if value > highest else best
            break
        best, highest = state.fitted, value
        state.refit_scale()
        state.refit_location()
        state.refit_mixing()
    return best


class _FitInProgress:
    """The fit in progress; every method improves one block and leaves the others as they are."""

    def __init__(self, u: np.ndarray, rows: np.ndarray, gaussian: MeanAndCovariance, num_components: int | None):
        num, size = rows.shape
        self.design = gaussian.basis(u)
        self.gram = self.design.T @ self.design
        self.white = rows @ gaussian.whitening.T
        mixing_basis = _mixing_basis(u.shape[1], num, size)
        self.mixing_design = mixing_basis(u)
        self.free_noise = num_components is not None
        location = gaussian.mean @ gaussian.whitening.T
        residuals = self.white - self.design @ location
        self.fitted = LocationScaleFit(
            basis=gaussian.basis,
            whitening=gaussian.whitening,
            location=location,
            log_variance=np.zeros_like(location),
            mixing_basis=mixing_basis,
            mixing=np.zeros((len(mixing_basis), size, size)),
            noise=tuple(first_noise(z, num_components) if num_components else GAUSSIAN for z in residuals.T),
        )
        self.location_decays: tuple[float, ...] | None = None
        self.first_round = True

    def width(self) -> np.ndarray:
        """Give the standard deviation exp(½ q) of every datum of every row."""
        return np.exp(0.5 * bounded_log_variance(self.design @ self.fitted.log_variance))

    def residuals(self) -> np.ndarray:
        """Give what location and correlations leave of every datum."""
        mixed = sum(
            self.mixing_design[:, [b]] * (self.white @ self.fitted.mixing[b].T)
            for b in range(self.mixing_design.shape[1])
        )
        return self.white - self.design @ self.fitted.location - mixed

    def slopes(self, z: np.ndarray) -> np.ndarray:
        """Give ψ = −d log density / dz of the noise of every datum."""
        return np.stack([noise.slope(z[:, i]) for i, noise in enumerate(self.fitted.noise)], axis=1)

    def refit_noise(self) -> float:
        """Fit the shapes to the standardised residuals and return the mean log-likelihood."""
        width = self.width()
        z = self.residuals() / width
        if self.free_noise:
            steps = 30 if self.first_round else 6
            self.fitted = replace(
                self.fitted,
                noise=tuple(fit_noise(z[:, i], noise, steps) for i, noise in enumerate(self.fitted.noise)),
            )
            self.first_round = False
        return float(
            sum(noise.log_density(z[:, i]).mean() for i, noise in enumerate(self.fitted.noise))
            - np.log(width).sum(axis=1).mean()
        )

    def refit_scale(self) -> None:
        """Take a step of Fisher scoring in q: the score of one datum is ½(zψ − 1), its information the same for all."""
        z = self.residuals() / self.width()
        score = 0.5 * (z * self.slopes(z) - 1.0)
        information = np.maximum(score.var(axis=0), _MIN_INFORMATION)
        step = self.design.T @ score + information * (self.gram @ self.fitted.log_variance)
        shrunk = shrink(NormalEquations(self.gram, step, information), self.fitted.basis, shared=False)
        self.fitted = replace(self.fitted, log_variance=shrunk.coefficients)

    def refit_location(self) -> None:
        """Take a step of Fisher scoring in m, where every row weighs by its own variance."""
        width = self.width()
        slopes = self.slopes(self.residuals() / width)
        weights = np.maximum(np.mean(slopes**2, axis=0), _MIN_INFORMATION) / width**2
        grams = np.stack([(self.design * w[:, None]).T @ self.design for w in weights.T])
        now = np.einsum("imn,ni->mi", grams, self.fitted.location)
        equations = NormalEquations(grams, now + self.design.T @ (slopes / width))
        shrunk = shrink(equations, self.fitted.basis, shared=False, decays=self.location_decays)
        self.location_decays = (shrunk.decay,)
        self.fitted = replace(self.fitted, location=shrunk.coefficients)

    def refit_mixing(self) -> None:
        """Take a step of Fisher scoring in L, datum by datum, with one size of prior each."""
        width = self.width()
        slopes = self.slopes(self.residuals() / width)
        mixing = self.fitted.mixing.copy()
        num_terms = len(mixing)
        degrees = np.array(self.fitted.mixing_basis.exponents, float).sum(axis=1)
        for i in range(1, self.white.shape[1]):
            columns = (self.mixing_design[:, :, None] * self.white[:, None, :i]).reshape(len(self.white), -1)
            weight = max(float(np.mean(slopes[:, i] ** 2)), _MIN_INFORMATION) / width[:, i] ** 2
            gram = (columns * weight[:, None]).T @ columns
            target = gram @ mixing[:, i, :i].ravel() + columns.T @ (slopes[:, i] / width[:, i])
            mixing[:, i, :i] = ridge(gram, target, np.repeat(degrees, i)).reshape(num_terms, i)
        self.fitted = replace(self.fitted, mixing=mixing)


def _mixing_basis(num_parameters: int, num_rows: int, size: int) -> Basis:
    """Let correlations move with θ by the highest degree, up to 2, that leaves four rows a coefficient."""
    pairs = max(1, size * (size - 1) // 2)
    choices = [Basis(num_parameters, degree) for degree in (2, 1, 0)]
    return next((b for b in choices if pairs * len(b) <= num_rows / 4), choices[-1])
