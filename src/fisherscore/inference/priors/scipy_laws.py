"""SciPy's frozen distributions made into NumPyro's, or answered with what to give instead."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions.transforms import AffineTransform

from ...errors import ArgumentError


def _truncated(a: float, b: float, loc: float = 0.0, scale: float = 1.0) -> Any:
    """Return a normal law cut at a and b standard deviations, either of which may be infinite."""
    low = loc + scale * a if np.isfinite(a) else None
    high = loc + scale * b if np.isfinite(b) else None
    return dist.TruncatedNormal(jnp.asarray(loc), jnp.asarray(scale), low=low, high=high)


# By SciPy's name: the law of location 0 and scale 1 given the shape parameters, and what NumPyro calls it.
_STANDARD: dict[str, tuple[Callable[..., Any], str]] = {
    "norm": (lambda: dist.Normal(0.0, 1.0), "Normal"),
    "uniform": (lambda: dist.Uniform(0.0, 1.0), "Uniform"),
    "lognorm": (lambda s: dist.LogNormal(0.0, s), "LogNormal"),
    "halfnorm": (lambda: dist.HalfNormal(1.0), "HalfNormal"),
    "halfcauchy": (lambda: dist.HalfCauchy(1.0), "HalfCauchy"),
    "expon": (lambda: dist.Exponential(1.0), "Exponential"),
    "gamma": (lambda a: dist.Gamma(a, 1.0), "Gamma"),
    "invgamma": (lambda a: dist.InverseGamma(a, 1.0), "InverseGamma"),
    "chi2": (dist.Chi2, "Chi2"),
    "beta": (dist.Beta, "Beta"),
    "t": (lambda df: dist.StudentT(df, 0.0, 1.0), "StudentT"),
    "cauchy": (lambda: dist.Cauchy(0.0, 1.0), "Cauchy"),
    "laplace": (lambda: dist.Laplace(0.0, 1.0), "Laplace"),
    "logistic": (lambda: dist.Logistic(0.0, 1.0), "Logistic"),
    "gumbel_r": (lambda: dist.Gumbel(0.0, 1.0), "Gumbel"),
    "truncnorm": (_truncated, "TruncatedNormal"),
}
# Simpler laws than a standard one moved and stretched, where NumPyro has them.
_MOVED: dict[str, Callable[..., Any]] = {
    "norm": dist.Normal,
    "uniform": lambda loc, scale: dist.Uniform(loc, loc + scale),
    "t": lambda loc, scale, df: dist.StudentT(df, loc, scale),
    "cauchy": dist.Cauchy,
    "laplace": dist.Laplace,
    "logistic": dist.Logistic,
    "gumbel_r": dist.Gumbel,
    "truncnorm": lambda loc, scale, a, b: _truncated(a, b, loc, scale),
}


def is_scipy_law(law: Any) -> bool:
    """Say whether something is a distribution of SciPy's; SciPy's statistics are not imported for it."""
    return type(law).__module__.split(".")[:2] == ["scipy", "stats"]


def from_scipy(law: Any, argument: str) -> Any:
    """Return the NumPyro distribution that is the same law."""
    kind = type(law).__name__
    if kind == "multivariate_normal_frozen":
        return dist.MultivariateNormal(np.asarray(law.mean), covariance_matrix=np.asarray(law.cov_object.covariance))
    if kind == "multivariate_t_frozen":
        return dist.MultivariateStudentT(law.df, np.asarray(law.loc), np.linalg.cholesky(np.asarray(law.shape)))
    name = getattr(getattr(law, "dist", None), "name", kind)
    if name not in _STANDARD or not hasattr(law, "args"):
        known = ", ".join(f"{ours} for {theirs}" for theirs, (_, ours) in _STANDARD.items())
        raise ArgumentError(
            f"{argument}: expected a NumPyro distribution, got SciPy's {name!r}, which is not known here. From "
            f"numpyro.distributions there are {known}, MultivariateNormal for multivariate_normal; for another law use "
            "prior_from_density or prior_from_samples."
        )
    parsed, loc, scale = law.dist._parse_args(*law.args, **law.kwds)
    shapes = [float(np.asarray(value)) for value in parsed]
    loc, scale = float(np.asarray(loc)), float(np.asarray(scale))
    if name in _MOVED:
        return _MOVED[name](loc, scale, *shapes)
    standard = _STANDARD[name][0](*shapes)
    if (loc, scale) == (0.0, 1.0):
        return standard
    if name == "lognorm" and loc == 0.0:
        return dist.LogNormal(np.log(scale), shapes[0])
    if name in ("halfnorm", "halfcauchy") and loc == 0.0:
        return type(standard)(scale)
    if name == "gamma" and loc == 0.0:
        return dist.Gamma(shapes[0], 1 / scale)
    return dist.TransformedDistribution(standard, AffineTransform(loc, scale, domain=standard.support))
