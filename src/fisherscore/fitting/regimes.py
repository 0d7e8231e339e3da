"""Few, some or many simulations: how closed forms are compared depends on how many there are.

A regime says how rows are split for cross-validation, by which rule closed forms are weighed, and from which fits the
error is estimated:

* few: five parts, each left out in turn. Members pay for their noise at the edge of the region, where the loss is
  blind; all that help keep their weight.
* some: three parts, each left out in turn. Members that help by less than a standard error are dropped.
* many: one fifth is left out, once. As for some, and weights are scaled to the sum 1 unless the loss rejects that. The
  error is estimated by fits to quarters of the rows, which are cheaper.

With few and some, the sum of the weights is what held-out rows and the spread of fits say (``fitting.size``).
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..potentials.base import Potential
from ..potentials.closed_forms import CLOSED_FORMS
from .cross_validation import CrossValidation, first_points
from .data import Rows
from .error_estimate import ErrorEstimate, PartialFit, closed_form_error, misfit
from .implicit_risk import posterior_metric
from .size import with_right_size

_MAX_FEW, _MAX_SOME = 5_000, 30_000
_NUM_QUARTERS = 3


@dataclass(frozen=True, eq=False)
class WeighedForms:
    """Closed forms fitted to all rows, with their weights, and the cross-validation that chose these."""

    members: dict[str, Potential]
    weights: dict[str, float]
    validation: CrossValidation

    def scores(self, rows: Rows) -> np.ndarray:
        """Compute the weighted sum of the members' scores, (n, p)."""
        return self.weighted_sum({name: rows.scores(member) for name, member in self.members.items()}, rows.u.shape)

    def weighted_sum(self, scores: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """Add scores given by name of the member."""
        return sum((self.weights[name] * scores[name] for name in self.members), np.zeros(shape))


class Regime(abc.ABC):
    """Folds, rule of weights and rule of error."""

    num_parts: int

    def split(self, num_rows: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return the rows of every part that is left out in turn."""
        return np.array_split(rng.permutation(num_rows), self.num_parts)

    def weights(self, validation: CrossValidation) -> dict[str, float]:
        """Weigh the usable closed forms by name."""
        if not validation.usable:
            return {}
        return dict(zip(validation.usable, map(float, self._weights(validation)), strict=True))

    @abc.abstractmethod
    def _weights(self, validation: CrossValidation) -> np.ndarray:
        """Weigh the usable closed forms."""

    def error(self, forms: WeighedForms, rows: Rows, rng: np.random.Generator) -> ErrorEstimate:
        """Estimate the score error of weighed closed forms; 1 where there are none."""
        if not forms.members:
            return ErrorEstimate(1.0, np.zeros((rows.num_parameters, rows.num_parameters)))
        points = first_points(rows)
        members = {name: points.scores(member) for name, member in forms.members.items()}
        whole = forms.weighted_sum(members, points.u.shape)
        scatter = closed_form_error(whole, self._partial_fits(forms, rows, rng)).with_bias(len(rows))
        apart = misfit(list(members.values()), [forms.weights[name] for name in members])
        return scatter.with_misfit(apart, posterior_metric([whole], rows.num_parameters))

    def _partial_fits(self, forms: WeighedForms, rows: Rows, rng: np.random.Generator) -> list[PartialFit]:
        """Return what fits with each part left out say."""
        del rng
        scores, shape = forms.validation.scores, forms.validation.points.u.shape
        return [
            PartialFit(1.0 - len(part) / len(rows), forms.weighted_sum({n: scores[n][k] for n in forms.members}, shape))
            for k, part in enumerate(forms.validation.parts)
        ]


class Few(Regime):
    """Up to 5,000 simulations."""

    num_parts = 5

    def _weights(self, validation: CrossValidation) -> np.ndarray:
        weights = validation.risk.stack_weights(validation.usable_terms(), validation.edge_noise())
        return with_right_size(weights, validation)


class Some(Regime):
    """Up to 30,000 simulations."""

    num_parts = 3

    def _weights(self, validation: CrossValidation) -> np.ndarray:
        return with_right_size(self._sparse(validation), validation)

    def _sparse(self, validation: CrossValidation) -> np.ndarray:
        return validation.risk.sparse_weights(validation.usable_terms())


class Many(Some):
    """More than 30,000 simulations."""

    num_parts = 5

    def split(self, num_rows: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return the rows of the one part that is left out."""
        return super().split(num_rows, rng)[:1]

    def _weights(self, validation: CrossValidation) -> np.ndarray:
        return validation.risk.with_unit_sum(self._sparse(validation), validation.usable_terms())

    def _partial_fits(self, forms: WeighedForms, rows: Rows, rng: np.random.Generator) -> list[PartialFit]:
        """Return what fits to random quarters of the rows say."""
        points = first_points(rows)
        samples = [rng.choice(len(rows), len(rows) // 4, replace=False) for _ in range(_NUM_QUARTERS)]
        fits = []
        for sample in samples:
            quarter = rows.take(sample)
            scores = {n: points.scores(CLOSED_FORMS[n].fit(quarter.points, quarter.x)) for n in forms.members}
            fits.append(PartialFit(0.25, forms.weighted_sum(scores, points.u.shape)))
        return fits


def regime_of(num_rows: int) -> Regime:
    """Choose the regime by the number of simulations."""
    if num_rows <= _MAX_FEW:
        return Few()
    return Some() if num_rows <= _MAX_SOME else Many()
