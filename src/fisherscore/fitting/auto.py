"""The default fit: closed forms weighed on held-out simulations, and a network for what they leave.

1. Every closed form (``potentials.closed_forms``) is fitted with part of the simulations left out in turn
   (``fitting.cross_validation``).
2. Their weights are those with the smallest implicit loss on what was left out (``fitting.implicit_risk``), by a rule
   that depends on how many simulations there are (``fitting.regimes``).
3. Networks are trained (``fitting.trainers``). They join if they lower the loss of simulations they have not seen by
   more than twice the standard error (``fitting.network_trial``).
4. The closed forms are fitted again to everything. How far the parts are from the whole says how uncertain they are
   (``fitting.error_estimate``).

All of it sees (θ, x) with x drawn at θ, whatever the design of θ: no latent has to be chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from .._support.progress import noted
from ..errors import TrainingError
from ..potentials.base import Fitter, Potential
from ..potentials.stack import Stack
from .checks import nothing_learned
from .cross_validation import CrossValidation, cross_validate, first_points, fits_of
from .data import Rows
from .error_estimate import ErrorEstimate, network_error
from .field_forms import is_learned
from .network_trial import NetworkTrial
from .options import FitOptions
from .regimes import Regime, WeighedForms, regime_of
from .trainers import Trainer

# Among more simulations than this, the closed forms are first screened on this many of them.
_NUM_SCREENED = 20_000
_MIN_ROWS_FOR_NETWORK = 500


@dataclass(frozen=True, eq=False)
class StackFit:
    """A fitted stack, the weight of each member by name, its estimated score error, and details of the training.

    ``error_covariance`` and ``information`` (p, p) say the same by direction; None where nothing is known of it.
    """

    stack: Stack
    weights: dict[str, float]
    estimated_error: float
    error_covariance: np.ndarray | None
    information: np.ndarray
    details: dict[str, Any] = field(default_factory=dict)


def fit_stack(
    rows: Rows,
    closed_forms: Mapping[str, Fitter],
    trainer: Trainer | None,
    options: FitOptions,
    scatter: Sequence[Rows] = (),
) -> StackFit:
    """Fit and weigh all candidates on standardised rows.

    ``scatter`` are the same rows as each of several networks summarises them, whose differences are errors as well.
    """
    rng = np.random.default_rng(np.random.SeedSequence(options.seed, spawn_key=(3,)))
    forms = _weighed_forms(rows, _screened(rows, closed_forms, rng), rng)
    error = regime_of(len(rows)).error(forms, rows, rng)
    members, weights = dict(forms.members), dict(forms.weights)
    amplitude = sum(weights.values())
    details: dict[str, Any] = {}
    if trainer is not None and (len(rows) >= _MIN_ROWS_FOR_NETWORK or not members):
        key = jax.random.key(int(rng.integers(2**31)))
        joined, details = NetworkTrial.of(rows, forms, error.total).run(trainer, key, options)
        if joined is not None:
            weights = {n: joined.keep * w for n, w in weights.items()} | joined.weights
            members |= joined.networks
            amplitude = joined.keep * amplitude + joined.weight
            error = error.scaled(joined.keep**2).plus(joined.error.with_bias(len(rows)))
    if not members:
        raise TrainingError(nothing_learned(rows))
    stack = _stack(members, weights, rows)
    if scatter:
        error = error.plus(_error_of_summaries(stack, scatter))
    scores = first_points(rows).scores(stack)
    information, shrinkage = _unshrunk(scores.T @ scores / len(scores), amplitude)
    known = forms.members or error.covariance.any()
    return StackFit(
        stack=stack,
        weights=weights,
        # A score of zero has error one: a larger estimate says no more than that nothing was learned.
        estimated_error=min(error.total, 1.0),
        error_covariance=error.covariance + shrinkage if known else None,
        information=information,
        details=details,
    )


def _error_of_summaries(stack: Stack, scatter: Sequence[Rows]) -> ErrorEstimate:
    """Estimate what a score is off by since the summaries it sees were learned of few simulations."""
    each = [rows.scores(stack) for rows in scatter]
    return network_error(each, np.mean(each, axis=0))


def _unshrunk(second_moment: np.ndarray, amplitude: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the information that a score held before it was shrunk, and the error that shrinking it made.

    With S the information and N the noise of a score, held-out simulations give it the weight w = S / (S + N). What is
    left of it has the second moment w² (S + N) = w S, and misses (1 − w) of the true score.
    """
    weight = min(max(amplitude, 1e-3), 1.0)
    information = second_moment / weight
    return information, (1 - weight) ** 2 * information


def _screened(rows: Rows, closed_forms: Mapping[str, Fitter], rng: np.random.Generator) -> dict[str, Fitter]:
    """Choose the closed forms for data of this size; of many rows, those that have weight on some of them."""
    forms = {name: form for name, form in closed_forms.items() if rows.data_size <= form.max_data}
    if len(rows) <= _NUM_SCREENED or not forms:
        return forms
    sample = rows.take(rng.choice(len(rows), _NUM_SCREENED, replace=False))
    regime = regime_of(len(sample))
    validation = cross_validate(sample, forms, regime.split(len(sample), rng))
    return {name: forms[name] for name, weight in regime.weights(validation).items() if weight > 0}


def _weighed_forms(rows: Rows, forms: Mapping[str, Fitter], rng: np.random.Generator) -> WeighedForms:
    """Fit closed forms to all rows, weigh them by cross-validation, and keep those with weight."""
    regime = regime_of(len(rows))
    noted(f"closed forms, {len(rows):,} simulations")
    fitted: dict[str, Potential] = dict(fits_of(forms, rows.points, rows.x))
    forms = {name: form for name, form in forms.items() if name in fitted}
    validation = cross_validate(rows, forms, regime.split(len(rows), rng))
    weights = regime.weights(validation)
    if any(map(is_learned, weights)) and not _pays(validation, weights, regime):
        weights = regime.weights(validation.of([name for name in forms if not is_learned(name)]))
    return WeighedForms({n: fitted[n] for n, w in weights.items() if w > 0}, weights, validation, forms)


def _pays(validation: CrossValidation, weights: Mapping[str, float], regime: Regime) -> bool:
    """Say whether what was learned lowers the loss of held-out rows by more than twice the standard error."""
    others = validation.of([name for name in validation.fits if not is_learned(name)])
    if not others.fits:
        return True
    with_it, without = (v.loss(w) for v, w in ((validation, weights), (others, regime.weights(others))))
    gains = without - with_it
    return bool(gains.mean() > 2.0 * gains.std() / np.sqrt(len(gains)))


def _stack(members: dict[str, Potential], weights: dict[str, float], rows: Rows) -> Stack:
    shape = (rows.num_parameters, rows.data_size)
    return Stack.of(list(members.values()), [weights[name] for name in members], shape)
