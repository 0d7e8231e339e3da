"""Large data are summarised before anything is fitted: by which summaries, and simulations that hold these as x."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from .._support.progress import noted
from ..errors import ArgumentError
from ..potentials.location_scale import LocationScale
from ..simulation.records import Records
from ..simulation.simulations import Simulations
from ..simulation.stores import MemoryStore
from ..summaries.bank import FieldStatistics
from ..summaries.base import Embedding
from ..summaries.field_shape import FieldShape
from ..summaries.given import GivenFeatures, Joined
from .cross_fitting import CrossFitted, fit_learned, observed
from .learned_subject import Subject, module_subject, network_subject
from .learned_summary import LearnedSummary
from .options import FitOptions, SummaryScatter

# A field of fewer simulations than this cannot be learned.
_FEWEST = 300
_ROWS_AT_ONCE, _NUM_FIRST = 2_000, 500
# Of the memory that a fit may take, networks are trained on so much.
_SHARE_OF_MEMORY = 0.25
# Without being asked for, networks are trained on no fewer simulations than this, and on accelerators alone: on a
# processor a fit of seconds would take many minutes.
_FEWEST_FOR_NETWORK = 1_000


@dataclass(frozen=True, eq=False)
class Wanted:
    """What a user asks for: features of their own, a summary to be learned, and which pixels were observed.

    ``statistics`` says whether those of fields may be taken without being asked for.
    """

    features: Callable[..., Any] | None = None
    mask: Any = None
    learned: LearnedSummary | None = None
    statistics: bool = False

    @property
    def any(self) -> bool:
        """Whether anything was asked for."""
        return self.features is not None or self.mask is not None or self.learned is not None


def fixed_summaries(sims: Simulations, wanted: Wanted) -> Embedding | None:
    """Choose and fit the summaries that are not learned; None where data are few enough to be taken as they are."""
    shape = sims.x_shape
    mask = None if wanted.mask is None else checked_mask(wanted.mask, shape)
    field = FieldShape.of(shape)
    if mask is not None and field is None:
        raise ArgumentError(f"mask: is for series and maps, got data of shape {shape}.")
    is_large = math.prod(shape) > LocationScale.max_data
    if not wanted.any and not (wanted.statistics and is_large and field is not None):
        return None
    if is_large:
        _refuse_too_few(sims)
    some = _first(sims)
    parts: list[Embedding] = []
    if field is not None and (is_large or mask is not None) and wanted.statistics:
        parts.append(FieldStatistics.fit(some, field, mask))
    if wanted.features is not None:
        parts.append(GivenFeatures.of(wanted.features, some[0]))
    return Joined.of(parts) if parts else None


def learned_summary_for(embedding: Any, sims: Simulations, *, automatic: bool) -> LearnedSummary | None:
    """Read what a user passes as ``embedding``; ``automatic`` says whether "auto" may mean a network."""
    if isinstance(embedding, str):
        if embedding != "auto":
            raise ArgumentError(
                f'embedding: expected "auto", None, an Equinox module or fisherscore.LearnedSummary, got {embedding!r}.'
            )
        shape = sims.x_shape
        is_field = FieldShape.of(shape) is not None and math.prod(shape) > LocationScale.max_data
        pays = automatic and is_field and jax.default_backend() != "cpu"
        return LearnedSummary() if pays and len(sims.store.successes()) >= _FEWEST_FOR_NETWORK else None
    return embedding if embedding is None or isinstance(embedding, LearnedSummary) else LearnedSummary(embedding)


@dataclass(frozen=True, eq=False)
class Summaries:
    """What data are summarised by: what is the same for all simulations, and what was learned of others than each."""

    fixed: Embedding | None
    learned: CrossFitted | None = None

    @property
    def embedding(self) -> Embedding | None:
        """What new data are summarised by; the learned summary comes last."""
        parts: list[Embedding] = [] if self.fixed is None else [self.fixed]
        if self.learned is not None:
            parts.append(self.learned.learned)
        return Joined.of(parts) if parts else None

    def filled(self, x: Any) -> Any:
        """Put numbers in place of pixels that were declared missing."""
        return x if self.embedding is None else self.embedding.filled(x)

    def of_simulations(self, sims: Simulations) -> Simulations:
        """Give simulations, in memory, whose data are summaries; those of a campaign are read a part at a time."""
        noted(f"statistics of {len(sims):,} simulations")
        pieces = [self._of_records(sims.store.read(positions), positions) for positions in _parts(len(sims))]
        records = pieces[0] if len(pieces) == 1 else _joined(pieces)
        return replace(sims, store=MemoryStore(records))

    def scatter(self, sims: Simulations) -> SummaryScatter | None:
        """Say what each network makes of simulations that none was trained on."""
        if self.learned is None:
            return None
        apart, each = self.learned.each_apart(sims, self.filled)
        records = sims.store.read(apart)
        if self.fixed is not None:
            same = self.fixed.rows(self.filled(records.x))
            each = np.stack([np.concatenate([same, guesses], axis=1) for guesses in each])
        return SummaryScatter(replace(sims, store=MemoryStore(records)).drawn_at, each)

    def _of_records(self, records: Records, positions: np.ndarray) -> Records:
        """Summarise the data of records; those of failures are nothing, and stay so."""
        x = self.filled(records.x)
        found = np.isfinite(x.reshape(len(x), -1)).all(axis=1)
        parts = [] if self.fixed is None else [self.fixed.rows(x[found])]
        if self.learned is not None:
            parts.append(self.learned.rows(x[found], positions[found]))
        summaries = np.full((len(x), sum(part.shape[1] for part in parts)), np.nan)
        summaries[found] = np.concatenate(parts, axis=1)
        return replace(records, x=summaries)


def summaries_of(sims: Simulations, wanted: Wanted, options: FitOptions, num_bytes: float) -> Summaries:
    """Choose, fit and learn what data are summarised by; nothing where data are taken as they are."""
    fixed = Summaries(fixed_summaries(sims, wanted))
    if wanted.mask is not None and not wanted.statistics and (wanted.learned is None or wanted.learned.module):
        raise ArgumentError(
            "mask: needs the statistics of a series or map, or a network of our own, which can leave pixels out, got "
            "AutoRecipe(statistics=False). Leave mask= out, and let the simulator put 0 where nothing is observed."
        )
    if wanted.learned is None:
        return fixed
    if len(sims.store.successes()) < _FEWEST:
        _refuse_too_few(sims)
    subject = _subject(sims, wanted, fixed)
    learned = fit_learned(sims, wanted.learned, subject, options, num_bytes * _SHARE_OF_MEMORY)
    return replace(fixed, learned=learned)


def _subject(sims: Simulations, wanted: Wanted, fixed: Summaries) -> Subject:
    """Take the user's module, or lay out a network for series and maps, which sees pixels as their statistics do."""
    assert wanted.learned is not None
    if wanted.learned.module is not None:
        return module_subject(wanted.learned, sims.x_shape, fixed.filled)
    field = FieldShape.of(sims.x_shape)
    if field is None:
        raise ArgumentError(
            f"embedding: a network of our own is for series and maps, got data of shape {sims.x_shape}. Pass an "
            "Equinox module."
        )
    x, u = observed(sims, sims.store.successes()[:_NUM_FIRST])
    parts = fixed.fixed.parts if isinstance(fixed.fixed, Joined) else (fixed.fixed,)
    pixels = next((part for part in parts if isinstance(part, FieldStatistics)), None)
    if pixels is None:
        mask = None if wanted.mask is None else checked_mask(wanted.mask, sims.x_shape)
        pixels = FieldStatistics.fit(x, field, mask)
    return network_subject(wanted.learned, pixels, x, u)


def checked_mask(mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return which of the pixels were observed, in the shape of one observation."""
    given = np.asarray(mask)
    if given.dtype != bool or given.shape not in (shape, shape[:-1]):
        raise ArgumentError(
            f"mask: expected true where a pixel was observed and false where none was, in the shape {shape} of one "
            f"observation, got {given.dtype} of shape {given.shape}."
        )
    whole = np.broadcast_to(given if given.shape == shape else given[..., None], shape)
    field = FieldShape.of(shape)
    channels = 1 if field is None else field.num_channels
    if (whole.reshape(-1, channels).mean(axis=0) < 0.05).any():
        raise ArgumentError("mask: expected at least 5 % of the pixels to be observed. True says that one was.")
    return whole


def _refuse_too_few(sims: Simulations) -> None:
    """Refuse, before any work, so few fields that nothing can be learned of them."""
    num = len(sims.store.successes())
    if num < _FEWEST:
        raise ArgumentError(
            f"sims: {num:,} simulations are too few for {math.prod(sims.x_shape):,} data of shape {sims.x_shape}: "
            f"expected at least {_FEWEST}, and about 2,000 for a good score. Simulate more, or condense the data into "
            "few numbers in the simulator."
        )


def _parts(num: int) -> Iterator[np.ndarray]:
    """Give positions in their order, a part at a time."""
    for begin in range(0, num, _ROWS_AT_ONCE):
        yield np.arange(begin, min(begin + _ROWS_AT_ONCE, num))


def _first(sims: Simulations) -> np.ndarray:
    """Read the first simulations that succeeded."""
    return sims.store.read(sims.store.successes()[:_NUM_FIRST]).x


def _joined(pieces: list[Records]) -> Records:
    """Put records one after the other."""
    latents = [piece.latent for piece in pieces]
    return Records(
        indices=np.concatenate([piece.indices for piece in pieces]),
        status=np.concatenate([piece.status for piece in pieces]),
        theta=np.concatenate([piece.theta for piece in pieces]),
        latent=None if latents[0] is None else np.concatenate([latent for latent in latents if latent is not None]),
        x=np.concatenate([piece.x for piece in pieces]),
        messages={number: text for piece in pieces for number, text in piece.messages.items()},
    )
