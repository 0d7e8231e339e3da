"""The default fit: closed forms weighed on held-out simulations, and a network for what they leave.

1. Every closed form (:mod:`fisherscore.closed_form`) is fitted with part of the simulations left out in turn.
2. Their weights are those with the smallest implicit loss on what was left out (:mod:`fisherscore.stacking`).
3. A conservative network is trained, by the same loss, on what the weighted sum leaves unexplained. It stays if it
   lowers the loss of simulations it has not seen by more than twice the standard error.
4. The members are fitted again to everything. How far the parts are from the whole says how uncertain the score is.

All of it sees (θ, x) with x drawn at θ, whatever the design of θ: no latent has to be chosen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .baseline import LARGEST_DATA as LARGEST_FOR_GAUSSIAN
from .closed_form import CLOSED_FORMS
from .errors import TrainingError
from .location_scale import LARGEST_DATA as LARGEST_FOR_LOCATION_SCALE
from .network import ConservativeNetwork, Network, Stack, build_network, described
from .stacking import Terms, edge_weight, implicit_loss, implicit_terms, risk, stack_weights
from .train import History, Training, train

# Few simulations are left out in turn, many only once.
_MANY_FOLDS_BELOW, _FEW_FOLDS_BELOW = 5_000, 30_000
# Among more simulations than this, the candidates are first screened on so many of them.
_SCREENED = 20_000
_FEWEST_FOR_NETWORK = 500
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
    """Fits with one part left out, and their terms on that part."""

    held_out: list[np.ndarray]
    networks: dict[str, list[ConservativeNetwork]]
    terms: dict[str, Terms]
    metric: np.ndarray


def fit_stack(
    u: np.ndarray,
    x: np.ndarray,
    *,
    closed_forms: Sequence[str],
    residual: "Residual | None",
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
    members = {n: CLOSED_FORMS[n](u, rows) for n, w in weights.items() if w > 0}
    error = _error(u, rows, members, weights, folded)
    facts: dict[str, Any] = {}
    if residual is not None and (len(rows) >= _FEWEST_FOR_NETWORK or not members):
        known = sum((weights[n] * _scores(m, u, rows) for n, m in members.items()), np.zeros_like(u))
        network, weight, facts = residual.fit(u, rows, known, rng, progress=progress, checkpoint=checkpoint)
        if weight > 0:
            members["network"], weights["network"] = network, weight
            error += facts["network_error"]
    if not members:
        raise TrainingError(
            "No candidate gives a better score than zero on held-out simulations. Give more simulations, or check that "
            "the data depend on the parameters."
        )
    return StackFit(_stacked(members, weights, u.shape[1], rows.shape[1]), weights, error, facts)


@dataclass(frozen=True)
class Residual:
    """How to train the network on what the closed forms leave."""

    architecture: str
    settings: dict[str, Any]
    training: Callable[[int], Training]

    def fit(
        self,
        u: np.ndarray,
        rows: np.ndarray,
        known: np.ndarray,
        rng: np.random.Generator,
        *,
        progress: bool | None,
        checkpoint: Path | None,
    ) -> tuple[ConservativeNetwork, float, dict[str, Any]]:
        """Train on most rows, and say by the others what weight the network deserves."""
        order = rng.permutation(len(rows))
        test, training = np.split(order, [max(1, len(rows) // 5)])
        metric = _inverse_information([known]) if known.any() else np.eye(u.shape[1])
        scale = float(1.0 / np.sqrt(np.trace(metric) / len(metric)))
        network = build_network(
            self.architecture, u.shape[1], rows.shape[1], self.settings, key=jax.random.key(int(rng.integers(2**31)))
        )
        network, history = train(
            _Scaled(network, scale),
            implicit_loss(metric),
            (u[training], rows[training], known[training]),
            self.training(len(training)),
            key=jax.random.key(int(rng.integers(2**31))),
            progress=progress,
            checkpoint=checkpoint,
        )
        inner = network.network
        terms = implicit_terms(network, u[test], rows[test], metric)
        edges = _edges(u[test])
        gain = -risk(terms, edges, metric) - edges * np.einsum("ni,ij,nj->n", known[test], metric, terms.scores)
        worth = float(gain.mean()) > 2.0 * float(gain.std()) / np.sqrt(len(gain)) and np.isfinite(gain).all()
        return inner, scale if worth else 0.0, _network_facts(history, gain, worth, terms, metric, u.shape[1])


def _network_facts(
    history: History, gain: np.ndarray, worth: bool, terms: Terms, metric: np.ndarray, p: int
) -> dict[str, Any]:
    # What the network adds is about as uncertain as the part of it that the held-out gain does not confirm.
    size = float(np.einsum("ni,ij,nj->n", terms.scores, metric, terms.scores).mean()) / p
    confirmed = 2.0 * float(gain.mean()) / p
    return {
        "network_gain": float(gain.mean()),
        "network_used": bool(worth),
        "network_error": max(0.0, size - confirmed) if worth else 0.0,
        "loss": history.loss,
        "held_out_loss": history.held_out_loss,
        "num_epochs": history.num_epochs,
        "best_epoch": history.best_epoch,
        "stopped_early": history.stopped_early,
        "fit_seconds": history.seconds,
    }


class _Scaled(eqx.Module):
    """A network whose score is multiplied by a constant, so that its own numbers are of order one."""

    network: Network
    scale: float = eqx.field(static=True)

    def __call__(self, u: jax.Array, x: jax.Array) -> jax.Array:
        return self.scale * self.network(u, x)


def _usable(names: Sequence[str], size: int) -> list[str]:
    limits = {"gaussian": LARGEST_FOR_GAUSSIAN}
    return [n for n in names if size <= limits.get(n, LARGEST_FOR_LOCATION_SCALE)]


def _fold(u: np.ndarray, rows: np.ndarray, names: Sequence[str], rng: np.random.Generator) -> _Folded:
    """Fit every candidate with each part left out in turn."""
    num = len(rows)
    num_parts = 5 if num <= _MANY_FOLDS_BELOW or num > _FEW_FOLDS_BELOW else 3
    parts = np.array_split(rng.permutation(num), num_parts)
    if num > _FEW_FOLDS_BELOW:
        parts = parts[:1]
    networks: dict[str, list[ConservativeNetwork]] = {name: [] for name in names}
    for part in parts:
        rest = np.setdiff1d(np.arange(num), part)
        for name in names:
            networks[name].append(CLOSED_FORMS[name](u[rest], rows[rest]))
    metric = _inverse_information([_scores(fits[0], u[:_POINTS], rows[:_POINTS]) for fits in networks.values()])
    terms = {}
    for name, fits in networks.items():
        each = [implicit_terms(n, u[part], rows[part], metric) for n, part in zip(fits, parts, strict=True)]
        terms[name] = Terms(np.concatenate([t.scores for t in each]), np.concatenate([t.divergences for t in each]))
    return _Folded(parts, networks, terms, metric)


def _weigh(u: np.ndarray, folded: _Folded) -> dict[str, float]:
    held_out = u[np.concatenate(folded.held_out)]
    usable = [n for n, t in folded.terms.items() if np.isfinite(t.scores).all() and np.isfinite(t.divergences).all()]
    if not usable:
        return {}
    weights = stack_weights([folded.terms[n] for n in usable], _edges(held_out), folded.metric)
    return dict(zip(usable, map(float, weights), strict=True))


def _inverse_information(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Return the inverse of the least of the information matrices of several scores."""
    finite = [s for s in scores if np.isfinite(s).all() and len(s)]
    if not finite:
        return np.eye(scores[0].shape[1] if scores else 1)
    informations = [s.T @ s / len(s) for s in finite]
    least = min(informations, key=lambda m: float(np.trace(m)))
    p = len(least)
    return np.linalg.inv(least + (1e-6 * np.trace(least) / p + 1e-12) * np.eye(p))


def _edges(u: np.ndarray) -> np.ndarray:
    return np.asarray(jax.jit(jax.vmap(edge_weight))(jnp.asarray(u, jnp.float32)), np.float64)


@eqx.filter_jit
def _evaluate(network: Network, u: Any, x: Any) -> Any:
    return jax.vmap(network)(u, x)


def _scores(network: Network, u: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.asarray(_evaluate(network, jnp.asarray(u, jnp.float32), jnp.asarray(rows, jnp.float32)), np.float64)


def _stacked(members: dict[str, ConservativeNetwork], weights: dict[str, float], p: int, size: int) -> Stack:
    stack = Stack(p, size, members=[described(m) for m in members.values()], key=jax.random.key(0))
    values = jnp.asarray([weights[name] for name in members], jnp.float32)
    return eqx.tree_at(lambda s: (s.weights, s.members), stack, (values, tuple(members.values())))


def _error(
    u: np.ndarray,
    rows: np.ndarray,
    members: dict[str, ConservativeNetwork],
    weights: dict[str, float],
    folded: _Folded,
) -> float:
    """Estimate the score error: fits without a fraction f of the data differ by f / (1 − f) times their variance."""
    if not members:
        return 1.0
    points = slice(0, _POINTS)

    def combined(networks: dict[str, ConservativeNetwork]) -> np.ndarray:
        parts = [weights[n] * _scores(m, u[points], rows[points]) for n, m in networks.items()]
        return np.sum(parts, axis=0)

    whole = combined(members)
    precision = _inverse_information([whole])
    errors = []
    for number, part in enumerate(folded.held_out):
        delta = whole - combined({n: folded.networks[n][number] for n in members})
        rest = len(rows) / len(part) - 1.0
        errors.append(rest * float(np.einsum("ni,ij,nj->n", delta, precision, delta).mean()) / u.shape[1])
    return float(np.median(errors))
