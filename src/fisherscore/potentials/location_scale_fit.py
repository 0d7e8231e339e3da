"""How location, scale and correlations that move with θ are fitted: block by block, by Fisher scoring.

With e the data multiplied by the lower triangular whitening matrix of the Gaussian (``potentials.gaussian``), each
datum given those before it is

    e_i = m_i(θ) + Σ_{j<i} L_ij(θ) e_j + exp(½ q_i(θ)) z_i,    z_i ~ noise of its own shape,

with m, q and L smooth functions of θ (``_support.legendre``). Every block is fitted in turn by Fisher scoring: a
weighted least squares problem in which empirical Bayes sets the smoothness. A few rounds suffice, since the blocks are
nearly independent after whitening. All data are fitted at once.

A round is written for NumPy and JAX alike: few rows are fitted in NumPy, where nothing has to be compiled, many on the
device. There everything stays from round to round, and on accelerators rows are filled up to a power of two, so that
parts of the rows, and fits of all kinds, share a few compiled rounds.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._support.compiling import quickly_compiled
from .._support.legendre import Basis
from .._support.precision import double_precision
from .gaussian import MeanAndCovariance
from .mixing import Regression, Step, mixing_basis
from .noise import Noise, first_noise, fit_noise, gaussian_noise
from .points import Points
from .shrinkage import Spectra, refine, shrink

_NUM_ROUNDS = 6
# A fit to a part of the rows starts from that to all of them, and is there after this many rounds. With few rows a
# start that has seen the part left out would still show: these fits start anew.
_NUM_ROUNDS_FROM_WHOLE = 2
_MIN_ROWS_FROM_WHOLE = 1_200
_MAX_LOG_VARIANCE = 14.0
_MIN_INFORMATION = 0.02
_NUM_STEPS = 6
_FIRST_NOISE_STEPS, _LATER_NOISE_STEPS = 30, 5
# From this many numbers on, a compiled round repays its compilation: a NumPy round of them takes half a second. An
# accelerator does in milliseconds what takes NumPy that long, and shares what it compiles.
_MANY_NUMBERS, _MANY_ON_ACCELERATOR = 5_000_000, 350_000


def bounded_log_variance(log_variance: Any, xp: Any = np) -> Any:
    """Keep a log variance within bounds, in NumPy or in JAX; every evaluation goes through here."""
    return xp.clip(log_variance, -_MAX_LOG_VARIANCE, _MAX_LOG_VARIANCE)


class Blocks(NamedTuple):
    """What is fitted: location and log variance (terms, data), mixing (terms, data, earlier data), and the noise."""

    location: Any
    log_variance: Any
    mixing: Any
    noise: Noise


class LocationScaleFit(NamedTuple):
    """The fit in double precision, all in Legendre polynomials."""

    gaussian: MeanAndCovariance
    mixing_basis: Basis
    blocks: Blocks


class _Setting(NamedTuple):
    """What does not change during a fit; ``share`` (rows, 1) is that of every row in a mean: zero of rows filled in."""

    design: Any
    white: Any
    spectra: Spectra
    regression: Regression
    share: Any

    def mean(self, values: Any) -> Any:
        """Average values (rows, data) over the rows."""
        return (self.share * values).sum(axis=0)

    def variance(self, values: Any) -> Any:
        """Give their variance."""
        return self.mean((values - self.mean(values)) ** 2)

    @property
    def num_rows(self) -> Any:
        """The number of rows that are none of those filled in."""
        return (self.share > 0).sum()

    def filled_up(self, num: int) -> "_Setting":
        """Add rows of zeros, which have no share in anything."""

        def filled(rows: np.ndarray) -> np.ndarray:
            return np.concatenate([rows, np.zeros((num - len(rows), *rows.shape[1:]))])

        regression = self.regression._replace(terms=filled(self.regression.terms), white=filled(self.white))
        return self._replace(
            design=filled(self.design), white=filled(self.white), regression=regression, share=filled(self.share)
        )


# Makes a round: blocks and the steps of the noise, None to leave it, to blocks, their likelihood and the next blocks.
_Rounds = Callable[[Blocks, int | None], tuple[Blocks, Any, Blocks]]


def fit_location_scale(
    points: Points, gaussian: MeanAndCovariance, rows: np.ndarray, *, num_components: int | None, name: str
) -> LocationScaleFit:
    """Fit standardised rows (n, d) drawn at points, beginning with their Gaussian.

    ``num_components`` is that of the noise; None keeps it Gaussian, so that location and scale are mean and variance.
    Fits to a part of the rows start from the fit of the same ``name`` to the whole.
    """
    num, size = rows.shape
    white = rows @ gaussian.whitening.T
    correlations = mixing_basis(points.num_parameters, num, size)
    start = points.known_of_whole(name) if num >= _MIN_ROWS_FROM_WHOLE else None
    if start is not None and (start.gaussian.basis, start.mixing_basis) != (gaussian.basis, correlations):
        start = None
    regression = Regression.of(points.values(correlations), white, correlations)
    share = np.full((num, 1), 1 / num)
    setting = _Setting(points.values(gaussian.basis), white, points.spectra(gaussian.basis), regression, share)
    free_noise = num_components is not None
    if start is None:
        best = _best_blocks(setting, _first_blocks(setting, gaussian, num_components), free_noise)
    else:
        best = _moved_blocks(setting, _blocks_of_whole(start, gaussian), num_components)
    return points.once(name, lambda: LocationScaleFit(gaussian, correlations, best))


def _first_blocks(setting: _Setting, gaussian: MeanAndCovariance, num_components: int | None) -> Blocks:
    """Begin with the Gaussian."""
    location = gaussian.white_mean
    size = location.shape[1]
    residuals = setting.white - setting.design @ location
    return Blocks(
        location=location,
        log_variance=np.zeros_like(location),
        mixing=np.zeros((setting.regression.terms.shape[1], size, size)),
        noise=first_noise(residuals, num_components) if num_components else gaussian_noise(size),
    )


def _blocks_of_whole(whole: LocationScaleFit, gaussian: MeanAndCovariance) -> Blocks:
    """Begin a fit to a part with its own Gaussian, and with what the whole added to its."""
    added = whole.blocks.location - whole.gaussian.white_mean
    return whole.blocks._replace(location=gaussian.white_mean + added)


def _best_blocks(setting: _Setting, blocks: Blocks, free_noise: bool) -> Blocks:
    """Go through the blocks in turn for as long as the likelihood rises."""
    best, highest, one_round = blocks, -np.inf, _rounds(setting, blocks)
    for number in range(_NUM_ROUNDS):
        steps = (_LATER_NOISE_STEPS if number else _FIRST_NOISE_STEPS) if free_noise else None
        blocks, value, following = one_round(blocks, steps)
        value = float(value)
        if not np.isfinite(value) or value < highest + 1e-5 * abs(highest):
            best = blocks if value > highest else best
            break
        best, highest, blocks = blocks, value, following
    return _on_host(best)


def _moved_blocks(setting: _Setting, blocks: Blocks, num_components: int | None) -> Blocks:
    """Go through the blocks a fixed number of times: no part may end where the whole began, which has seen the rest.

    Steps of Fisher scoring forget their start; those of the noise are slow to, so that it starts anew.
    """
    if num_components:
        z = _residuals(setting, blocks, np) / _width(setting, blocks, np)
        blocks = blocks._replace(noise=first_noise(z, num_components))
    one_round = _rounds(setting, blocks)
    for number in range(_NUM_ROUNDS_FROM_WHOLE):
        steps = (_LATER_NOISE_STEPS if number else _FIRST_NOISE_STEPS) if num_components else None
        last, value, following = one_round(blocks, steps)
        blocks = following if np.isfinite(float(value)) else last
    return _on_host(blocks)


def _rounds(setting: _Setting, blocks: Blocks) -> _Rounds:
    """Choose where rounds are made: in NumPy or on the device."""
    accelerator = jax.default_backend() != "cpu"
    num_numbers = setting.white.size * blocks.noise.centres.shape[1]
    if num_numbers < (_MANY_ON_ACCELERATOR if accelerator else _MANY_NUMBERS):
        return lambda blocks, steps: _round(setting, blocks, steps)
    if accelerator:
        setting = setting.filled_up(1 << (len(setting.white) - 1).bit_length())
    with double_precision():
        placed = jax.device_put(setting)

    def on_device(blocks: Blocks, steps: int | None) -> tuple[Blocks, Any, Blocks]:
        # Noise that stays as it is takes no steps, by the same compiled function.
        with double_precision():
            return _compiled_round.compiled(placed, blocks, np.asarray(steps or 0))

    return on_device


def _on_host(blocks: Blocks) -> Blocks:
    return jax.tree.map(lambda a: np.asarray(a, np.float64), blocks)


def _round(setting: _Setting, blocks: Blocks, noise_steps: int | None, xp: Any = np) -> tuple[Blocks, Any, Blocks]:
    """Refit the noise; give the blocks with their mean log-likelihood, and these with all others refitted as well."""
    width = _width(setting, blocks, xp)
    z = _residuals(setting, blocks, xp) / width
    if noise_steps is not None:
        blocks = blocks._replace(noise=fit_noise(z, blocks.noise, noise_steps, setting.num_rows, xp))
    value = setting.mean(blocks.noise.log_density(z, xp) - xp.log(width)).sum()
    following = _with_scale(setting, blocks, z, xp)
    following = _with_location(setting, following, xp)
    return blocks, value, _with_mixing(setting, following, xp)


def _width(setting: _Setting, blocks: Blocks, xp: Any) -> Any:
    """Give the standard deviation exp(½ q) of every datum of every row."""
    return xp.exp(0.5 * bounded_log_variance(setting.design @ blocks.log_variance, xp))


def _residuals(setting: _Setting, blocks: Blocks, xp: Any) -> Any:
    """Give what location and correlations leave of every datum."""
    return setting.white - setting.design @ blocks.location - setting.regression.predict(blocks.mixing, xp)


def _with_scale(setting: _Setting, blocks: Blocks, z: Any, xp: Any) -> Blocks:
    """Take a step of Fisher scoring in q: the score of one datum is ½(zψ − 1), its information the same for all."""
    score = 0.5 * (z * blocks.noise.slope(z, xp) - 1.0)
    information = xp.maximum(setting.variance(score), _MIN_INFORMATION)
    step = setting.design.T @ score + information * (setting.spectra.gram @ blocks.log_variance)
    return blocks._replace(log_variance=shrink(setting.spectra, step, information, xp=xp).coefficients)


def _with_location(setting: _Setting, blocks: Blocks, xp: Any) -> Blocks:
    """Take a step of Fisher scoring in m, where every row weighs by its own variance."""
    width = _width(setting, blocks, xp)
    slopes = blocks.noise.slope(_residuals(setting, blocks, xp) / width, xp)
    weights = xp.maximum(setting.mean(slopes**2), _MIN_INFORMATION) / width**2
    mean, spectra = setting.mean(weights), setting.spectra
    pull = setting.design.T @ (slopes / width)
    # As if all rows weighed the same: good enough to choose the smoothness.
    chosen = shrink(spectra, pull + mean * (spectra.gram @ blocks.location), mean, xp=xp)
    decay = chosen.decay[0]  # that of all
    precision = 1.0 / (spectra.priors[decay][:, None] * chosen.sizes)
    precision = xp.concatenate([xp.zeros((1, precision.shape[1])), precision])
    eigenvalues, directions = spectra.eigenvalues[decay], spectra.directions[decay]

    def precondition(residual: Any) -> Any:
        projected = directions.T @ (residual[1:] - spectra.onto[:, None] * residual[0])
        rest = directions @ (projected * chosen.sizes / (1.0 + eigenvalues[:, None] * (chosen.sizes * mean)))
        first = residual[0] / (mean * spectra.gram[0, 0]) - spectra.onto @ rest
        return xp.concatenate([first[None], rest])

    def operator(columns: Any) -> Any:
        return setting.design.T @ (weights * (setting.design @ columns)) + precision * columns

    gradient = pull - precision * blocks.location
    location = refine(operator, precondition, gradient, blocks.location, num_steps=_NUM_STEPS, xp=xp)
    return blocks._replace(location=location)


def _with_mixing(setting: _Setting, blocks: Blocks, xp: Any) -> Blocks:
    """Take a step of Fisher scoring in L."""
    width = _width(setting, blocks, xp)
    slopes = blocks.noise.slope(_residuals(setting, blocks, xp) / width, xp)
    weights = xp.maximum(setting.mean(slopes**2), _MIN_INFORMATION) / width**2
    step = Step(weights, setting.mean(weights), slopes / width)
    return blocks._replace(mixing=setting.regression.moved(blocks.mixing, step, xp))


@quickly_compiled
def _compiled_round(setting: _Setting, blocks: Blocks, noise_steps: Any) -> tuple[Blocks, Any, Blocks]:
    return _round(setting, blocks, noise_steps, jnp)
