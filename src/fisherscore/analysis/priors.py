"""The [prior] table of an analysis file: laws by parameter, joint ones, draws in a file, and linear inequalities."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpyro.distributions as dist

from .._support.arguments import as_finite
from .._support.keys import key_of
from ..errors import ArgumentError, ConfigurationError
from ..inference.priors.given import restricted_prior
from ..inference.priors.inequalities import rows_of
from ..inference.priors.samples import SamplePrior, prior_from_samples
from ..simulation.proposal import Proposal
from .document import Document, Section, WrongKind, anything, numbers
from .draws import read_draws_file

# A prior with less of its mass in the training region asks mostly about parameters at which nothing was simulated.
_SMALLEST_MASS = 0.5

# The distributions by name: number of values, their meaning, and how to make one.
PRIORS: dict[str, tuple[int, str, Callable[..., dist.Distribution]]] = {
    "uniform": (2, "low, high", dist.Uniform),
    "normal": (2, "mean, standard deviation", dist.Normal),
    "lognormal": (2, "mean and standard deviation of the logarithm", dist.LogNormal),
    "halfnormal": (1, "scale", dist.HalfNormal),
    "gamma": (2, "shape, rate", dist.Gamma),
    "truncated_normal": (
        4,
        "mean, standard deviation, low, high",
        lambda mean, deviation, low, high, **options: dist.TruncatedNormal(
            mean, deviation, low=low, high=high, **options
        ),
    ),
}


def read_priors(document: Document, proposal: Proposal, folder: Path) -> Any:
    """Read the prior, as ``fisherscore.sample`` takes it; most of it must lie inside the training region."""
    section = document.section("prior")
    priors: dict[Any, Any] = {}
    where = None
    for key, value in section.tree.items():
        names = _names(key, proposal)
        if names is None and key == "where":
            where = section.take(key, _inequalities)
            continue
        if names is None:
            raise section.error(
                (key,),
                f"no such parameter. Known are {', '.join(proposal.names)}; for a joint prior, names with commas "
                'between them such as "a, b"; for a region, where = ["a <= b"].',
            )
        is_joint = len(names) > 1 or (isinstance(value, dict) and "draws" in value)
        law = _joint(section, key, names, folder) if is_joint else section.take(key, _distribution)
        _refuse_outside(section, key, (names, law), proposal)
        priors[names if is_joint else key] = law
    if where is None:
        return priors
    try:
        rows_of(where, proposal.names)
    except ArgumentError as error:
        raise section.error(("where",), str(error).removeprefix("where: ")) from None
    return restricted_prior(priors, where)


def described(prior: dict[str, Any]) -> str:
    """Write down the [prior] table in one line."""
    laws = [
        f"{name}: {' '.join(f'{key} {value}' for key, value in law.items())}"
        for name, law in prior.items()
        if isinstance(law, dict)
    ]
    where = [law for law in prior.values() if not isinstance(law, dict)]
    listed = [text for texts in where for text in ([texts] if isinstance(texts, str) else texts)]
    return "; ".join([", ".join(laws)] * bool(laws) + [f"where {' and '.join(listed)}"] * bool(listed))


def prior_files(document: Document, folder: Path) -> list[str]:
    """Hash the files of draws that the prior names, so that another file is another prior."""
    laws = document.section("prior").tree.values()
    named = [law["draws"] for law in laws if isinstance(law, dict) and isinstance(law.get("draws"), str)]
    return [_digest(folder / name) for name in named]


def _digest(path: Path) -> str:
    parts = sorted(path.rglob("*")) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts if part.is_file())).hexdigest()


def _names(key: str, proposal: Proposal) -> tuple[str, ...] | None:
    """Return the parameters a key names, or None if it names none."""
    if key in proposal.names:
        return (key,)
    names = tuple(name.strip() for name in key.split(","))
    return names if len(names) > 1 and all(name in proposal.names for name in names) else None


def _inequalities(value: Any) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed or not all(isinstance(v, str) for v in listed):
        raise WrongKind('linear inequalities such as ["a + 2*b <= 1", "a <= b"]')
    return listed


def _joint(section: Section, key: str, names: tuple[str, ...], folder: Path) -> Any:
    """Read a normal law over several parameters, or draws."""
    given = section.take(key, anything)
    kinds = {"mean", "covariance"}, {"draws"}, {"draws", "columns"}
    if not isinstance(given, dict) or set(given) not in kinds:
        raise section.error(
            (key,), 'expected { mean = [...], covariance = [[...], ...] } or { draws = "file" }, with columns = [...].'
        )
    try:
        if "draws" in given:
            return prior_from_samples(*read_draws_file(folder / str(given["draws"]), names, given.get("columns")))
        mean, covariance = as_finite(given["mean"], "mean"), as_finite(given["covariance"], "covariance")
        if mean.shape != (len(names),) or covariance.shape != (len(names),) * 2:
            raise ArgumentError(f"mean, covariance: expected {len(names)} numbers and as many rows of as many numbers.")
        if not np.allclose(covariance, covariance.T) or not np.linalg.eigvalsh(covariance)[0] > 0:
            raise ArgumentError("covariance: expected a symmetric, positive definite matrix.")
    except (ArgumentError, ConfigurationError) as error:
        raise section.error((key,), str(error)) from None
    return dist.MultivariateNormal(mean, scale_tril=np.linalg.cholesky(covariance))


def _refuse_outside(section: Section, key: str, piece: tuple[tuple[str, ...], Any], proposal: Proposal) -> None:
    """Refuse a prior with too little of its mass in the training region."""
    names, law = piece
    places = [proposal.names.index(name) for name in names]
    low, high = proposal.low[places], proposal.high[places]
    if isinstance(law, dist.Distribution) and not law.event_shape:
        inside = _mass(law, float(low[0]), float(high[0]))
    else:
        drawn = law.sample(4000) if isinstance(law, SamplePrior) else np.asarray(law.sample(key_of(0), (4000,)))
        inside = float(((drawn >= low) & (drawn <= high)).all(axis=1).mean())
    if inside < (1.0 - 1e-6 if isinstance(law, dist.Uniform) else _SMALLEST_MASS):
        region = ", ".join(f"{a:g} to {b:g}" for a, b in zip(low, high, strict=True))
        raise section.error(
            (key,),
            f"{1 - inside:.0%} of the prior lies outside the training region, {region}, where the score is unknown. "
            "Narrow the prior, or widen the range under [parameters].",
        )


def _distribution(value: Any) -> dist.Distribution:
    """Accept { normal = [mean, sd] } and its like."""
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in PRIORS:
        raise WrongKind("one of " + ", ".join(f"{{ {k} = [{meaning}] }}" for k, (_, meaning, _) in PRIORS.items()))
    name, given = next(iter(value.items()))
    count, meaning, family = PRIORS[name]
    listed = [given] if count == 1 and not isinstance(given, list) else given
    try:
        return family(*numbers(count)(listed), validate_args=True)
    except (WrongKind, ValueError):
        raise WrongKind(f"{{ {name} = [{meaning}] }}, scales above 0 and low below high") from None


def _mass(distribution: dist.Distribution, low: float, high: float) -> float:
    """Return how much of a distribution lies between two values."""
    # Below its support, the CDF of a positive distribution is NaN or negative in NumPyro.
    below = [float(np.clip(np.nan_to_num(distribution.cdf(value)), 0.0, 1.0)) for value in (low, high)]
    return below[1] - below[0]
