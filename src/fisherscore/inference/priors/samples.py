"""Draws of another experiment as a prior: a smooth density whose fit to the draws is checked on draws left out."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._support.arguments import as_count, as_finite, as_seed, as_theta, check_names
from ..._support.text import columns, html_table
from ...errors import ArgumentError, FisherScoreWarning
from ..convergence import convergence
from .blocks import Ends, ends_from
from .chains import Draws, read_draws
from .mixture import Mixture, discrepancy, fit_mixture
from .mixture_block import Maps, MixtureBlock

_LADDER = (1, 2, 4, 8, 16, 32)
# Gaussians are filled up to one of these numbers, so that few programs are compiled.
_SIZES = (8, 32)
_MOST_ROWS = 10_000
_MIN_PER_PARAMETER, _MIN_DRAWS = 20, 100
_HELD_OUT = 5  # one part in so many, of so many pieces of the chain times four
# Kolmogorov's distance of two distributions is this over √n by chance, with one in a thousand.
_CHANCE = 2.0
_WARN, _REFUSE = 0.02, 0.1
_NO_WEIGHT = -1e30


@dataclass(frozen=True, eq=False)
class SamplePrior:
    """A prior made of draws: a smooth density with the draws' hard ends; printed, it is a table with its fit.

    Attributes:
        names: Parameter names.
        ranges: Hard ends of each parameter, None where it has none.
        mean: Means of the draws.
        covariance: Their covariance.
        num_draws: Number of draws.
        effective_draws: How many independent draws of equal weight they are worth.
        num_components: Number of Gaussians the density is made of.
        discrepancy: How far draws that were left out are from the density: the largest difference of two cumulative
            distributions, over projections and over levels of density.
        chance: What of that chance alone makes with so many draws.

    >>> import fisherscore as fs, numpy as np
    >>> draws = np.random.default_rng(0).multivariate_normal([0.3, 0.8], [[0.01, 0.004], [0.004, 0.01]], 2_000)
    >>> prior = fs.prior_from_samples(draws, ["omega", "sigma8"])
    >>> prior
    SamplePrior(omega, sigma8; 2,000 draws, 1 Gaussian)
    >>> prior.sample(3).shape, prior.log_prob([[0.3, 0.8]]).shape
    ((3, 2), (1,))
    """

    names: tuple[str, ...]
    ranges: tuple[Ends, ...]
    mean: np.ndarray
    covariance: np.ndarray
    num_draws: int
    effective_draws: float
    num_components: int
    discrepancy: float
    chance: float
    _mixture: Mixture
    _maps: Maps

    def sample(self, num: int, *, seed: int = 0) -> np.ndarray:
        """Draw from the density.

        Args:
            num: How many.
            seed: Seed of the draws.

        Returns:
            Parameters, shape (num, p).
        """
        u = self._mixture.sample(np.random.default_rng(as_seed(seed)), as_count(num, "num"))
        return self._maps.to_theta(u)

    def log_prob(self, theta: Any) -> np.ndarray:
        """Compute the log-density.

        Args:
            theta: Parameters, shape (..., p), or a mapping by name.

        Returns:
            Log-densities, shape (...); minus infinity beyond the hard ends.
        """
        points = np.asarray(as_theta(theta, self.names))
        rows = points.reshape(-1, len(self.names))
        low, high = self._maps.limits()
        inside = ((rows >= low) & (rows <= high)).all(axis=1)
        u, log_jacobian = self._maps.to_u(np.clip(rows, low, high))
        value = np.where(inside, self._mixture.log_density(u) - log_jacobian, -np.inf)
        return value.reshape(points.shape[:-1])

    def block(self, places: tuple[int, ...]) -> "MixtureBlock":
        """Return the prior as samplers take it.

        Args:
            places: The places of its parameters among those of the model.

        Returns:
            A block of a prior.
        """
        num, k = self.num_components, len(places)
        missing = next(size for size in _SIZES if size >= num) - num
        mixture, maps, unit = self._mixture, self._maps, np.repeat(np.eye(k)[None], missing, axis=0)
        whiteners = np.linalg.inv(mixture.factors)
        log_weights = np.log(mixture.weights)
        log_det = np.log(np.diagonal(whiteners, axis1=1, axis2=2)).sum(axis=1)
        # Gaussians of no weight fill up.
        arrays = {
            "sizes": np.append(log_weights + log_det, np.full(missing, _NO_WEIGHT)),
            "log_weights": np.append(log_weights, np.full(missing, _NO_WEIGHT)),
            "means": np.concatenate([mixture.means, np.zeros((missing, k))]),
            "factors": np.concatenate([mixture.factors, unit]),
            "whiteners": np.concatenate([whiteners, unit]),
        }
        single = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
        affine = tuple(np.asarray(array, np.float32) for array in maps.arrays())
        return MixtureBlock(**single, maps=affine, kinds=maps.kinds, places=places)

    def __repr__(self) -> str:
        parts = f"{self.num_components} Gaussian{'s' if self.num_components > 1 else ''}"
        return f"SamplePrior({', '.join(self.names)}; {self.num_draws:,} draws, {parts})"

    def __str__(self) -> str:
        rows: list[Sequence[str]] = [("parameter", "mean", "sd", "hard ends")]
        for name, mean, sd, ends in self._rows():
            rows.append((name, f"{mean:.5g}", f"{sd:.5g}", ends))
        return "\n".join([repr(self), *columns(rows), self._fit()])

    def _repr_html_(self) -> str:
        rows = [(name, f"{mean:.5g} ± {sd:.2g}; hard ends {ends}") for name, mean, sd, ends in self._rows()]
        return html_table(repr(self), [*rows, ("fit", self._fit())])

    def _rows(self) -> list[tuple[str, float, float, str]]:
        sigma = np.sqrt(np.diag(self.covariance))
        ends = [f"{'none' if a is None else f'{a:g}'}, {'none' if b is None else f'{b:g}'}" for a, b in self.ranges]
        return list(zip(self.names, self.mean.tolist(), sigma.tolist(), ends, strict=True))

    def _fit(self) -> str:
        return (
            f"worth {self.effective_draws:,.0f} independent draws; draws left out differ from the density by "
            f"{self.discrepancy:.3f} (chance alone {self.chance:.3f})"
        )


def prior_from_samples(
    draws: Any,
    names: Sequence[str] | Mapping[str, str] | str | None = None,
    *,
    weights: Any = None,
    ranges: Mapping[str, tuple[float | None, float | None]] | None = None,
    seed: int = 0,
) -> SamplePrior:
    """Make a prior of the draws of another experiment: a smooth density, checked on draws that were left out.

    The density is a mixture of Gaussians in coordinates that respect hard ends, with as many as held-out draws ask for.
    A fit that is poor is warned about, a bad one refused.

    Args:
        draws: GetDist's ``MCSamples`` (with its weights and hard ends), ArviZ's ``InferenceData``, a
            :class:`Posterior`, a table or mapping by parameter name, or an array of shape (draws, parameters).
        names: Which parameters to use, in which order; a mapping from their name among the draws to that of the model;
            for an array, the names of its columns. By default all.
        weights: One number of at least 0 for each draw; by default those the draws come with, or equal ones.
        ranges: Hard ends (low, high) by parameter name, None for none. Say so where the draws end abruptly, or the
            density will leak over the end.
        seed: Seed of the fit.

    Returns:
        A prior for :func:`sample` and wherever priors are taken, alone or in a mapping beside others.

    >>> import fisherscore as fs, numpy as np
    >>> draws = np.random.default_rng(0).gamma(2.0, 1.0, (3_000, 1))
    >>> prior = fs.prior_from_samples(draws, "rate", ranges={"rate": (0.0, None)})
    >>> bool((prior.sample(1_000) > 0).all()), prior.log_prob([[-0.1]]).tolist()
    (True, [-inf])
    """
    given = read_draws(draws, names, weights)
    known = given.ends | {str(name): tuple(ends) for name, ends in (ranges or {}).items()}
    check_names(known, given.names, "ranges")
    prior = _fitted(given, known, np.random.default_rng(as_seed(seed)))
    _judge(prior)
    return prior


def _fitted(given: Draws, ranges: Mapping[str, Any], rng: np.random.Generator) -> SamplePrior:
    """Fit a density to draws."""
    mass = np.ones(len(given.values)) if given.weights is None else given.weights
    values, mass = given.values[mass > 0], mass[mass > 0] / mass.sum()
    maps = _maps(values, mass, given.names, ranges)
    u, _ = maps.to_u(values)
    effective, fewest = _effective(u, mass), max(_MIN_DRAWS, _MIN_PER_PARAMETER * len(given.names))
    if effective < fewest:
        raise ArgumentError(
            f"draws: they are worth {effective:.0f} independent draws of equal weight; a density of "
            f"{len(given.names)} parameters needs at least {fewest}. Give more draws or fewer parameters."
        )
    num, off, chance = _chosen(u, mass, effective, rng)
    rows, mean = _thinned(len(u), rng), mass @ values
    mixture = fit_mixture(u[rows], mass[rows] / mass[rows].sum(), num, rng)
    return SamplePrior(
        names=given.names,
        ranges=tuple(ends_from(a, b) for a, b in zip(*maps.limits(), strict=True)),
        mean=mean,
        covariance=(mass[:, None] * (values - mean)).T @ (values - mean),
        num_draws=len(given.values),
        effective_draws=effective,
        num_components=len(mixture.weights),
        discrepancy=off,
        chance=chance,
        _mixture=mixture,
        _maps=maps,
    )


def _judge(prior: SamplePrior) -> None:
    """Warn of a poor fit and refuse a bad one."""
    advice = (
        "Where the draws end abruptly, give the ends in ranges; where they are few or repeat few values, give more of "
        "them; else give the density itself with prior_from_density."
    )
    excess = prior.discrepancy - prior.chance
    if excess > _REFUSE:
        raise ArgumentError(
            f"draws: no smooth density fits them: draws left out differ from it by {prior.discrepancy:.2f} of "
            f"a cumulative distribution (chance alone {prior.chance:.2f}). {advice}"
        )
    if excess > _WARN:
        warnings.warn(
            f"draws: the smooth density fits them poorly: draws left out differ from it by "
            f"{prior.discrepancy:.2f} of a cumulative distribution (chance alone {prior.chance:.2f}). {advice}",
            FisherScoreWarning,
            stacklevel=3,
        )


def _maps(values: np.ndarray, mass: np.ndarray, names: tuple[str, ...], ranges: Mapping[str, Any]) -> Maps:
    """Choose the map of each parameter by its hard ends, and whiten."""
    kinds, start, scale = [], [], []
    for name, column in zip(names, values.T, strict=True):
        low, high = (None if e is None else float(as_finite(e, "ranges")) for e in ranges.get(name, (None, None)))
        out = (low is not None and column.min() < low) or (high is not None and column.max() > high)
        if out or (low is not None and high is not None and low >= high):
            raise ArgumentError(
                f"ranges: draws of {name!r} go from {column.min():.6g} to {column.max():.6g}, beyond ({low}, {high})."
            )
        kind = {(True, True): "none", (False, True): "lower", (True, False): "upper"}.get(
            (low is None, high is None), "both"
        )
        begin = mass @ column if kind == "none" else (high if kind == "upper" else low)
        size = np.sqrt(mass @ (column - begin) ** 2)
        if not size > 0:
            raise ArgumentError(f"draws: all draws of {name!r} are {column[0]:.6g}. Leave it out.")
        kinds.append(kind)
        start.append(begin)
        scale.append(high - low if low is not None and high is not None else size)
    maps = Maps(tuple(kinds), np.array(start), np.array(scale), np.zeros(len(names)), np.eye(len(names)))
    z = maps.to_line(values)
    shift = mass @ z
    covariance = (mass[:, None] * (z - shift)).T @ (z - shift)
    spread = np.sqrt(np.diag(covariance))
    if np.linalg.eigvalsh(covariance / np.outer(spread, spread))[0] < 1e-9:
        raise ArgumentError("draws: one parameter is a function of the others in all draws. Leave one of them out.")
    return Maps(maps.kinds, maps.start, maps.scale, shift, np.linalg.cholesky(covariance))


def _effective(u: np.ndarray, mass: np.ndarray) -> float:
    """Return how many independent draws of equal weight weighted draws of a chain are worth."""
    independent = float(np.clip(np.min(convergence(u[None])[1]), 1.0, len(u)))
    return independent / len(u) / float((mass**2).sum())


def _thinned(num: int, rng: np.random.Generator) -> np.ndarray:
    """Choose rows, all or the most that are needed, in order."""
    return np.arange(num) if num <= _MOST_ROWS else np.sort(rng.choice(num, _MOST_ROWS, replace=False))


def _chosen(u: np.ndarray, mass: np.ndarray, effective: float, rng: np.random.Generator) -> tuple[int, float, float]:
    """Choose the number of Gaussians by draws left out, in pieces of the chain; return also how far these are off."""
    rows = _thinned(len(u), rng)
    u, mass = u[rows], mass[rows]
    out = (np.arange(len(u)) * 4 * _HELD_OUT // len(u)) % _HELD_OUT == 0
    inside, test = mass[~out] / mass[~out].sum(), mass[out] / mass[out].sum()
    best, gain = fit_mixture(u[~out], inside, 1, rng), 0.0
    for num in _LADDER[1:]:
        if num * 5 * u.shape[1] > effective:
            break
        tried = fit_mixture(u[~out], inside, num, rng)
        difference = tried.log_density(u[out]) - best.log_density(u[out])
        gain = float(test @ difference)
        # A little better will do nothing but cost.
        noise = np.sqrt(test @ (difference - gain) ** 2 / max(2.0, min(effective, len(u)) / _HELD_OUT))
        if gain > max(2 * noise, 1e-3):
            best = tried
        elif num > 2 * len(best.weights):
            break
    chance = _CHANCE / np.sqrt(max(2.0, min(effective, len(u)) / _HELD_OUT))
    return len(best.weights), max(discrepancy(best, u[out], test, rng)), float(chance)
