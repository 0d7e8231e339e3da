"""Log-normal lensing maps of the LSST-Y10 survey, with an observed map and its posterior by full-field HMC.

The data are convergence maps of 10 × 10 degrees in five bins of redshift, with the noise of ten years of LSST; their
parameters are (Ω_c, Ω_b, σ₈, h, n_s, w₀). Observed map, posterior and the table of shifts λ come from the public
project sbi_lens and are described beside them, in ``data/lsst_y10``. No score is known in closed form: the maps have as
many latent modes as pixels.
"""

import functools
from importlib.resources import files
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from .._support.arguments import as_count
from .._support.precision import in_single_precision
from ..errors import ArgumentError
from ..simulation.proposal import Proposal
from .background import Cosmology
from .lensing_fields import LogNormalMaps, Survey
from .lensing_statistics import LensingStatistics
from .problem import Observed, Problem
from .tomography import RedshiftBins

# Directions in which spectra differ are found from those of so many cosmologies drawn from the prior.
_NUM_COSMOLOGIES = 100
TRUTH = (0.2664, 0.0492, 0.831, 0.6727, 0.9645, -1.0)
_NUM_PIXELS = 256
_SURVEY = Survey(
    degrees=10.0,
    num_pixels=_NUM_PIXELS,
    sources=RedshiftBins(num_bins=5, a=2.0, b=0.68, z0=0.11, scatter=0.05),
    galaxies=27.0,
    ellipticity=0.26,
)


@in_single_precision
def lensing_maps(*, num_pixels: int = _NUM_PIXELS, statistics: bool = False) -> Problem:
    """Make the problem of the LSST-Y10 maps, with the observed map and draws of its posterior.

    Args:
        num_pixels: Pixels a side of the data: 256, or a divisor of it for maps averaged over blocks of pixels, which
            are quicker to analyse and hold less.
        statistics: Whether the data are 16 statistics of the whole map instead: its power along six directions in
            which spectra of the prior differ, that of the largest waves and third moments of filtered maps of each bin.

    Returns:
        The problem, with parameters omega_c, omega_b, sigma8, h, n_s and w0. The draws of ``problem.observed`` are of
        the posterior of all 256 × 256 pixels.

    >>> import fisherscore as fs
    >>> problem = fs.problems.lensing_maps()
    >>> problem.observed.x.shape, problem.observed.draws.shape
    ((256, 256, 5), (160000, 6))
    """
    side = as_count(num_pixels, "num_pixels", minimum=8)
    if _NUM_PIXELS % side:
        raise ArgumentError(f"num_pixels: expected a divisor of {_NUM_PIXELS}, got {side}.")
    if statistics and side != _NUM_PIXELS:
        raise ArgumentError(f"num_pixels: statistics are of the whole map, expected {_NUM_PIXELS}, got {side}.")
    maps, table, prior = LogNormalMaps(_SURVEY), _read("shifts.npy"), _prior()
    data = _statistics().of if statistics else lambda x: averaged(x, side)

    def draw_one(key: Any, theta: Any) -> Any:
        cosmology = Cosmology(*theta)
        return data(maps.draw(key, cosmology, shifts_of(cosmology, table)))

    observed = np.asarray(data(jnp.asarray(_read("map.npy"))))
    return Problem(
        name="lensing-statistics" if statistics else "lensing-maps",
        proposal=Proposal.of(prior),
        draw_one=draw_one,
        x_shape=observed.shape,
        batch_size=16,
        observed=Observed(x=observed, truth=np.array(TRUTH), prior=prior, draws=_read("hmc_draws.npy")),
    )


@functools.lru_cache(maxsize=1)
@in_single_precision
def _statistics() -> LensingStatistics:
    """Prepare the statistics, with filters for the mean of the prior, which is where the observed map was drawn."""
    laws = Proposal.of(_prior())
    others = np.asarray(laws.sample(_NUM_COSMOLOGIES, seed=0), np.float32)
    with jax.ensure_compile_time_eval():  # it may be asked for while something else is traced
        typical, *cosmologies = (Cosmology(*theta) for theta in [np.asarray(TRUTH, np.float32), *others])
        return LensingStatistics(LogNormalMaps(_SURVEY), typical, cosmologies)


def condensed(x: Any) -> Any:
    """Compute the statistics of one whole map (256, 256, 5)."""
    return _statistics().of(jnp.asarray(x))


def shifts_of(cosmology: Cosmology, table: np.ndarray) -> Any:
    """Look up λ of every bin.

    The first axis of the table is σ₈ and the second Ω_m, each of eight nodes. Observed map and posterior were made with
    these two taken for one another, and with nodes in the middles of eight cells; so it is done here.
    """
    coordinates = []
    for value, name in ((cosmology.omega_m, 0), (cosmology.sigma8, 1), (cosmology.w, 2)):
        low, high = table[..., name].min(), table[..., name].max()
        coordinates.append(8.0 * (value - low) / (high - low) - 0.5)
    look_up = functools.partial(jax.scipy.ndimage.map_coordinates, order=1, mode="nearest")
    shifts = jnp.asarray(table[..., 4], cosmology.dtype)
    return jnp.stack([look_up(shifts[..., k], coordinates) for k in range(table.shape[3])])


def averaged(maps: Any, side: int) -> Any:
    """Average a map (n, n, bins) over blocks of pixels."""
    n, _, num = maps.shape
    return maps.reshape(side, n // side, side, n // side, num).mean(axis=(1, 3))


def _prior() -> dict[str, dist.Distribution]:
    return {
        "omega_c": dist.TruncatedNormal(0.2664, 0.2, low=0.0),
        "omega_b": dist.Normal(0.0492, 0.006),
        "sigma8": dist.Normal(0.831, 0.14),
        "h": dist.Normal(0.6727, 0.063),
        "n_s": dist.Normal(0.9645, 0.08),
        "w0": dist.TruncatedNormal(-1.0, 0.9, low=-2.0, high=-0.3),
    }


def _read(name: str) -> np.ndarray:
    """Read an array of the package."""
    with (files(__package__) / "data" / "lsst_y10" / name).open("rb") as file:
        return np.load(file)
