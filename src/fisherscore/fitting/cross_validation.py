"""Closed forms fitted with parts of the simulations left out, and what they say of those parts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from .._support.progress import noted
from ..potentials.base import ClosedForm, Fitter
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

    def of(self, names: Collection[str]) -> "CrossValidation":
        """Return that of some of the closed forms."""
        return replace(
            self,
            fits={n: each for n, each in self.fits.items() if n in names},
            scores={n: each for n, each in self.scores.items() if n in names},
            terms={n: each for n, each in self.terms.items() if n in names},
        )

    def loss(self, weights: Mapping[str, float]) -> np.ndarray:
        """Compute the loss of every held-out row of a weighted sum."""
        parts = [(w, self.terms[n]) for n, w in weights.items() if w]
        return self.risk.loss(Terms.weighted_sum(parts, (len(self.held_out), self.risk.metric.shape[0])))

    def edge_noise(self) -> np.ndarray:
        """Estimate how much noisier usable closed forms are at the edge than inside."""
        risk = ImplicitRisk(edge_weights(self.points.u), self.risk.metric)
        return risk.edge_noise(np.stack([self.scores[n] for n in self.usable]))


def first_points(rows: Rows) -> Rows:
    """Return the rows at which fits are compared with one another."""
    return rows.take(slice(_NUM_POINTS))


def fits_of(forms: Mapping[str, Fitter], points: Points, x: np.ndarray) -> dict[str, ClosedForm]:
    """Fit closed forms, but one that comes upon a matrix that cannot be inverted; two, and the data are to blame."""
    fits: dict[str, ClosedForm] = {}
    problems = []
    for name, form in forms.items():
        try:
            fits[name] = form.fit(points, x)
        except np.linalg.LinAlgError as error:
            problems.append(error)
    if len(problems) > 1 or (problems and not fits):
        raise problems[0]
    return fits


def cross_validate(rows: Rows, forms: Mapping[str, Fitter], parts: list[np.ndarray]) -> CrossValidation:
    """Fit every closed form with each part left out in turn.

    Where they are fitted to all rows first, these fits start from there.
    """
    fits: dict[str, list[ClosedForm]] = {name: [] for name in forms}
    for number, part in enumerate(parts, 1):
        noted(f"closed forms, part {number} of {len(parts)} left out")
        rest = rows.without(part)
        points = Points(rest.u, whole=rows.points)
        found = fits_of({name: forms[name] for name in fits}, points, rest.x)
        fits = {name: [*fits[name], one] for name, one in found.items()}
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
