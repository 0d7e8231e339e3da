"""The second grade of closed-form scores: location, scale and correlations move with θ, the noise has a free shape.

With e the data multiplied by the whitening matrix of the first grade (``potentials.gaussian``), lower triangular,
each datum given those before it is

    e_i = m_i(θ) + Σ_{j<i} L_ij(θ) e_j + exp(½ q_i(θ)) z_i,    z_i ~ noise of its own shape,

with m, q and L smooth functions of θ (``_support.legendre``). Every block is fitted in turn by Fisher scoring:
a weighted least squares problem in which empirical Bayes sets the smoothness. A few rounds suffice, since the blocks
are nearly independent after whitening.

The order of the data matters little here, and not at all where they are independent given θ.
"""

from dataclasses import dataclass, replace

import numpy as np

from .._support.legendre import SIZES, Exponents, exponents_up_to, legendre, shrink
from .gaussian import Gaussian, fit_gaussian
from .noise import GAUSSIAN, Noise, first_noise, fit_noise

_NUM_ROUNDS = 6
_MOST_TERMS = 150
_DECAYS = (1e-3, 0.03, 1.0)
_LARGEST_LOG_VARIANCE = 14.0
_SMALLEST_INFORMATION = 0.02
LARGEST_DATA = 100


@dataclass(frozen=True)
class LocationScale:
    """What is fitted, all in Legendre polynomials: first axis terms, then data."""

    exponents: Exponents
    whitening: np.ndarray
    location: np.ndarray
    log_variance: np.ndarray
    mixing_exponents: Exponents
    mixing: np.ndarray  # (terms, data, earlier data), strictly lower triangular
    noise: tuple[Noise, ...]


def fit_location_scale(u: np.ndarray, rows: np.ndarray, *, num_components: int | None) -> LocationScale:
    """Fit standardised rows (n, d) drawn at u in [−1, 1]^p.

    ``num_components`` is that of the noise; None keeps it Gaussian, so that location and scale are mean and variance.
    """
    state = _State(u, rows, fit_gaussian(u, rows, _MOST_TERMS), num_components)
    best, highest = state.model, -np.inf
    for _ in range(_NUM_ROUNDS):
        value = state.refit_noise()
        if not np.isfinite(value) or value < highest + 1e-5 * abs(highest):
            best = state.model if value > highest else best
            break
        best, highest = state.model, value
        state.refit_scale()
        state.refit_location()
        state.refit_mixing()
    return best


class _State:
    """The fit in progress; every method improves one block and leaves the others as they are."""

    def __init__(self, u: np.ndarray, rows: np.ndarray, gaussian: Gaussian, num_components: int | None):
        num, size = rows.shape
        self.design = legendre(u, gaussian.exponents)
        self.gram = self.design.T @ self.design
        self.white = rows @ gaussian.whitening.T
        mixing_exponents = _mixing_exponents(u.shape[1], num, size)
        self.mixing_design = legendre(u, mixing_exponents)
        self.free = num_components is not None
        location = gaussian.coefficients @ gaussian.whitening.T
        residuals = self.white - self.design @ location
        self.model = LocationScale(
            exponents=gaussian.exponents,
            whitening=gaussian.whitening,
            location=location,
            log_variance=np.zeros_like(location),
            mixing_exponents=mixing_exponents,
            mixing=np.zeros((len(mixing_exponents), size, size)),
            noise=tuple(first_noise(z, num_components) if num_components else GAUSSIAN for z in residuals.T),
        )
        self.location_decays: tuple[float, ...] | None = None
        self.first = True

    def width(self) -> np.ndarray:
        bound = _LARGEST_LOG_VARIANCE
        return np.exp(0.5 * np.clip(self.design @ self.model.log_variance, -bound, bound))

    def residuals(self) -> np.ndarray:
        mixed = sum(
            self.mixing_design[:, [b]] * (self.white @ self.model.mixing[b].T)
            for b in range(self.mixing_design.shape[1])
        )
        return self.white - self.design @ self.model.location - mixed

    def slopes(self, z: np.ndarray) -> np.ndarray:
        return np.stack([noise.slope(z[:, i]) for i, noise in enumerate(self.model.noise)], axis=1)

    def refit_noise(self) -> float:
        """Fit the shapes to the standardised residuals and return the mean log-likelihood."""
        width = self.width()
        z = self.residuals() / width
        if self.free:
            steps = 30 if self.first else 6
            self.model = replace(
                self.model,
                noise=tuple(fit_noise(z[:, i], noise, steps) for i, noise in enumerate(self.model.noise)),
            )
            self.first = False
        return float(
            sum(noise.log_density(z[:, i]).mean() for i, noise in enumerate(self.model.noise))
            - np.log(width).sum(axis=1).mean()
        )

    def refit_scale(self) -> None:
        """Take a step of Fisher scoring in q: the score of one datum is ½(zψ − 1), its information the same for all."""
        z = self.residuals() / self.width()
        score = 0.5 * (z * self.slopes(z) - 1.0)
        information = np.maximum(score.var(axis=0), _SMALLEST_INFORMATION)
        step = self.design.T @ score + information * (self.gram @ self.model.log_variance)
        fitted = shrink(self.gram, step, self.model.exponents, shared=False, information=information)
        self.model = replace(self.model, log_variance=fitted.coefficients)

    def refit_location(self) -> None:
        """Take a step of Fisher scoring in m, where every row weighs by its own variance."""
        width = self.width()
        slopes = self.slopes(self.residuals() / width)
        weights = np.maximum(np.mean(slopes**2, axis=0), _SMALLEST_INFORMATION) / width**2
        grams = np.stack([(self.design * w[:, None]).T @ self.design for w in weights.T])
        now = np.einsum("imn,ni->mi", grams, self.model.location)
        fitted = shrink(
            grams,
            now + self.design.T @ (slopes / width),
            self.model.exponents,
            shared=False,
            decays=self.location_decays,
        )
        self.location_decays = (fitted.decay,)
        self.model = replace(self.model, location=fitted.coefficients)

    def refit_mixing(self) -> None:
        """Take a step of Fisher scoring in L, datum by datum, with one size of prior each."""
        width = self.width()
        slopes = self.slopes(self.residuals() / width)
        mixing = self.model.mixing.copy()
        num_terms = len(mixing)
        degrees = np.array(self.model.mixing_exponents, float).sum(axis=1)
        for i in range(1, self.white.shape[1]):
            columns = (self.mixing_design[:, :, None] * self.white[:, None, :i]).reshape(len(self.white), -1)
            weight = max(float(np.mean(slopes[:, i] ** 2)), _SMALLEST_INFORMATION) / width[:, i] ** 2
            gram = (columns * weight[:, None]).T @ columns
            target = gram @ mixing[:, i, :i].ravel() + columns.T @ (slopes[:, i] / width[:, i])
            mixing[:, i, :i] = _ridge(gram, target, np.repeat(degrees, i)).reshape(num_terms, i)
        self.model = replace(self.model, mixing=mixing)


def _mixing_exponents(num_parameters: int, num_rows: int, size: int) -> Exponents:
    """Let correlations move with θ by as high a degree, up to 2, as leaves ten rows a coefficient."""
    pairs = max(1, size * (size - 1) // 2)
    choices = [exponents_up_to(num_parameters, degree) for degree in (2, 1, 0)]
    return next((e for e in choices if pairs * len(e) <= num_rows / 4), choices[-1])


def _ridge(gram: np.ndarray, target: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Shrink coefficients towards zero by the size of prior, and its decay with the degree, of highest evidence."""
    best = (-np.inf, np.zeros_like(target))
    for decay in _DECAYS:
        scale = np.sqrt(decay**degrees)
        eigenvalues, vectors = np.linalg.eigh(scale[:, None] * gram * scale)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        projected = vectors.T @ (scale * target)
        scaled = np.outer(SIZES, eigenvalues)
        evidence = 0.5 * (SIZES[:, None] * projected**2 / (1 + scaled) - np.log1p(scaled)).sum(axis=1)
        size = SIZES[int(evidence.argmax())]
        if evidence.max() > best[0]:
            best = (float(evidence.max()), scale * (vectors @ (projected * size / (1 + size * eigenvalues))))
    return best[1]
