"""How the shape of one observation is read: which axes are places, which is channels."""

import math
from dataclasses import dataclass

# Of two axes the last one is channels where it is this short, and the other one longer by this factor.
_MOST_CHANNELS, _LONGER = 16, 4


@dataclass(frozen=True)
class FieldShape:
    """Places along one axis (a series) or two (a map), and a number of channels at each.

    Attributes:
        shape: The shape of one observation.
        places: The axes of places.
        num_channels: The number of channels; 1 where there is no axis of them.
    """

    shape: tuple[int, ...]
    places: tuple[int, ...]
    num_channels: int

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> "FieldShape | None":
        """Read (t,), (t, c), (n, m) or (n, m, c); None for what is neither a series nor a map."""
        shape = tuple(shape)
        has_channels = len(shape) == 3 or (len(shape) == 2 and shape[1] * _LONGER <= shape[0])
        places = shape[:-1] if len(shape) > 1 and has_channels and shape[-1] <= _MOST_CHANNELS else shape
        if len(places) > 2 or min(places, default=0) < 4:
            return None
        return cls(shape, places, math.prod(shape) // math.prod(places))

    @property
    def num_places(self) -> int:
        """The number of pixels, or of times."""
        return math.prod(self.places)
