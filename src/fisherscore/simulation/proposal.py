"""Where to learn: named parameters, a training region, and how to draw from it.

A proposal says at which parameters simulations are run. It is not a prior: the score a fit converges to,
∇θ log p(x | θ), does not depend on it, and a prior is chosen later, when sampling.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from .._support.arguments import as_count, as_seed, as_theta, brief, check_names, is_name, is_traced
from .._support.axes import Axes
from .._support.precision import double_precision
from .._support.record_random import words_of_records
from .._support.text import html_table
from ..errors import ArgumentError
from .quantiles import afresh, drawn
from .ranges import range_of, refuse_unbearable
from .regions import WIDER, Limits, Parts, region_of

# What the words of ``Proposal.sample`` are for; campaigns have other numbers.
_SAMPLE = 100
# Around fewer draws no region is made.
_MIN_DRAWS = 20


@dataclass(frozen=True, eq=False, repr=False)
class Proposal:
    """Independent distributions over named parameters, and the box in which a fit may be trusted.

    Build one with :func:`uniform`, :func:`normal`, or from any scalar NumPyro distributions with :meth:`of`.

    Attributes:
        names: Names of the parameters.
        distributions: Their distributions, in the same order.
        low: Lower ends of the training region, shape (p,).
        high: Upper ends of the training region, shape (p,).
        units: Units for axes and tables, empty where there is none.
        axes: The axes of a region that has axes of its own, within ``low`` and ``high``; see :meth:`around`.
        parts: The boxes of such a region in which simulations are run.

    >>> import fisherscore as fs, numpyro.distributions as dist
    >>> proposal = fs.Proposal.of({"rate": dist.Gamma(3.0, 1.0), "shift": dist.Uniform(-1.0, 1.0)})
    >>> proposal.names
    ('rate', 'shift')
    """

    names: tuple[str, ...]
    distributions: tuple[dist.Distribution, ...]
    low: np.ndarray
    high: np.ndarray
    units: tuple[str, ...]
    axes: Axes | None = None
    parts: Parts | None = None

    @classmethod
    def of(
        cls,
        distributions: Mapping[str, dist.Distribution] | Iterable[tuple[str, dist.Distribution]],
        *,
        units: Mapping[str, str] | None = None,
    ) -> "Proposal":
        """Make a proposal from scalar NumPyro distributions.

        Args:
            distributions: Distributions by name. One that is not bounded gets as its training region the range between
                its quantiles 0.001 and 0.999.
            units: Units by name.

        Returns:
            A proposal.
        """
        pairs = _pairs(distributions, "distributions")
        for name, law in pairs:
            if not isinstance(law, dist.Distribution):
                raise ArgumentError(
                    f"distributions[{name!r}]: expected a NumPyro distribution, got {law!r}. "
                    "For a plain range use fisherscore.uniform."
                )
            if law.batch_shape or law.event_shape or law.is_discrete:
                raise ArgumentError(
                    f"distributions[{name!r}]: expected a scalar continuous distribution, got {type(law).__name__} "
                    f"with shape {law.batch_shape + law.event_shape}. Give each parameter a distribution of its own."
                )
        names = tuple(n for n, _ in pairs)
        check_names(units or {}, names, "units")
        limits = np.array([range_of(law) for _, law in pairs], dtype=np.float64)
        limits.setflags(write=False)
        for name, (low, high) in zip(names, limits.tolist(), strict=True):
            refuse_unbearable(name, low, high)
        return cls(
            names=names,
            distributions=tuple(law for _, law in pairs),
            low=limits[:, 0],
            high=limits[:, 1],
            units=tuple((units or {}).get(n, "") for n in names),
        )

    @property
    def num_parameters(self) -> int:
        """Number of parameters."""
        return len(self.names)

    def __repr__(self) -> str:
        text = ", ".join(f"{name} {region}" for name, region in self._regions())
        if self.parts is None:
            return f"Proposal({text})"
        num = len(self.parts.boxes)
        return f"Proposal({text}; along axes of its own{f', in {num} parts' if num > 1 else ''})"

    def around(self, posterior: Any, *, wider: float = WIDER) -> "Proposal":
        """Give the region around a posterior, in its own axes, to simulate in.

        A score does not depend on the proposal, so simulations may follow a posterior with nothing to correct. Where
        a posterior has several modes, simulations are run around each. :func:`fisherscore.infer` does this by itself.

        Args:
            posterior: A posterior of the same parameters, or draws of shape (n, p).
            wider: How much wider than the posterior, as a fraction.

        Returns:
            A proposal that is uniform in the region, which lies within that of this one.

        >>> import fisherscore as fs, numpy as np
        >>> draws = np.random.default_rng(0).multivariate_normal([0.5, 0.5], [[0.01, 0.009], [0.009, 0.01]], 1_000)
        >>> region = fs.uniform(a=(0.0, 1.0), b=(0.0, 1.0)).around(draws)
        >>> region.inside([[0.4, 0.4], [0.4, 0.6]]).tolist()
        [True, False]
        """
        if not 0 <= wider < math.inf:
            raise ArgumentError(f"wider: expected a number from 0, got {wider!r}.")
        names = getattr(posterior, "names", self.names)
        if tuple(names[: self.num_parameters]) != self.names:
            raise ArgumentError(f"posterior: expected one of parameters {self.names}, got {tuple(names)}.")
        draws = np.asarray(as_theta(getattr(posterior, "samples", posterior), names, "posterior"))
        draws = draws.reshape(-1, len(names))[:, : self.num_parameters]
        limits = Limits(self.low, self.high)
        inside = draws[limits.hold(draws)]
        if len(inside) < _MIN_DRAWS:
            raise ArgumentError(f"posterior: expected at least {_MIN_DRAWS} draws within {self!r}, got {len(inside)}.")
        region, parts = region_of(inside, limits, wider)
        return self.with_axes(region, parts)

    def with_axes(self, region: Axes, parts: Parts) -> "Proposal":
        """Return the proposal that is uniform in a region with axes of its own, within the limits of this one.

        Args:
            region: The axes of the region.
            parts: The boxes in which simulations are run.

        Returns:
            A proposal.
        """
        ends = region.bounds()
        low, high = np.maximum(ends[0], self.low), np.minimum(ends[1], self.high)
        for end in (low, high):
            end.setflags(write=False)
        laws = tuple(dist.Uniform(float(a), float(b)) for a, b in zip(low, high, strict=True))
        return replace(self, distributions=laws, low=low, high=high, axes=region, parts=parts)

    def in_one_part(self, size: float = 1.0) -> "Proposal":
        """Return the proposal that is uniform in the whole region, where this one may be in parts of it.

        Args:
            size: The size of the new region, in that of this one; 1 for regions without axes of their own.

        Returns:
            A proposal.
        """
        if self.axes is None:
            return self
        inner = Axes(self.axes.centre, size * self.axes.factor)
        return self.with_axes(inner, Parts((inner,), (1.0,)))

    def region_precision(self) -> np.ndarray:
        """Return the precision of the uniform distribution on the region.

        Returns:
            The precision, shape (p, p).
        """
        return np.diag(12.0 / (self.high - self.low) ** 2) if self.axes is None else self.axes.precision()

    def _repr_html_(self) -> str:
        return html_table("Proposal", self._regions())

    def _regions(self) -> list[tuple[str, str]]:
        rows = zip(self.names, self.low, self.high, self.units, strict=True)
        return [(name, f"from {low:.4g} to {high:.4g} {unit}".rstrip()) for name, low, high, unit in rows]

    def draw_one(self, key: Array) -> Float[Array, " params"]:
        """Draw one parameter vector in the precision of JAX; :meth:`sample` and campaigns draw in double precision.

        Args:
            key: A JAX key.

        Returns:
            Parameters, shape (p,).
        """
        if self.axes is not None:
            raise ArgumentError("proposal: a region with axes of its own is drawn from by sample alone.")
        keys = jax.random.split(key, len(self.names))
        if all(type(law) is dist.Uniform for law in self.distributions):
            # All at once, so that what is compiled does not grow with their number; the draws are the same to the bit.
            ends = [np.array([float(getattr(law, end)) for law in self.distributions]) for end in ("low", "high")]
            return jax.vmap(lambda key, low, high: dist.Uniform(low, high).sample(key))(keys, *ends)
        return jnp.stack([d.sample(k) for d, k in zip(self.distributions, keys, strict=True)])

    def at_words(self, words: np.ndarray) -> np.ndarray:
        """Turn random words into draws, in double precision.

        Args:
            words: Words of 64 random bits, shape (n, p).

        Returns:
            Parameters, shape (n, p).
        """
        if self.axes is not None and self.parts is not None:
            return self.parts.drawn(words, self.axes, Limits(self.low, self.high))
        return np.stack([drawn(law, words[:, i]) for i, law in enumerate(self.distributions)], axis=1)

    def in_support(self, theta: Any) -> np.ndarray:
        """Return draws of single precision in double, inside the ends of each distribution's support.

        Single precision rounds some of them just across an end.

        Args:
            theta: Draws, shape (..., p).

        Returns:
            The draws, shape (..., p).
        """
        low = [float(getattr(law.support, "lower_bound", -np.inf)) for law in self.distributions]
        high = [float(getattr(law.support, "upper_bound", np.inf)) for law in self.distributions]
        return np.clip(np.asarray(theta, dtype=np.float64), low, high)

    def sample(self, num: int, *, seed: int = 0) -> np.ndarray:
        """Draw parameter vectors.

        Args:
            num: How many.
            seed: Seed of the draws.

        Returns:
            Parameters, shape (num, p).
        """
        rows = np.arange(as_count(num, "num"))
        return self.at_words(words_of_records(as_seed(seed), _SAMPLE, rows, num=self.num_parameters))

    def log_prob(self, theta: Any) -> Any:
        """Compute the log-density.

        Args:
            theta: Parameters, shape (..., p), or a mapping by name.

        Returns:
            Log-densities, shape (...).
        """
        theta = as_theta(theta, self.names)
        if self.axes is not None and self.parts is not None:
            return self.parts.log_density(np.asarray(theta), self.axes, Limits(self.low, self.high))
        if is_traced(theta):
            return sum(d.log_prob(theta[..., i]) for i, d in enumerate(self.distributions))
        with double_precision():
            laws = [afresh(law) for law in self.distributions]
            densities = [np.asarray(law.log_prob(jnp.asarray(theta[..., i]))) for i, law in enumerate(laws)]
        return np.sum(densities, axis=0)

    def inside(self, theta: Any) -> Any:
        """Say whether parameters lie in the training region.

        Args:
            theta: Parameters, shape (..., p), or a mapping by name.

        Returns:
            Booleans, shape (...).
        """
        theta = as_theta(theta, self.names)
        within = ((theta >= self.low) & (theta <= self.high)).all(axis=-1)
        return within if self.axes is None else within & self.axes.holds(theta)


def uniform(
    ranges: Mapping[str, tuple[float, float]] | Iterable[tuple[str, tuple[float, float]]] | None = None,
    /,
    *,
    units: Mapping[str, str] | None = None,
    **more: tuple[float, float],
) -> Proposal:
    """Learn uniformly over a box.

    Args:
        ranges: (low, high) by parameter name, for names that are not Python identifiers.
        units: Units by parameter name, for axes and tables.
        **more: (low, high) by parameter name.

    Returns:
        A proposal whose training region is the box.

    >>> import fisherscore as fs
    >>> fs.uniform(omega_c=(0.2, 0.4), sigma8=(0.7, 0.9))
    Proposal(omega_c from 0.2 to 0.4, sigma8 from 0.7 to 0.9)
    >>> fs.uniform({"my parameter": (0, 1)}).high
    array([1.])
    """
    pairs = _pairs(ranges, "ranges", more)
    return Proposal.of(
        [(n, dist.Uniform(*_two(n, limits, "(low, high)", ordered=True))) for n, limits in pairs], units=units
    )


def normal(
    moments: Mapping[str, tuple[float, float]] | Iterable[tuple[str, tuple[float, float]]] | None = None,
    /,
    *,
    units: Mapping[str, str] | None = None,
    **more: tuple[float, float],
) -> Proposal:
    """Learn around a point.

    Args:
        moments: (mean, standard deviation) by parameter name, for names that are not Python identifiers.
        units: Units by parameter name, for axes and tables.
        **more: (mean, standard deviation) by parameter name.

    Returns:
        A proposal whose training region reaches 3.1 standard deviations to each side.

    >>> import fisherscore as fs
    >>> fs.normal(mass=(1.0, 0.1)).sample(3).shape
    (3, 1)
    """
    pairs = _pairs(moments, "moments", more)
    laws = []
    for name, given in pairs:
        mean, deviation = _two(name, given, "(mean, standard deviation)", ordered=False)
        if deviation <= 0:
            raise ArgumentError(f"{name}: expected a standard deviation above 0, got {deviation}.")
        laws.append((name, dist.Normal(mean, deviation)))
    return Proposal.of(laws, units=units)


def _pairs(given: Any, argument: str, more: Mapping[str, Any] | None = None) -> list[tuple[str, Any]]:
    """Collect (name, value) pairs and refuse empty, duplicate or unusable names."""
    try:
        pairs = [(n, v) for n, v in (given.items() if isinstance(given, Mapping) else given or ())]
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{argument}: expected a mapping from parameter name to value, got {brief(given)}."
        ) from None
    pairs += list((more or {}).items())
    if not pairs:
        raise ArgumentError(f"{argument}: expected at least one parameter, got none.")
    for name, _ in pairs:
        if not is_name(name):
            raise ArgumentError(f"{argument}: expected parameter names that can be printed, got {brief(name)}.")
    name, times = Counter(name for name, _ in pairs).most_common(1)[0]
    if times > 1:
        raise ArgumentError(f"{argument}: parameter name {name!r} is given {times} times; use it once.")
    return [(str(n), v) for n, v in pairs]  # NumPy's strings, for one, are not plain


def _two(name: str, value: Any, meaning: str, *, ordered: bool) -> tuple[float, float]:
    try:
        if isinstance(value, str | bytes | Mapping | Set):  # which have an order of their own, or none
            raise TypeError
        first, second = (float(v) for v in value)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name}: expected two numbers {meaning}, got {brief(value)}.") from None
    if not (math.isfinite(first) and math.isfinite(second)):
        raise ArgumentError(f"{name}: expected two finite numbers {meaning}, got {brief(value)}.")
    if ordered and first >= second:
        raise ArgumentError(f"{name}: expected low < high, got low = {first} and high = {second}.")
    return first, second
