"""What is trained as a learned summary: a module of the user's, or a convolutional network of our own."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from .._support import host_random
from .._support.layout import Layout
from ..errors import ArgumentError
from ..summaries.bank import FieldStatistics
from ..summaries.field_network import FieldInputs, LearnedOfField
from ..summaries.field_shape import FieldShape
from ..summaries.learned import Guesser, Learned
from ..summaries.module import checked_module
from ..summaries.symmetries import Symmetries, symmetries_seen
from .learned_summary import LearnedSummary


class Subject(Protocol):
    """What networks see, how one is drawn, and what the trained ones become."""

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Give what networks see of observations (n, ...), in single precision."""
        ...

    def network(self, num_parameters: int, key: Any) -> Guesser:
        """Draw a network at random."""
        ...

    @property
    def symmetries(self) -> Symmetries:
        """By what observations are moved about."""
        ...

    @property
    def given_shape(self) -> FieldShape | None:
        """The shape of what networks see where channels come last; None where they come first."""
        ...

    def learned(self, vectors: Any, layout: Layout, num_parameters: int) -> Learned:
        """Make a summary of trained networks."""
        ...


@dataclass(frozen=True, eq=False)
class OwnModule:
    """A module of the user's, which sees data as they are."""

    module: Any
    shape: tuple[int, ...]
    filled: Callable[[Any], Any]
    symmetries: Symmetries

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Give data as they are, with numbers where pixels were declared missing."""
        return np.asarray(self.filled(x), np.float32)

    def network(self, num_parameters: int, key: Any) -> Guesser:
        """Put a linear map behind the module, which is not drawn anew."""
        num_summaries = checked_module(self.module, self.shape, num_parameters)
        return Guesser.of(self.module, num_summaries, num_parameters, host_random.words_of(key))

    @property
    def given_shape(self) -> FieldShape | None:
        """The shape of the data."""
        return FieldShape.of(self.shape)

    def learned(self, vectors: Any, layout: Layout, num_parameters: int) -> Learned:
        """Make a summary of trained networks."""
        return Learned(vectors, layout, self.shape, num_parameters)


@dataclass(frozen=True, eq=False)
class OwnNetwork:
    """A convolutional network, which sees standardised pixels and mapped ones."""

    about: FieldInputs
    symmetries: Symmetries
    given_shape: None = None

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Give pixels and mapped pixels, channels first."""
        return self.about.of_rows(self.about.pixels.filled(x))

    def network(self, num_parameters: int, key: Any) -> Guesser:
        """Draw a network at random."""
        return self.about.network(num_parameters, key)

    def learned(self, vectors: Any, layout: Layout, num_parameters: int) -> Learned:
        """Make a summary of trained networks."""
        return LearnedOfField.of(vectors, layout, num_parameters, self.about)


def module_subject(wanted: LearnedSummary, shape: tuple[int, ...], filled: Callable[[Any], Any]) -> OwnModule:
    """Take a module, and those symmetries that are declared."""
    declared = _declared(wanted, Symmetries(), FieldShape.of(shape), shape)
    return OwnModule(wanted.module, shape, filled, declared)


def network_subject(wanted: LearnedSummary, pixels: FieldStatistics, x: np.ndarray, u: np.ndarray) -> OwnNetwork:
    """Lay out our own network, with the symmetries that are declared, or else seen in some fields drawn at u."""
    field = pixels.field
    seen = symmetries_seen(np.asarray(pixels.prepared(pixels.filled(x))), u, field)
    symmetries = _declared(wanted, seen, field, field.shape)
    return OwnNetwork(FieldInputs(pixels, wanted.channels, symmetries.periodic), symmetries)


def _declared(wanted: LearnedSummary, seen: Symmetries, field: FieldShape | None, shape: tuple[int, ...]) -> Symmetries:
    """Put what is declared in place of what is seen; refuse symmetries that data of this shape cannot have."""
    for name in ("periodic", "rotations", "flips"):
        declared = getattr(wanted, name)
        if declared is None:
            continue
        if declared and field is None:
            raise ArgumentError(f"{name}: is for series and maps, got data of shape {shape}. Leave it out.")
        if declared and name == "rotations" and field and (len(field.places) == 1 or len(set(field.places)) > 1):
            raise ArgumentError(
                f"rotations: are for square maps, got data of shape {shape}. Pass rotations=False; flips=True mirrors "
                "them along each axis."
            )
        seen = replace(seen, **{name: bool(declared)})
    return seen
