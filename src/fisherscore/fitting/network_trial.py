"""Whether networks join the closed forms: trained on most rows, judged by the others.

Networks join if, beside the closed forms, they lower the implicit loss of rows they have not seen by more than twice
its standard error. Where the closed forms have little error left, a network that is not worth it when its held-out loss
stops falling is given up; the others of an ensemble are trained, side by side, only if the first is worth it. On an
accelerator all are trained at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Array

from .._support import host_random
from ..potentials.base import Potential
from .data import Rows
from .error_estimate import ErrorEstimate, network_error
from .implicit_risk import ImplicitRisk, Terms, edge_weights, posterior_metric
from .options import FitOptions
from .regimes import WeighedForms
from .train import Review
from .trainers import TrainedNetwork, Trainer, TrainingRequest, network_terms, runs_members_as_one

# Networks are judged by a tenth of the simulations; where these are few, by up to a fifth, but no more than this.
_MAX_TEST_OF_FEW = 1_000
# Where closed forms say that their error is larger than this, networks are trained to the end. Of likelihoods with thin
# or several modes they learn the most long after their held-out loss seems to have stopped falling.
_LARGE_ERROR = 0.1


@dataclass(frozen=True, eq=False)
class Judgement:
    """The factor of the closed forms' weights, the weight of the networks' mean, and the gain of every test row."""

    keep: float
    weight: float
    gains: np.ndarray

    @property
    def worthwhile(self) -> bool:
        """Whether the loss falls by more than twice its standard error."""
        error = self.gains.std() / np.sqrt(len(self.gains))
        return bool(np.isfinite(self.gains).all() and self.gains.mean() > 2.0 * error)


@dataclass(frozen=True, eq=False)
class Joined:
    """Networks that join, with their weights, the factor of the closed forms' weights, and the error they add.

    ``weight`` is that of the networks' mean, whatever their own scales.
    """

    networks: dict[str, Potential]
    weights: dict[str, float]
    keep: float
    weight: float
    error: ErrorEstimate


@dataclass(frozen=True, eq=False)
class _Ensemble:
    """Networks, their terms at the test rows, and what they are worth together."""

    trained: list[TrainedNetwork]
    terms: list[Terms]
    judgement: Judgement


@dataclass(frozen=True, eq=False)
class NetworkTrial:
    """Rows to train on and rows to test by, and what the closed forms say of them.

    ``little_left`` says whether the closed forms have little error left.
    """

    training: Rows
    known: np.ndarray  # scores of the training rows, by the closed forms
    test: Rows
    base: Terms  # those of the closed forms at the test rows
    risk: ImplicitRisk
    little_left: bool

    @classmethod
    def of(cls, rows: Rows, forms: WeighedForms, error: float) -> "NetworkTrial":
        """Split rows: the test is taken from the first part that was left out of the closed forms' fits.

        ``error`` is the score error that the closed forms are estimated to have.
        """
        held_out = forms.validation.held_out
        num_test = min(len(held_out), max(len(rows) // 10, min(len(rows) // 5, _MAX_TEST_OF_FEW)))
        chosen = held_out[:num_test]
        test, known = rows.take(chosen), forms.scores(rows)
        p = rows.num_parameters
        metric = posterior_metric([known], p) if known.any() else np.eye(p)
        # The first part is at least as large as the test, and the first fits have not seen it.
        parts = [(w, Terms.of(forms.validation.fits[n][0], test, metric)) for n, w in forms.weights.items() if w]
        return cls(
            training=rows.without(chosen),
            known=np.delete(known, chosen, axis=0),
            test=test,
            base=Terms.weighted_sum(parts, test.u.shape),
            risk=ImplicitRisk(edge_weights(test.u), metric),
            little_left=error <= _LARGE_ERROR,
        )

    def run(self, trainer: Trainer, key: Array, options: FitOptions) -> tuple[Joined | None, dict[str, Any]]:
        """Train networks and judge them; give those that join, and details of the training."""
        words = host_random.words_of(key)
        requests = [
            TrainingRequest(
                rows=self.training,
                known=self.known,
                metric=self.risk.metric,
                key=host_random.fold_in(words, number),
                progress=options.progress,
                checkpoint=options.checkpoint_of(f"network_{number}"),
                review=Review(self.is_hopeless) if self.little_left else None,
            )
            for number in range(trainer.num_members)
        ]
        if not requests:
            return None, {}
        # Where all take no longer than one, all are trained at once.
        num_first = len(requests) if runs_members_as_one(requests) else 1
        ensemble = self._ensemble(trainer.fit_together(requests[:num_first]))
        if ensemble.judgement.worthwhile and requests[num_first:]:
            others = [replace(request, review=None) for request in requests[num_first:]]
            ensemble = self._ensemble([*ensemble.trained, *trainer.fit_together(others)])
        joined = self._joined(ensemble) if ensemble.judgement.worthwhile else None
        return joined, _details(ensemble)

    def is_hopeless(self, networks: list[Potential]) -> bool:
        """Say of networks that have not become better for a while whether they would not join as they are.

        The held-out loss of few rows is smallest long before the patience is spent, and what does not help then never
        did where little was left to learn.
        """
        terms = [network_terms(network, self.test, self.risk.metric) for network in networks]
        return not self.judge(_mean(terms)).worthwhile

    def _ensemble(self, trained: list[TrainedNetwork]) -> _Ensemble:
        terms = [network.terms(self.test, self.risk.metric) for network in trained]
        return _Ensemble(trained, terms, self.judge(_mean(terms)))

    def judge(self, network: Terms) -> Judgement:
        """Weigh networks beside the closed forms, and say by how much the loss of every row falls."""
        if not self.base.scores.any():
            return Judgement(1.0, 1.0, -self.risk.loss(network))
        if not network.finite:
            return Judgement(1.0, 0.0, np.full(len(self.test), np.nan))
        keep, weight = self.risk.joint_weights(self.base, network)
        both = Terms.weighted_sum([(keep, self.base), (weight, network)], self.base.scores.shape)
        return Judgement(keep, weight, self.risk.loss(self.base) - self.risk.loss(both))

    def _joined(self, ensemble: _Ensemble) -> Joined:
        """Give the ensemble its weights and its error."""
        keep, weight = ensemble.judgement.keep, ensemble.judgement.weight
        names = [f"network {number}" for number in range(1, len(ensemble.trained) + 1)]
        whole = keep * self.base.scores + weight * _mean(ensemble.terms).scores
        return Joined(
            networks={n: t.potential for n, t in zip(names, ensemble.trained, strict=True)},
            weights={n: weight * t.scale / len(names) for n, t in zip(names, ensemble.trained, strict=True)},
            keep=keep,
            weight=weight,
            error=network_error([t.scores for t in ensemble.terms], whole).scaled(weight**2),
        )


def _mean(terms: Sequence[Terms]) -> Terms:
    """Average the terms of networks."""
    return Terms.weighted_sum([(1 / len(terms), t) for t in terms], terms[0].scores.shape)


def _details(ensemble: _Ensemble) -> dict[str, Any]:
    """Describe the training of the first network, and what all are worth."""
    return ensemble.trained[0].history.as_dict() | {
        "network_gain": float(ensemble.judgement.gains.mean()),
        "network_used": ensemble.judgement.worthwhile,
        "fit_seconds": sum(t.history.seconds for t in ensemble.trained),
    }
