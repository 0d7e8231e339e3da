"""The default fit: closed forms weighed on held-out simulations, and a network for what they leave.

1. Every closed form (``potentials.closed_forms``) is fitted with part of the simulations left out in turn.
2. Their weights are those with the smallest implicit loss on what was left out (``fitting.implicit_risk``). With few
   simulations members pay for their noise at the edge of the region; with many, those that help little are left out.
3. Networks are trained (``fitting.trainers``; for data too large for that, one on what the weighted sum leaves
   unexplained). They join if they lower the loss of simulations they have not seen by more than twice the standard
   error.
4. The closed forms are fitted again to everything. How far the parts are from the whole says how uncertain they are.

All of it sees (θ, x) with x drawn at θ, whatever the design of θ: no latent has to be chosen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..errors import TrainingError
from ..potentials.base import Potential, ScoreFunction, build
from ..potentials.closed_forms import CLOSED_FORMS
from ..potentials.stack import Stack
from .implicit_risk import (
    Terms,
    edge_noise,
    edge_weight,
    fewest,
    implicit_loss,
    implicit_terms,
    risk,
    stack_weights,
    sum_of,
    to_scale,
    weight_beside,
)
from .train import History, Training, train

# Few simulations are left out in turn, many only once.
_MANY_FOLDS_BELOW, _FEW_FOLDS_BELOW = 5_000, 30_000
_PARTS_OF_FEW = 5
# Among more simulations than this, the candidates are first screened on so many of them.
_SCREENED = 20_000
_FEWEST_FOR_NETWORK = 500
# A network is judged by a tenth of the simulations; where these are few, by more of them, up to this number.
_TESTED = 1_000
# What smoothing leaves out is in no difference between fits; where the truth is known it adds about a fifth.
_ERROR_OVER_VARIANCE = 1.2
_ERROR_OVER_SPREAD = 1.5
_POINTS = 2_000


@dataclass(frozen=True)
class StackFit:
    """A fitted stack, the weight of each member by name, and its estimated score error."""

    network: Stack
    weights: dict[str, float]
    estimated_error: float
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Folded:
    """Fits with one part left out, their terms on that part, and their scores of some rows (parts, n, p)."""

    held_out: list[np.ndarray]
    networks: dict[str, list[Potential]]
    terms: dict[str, Terms]
    metric: np.ndarray
    scores: dict[str, np.ndarray]


def fit_stack(
    u: np.ndarray,
    x: np.ndarray,
    *,
    closed_forms: Sequence[str],
    trainer: "Trainer | None",
    seed: int,
    progress: bool | None = None,
    checkpoint: Path | None = None,
) -> StackFit:
    """Fit and weigh all candidates on standardised rows x drawn at u in [−1, 1]^p."""
    rows = x.reshape(len(x), -1)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
    names = _usable(closed_forms, rows.shape[1])
    if len(rows) > _SCREENED and names:
        chosen = rng.choice(len(rows), _SCREENED, replace=False)
        folded = _fold(u[chosen], rows[chosen], names, rng)
        names = [n for n, w in _weigh(u[chosen], folded).items() if w > 0]
    folded = _fold(u, rows, names, rng)
    weights = _weigh(u, folded)
    members: dict[str, Potential] = {n: CLOSED_FORMS[n].fit(u, rows) for n, w in weights.items() if w > 0}
    error = _error(u, rows, members, weights, folded, rng)
    facts: dict[str, Any] = {}
    if trainer is not None and (len(rows) >= _FEWEST_FOR_NETWORK or not members):
        known = sum((weights[n] * _scores(m, u, rows) for n, m in members.items()), np.zeros_like(u))
        key = jax.random.key(int(rng.integers(2**31)))
        found, facts = _extend(
            u, rows, known, weights, folded, trainer, key=key, progress=progress, checkpoint=checkpoint
        )
        if found is not None:
            weights = {n: found.keep * w for n, w in weights.items()} | found.weights
            members |= found.networks
            error = found.keep**2 * error + found.error
    if not members:
        raise TrainingError(
            "No candidate gives a better score than zero on held-out simulations. Give more simulations, or check that "
            "the data depend on the parameters."
        )
    # A score of zero has error one: a larger estimate says no more than that nothing was learned.
    return StackFit(_stacked(members, weights, u.shape[1], rows.shape[1]), weights, min(error, 1.0), facts)


class Trainer(Protocol):
    """What trains the networks that may join the closed forms."""

    @property
    def num_members(self) -> int:
        """How many networks to train; more than one only if the first is worth it."""
        ...

    def fit(
        self,
        data: tuple[np.ndarray, np.ndarray],
        known: np.ndarray,
        metric: np.ndarray,
        *,
        key: Array,
        progress: bool | None,
        checkpoint: Path | None,
    ) -> tuple[Potential, float, History]:
        """Train on rows (u, x) with what is known of their scores; return a network, the factor of its score, and how.

        ``metric`` is that of the implicit loss.
        """
        ...


@dataclass(frozen=True)
class ResidualTrainer:
    """Trains one network, by the implicit loss, on what the closed forms leave: for data too large for a density."""

    architecture: str
    settings: dict[str, Any]
    training: Callable[[int], Training]
    num_members: int = 1

    def fit(
        self,
        data: tuple[np.ndarray, np.ndarray],
        known: np.ndarray,
        metric: np.ndarray,
        *,
        key: Array,
        progress: bool | None,
        checkpoint: Path | None,
    ) -> tuple[Potential, float, History]:
        """Train on most rows what the implicit loss says is missing."""
        u, rows = data
        scale = float(1.0 / np.sqrt(np.trace(metric) / len(metric)))
        build_key, train_key = jax.random.split(key)
        network = build(self.architecture, u.shape[1], rows.shape[1], self.settings, key=build_key)
        trained, history = train(
            _Scaled(network, scale),
            implicit_loss(metric),
            (u, rows, known),
            self.training(len(rows)),
            key=train_key,
            progress=progress,
            checkpoint=checkpoint,
        )
        return trained.network, scale, history


@dataclass(frozen=True)
class _Found:
    """Networks that join, their weights, by how much the closed forms are still worth, and what error they add."""

    networks: dict[str, Potential]
    weights: dict[str, float]
    keep: float
    error: float


def _extend(
    u: np.ndarray,
    rows: np.ndarray,
    known: np.ndarray,
    weights: dict[str, float],
    folded: _Folded,
    trainer: Trainer,
    *,
    key: Array,
    progress: bool | None,
    checkpoint: Path | None,
) -> tuple[_Found | None, dict[str, Any]]:
    """Train networks on most rows; let the others say what they are worth beside the closed forms."""
    order = np.concatenate(folded.held_out)
    num_test = min(len(order), max(len(rows) // 10, min(len(rows) // 5, _TESTED)))
    test, training = order[:num_test], np.setdiff1d(np.arange(len(rows)), order[:num_test])
    metric = _inverse_information([known], u.shape[1]) if known.any() else np.eye(u.shape[1])
    # The first part left out is at least as large as the test, and its fits have not seen it.
    parts = [(w, implicit_terms(folded.networks[n][0], u[test], rows[test], metric)) for n, w in weights.items() if w]
    base = sum_of(parts, (num_test, u.shape[1]))
    networks: list[Potential] = []
    terms: list[Terms] = []
    facts: dict[str, Any] = {}
    for number in range(trainer.num_members):
        network, scale, history = trainer.fit(
            (u[training], rows[training]),
            known[training],
            metric,
            key=jax.random.fold_in(key, number),
            progress=progress,
            checkpoint=None if checkpoint is None else checkpoint / f"network_{number}",
        )
        networks.append(network)
        terms.append(sum_of([(scale, implicit_terms(network, u[test], rows[test], metric))], base.scores.shape))
        mean = sum_of([(1 / len(terms), t) for t in terms], base.scores.shape)
        keep, weight, gain = _judge(base, mean, _edges(u[test]), metric)
        worth = bool(np.isfinite(gain).all() and gain.mean() > 2.0 * gain.std() / np.sqrt(len(gain)))
        facts = _network_facts(facts, history, gain, worth)
        if not worth:
            return None, facts
    each = {f"network {number}": n for number, n in enumerate(networks, 1)}
    error = weight**2 * _spread([t.scores for t in terms], keep * base.scores + weight * mean.scores)
    return _Found(each, dict.fromkeys(each, weight * scale / len(each)), keep, error), facts


def _judge(base: Terms, network: Terms, edges: np.ndarray, metric: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Weigh a network beside what is known, and say by how much the loss of every row falls."""
    if not base.scores.any():
        return 1.0, 1.0, -risk(network, edges, metric)
    if not (np.isfinite(network.scores).all() and np.isfinite(network.divergences).all()):
        return 1.0, 0.0, np.full(len(edges), np.nan)
    keep, weight = weight_beside(base, network, edges, metric)
    both = sum_of([(keep, base), (weight, network)], base.scores.shape)
    return keep, weight, risk(base, edges, metric) - risk(both, edges, metric)


def _spread(scores: Sequence[np.ndarray], whole: np.ndarray) -> float:
    """Compare how far networks are from their mean with the size of the score.

    Their mean is closer to the truth than each of them, but what the data at hand mislead all of them to is not seen.
    Where the truth is known, the error of the mean was found to be one to two times the variance of one.
    """
    if len(scores) < 2:
        return 0.0
    deviations = np.stack(scores) - np.mean(scores, axis=0)
    precision = _inverse_information([whole], whole.shape[1])
    squares = np.einsum("kni,ij,knj->kn", deviations, precision, deviations)
    return _ERROR_OVER_SPREAD * float(squares.mean()) * len(scores) / (len(scores) - 1) / whole.shape[1]


def _network_facts(earlier: dict[str, Any], history: History, gain: np.ndarray, worth: bool) -> dict[str, Any]:
    """Describe the training of the first network, and what all are worth."""
    first = {
        "loss": history.loss,
        "held_out_loss": history.held_out_loss,
        "num_epochs": history.num_epochs,
        "best_epoch": history.best_epoch,
        "stopped_early": history.stopped_early,
    }
    seconds = earlier.get("fit_seconds", 0.0) + history.seconds
    return first | earlier | {"network_gain": float(gain.mean()), "network_used": worth, "fit_seconds": seconds}


class _Scaled(eqx.Module):
    """A network whose score is multiplied by a constant, so that its own numbers are of order one."""

    network: ScoreFunction
    scale: float = eqx.field(static=True)

    def __call__(self, u: jax.Array, x: jax.Array) -> jax.Array:
        return self.scale * self.network(u, x)


def _usable(names: Sequence[str], size: int) -> list[str]:
    return [n for n in names if size <= CLOSED_FORMS[n].max_data]


def _fold(u: np.ndarray, rows: np.ndarray, names: Sequence[str], rng: np.random.Generator) -> _Folded:
    """Fit every candidate with each part left out in turn."""
    num = len(rows)
    num_parts = _PARTS_OF_FEW if num <= _MANY_FOLDS_BELOW or num > _FEW_FOLDS_BELOW else 3
    parts = np.array_split(rng.permutation(num), num_parts)
    if num > _FEW_FOLDS_BELOW:
        parts = parts[:1]
    networks: dict[str, list[Potential]] = {name: [] for name in names}
    for part in parts:
        rest = np.setdiff1d(np.arange(num), part)
        for name in names:
            networks[name].append(CLOSED_FORMS[name].fit(u[rest], rows[rest]))
    points = u[:_POINTS], rows[:_POINTS]
    scores = {name: np.stack([_scores(n, *points) for n in fits]) for name, fits in networks.items()}
    metric = _inverse_information([s[0] for s in scores.values()], u.shape[1])
    terms = {}
    for name, fits in networks.items():
        each = [implicit_terms(n, u[part], rows[part], metric) for n, part in zip(fits, parts, strict=True)]
        terms[name] = Terms(np.concatenate([t.scores for t in each]), np.concatenate([t.divergences for t in each]))
    return _Folded(parts, networks, terms, metric, scores)


def _weigh(u: np.ndarray, folded: _Folded) -> dict[str, float]:
    held_out = u[np.concatenate(folded.held_out)]
    usable = [
        name
        for name, terms in folded.terms.items()
        if all(np.isfinite(a).all() for a in (terms.scores, terms.divergences, folded.scores[name]))
    ]
    if not usable:
        return {}
    terms, edges = [folded.terms[n] for n in usable], _edges(held_out)
    if len(folded.held_out) < _PARTS_OF_FEW:
        weights = fewest(terms, edges, folded.metric)
        if len(folded.held_out) == 1:
            weights = to_scale(weights, terms, edges, folded.metric)
    else:
        noise = edge_noise(np.stack([folded.scores[n] for n in usable]), _edges(u[:_POINTS]), folded.metric)
        weights = stack_weights(terms, edges, folded.metric, noise)
    return dict(zip(usable, map(float, weights), strict=True))


def _inverse_information(scores: Sequence[np.ndarray], p: int) -> np.ndarray:
    """Return the inverse of the least of the information matrices of several scores of p parameters."""
    finite = [s for s in scores if np.isfinite(s).all() and len(s)]
    if not finite:
        return np.eye(p)
    informations = [s.T @ s / len(s) for s in finite]
    # One that explains next to nothing says nothing about how errors compare.
    largest = max(np.trace(m) for m in informations)
    least = min((m for m in informations if np.trace(m) >= 0.1 * largest), key=np.trace)
    return np.linalg.inv(least + (1e-6 * np.trace(least) / p + 1e-12) * np.eye(p))


def _edges(u: np.ndarray) -> np.ndarray:
    return np.asarray(jax.jit(jax.vmap(edge_weight))(jnp.asarray(u, jnp.float32)), np.float64)


@eqx.filter_jit
def _evaluate(network: ScoreFunction, u: Any, x: Any) -> Any:
    return jax.vmap(network)(u, x)


def _scores(network: ScoreFunction, u: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.asarray(_evaluate(network, jnp.asarray(u, jnp.float32), jnp.asarray(rows, jnp.float32)), np.float64)


def _stacked(members: dict[str, Potential], weights: dict[str, float], p: int, size: int) -> Stack:
    return Stack.of(list(members.values()), [weights[name] for name in members], (p, size))


def _error(
    u: np.ndarray,
    rows: np.ndarray,
    members: dict[str, Potential],
    weights: dict[str, float],
    folded: _Folded,
    rng: np.random.Generator,
) -> float:
    """Estimate the score error: fits to a share f of the data differ from the whole by (1 − f) / f of its variance."""
    if not members:
        return 1.0
    points = u[:_POINTS], rows[:_POINTS]
    whole = np.sum([weights[n] * _scores(m, *points) for n, m in members.items()], axis=0)
    parts: list[tuple[float, dict[str, np.ndarray]]]
    if len(folded.held_out) > 1:
        parts = [
            (1.0 - len(left_out) / len(rows), {n: folded.scores[n][number] for n in members})
            for number, left_out in enumerate(folded.held_out)
        ]
    else:  # many rows: a quarter of them says it cheaper
        samples = [rng.choice(len(rows), len(rows) // 4, replace=False) for _ in range(3)]
        parts = [(0.25, {n: _scores(CLOSED_FORMS[n].fit(u[s], rows[s]), *points) for n in members}) for s in samples]
    precision = _inverse_information([whole], whole.shape[1])
    errors = []
    for share, scores in parts:
        delta = whole - np.sum([weights[n] * s for n, s in scores.items()], axis=0)
        squares = np.einsum("ni,ij,nj->n", delta, precision, delta)
        errors.append(share / (1.0 - share) * float(squares.mean()) / u.shape[1])
    return _ERROR_OVER_VARIANCE * float(np.median(errors))
