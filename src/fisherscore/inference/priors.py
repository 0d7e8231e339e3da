"""Priors as users give them, a mapping from parameter name to a NumPyro distribution, made into one law a parameter."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

from .._support.arguments import check_names
from ..errors import ArgumentError
from ..score.model import ScoreModel


def prior_laws(model: ScoreModel, prior: Mapping[str, Any] | None) -> tuple[Any, ...]:
    """Return one distribution a parameter; those not named are uniform over the training region."""
    ranges = zip(model.names, model.low, model.high, strict=True)
    laws: dict[str, Any] = {name: dist.Uniform(float(low), float(high)) for name, low, high in ranges}
    if prior is None:
        return tuple(laws.values())
    if not isinstance(prior, Mapping):
        raise ArgumentError(
            f"prior: expected a mapping from parameter name to a NumPyro distribution, got {type(prior).__name__}."
        )
    check_names(prior, model.names, "prior")
    for name, law in prior.items():
        if not _is_usable(law):
            raise ArgumentError(
                f"prior[{name!r}]: expected a proper scalar continuous NumPyro distribution, got {law!r}."
            )
    laws |= prior
    return tuple(laws[name] for name in model.names)


def support_of(laws: Sequence[Any]) -> tuple[tuple[float | None, float | None], ...]:
    """Return the ends of each parameter's prior, None where it has none."""

    def end(law: Any, name: str) -> float | None:
        bound = getattr(law.support, name, None)
        return None if bound is None else float(bound)

    return tuple((end(law, "lower_bound"), end(law, "upper_bound")) for law in laws)


def with_array_numbers(laws: Sequence[Any]) -> tuple[Any, ...]:
    """Make the numbers in distributions arrays, so that other numbers reuse code compiled for distributions alike."""

    def array(number: Any) -> Any:
        is_real = isinstance(number, int | float) or np.issubdtype(np.asarray(number).dtype, np.floating)
        return np.asarray(number, np.float32) if is_real and not isinstance(number, bool) else number

    return tuple(jax.tree.map(array, law) for law in laws)


def _is_usable(law: Any) -> bool:
    """Say whether a prior is a proper, scalar, continuous distribution."""
    if not isinstance(law, dist.Distribution) or isinstance(law, dist.Delta | dist.ImproperUniform):
        return False
    return not (law.is_discrete or law.batch_shape or law.event_shape)
