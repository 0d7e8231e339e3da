"""Refusals and warnings about simulations, before anything is fitted to them."""

import warnings

import numpy as np

from .._support.legendre import Basis, affordable_degree
from ..errors import ArgumentError, FisherScoreWarning
from ..score.constraints import BADLY_LEARNED, NOT_CONSTRAINED
from ..score.fitted import FittedScore
from ..simulation.latent import AdditiveLatent
from ..simulation.simulations import Simulations
from .data import Rows

# Failures that depend on θ or x bias the score; below this they are tolerated with a warning.
MAX_FAILURE_RATE = 0.01
MIN_SIMULATIONS = 10
# Single precision resolves columns that vary by more than this fraction of their size.
_MIN_RELATIVE_SPREAD = 3e-5
# And double precision, in which data are standardised, those that vary by more than this.
_MIN_SPREAD_IN_DOUBLE = 1e-11
# With fewer simulations a parameter there is nothing a fit could find.
_MIN_A_PARAMETER = 10
# Standard deviations are computed of squares.
_LARGEST = 1e140
# A datum whose noise is less than this fraction of its spread over the region is all but determined by θ.
_MIN_NOISE = 1e-3


def check_failures(sims: Simulations, *, allow_failures: bool) -> None:
    """Refuse simulations of which too many failed; warn where some did."""
    rate = failure_rate(sims)
    if not rate:
        return
    counts, first = sims.failures()
    listed = ", ".join(f"{c} {k}" for k, c in counts.items())
    said = f"{listed}; the first said: {first}" if counts else "they were left out before"
    text = (
        f"sims: {rate:.2%} of {sims.origin.num_simulations} simulations failed ({said}). Training on the rest learns "
        "the score of x given success. Failures that depend on the parameters alone are made up for; those that depend "
        "on the data cannot be, and bias the score."
    )
    additive = sims.folder is None and isinstance(sims.latent_model, AdditiveLatent)
    if additive and not sims.proposal.inside(sims.drawn_at[sims.status != "ok"]).all():
        text += (
            " Some failed just outside the proposal's range, where noise added to the parameters had taken them: if "
            "that is the reason, simulate without a latent, narrow the range a little, or pass a latent of your own."
        )
    if set(counts) == {"nonfinite"}:
        text += (
            " Where pixels of a series or map are missing by design, let the simulator give any number there, such as "
            "0, and pass mask= to fisherscore.fit."
        )
    if rate > MAX_FAILURE_RATE and not allow_failures:
        raise ArgumentError(text + " Repair the simulator, or pass allow_failures=True.")
    warnings.warn(text, FisherScoreWarning, stacklevel=3)


def failure_rate(sims: Simulations) -> float:
    """Return the fraction of simulations that failed, those that :meth:`Simulations.ok` left out included."""
    return max(sims.failure_rate, sims.origin.failure_rate)


def check_number(num_successes: int) -> None:
    """Refuse fewer simulations than any recipe can learn from."""
    if num_successes < MIN_SIMULATIONS:
        raise ArgumentError(
            f"sims: expected at least {MIN_SIMULATIONS} simulations that succeeded, got {num_successes}."
        )


def warn_if_imprecise(sims: Simulations) -> None:
    """Warn when numbers vary by so little that the precision they are in cannot follow them; refuse those beyond it."""
    for name, rows in (("theta", sims.theta), ("x", sims.x.reshape(len(sims), -1))):
        size = np.abs(rows).max(axis=0)
        _refuse_out_of_range(name, size)
        spread = rows.std(axis=0)
        with np.errstate(over="ignore"):
            single = (rows == rows.astype(np.float32)).all(axis=0)  # from a simulator that computes in it
        blurred = (spread > 0) & (spread < np.where(single, _MIN_RELATIVE_SPREAD, _MIN_SPREAD_IN_DOUBLE) * size)
        if blurred.any():
            column = int(np.flatnonzero(blurred)[0])
            warnings.warn(
                f"sims: column {column} of {name} is about {size[column]:.4g} and varies by {spread[column]:.2g}, "
                f"which {'single' if single[column] else 'double'} precision hardly resolves. Subtract a constant in "
                "the simulator.",
                FisherScoreWarning,
                stacklevel=5,
            )


def _refuse_out_of_range(name: str, size: np.ndarray) -> None:
    """Refuse columns whose squares double precision cannot hold."""
    bad = np.flatnonzero((size > _LARGEST) | ((size > 0) & (size < 1 / _LARGEST)))
    if bad.size:
        raise ArgumentError(
            f"sims: column {int(bad[0])} of {name} is as large as {size[bad[0]]:.3g}; expected sizes between "
            f"{1 / _LARGEST:g} and {_LARGEST:g}. Return the data in other units, or their logarithm."
        )


def refuse_too_few(rows: Rows) -> None:
    """Refuse, before any work, fewer simulations than a score of so many parameters can be learned from."""
    num, needed = len(rows), _MIN_A_PARAMETER * rows.num_parameters
    if num < needed:
        raise ArgumentError(
            f"sims: {num:,} simulations are too few for {rows.num_parameters} parameters: expected at least "
            f"{needed:,}, {_MIN_A_PARAMETER} a parameter, and ten times as many for a good score. Simulate more, "
            "or let fewer parameters vary."
        )


def nothing_learned(rows: Rows) -> str:
    """Say why no candidate is better than a score of zero: too few simulations, or nothing to learn."""
    num, p, size = len(rows), rows.num_parameters, rows.data_size
    x, u = rows.x - rows.x.mean(axis=0), rows.u - rows.u.mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.nan_to_num((u / u.std(axis=0)).T @ (x / x.std(axis=0)) / num)
    parameter, datum = np.unravel_index(int(np.abs(correlation).argmax()), correlation.shape)
    largest = abs(correlation[parameter, datum])
    begin = f"no candidate gives a better score than zero on held-out simulations, of which there are {num:,} in all. "
    # The largest of p·d correlations of independent numbers is hardly ever above this.
    if largest < np.sqrt(2 * np.log(100 * p * size) / num):
        return f"{NOT_CONSTRAINED}, as far as can be told: {begin}" + (
            "No datum is seen to go with a parameter: check that the data depend on the parameters, and that rows of "
            "theta and x belong together, or give more simulations where they depend weakly."
        )
    needed = max(2 * size, 100 * p, 4 * num)
    return f"{BADLY_LEARNED}: {begin}" + (
        f"The data do depend on the parameters (the correlation of datum {datum} with parameter {parameter + 1} is "
        f"{largest:.2f}), but so few simulations do not suffice for {size:,} data and {p} parameters: give about "
        f"{needed:,} or more, or condense the data into fewer numbers before the fit."
    )


def warn_if_badly_learned(model: FittedScore) -> None:
    """Warn when, by the fit's own error, posteriors would be off by more than half of their width."""
    known = model.constraints
    if known is not None and known.badly_learned:
        warnings.warn(f"sims: the score was {known.findings[0]}.", FisherScoreWarning, stacklevel=3)


def warn_if_deterministic(rows: Rows) -> None:
    """Warn when the parameters all but determine a datum: then the likelihood is a spike, and its score unbounded."""
    p = rows.num_parameters
    terms = Basis(p, min(5, affordable_degree(p, len(rows) // 2, 100)))(rows.u)
    residuals = rows.x - terms @ np.linalg.lstsq(terms, rows.x, rcond=None)[0]
    noise, spread = residuals.std(axis=0), rows.x.std(axis=0)
    certain = np.flatnonzero((noise < _MIN_NOISE * spread) & (spread > 0))
    if certain.size:
        warnings.warn(
            f"sims: datum {int(certain[0])} has hardly any noise: given the parameters it varies by "
            f"{noise[certain[0]]:.1g} of its spread over the region. A score then says little but that the "
            "parameters are known; if the simulator is deterministic, add the noise of the measurement to it.",
            FisherScoreWarning,
            stacklevel=4,
        )
