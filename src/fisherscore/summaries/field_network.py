"""A small convolutional network of our own for series and maps, and the learned summary that is made of it.

At every resolution, from that of the data to a few pixels, residual convolutions make channels whose means and
logarithmic powers are kept; a small network condenses these. So what small scales have to do with large ones, places
and shapes can be learned, and what a spectrum says is never more than a logarithm away.
"""

from collections.abc import Mapping
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._support.layout import Layout
from .._support.precision import in_single_precision
from .._support.rows import rows_in_turn
from .bank import FieldStatistics
from .base import register_embedding
from .field_shape import FieldShape
from .learned import Guesser, Learned, blank_vectors

# The coarsest level has at least so many pixels along each axis, and so many numbers are given.
_FEWEST_PIXELS, _NUM_SUMMARIES, _NUM_HIDDEN = 4, 32, 128
_TINY = 1e-4


class Level(eqx.Module):
    """Two convolutions that are added to what comes in."""

    first: eqx.nn.Conv
    second: eqx.nn.Conv

    def __call__(self, x: Float[Array, "channels ..."]) -> Float[Array, "channels ..."]:
        """Give channels of the same shape."""
        return x + self.second(jax.nn.elu(self.first(jax.nn.elu(x))))


class FieldNetwork(eqx.Module):
    """Channels first (channels, places...) to a vector."""

    stem: eqx.nn.Conv
    levels: tuple[Level, ...]
    head: eqx.nn.MLP

    @classmethod
    def of(cls, field: FieldShape, num_inputs: int, channels: int, *, periodic: bool, key: Any) -> Self:
        """Draw one at random."""
        num_levels = _num_levels(field.places)
        keys = iter(jax.random.split(key, 2 * num_levels + 2))
        mode = "CIRCULAR" if periodic else "ZEROS"

        def conv(num_in: int) -> eqx.nn.Conv:
            num_axes = len(field.places)
            return eqx.nn.Conv(num_axes, num_in, channels, 3, padding=1, padding_mode=mode, key=next(keys))

        stem = conv(num_inputs)
        levels = tuple(Level(conv(channels), conv(channels)) for _ in range(num_levels))
        num_kept = 2 * channels * (num_levels + 1)
        head = eqx.nn.MLP(num_kept, _NUM_SUMMARIES, _NUM_HIDDEN, 1, activation=jax.nn.elu, key=next(keys))
        return cls(stem, levels, head)

    def __call__(self, x: Float[Array, "channels ..."]) -> Float[Array, " summaries"]:
        """Condense one field."""
        h = self.stem(x)
        kept = [_kept(h)]
        for number, level in enumerate(self.levels):
            h = level(_halved(h) if number else h)
            kept.append(_kept(h))
        summaries: Array = self.head(jnp.concatenate(kept))
        return summaries


def _num_levels(places: tuple[int, ...]) -> int:
    """Count resolutions: each halves the axes that are long enough."""
    number = 1
    while max(places) >= 2 * _FEWEST_PIXELS:
        places = tuple(n // 2 if n >= 2 * _FEWEST_PIXELS else n for n in places)
        number += 1
    return number


def _halved(x: Array) -> Array:
    """Average pairs of neighbours along every axis that is long enough; an odd one out is left out."""
    for axis in range(1, x.ndim):
        num = x.shape[axis]
        if num >= 2 * _FEWEST_PIXELS:
            x = jax.lax.slice_in_dim(x, 0, num // 2 * 2, axis=axis)
            x = x.reshape(*x.shape[:axis], num // 2, 2, *x.shape[axis + 1 :]).mean(axis=axis + 1)
    return x


def _kept(x: Array) -> Array:
    """Give the mean and the logarithmic power of every channel."""
    flat = x.reshape(len(x), -1)
    means = flat.mean(axis=1)
    return jnp.concatenate([means, 0.5 * jnp.log(((flat - means[:, None]) ** 2).mean(axis=1) + _TINY)])


class FieldInputs(eqx.Module):
    """What networks of fields see, and the sizes of the networks."""

    pixels: FieldStatistics
    channels: int = eqx.field(static=True)
    periodic: bool = eqx.field(static=True)

    def network(self, num_parameters: int, key: Any) -> Guesser:
        """Draw a network."""
        keys = jax.random.split(key)
        field = self.pixels.field
        num_inputs = 2 * field.num_channels + (1 if self.pixels.is_masked else 0)
        body = FieldNetwork.of(field, num_inputs, self.channels, periodic=self.periodic, key=keys[0])
        return Guesser.of(body, _NUM_SUMMARIES, num_parameters, jax.random.key_data(keys[1]))

    def of_rows(self, x: np.ndarray) -> np.ndarray:
        """Give what the networks see of fields (n, ...), on the host in single precision."""

        def of_part(part: np.ndarray) -> Any:
            return _images(self.pixels, np.asarray(self.pixels.prepared(part), np.float32))

        return rows_in_turn(of_part, (x,), self.pixels.rows_at_once)


@register_embedding("field_network")
class LearnedOfField(Learned):
    """The mean guess of several networks of our own, which see pixels and mapped pixels."""

    about: FieldInputs

    @classmethod
    def of(cls, vectors: Any, layout: Layout, num_parameters: int, about: FieldInputs) -> Self:
        """Put trained networks behind the map of pixels that they were trained with."""
        return cls(vectors, layout, about.pixels.x_shape, num_parameters, about)

    @classmethod
    def laid_out(cls, x_shape: tuple[int, ...], settings: Mapping[str, Any], own: Mapping[str, Any]) -> Self:
        """Make one with arrays of the right shapes."""
        del own
        pixels = FieldStatistics.laid_out(x_shape, {"masked": settings["masked"]}, {})
        about = FieldInputs(pixels, settings["channels"], bool(settings["periodic"]))
        num_parameters = settings["num_parameters"]
        # Nothing is made of sizes that may be damaged, before these are seen to fit the numbers that are saved.
        layout = Layout.of(eqx.filter_eval_shape(lambda: about.network(num_parameters, jax.random.key(0))))
        if layout.num_numbers != settings["num_numbers"]:
            raise ValueError("its networks do not have as many numbers as are saved")
        return cls.of(blank_vectors(settings), layout, num_parameters, about)

    @property
    def settings(self) -> dict[str, Any]:
        """The sizes of the networks, and how they end fields."""
        about = self.about
        sizes = {"channels": about.channels, "periodic": int(about.periodic), "masked": int(about.pixels.is_masked)}
        return super().settings | sizes

    def filled(self, x: Any) -> Any:
        """Put 0 where nothing was observed."""
        return self.about.pixels.filled(x)

    def prepared(self, x: Any) -> Any:
        """Standardise every channel."""
        return self.about.pixels.prepared(x)

    def inputs(self, x: Float[Array, " ..."]) -> Float[Array, " ..."]:
        """Give what the networks see of one standardised field."""
        return self.about.pixels.images(x)


@in_single_precision
@eqx.filter_jit
def _images(pixels: FieldStatistics, x: Any) -> Any:
    return jax.vmap(pixels.images)(x)
