"""The paper's weak lensing problem: angular power spectra of cosmic shear under Gaussian noise, θ = (Ω_c, σ₈).

The data are all auto and cross spectra C_ℓ of a few source populations, x | θ ~ N(μ(θ), Σ) with μ the prediction of
jax-cosmo, 10⁷ C_ℓ(θ), and Σ the covariance of Gaussian fields at the fiducial cosmology. Score and Fisher matrix follow
in ``gaussian_noise.py``, the spectra themselves are in ``lensing_spectra.py``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._support.arguments import as_count, as_finite
from .._support.precision import in_single_precision
from ..errors import ArgumentError
from ..simulation.proposal import uniform
from .gaussian_noise import gaussian_noise
from .lensing_spectra import fiducial_covariance, spectra
from .problem import Problem

# Spectra and their noise are of order 1e-9: in these units the data are of order one.
UNIT = 1e7

_NARROWEST, _WIDEST = 0.3, 2.5
_DERIVATIVES = ("true", "jax-cosmo")


@in_single_precision
def weak_lensing(
    *, num_multipoles: int = 5, source_redshifts: Sequence[float] = (1.0, 0.5), derivatives: str = "true"
) -> Problem:
    """Make the weak lensing problem, by default with the paper's five multipoles and two source populations.

    The multipoles are spaced evenly in log ℓ from 10 to 1000. Each source population has the redshift distribution
    n(z) ∝ z exp(−(z / z₀)²), one galaxy per square arcminute and an ellipticity scatter of 0.26. The data are the
    spectra of all pairs of populations, one after the other. Needs the extra ``cosmology``.

    Args:
        num_multipoles: Number of multipoles.
        source_redshifts: z₀ of each source population.
        derivatives: ``"true"`` for the derivatives the spectra really have, to which a learned score tends; with
            ``"jax-cosmo"`` score and Fisher matrix come from jax-cosmo's automatic derivatives, as in the paper. These
            miss the small jumps by which it steps along a table, and with them up to 4 % of ∂μ/∂σ₈.

    Returns:
        The problem, with parameters omega_c and sigma8.

    >>> import fisherscore as fs
    >>> problem = fs.problems.weak_lensing()
    >>> problem.x_shape, problem.proposal.names
    ((15,), ('omega_c', 'sigma8'))
    """
    multipoles = np.logspace(1.0, 3.0, as_count(num_multipoles, "num_multipoles", minimum=2))
    redshifts = _as_redshifts(source_redshifts)
    if derivatives not in _DERIVATIVES:
        raise ArgumentError(f"derivatives: expected one of {', '.join(_DERIVATIVES)}, got {derivatives!r}.")
    covariance = UNIT**2 * fiducial_covariance(multipoles, redshifts)
    try:
        noise = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise ArgumentError(
            f"source_redshifts: the spectra of {list(redshifts)} are too much alike for the covariance to be inverted. "
            "Pass fewer, or set them further apart."
        ) from None

    def mean(theta: Any) -> Any:
        return UNIT * spectra(theta, multipoles, redshifts, derivatives).reshape(-1)

    return Problem(
        name="weak-lensing",
        proposal=uniform(omega_c=(0.2, 0.4), sigma8=(0.7, 0.9)),
        x_shape=(len(noise),),
        batch_size=64,
        **gaussian_noise(mean, noise),
    )


def _as_redshifts(source_redshifts: Any) -> tuple[float, ...]:
    redshifts = as_finite(source_redshifts, "source_redshifts")
    if redshifts.ndim != 1 or not redshifts.size or (redshifts < _NARROWEST).any() or (redshifts > _WIDEST).any():
        raise ArgumentError(
            f"source_redshifts: expected one or more redshifts from {_NARROWEST} to {_WIDEST}, which is what the "
            f"integrals resolve, got {source_redshifts!r}."
        )
    return tuple(float(z) for z in redshifts)
