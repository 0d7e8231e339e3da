"""Summaries that are learned: several networks, each trained on simulations other than those its guesses are used for.

The rows are dealt into as many parts as there are networks, but for some that none is trained on. A network is trained
on all parts but its own, and summarises its own: so what is fitted to summaries sees them as sharp as they are for new
data, and no sharper. New data are summarised by the mean of all networks. How far these are apart, on the rows that
none was trained on, says how uncertain what is learned is.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._support.layout import Layout
from .._support.precision import in_single_precision
from .._support.progress import progress_bar
from ..score.scales import Scales
from ..simulation.simulations import Simulations
from ..simulation.stores import MemoryStore
from ..summaries.learned import Guesser, Learned
from .checkpoint import Checkpoint, State
from .learned_subject import Subject
from .learned_summary import LearnedSummary
from .options import FitOptions
from .summary_training import Guessed, Program, parts_on_device, train_guesser

# Of the rows, this share and no more than so many are for choosing when to stop and for telling networks apart.
_SHARE_APART, _MOST_APART = 0.1, 1_000
_MOST_COMPARED = 500
NO_OWNER = -1


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """A learned summary, and of every simulation which network has not seen it: none of them for ``NO_OWNER``."""

    learned: Learned
    owner: np.ndarray

    def each_apart(self, sims: Simulations, filled: Callable[[Any], Any]) -> tuple[np.ndarray, np.ndarray]:
        """Give positions of some simulations that no network was trained on, and what each says of them."""
        apart = np.intersect1d(np.flatnonzero(self.owner == NO_OWNER), sims.store.successes())[:_MOST_COMPARED]
        each = self.learned.each_of_rows(filled(sims.store.read(apart).x))
        return apart, np.moveaxis(each, 1, 0)

    def rows(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Summarise simulations at these positions, each by the network that has not seen it."""
        each = self.learned.each_of_rows(x)
        owner = self.owner[positions]
        own = np.take_along_axis(each, np.maximum(owner, 0)[:, None, None], axis=1)[:, 0]
        return np.where(owner[:, None] == NO_OWNER, each.mean(axis=1), own)


def fit_learned(
    sims: Simulations, wanted: LearnedSummary, subject: Subject, options: FitOptions, most_bytes: float
) -> CrossFitted:
    """Train the networks, on no more simulations than take so many bytes."""
    rng = np.random.default_rng(np.random.SeedSequence(options.seed, spawn_key=(11,)))
    positions, apart, parts = _dealt(sims, wanted.num_networks, most_bytes, rng)
    owner = np.full(len(sims), NO_OWNER)
    for number, part in enumerate(parts):
        owner[positions[part]] = number
    x, u = observed(sims, positions)
    seen = subject.inputs(x)
    networks = [
        _standardized(subject.network(u.shape[1], jax.random.key(int(seed))), jnp.asarray(seen[:_MOST_COMPARED]))
        for seed in rng.integers(2**31, size=wanted.num_networks)
    ]
    rows, others = Guessed(jax.device_put(seen), jax.device_put(u)), parts_on_device(seen[apart], u[apart])
    program = Program(Layout.of(networks[0]), wanted.training, subject.symmetries, subject.given_shape)
    vectors = []
    with progress_bar("learned summary", wanted.num_networks * wanted.num_steps, options.progress) as advance:
        for number, seed in enumerate(rng.integers(2**31, size=wanted.num_networks)):
            own = np.concatenate([part for k, part in enumerate(parts) if k != number])
            begin = program.layout.vector(networks[number])
            train = partial(train_guesser, program, begin, rows, others, own=own, seed=int(seed), advance=advance)
            folder = options.checkpoint_of(f"summary_{number + 1}")
            if folder is None:
                vectors.append(train())
            else:
                facts = Checkpoint(folder, wanted.training, (seen, u, own, begin), np.array([seed]))
                vectors.append(_trained_once(facts, begin, train))
    return CrossFitted(subject.learned(jax.device_put(np.stack(vectors)), program.layout, u.shape[1]), owner)


def _trained_once(checkpoint: Checkpoint, begin: np.ndarray, train: Callable[[], np.ndarray]) -> np.ndarray:
    """Train a network, unless a fit that was stopped has done so already."""
    if checkpoint.exists():
        kept: np.ndarray = checkpoint.read(State.first(begin))[0].parameters
        return kept
    trained = train()
    checkpoint.write(State.first(trained), [np.zeros((1, 2))])
    return trained


_standardized = in_single_precision(eqx.filter_jit(Guesser.standardized))


def _dealt(
    sims: Simulations, num_parts: int, most_bytes: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Give positions of simulations to hold, and among them those apart and those of each part."""
    successes = sims.store.successes()
    most = max(100, int(most_bytes / (4 * np.prod(sims.x_shape))))
    order = rng.permutation(len(successes))[:most]
    num_apart = int(min(max(_SHARE_APART * len(order), 10), _MOST_APART))
    places = np.arange(len(order))
    return successes[np.sort(order)], *_split(rng.permutation(places), num_apart, num_parts)


def _split(places: np.ndarray, num_apart: int, num_parts: int) -> tuple[np.ndarray, list[np.ndarray]]:
    return places[:num_apart], np.array_split(places[num_apart:], num_parts)


def observed(sims: Simulations, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Read observations, and the parameters they were drawn at in [−1, 1]."""
    records = sims.store.read(positions)
    own_scales = Scales.of_region(sims.proposal.low, sims.proposal.high, sims.proposal.axes)
    drawn_at = replace(sims, store=MemoryStore(records)).drawn_at
    return records.x, np.asarray(own_scales.inner(drawn_at), np.float32)
