"""The benchmark's classifier two-sample test, by scikit-learn as there, or many at once on a device.

Two hidden layers of ten units a parameter, ReLU, Adam, five folds, data in units of the reference: Lueckmann et al.
2021, ``sbibm/metrics/c2st.py``. One pair takes scikit-learn up to a minute and a half, and a benchmark has hundreds. So
the same training, step by step, is written here for many pairs and folds side by side: initial weights, mini-batches of
200, penalty, Adam, and the rule by which it ends, as scikit-learn 1.9 documents and has them. Only the random numbers
differ.
"""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neural_network import MLPClassifier

Nets = dict[str, Any]
_UNITS, _FOLDS, _BATCH, _MAX_EPOCHS = 10, 5, 200, 10_000
_RATE, _DECAYS, _SMALL, _PENALTY, _TOLERANCE, _PATIENCE = 1e-3, (0.9, 0.999), 1e-8, 1e-4, 1e-4, 10


def c2st(reference: np.ndarray, draws: np.ndarray, *, seed: int = 1) -> float:
    """Tell draws from a reference: 0.5 cannot, 1 always can.

    Args:
        reference: Draws of the reference, shape (n, p).
        draws: Other draws, shape (n, p).
        seed: Seed of folds and training.

    Returns:
        The part of held-out draws that are told rightly.
    """
    data, labels = _standardised(reference, draws)
    units = _UNITS * data.shape[1]
    network = MLPClassifier((units, units), max_iter=_MAX_EPOCHS, solver="adam", random_state=seed)
    folds = KFold(_FOLDS, shuffle=True, random_state=seed)
    return float(np.mean(cross_val_score(network, data, labels, cv=folds, scoring="accuracy")))


def c2st_of_many(pairs: list[tuple[np.ndarray, np.ndarray]], *, seed: int = 1) -> list[float]:
    """Do the same for many pairs side by side.

    Args:
        pairs: References and draws, each of shape (n, p); n and p may differ between pairs.
        seed: Seed of folds and training.

    Returns:
        One number a pair.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    for k, (reference, draws) in enumerate(pairs):
        groups.setdefault((len(reference) + len(draws), reference.shape[1]), []).append(k)
    found = [0.0] * len(pairs)
    for members in groups.values():
        ready = [_standardised(*pairs[k]) for k in members]
        data, labels = np.stack([x for x, _ in ready]), np.stack([y for _, y in ready])
        for k, value in zip(members, _accuracies(data, labels, seed), strict=True):
            found[k] = float(value)
    return found


def _standardised(reference: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both in units of the reference, in single precision as in the benchmark, and their labels."""
    centre, spread = reference.mean(axis=0), reference.std(axis=0, ddof=1)
    data = np.concatenate([(reference - centre) / spread, (draws - centre) / spread]).astype(np.float32)
    return data, np.repeat([0.0, 1.0], [len(reference), len(draws)]).astype(np.float32)


def _accuracies(data: np.ndarray, labels: np.ndarray, seed: int) -> np.ndarray:
    """Train one network a pair and fold on data (k, n, p), until each has ended by the rule."""
    splits = list(KFold(_FOLDS, shuffle=True, random_state=seed).split(data[0]))
    size = min(len(train) for train, _ in splits) // _BATCH * _BATCH
    if size < _BATCH:
        raise ValueError(f"Expected at least {_BATCH * _FOLDS // (_FOLDS - 1)} draws in all, got {data.shape[1]}.")
    rng = np.random.default_rng(seed)
    shape = (len(data), _FOLDS)
    nets = _first_nets(rng, shape, data.shape[2])
    moments = (jax.tree.map(jnp.zeros_like, nets), jax.tree.map(jnp.zeros_like, nets))
    on_device, its_labels = jnp.asarray(data), jnp.asarray(labels)
    best, waited, running = np.full(shape, np.inf), np.zeros(shape, int), np.ones(shape, bool)
    for epoch in range(_MAX_EPOCHS):
        rows = np.stack([rng.permutation(train)[:size] for train, _ in splits]).reshape(_FOLDS, -1, _BATCH)
        nets, moments, losses = _epoch(nets, moments, (on_device, its_labels), rows, (running, epoch * rows.shape[1]))
        loss = np.asarray(losses, float)
        waited = np.where(loss > best - _TOLERANCE, waited + 1, 0)
        best = np.minimum(best, loss)
        running &= waited <= _PATIENCE
        if not running.any():
            break
    tests = np.stack([test[: min(len(t) for _, t in splits)] for _, test in splits])
    return np.asarray(_told_rightly(nets, on_device, its_labels, tests), float).mean(axis=1)


def _first_nets(rng: np.random.Generator, shape: tuple[int, ...], width: int) -> Nets:
    sizes = [width, _UNITS * width, _UNITS * width, 1]
    nets = {}
    for layer, (before, after) in enumerate(itertools.pairwise(sizes)):
        bound = np.sqrt(6 / (before + after))
        nets[f"weight{layer}"] = jnp.asarray(rng.uniform(-bound, bound, (*shape, before, after)), jnp.float32)
        nets[f"bias{layer}"] = jnp.asarray(rng.uniform(-bound, bound, (*shape, 1, after)), jnp.float32)
    return nets


def _logits(nets: Nets, x: Any) -> Any:
    with jax.default_matmul_precision("float32"):
        for layer in range(2):
            x = jax.nn.relu(x @ nets[f"weight{layer}"] + nets[f"bias{layer}"])
        return (x @ nets["weight2"] + nets["bias2"])[..., 0]


def _losses(nets: Nets, x: Any, y: Any) -> Any:
    logits = _logits(nets, x)
    likelihood = jnp.mean(jax.nn.softplus(logits) - y * logits, axis=-1)
    squares = sum(jnp.sum(nets[f"weight{layer}"] ** 2, axis=(-2, -1)) for layer in range(3))
    return likelihood + 0.5 * _PENALTY * squares / x.shape[-2]


@functools.partial(jax.jit, donate_argnums=(0, 1))
def _epoch(nets: Nets, moments: Any, data: Any, rows: Any, state: Any) -> tuple[Nets, Any, Any]:
    """One pass of all networks over mini-batches ``rows`` (folds, batches, size); those that ended stay as they are."""
    (x, y), (running, before) = data, state

    def total(nets: Nets, x: Any, y: Any) -> Any:
        losses = _losses(nets, x, y)
        return jnp.sum(losses), losses

    def step(carry: Any, given: Any) -> Any:
        (nets, (first, second)), (number, batch) = carry, given
        slopes, losses = jax.grad(total, has_aux=True)(nets, x[:, batch], y[:, batch])
        decay, slow = _DECAYS
        first = jax.tree.map(lambda m, g: decay * m + (1 - decay) * g, first, slopes)
        second = jax.tree.map(lambda v, g: slow * v + (1 - slow) * g * g, second, slopes)
        rate = _RATE * jnp.sqrt(1 - slow**number) / (1 - decay**number)
        moved = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + _SMALL), nets, first, second)
        nets = jax.tree.map(lambda w, new: jnp.where(running[..., None, None], new, w), nets, moved)
        return (nets, (first, second)), losses

    numbers = before + 1.0 + jnp.arange(rows.shape[1])
    (nets, moments), losses = jax.lax.scan(step, (nets, moments), (numbers, jnp.swapaxes(rows, 0, 1)))
    return nets, moments, losses.mean(axis=0)


@jax.jit
def _told_rightly(nets: Nets, x: Any, y: Any, tests: Any) -> Any:
    return jnp.mean((_logits(nets, x[:, tests]) > 0) == (y[:, tests] > 0.5), axis=-1)
