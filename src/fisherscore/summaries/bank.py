"""The bank of statistics for maps and series: powers, moments, wavelets; of pixels, and of mapped pixels."""

import functools
import math
from collections.abc import Mapping
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from . import statistics, weighting
from .base import Block, Embedding, register_embedding
from .field_shape import FieldShape
from .pixel_map import NUM_KNOTS, fit_pixel_map

# Data up to this number are summaries of their own as well.
MOST_RAW = 1_000
_MOST_RINGS, _MOST_POWERS, _COHERENT_RINGS = 96, 240, 8
# Pixels are standardised, and their map is found, by so many fields.
_NUM_FIELDS = 500


@register_embedding("field_statistics")
class FieldStatistics(Embedding):
    """Statistics of a series or a map, with channels or not."""

    centre: Float[Array | np.ndarray, " channels"]
    scale: Float[Array | np.ndarray, " channels"]
    knots: Float[Array, "channels knots"]
    values: Float[Array, "channels knots"]
    observed: Float[Array, " pixels"]
    powers: Float[Array, "kinds ..."]
    field: FieldShape = eqx.field(static=True)
    is_masked: bool = eqx.field(static=True)

    @classmethod
    def laid_out(cls, x_shape: tuple[int, ...], settings: Mapping[str, Any], own: Mapping[str, Any]) -> Self:
        """Make one with arrays of the right shapes."""
        del own
        field = FieldShape.of(x_shape)
        if field is None:
            raise ValueError(f"data of shape {x_shape} are neither a series nor a map")
        channels, masked = field.num_channels, bool(settings["masked"])
        table = jnp.tile(jnp.arange(float(NUM_KNOTS)), (channels, 1))
        observed = jnp.ones(int(np.prod(x_shape)) if masked else 0)
        powers = jnp.ones((2 * channels if masked else 0, *half_plane(field.places)))
        arrays = (table, table, observed, powers)
        return cls(np.zeros(channels), np.ones(channels), *arrays, field=field, is_masked=masked)

    @classmethod
    def fit(cls, x: np.ndarray, field: FieldShape, mask: np.ndarray | None) -> Self:
        """Standardise pixels, and find the map under which fields are the most Gaussian, whatever the parameters."""
        some = np.asarray(x[:_NUM_FIELDS], np.float64).reshape(-1, field.num_places, field.num_channels)
        seen = np.ones((field.num_places, field.num_channels), bool) if mask is None else mask.reshape(some.shape[1:])
        found: list[list[Any]] = [[], [], [], []]
        for channel in range(field.num_channels):
            pixels = some[:, seen[:, channel], channel]
            middle, spread = float(pixels.mean()), float(pixels.std())
            spread = spread if spread > 1e-12 * max(abs(middle), 1e-300) else 1.0
            table = fit_pixel_map((pixels - middle) / spread)
            for known, number in zip(found, (middle, spread, *table), strict=True):
                known.append(number)
        centre, scale, knots, values = map(np.array, found)
        observed = np.zeros(0) if mask is None else mask.ravel()
        powers = np.zeros((0, *half_plane(field.places)))
        if mask is not None:
            powers = _typical_powers(some, seen, field, np.stack([centre, scale]), np.stack([knots, values]))
        arrays: list[Any] = [jax.device_put(np.asarray(a, np.float32)) for a in (knots, values, observed, powers)]
        rest: dict[str, Any] = {"field": field, "is_masked": mask is not None}
        return cls(centre, scale, *arrays, **rest)

    @property
    def x_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return self.field.shape

    @property
    def settings(self) -> dict[str, Any]:
        """Whether there is a mask; all other sizes follow from the shape of the data."""
        return {"masked": int(self.is_masked)}

    @property
    def mask(self) -> np.ndarray | None:
        """Which pixels were observed; None for all."""
        return np.asarray(self.observed).reshape(self.x_shape) > 0.5 if self.is_masked else None

    def filled(self, x: Any) -> Any:
        """Put 0 where nothing was observed."""
        mask = self.mask
        if mask is None or isinstance(x, jax.core.Tracer) or np.shape(x)[-len(self.x_shape) :] != self.x_shape:
            return x
        given = np.asarray(x)
        return np.where(mask, given, np.zeros((), given.dtype))

    def prepared(self, x: Any) -> Any:
        """Standardise every channel."""
        if self.field.shape == self.field.places:
            return (x - self.centre[0]) / self.scale[0]
        return (x - self.centre) / self.scale

    def of_prepared(self, x: Float[Array, " ..."]) -> Float[Array, " summaries"]:
        """Compute all statistics of one standardised field."""
        kinds = self._kinds(x)
        return statistics.as_numbers(jnp.concatenate([kinds[name] for name in sorted(kinds)]))

    def images(self, x: Float[Array, " ..."]) -> Float[Array, " ..."]:
        """Give pixels and mapped pixels of one standardised field, channels first, and last which were observed."""
        seen = self._seen()
        both = jnp.concatenate(self._pixels_and_mapped(x))
        if seen is None:
            return both
        return jnp.concatenate([both * jnp.concatenate([seen, seen]), jnp.max(seen, axis=0, keepdims=True)])

    def _seen(self) -> Array | None:
        """Give which pixels were observed, channels first; None where all were."""
        if not self.is_masked:
            return None
        return jnp.moveaxis(self.observed.reshape(*self.field.places, self.field.num_channels), -1, 0)

    def _pixels_and_mapped(self, x: Array) -> tuple[Array, Array]:
        """Give pixels, channels first, and the same mapped."""
        pixels = jnp.moveaxis(x.reshape(*self.field.places, self.field.num_channels), -1, 0)
        return pixels, jnp.stack([_mapped(p, k, v) for p, k, v in zip(pixels, self.knots, self.values, strict=True)])

    def _kinds(self, x: Array) -> dict[str, Array]:
        """Compute statistics by kind."""
        places, channels = self.field.places, self.field.num_channels
        pixels, images = self._pixels_and_mapped(x)
        seen = self._seen()
        centred = {"pixels": statistics.centred(pixels, seen), "mapped": statistics.centred(images, seen)}
        most = most_rings(channels)
        kinds: dict[str, Array] = {}
        if self.field.num_places * channels <= MOST_RAW:
            kinds["series" if x.ndim == 1 else "data"] = x.ravel()
        for number, (name, field) in enumerate(centred.items()):
            if seen is not None:
                powers = self.powers[number * channels : (number + 1) * channels]
                weighted = jnp.stack(
                    [weighting.weighted(*each) for each in zip(field.values, powers, seen, strict=True)]
                )
                kinds[f"power of weighted {name}"] = statistics.ring_powers(
                    statistics.transform(weighted, places), places, most
                )
            modes = statistics.transform(field.values, places)
            kinds[f"power of {name}"] = statistics.ring_powers(modes, places, most)
            if channels > 1:
                kinds[f"coherence of {name}"] = statistics.ring_coherences(modes, places, _COHERENT_RINGS)
            kinds[f"wavelets of {name}"] = statistics.wavelet_statistics(modes, places)
            kinds[f"cascade of {name}"] = statistics.cascade(field.values, places)
            kinds[f"moments of {name}"] = statistics.moments(field)
        kinds["means of blocks"] = statistics.means_of_blocks(centred["pixels"].values, places)
        return kinds

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The kinds of statistics, in their order."""
        return _blocks(self.field, self.is_masked)


def _typical_powers(
    some: np.ndarray, seen: np.ndarray, field: FieldShape, standard: np.ndarray, tables: np.ndarray
) -> np.ndarray:
    """Estimate the power of pixels, and of mapped pixels, of every channel of fields (n, places, channels)."""
    powers: list[list[np.ndarray]] = [[], []]
    for channel in range(field.num_channels):
        mask = seen[:, channel].reshape(field.places)
        pixels = (some[:, :, channel] - standard[0, channel]) / standard[1, channel]
        images = np.interp(pixels, tables[0, channel], tables[1, channel])
        for kind, values in zip(powers, (pixels, images), strict=True):
            filled = np.where(mask, values.reshape(-1, *field.places), 0.0)
            kind.append(weighting.typical_power(filled, mask))
    return np.stack(powers[0] + powers[1])


def half_plane(places: tuple[int, ...]) -> tuple[int, ...]:
    """Give the shape of the modes of a real Fourier transform."""
    return (*places[:-1], places[-1] // 2 + 1)


def most_rings(num_channels: int) -> int:
    """Choose how many rings a spectrum may have, so that all spectra together are not too many numbers."""
    return min(_MOST_RINGS, max(8, _MOST_POWERS // num_channels))


@functools.lru_cache(maxsize=16)
def _blocks(field: FieldShape, is_masked: bool) -> tuple[Block, ...]:
    """Lay out the statistics without computing any, in the order of their names."""
    blank = eqx.filter_eval_shape(lambda: FieldStatistics.laid_out(field.shape, {"masked": is_masked}, {}))
    sizes = eqx.filter_eval_shape(lambda one: one._kinds(jnp.zeros(field.shape)), blank)
    blocks, start = [], 0
    for name, size in sorted(sizes.items()):
        stop = start + math.prod(size.shape)
        blocks.append(Block(name, start, stop, is_power=name.startswith("power of weighted" if is_masked else "power")))
        start = stop
    return tuple(blocks)


def _mapped(pixels: Array, knots: Array, values: Array) -> Array:
    """Map pixels: linear between knots, and like a logarithm beyond them."""
    inside = jnp.interp(pixels, knots, values)
    rises = (values[1] - values[0]) / (knots[1] - knots[0]), (values[-1] - values[-2]) / (knots[-1] - knots[-2])
    before, after = jnp.minimum(pixels - knots[0], 0.0), jnp.maximum(pixels - knots[-1], 0.0)
    return inside + jnp.arcsinh(rises[0] * before) + jnp.arcsinh(rises[1] * after)
