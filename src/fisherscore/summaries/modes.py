"""Fourier modes of maps and series: rings of equal wave number, and wavelets of octaves, as arrays on half a plane.

Half a plane of modes is what a real Fourier transform gives. Modes that it leaves out are the conjugates of others, and
are counted with them.
"""

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

# A ring is one shell of equal wave number, or as wide as this in its logarithm.
_NARROWEST = 0.08


def wave_numbers(places: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Give the components of the wave number of each mode, in periods along the longest side."""
    longest = max(places)
    each = [np.fft.fftfreq(n, 1 / longest) for n in places]
    each[-1] = np.fft.rfftfreq(places[-1], 1 / longest)
    return tuple(np.meshgrid(*each, indexing="ij"))


def multiplicities(places: tuple[int, ...]) -> np.ndarray:
    """Count how many modes of the full plane each of the half plane stands for."""
    counts = np.full((*places[:-1], places[-1] // 2 + 1), 2.0)
    counts[..., 0] = 1.0
    if places[-1] % 2 == 0:
        counts[..., -1] = 1.0
    return counts


@dataclass(frozen=True, eq=False)
class Rings:
    """Means over rings: ``weights`` (modes of the half plane, rings), and the number of real modes in each ring."""

    weights: np.ndarray
    num_modes: np.ndarray


@functools.lru_cache(maxsize=16)
def rings(places: tuple[int, ...], most: int) -> Rings:
    """Sort modes into no more than so many rings; the mean is left out."""
    wave = np.sqrt(sum(k**2 for k in wave_numbers(places))).ravel()
    counts = multiplicities(places).ravel()
    shells, place = np.unique(np.round(wave, 6), return_inverse=True)
    width = _NARROWEST
    while True:
        first = np.zeros(len(shells), int)
        begin, number = shells[1], 0
        for s in range(2, len(shells)):
            if math.log(shells[s] / begin) > width:
                begin, number = shells[s], number + 1
            first[s] = number
        if number < most:
            break
        width *= 1.1
    members = np.zeros((len(wave), number + 1))
    inside = place > 0
    members[np.flatnonzero(inside), first[place[inside]]] = counts[inside]
    total = members.sum(axis=0)
    return Rings((members / total).astype(np.float32), total)


@functools.lru_cache(maxsize=16)
def octaves(places: tuple[int, ...]) -> np.ndarray:
    """Give wavelets (number, half plane): cosines of the logarithm of the wave number, around 1, 2, 4 and so on.

    On maps each octave has two of them, for waves along either axis.
    """
    components = wave_numbers(places)
    wave = np.sqrt(sum(k**2 for k in components))
    highest = max(places) / 2
    safe = np.where(wave > 0, wave, 1.0)
    filters = []
    for octave in range(max(1, int(math.log2(highest)))):
        offset = np.log2(safe / 2.0**octave)
        # The last one keeps all that is smaller.
        last = 2.0 ** (octave + 1) >= highest
        offset = np.where((offset > 0) & last, 0.0, offset)
        radial = np.where((np.abs(offset) < 1) & (wave > 0), np.cos(np.pi / 2 * offset), 0.0)
        if len(places) == 1:
            filters.append(radial)
        else:
            filters += [radial * (k / safe) ** 2 for k in components]
    return np.stack(filters).astype(np.float32)


class Telling(NamedTuple):
    """Which statistics of wavelets differ between fields: of each wavelet, and of each pair (finer, coarser)."""

    power: np.ndarray
    shape: np.ndarray
    skewness: np.ndarray
    together: np.ndarray
    leaning: np.ndarray


@functools.lru_cache(maxsize=16)
def telling(places: tuple[int, ...]) -> Telling:
    """Tell statistics of wavelets apart from numbers that are the same for every field, but for rounding.

    Means of products of wavelets are sums over modes whose wave numbers add up to zero. Where there are no three of
    them, a skewness is zero; where squares of two wavelets share no mode but the mean, they do not go together; and
    a wavelet of one wave is a sine, whose shape is known. On long maps some wavelets along the short side hold no mode
    at all. Sums of waves of amplitude one count all such modes.
    """
    held = octaves(places) > 1e-6
    axes = tuple(range(1, 1 + len(places)))
    waves = np.fft.irfftn(held.astype(float), s=places, axes=axes, norm="forward")
    flat = waves.reshape(len(held), -1)
    triples = (flat**2) @ flat.T / flat.shape[1]
    squares = np.fft.rfftn(waves**2, axes=axes, norm="forward").real.reshape(len(held), -1)[:, 1:] > 0.5
    shared = squares.astype(np.float32) @ squares.T.astype(np.float32)
    num_modes = (held * multiplicities(places)).reshape(len(held), -1).sum(axis=1)
    return Telling(num_modes > 0, num_modes > 2, np.diagonal(triples) > 0.5, shared > 0.5, triples > 0.5)
