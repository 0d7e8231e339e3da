"""Closed forms fitted with parts of the simulations left out, and what they say of those parts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._support.progress import noted
from ..potentials.base import ClosedForm
from ..potentials.closed_forms import CLOSED_FORMS
from ..potentials.points import Points
from .data import Rows
from .implicit_risk import ImplicitRisk, Terms, edge_weights, posterior_metric

# Fits are compared with one another at this many rows.
_NUM_POINTS = 2_000


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Fits with one part left out in turn, their terms on that part, and their scores at ``points`` (parts, n, p).

    Fits, terms and scores are by name of the closed form.
    """

    parts: list[np.ndarray]
    points: Rows
    fits: dict[str, list[ClosedForm]]
    scores: dict[str, np.ndarray]
    terms: dict[str, Terms]
    risk: ImplicitRisk

    @property
    def held_out(self) -> np.ndarray:
        """The rows that were left out, in the order of the terms."""
        return np.concatenate(self.parts)

    @property
    def usable(self) -> list[str]:
        """Closed forms whose scores are finite everywhere."""
        return [n for n, terms in self.terms.items() if terms.finite and np.isfinite(self.scores[n]).all()]

    def usable_terms(self) -> list[Terms]:
        """Return the terms of the usable closed forms."""
        return [self.terms[n] for n in self.usable]

    def edge_noise(self) -> np.ndarray:
        """Estimate how much noisier usable closed forms are at the edge than inside."""
        risk = ImplicitRisk(edge_weights(self.points.u), self.risk.metric)
        return risk.edge_noise(np.stack([self.scores[n] for n in self.usable]))


def first_points(rows: Rows) -> Rows:
    """Return the rows at which fits are compared with one another."""
    return rows.take(slice(_NUM_POINTS))


def cross_validate(rows: Rows, names: Sequence[str], parts: list[np.ndarray]) -> CrossValidation:
    """Fit every closed form with each part left out in turn.

    Where they are fitted to all rows first, these fits start from there.
    """
    fits: dict[str, list[ClosedForm]] = {name: [] for name in names}
    for number, part in enumerate(parts, 1):
        noted(f"closed forms, part {number} of {len(parts)} left out")
        rest = rows.without(part)
        points = Points(rest.u, whole=rows.points)
        for name in names:
            fits[name].append(CLOSED_FORMS[name].fit(points, rest.x))
    compared = first_points(rows)
    scores = {name: np.stack([compared.scores(f) for f in each]) for name, each in fits.items()}
    metric = posterior_metric([s[0] for s in scores.values()], rows.num_parameters)
    held_out = [rows.take(part) for part in parts]
    terms = {
        name: Terms.concatenate([Terms.of(f, part, metric) for f, part in zip(each, held_out, strict=True)])
        for name, each in fits.items()
    }
    risk = ImplicitRisk(edge_weights(rows.u[np.concatenate(parts)]), metric)
    return CrossValidation(parts=parts, points=compared, fits=fits, scores=scores, terms=terms, risk=risk)
