"""Summaries that are learned: several networks, each trained on simulations other than those its guesses are used for.

The rows are dealt into as many parts as there are networks, but for some that none is trained on. A network is trained
on all parts but its own, and summarises its own: so what is fitted to summaries sees them as sharp as they are for new
data, and no sharper. New data are summarised by the mean of all networks. How far these are apart, on the rows that
none was trained on, says how uncertain what is learned is.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._support import host_random
from .._support.layout import Layout
from .._support.precision import in_single_precision
from .._support.progress import progress_bar
from ..errors import ArgumentError
from ..score.scales import Scales
from ..simulation.simulations import Simulations
from ..simulation.stores import MemoryStore
from ..summaries.learned import Guesser, Learned
from ..summaries.module import checked_module
from .options import FitOptions
from .summary_training import Guessed, Program, SummaryTraining, train_guesser

# Of the rows, this share and no more than so many are for choosing when to stop and for telling networks apart.
_SHARE_APART, _MOST_APART = 0.1, 1_000
_MOST_COMPARED = 500
NO_OWNER = -1


@dataclass(frozen=True)
class LearnedSummary:
    """How summaries are learned: of several networks trained to guess the parameters, the mean guess is the summary.

    Args:
        module: An Equinox module that turns one observation into a vector, at least one number for each parameter. It
            is called with data as they are, in single precision, so that scaling them is its own task.
        num_networks: How many copies of it are trained, each with a part of the simulations left out; 2 or more.
        num_steps: How many steps each is trained for at most.
        batch_size: Simulations in a step.
        learning_rate: The largest rate of Adam.
        weight_decay: Its decoupled decay of weights.

    >>> import equinox as eqx, fisherscore as fs, jax
    >>> module = eqx.nn.MLP(12, 8, 32, 2, key=jax.random.key(0))
    >>> fs.LearnedSummary(module, num_steps=500).num_networks
    4

    """

    module: Any = None
    num_networks: int = 4
    num_steps: int = 2_000
    batch_size: int = 64
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2

    def __post_init__(self) -> None:
        for name, least in (("num_networks", 2), ("num_steps", 1), ("batch_size", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ArgumentError(f"{name}: expected a whole number of at least {least}, got {value!r}.")
        for name, smallest in (("learning_rate", 1e-12), ("weight_decay", 0.0)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not smallest <= value < np.inf:
                raise ArgumentError(f"{name}: expected a number of at least {smallest:g}, got {value!r}.")

    @property
    def training(self) -> SummaryTraining:
        """How each network is trained."""
        return SummaryTraining(self.num_steps, self.batch_size, self.learning_rate, self.weight_decay)


def asked_for(embedding: Any) -> LearnedSummary | None:
    """Read what a user passes as ``embedding``."""
    return embedding if embedding is None or isinstance(embedding, LearnedSummary) else LearnedSummary(embedding)


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
    sims: Simulations,
    wanted: LearnedSummary,
    options: FitOptions,
    most_bytes: float,
    filled: Callable[[Any], Any] = lambda x: x,
) -> CrossFitted:
    """Train the networks; ``filled`` puts numbers in place of what was declared missing."""
    p = sims.proposal.num_parameters
    num_summaries = checked_module(wanted.module, sims.x_shape, p)
    rng = np.random.default_rng(np.random.SeedSequence(options.seed, spawn_key=(11,)))
    keys = host_random.split(host_random.words_of(jax.random.key(options.seed)), 2)
    network = Guesser.of(wanted.module, num_summaries, p, keys[0])
    positions, apart, parts = _dealt(sims, wanted.num_networks, most_bytes, rng)
    owner = np.full(len(sims), NO_OWNER)
    for number, part in enumerate(parts):
        owner[positions[part]] = number
    rows = _read(sims, positions, filled)
    others, rows = Guessed(rows.x[apart], rows.u[apart]), Guessed(*map(jax.device_put, rows))
    network = _standardized(network, rows.x[:_MOST_COMPARED])
    layout = Layout.of(network)
    program = Program(layout, wanted.training)
    vectors = []
    total = wanted.num_networks * wanted.num_steps
    with progress_bar("learned summary", total, options.progress) as advance:
        for number, seed in enumerate(rng.integers(2**31, size=wanted.num_networks)):
            own = np.concatenate([part for k, part in enumerate(parts) if k != number])
            begin = layout.vector(network)
            trained = train_guesser(program, begin, rows, others, own=own, seed=int(seed), advance=advance)
            vectors.append(trained)
    return CrossFitted(Learned(jax.device_put(np.stack(vectors)), layout, sims.x_shape, p), owner)


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


def _read(sims: Simulations, positions: np.ndarray, filled: Callable[[Any], Any]) -> Guessed:
    """Read observations, and the parameters they were drawn at in [−1, 1]."""
    records = sims.store.read(positions)
    own_scales = Scales.of_region(sims.proposal.low, sims.proposal.high, sims.proposal.axes)
    drawn_at = replace(sims, store=MemoryStore(records)).drawn_at
    return Guessed(np.asarray(filled(records.x), np.float32), np.asarray(own_scales.inner(drawn_at), np.float32))
