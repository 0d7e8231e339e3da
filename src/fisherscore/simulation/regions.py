"""Regions with axes of their own: found around draws of a posterior, and drawn from.

A region is a box in the axes of the draws, within upright limits. Where draws come close to a limit, that parameter
keeps its own axis and the others are sheared along it, so that the limit is a face of the box and none of it is lost.
Draws in several clumps get a smaller box each, in which simulations are run; the region is the box around all of them.
Draws that pile up at a face of the region they are known in may go on beyond it, where nobody has looked.
"""

from dataclasses import dataclass

import numpy as np

from .._support.axes import Axes
from .._support.record_random import uniforms

# A box reaches between these quantiles of the draws, and is then this much wider on both sides, in half its width.
_TAIL = 0.002
WIDER = 1 / 3
# Draws are parted in two where the two boxes have less than this of the volume of the one, and enough draws each.
_WORTH_PARTING, _MIN_DRAWS, _MOST_PARTS = 0.5, 60, 8
_NUM_STEPS = 30
# A region made around a posterior cuts it off where so many draws lie in its outermost part: it holds 3.8 σ of a
# normal posterior, which has one in ten thousand draws there.
_OUTERMOST, CUT_OFF = 0.95, 0.01
_FARTHEST, _NUM_BINS = 0.99, 8
# A box of which less than this lies within the limits is made upright, where all of it does.
_MIN_WITHIN = 0.02
_NUM_TRIED = 4_096
# Draws beyond the limits are drawn again, at most so many times; then they are moved to the limits.
_MOST_ATTEMPTS = 2_000
_GOLDEN, _FIRST_MIX, _SECOND_MIX = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True, eq=False)
class Limits:
    """Upright limits of parameters, each of shape (p,)."""

    low: np.ndarray
    high: np.ndarray

    def hold(self, theta: np.ndarray) -> np.ndarray:
        """Say which θ lie within."""
        return np.asarray(((theta >= self.low) & (theta <= self.high)).all(axis=-1))


@dataclass(frozen=True, eq=False)
class Parts:
    """Boxes in which simulations are run, and the share of each."""

    boxes: tuple[Axes, ...]
    shares: tuple[float, ...]

    def drawn(self, words: np.ndarray, region: Axes, limits: Limits) -> np.ndarray:
        """Turn random words (n, p) into draws from the boxes, within the region and the limits."""
        theta = np.empty(words.shape, np.float64)
        waiting, ends = np.arange(len(words)), np.cumsum(self.shares)
        for attempt in range(_MOST_ATTEMPTS):
            own = words[waiting] if attempt == 0 else _mixed(words[waiting], attempt)
            chooser = uniforms(_mixed(np.bitwise_xor.reduce(own, axis=1), 1))
            chosen = np.minimum(np.searchsorted(ends, chooser * ends[-1]), len(self.boxes) - 1)
            v = 2 * uniforms(own) - 1
            for k, box in enumerate(self.boxes):
                rows = chosen == k
                theta[waiting[rows]] = box.outer(v[rows])
            values = theta[waiting]
            waiting = waiting[~(limits.hold(values) & region.holds(values))]
            if not len(waiting):
                break
        return np.clip(theta, limits.low, limits.high)

    def log_density(self, theta: np.ndarray, region: Axes, limits: Limits) -> np.ndarray:
        """Compute the log-density of draws; how much of every box lies within is known to a few per cent."""
        total = np.zeros(theta.shape[:-1])
        for share, box in zip(self.shares, self.boxes, strict=True):
            tried = box.outer(_cube(_NUM_TRIED, len(box.centre)))
            within = max(np.mean(limits.hold(tried) & region.holds(tried)), 1 / _NUM_TRIED)
            log_volume = np.linalg.slogdet(2 * box.factor)[1] + np.log(within)
            total = total + share / sum(self.shares) * np.exp(-log_volume) * box.holds(theta)
        inside = limits.hold(theta) & region.holds(theta)
        with np.errstate(divide="ignore"):
            return np.where(inside, np.log(total), -np.inf)


def region_of(draws: np.ndarray, limits: Limits, wider: float = WIDER) -> tuple[Axes, Parts]:
    """Find the region around draws (n, p), and the boxes in it where they are."""
    region = _box(draws, limits, wider)
    clumps = _parted(draws, limits, wider)
    if len(clumps) == 1:
        return region, Parts((region,), (1.0,))
    boxes = tuple(_box(clump, limits, wider) for clump in clumps)
    # Small clumps are as hard to learn as large ones: each gets the same, but for very rare ones.
    shares = np.maximum([len(clump) / len(draws) for clump in clumps], 0.5 / len(clumps))
    return region, Parts(boxes, tuple((shares / shares.sum()).tolist()))


def clumps_of(draws: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """Part draws (n, p) in clumps: one for each mode, and for each piece of what is curved."""
    return _parted(draws, Limits(low, high), WIDER)


def faces_reached(draws: np.ndarray, region: Axes, limits: Limits, most: float = CUT_OFF) -> list[tuple[int, int]]:
    """List the faces of a region, as axis and sign, at which more than this part of draws (n, p) pile up.

    Faces that lie on the limits are meant: there is nothing beyond.
    """
    v = region.inner(draws)
    reached = [(k, sign) for k in range(v.shape[1]) for sign in (-1, 1) if np.mean(sign * v[:, k] > _OUTERMOST) > most]
    return [face for face in reached if not _is_on_limit(face, region, limits)]


def _is_on_limit(face: tuple[int, int], region: Axes, limits: Limits) -> bool:
    """Say whether a face is one of a parameter's own, and at its limit."""
    axis, sign = face
    for i in np.flatnonzero((region.factor[:, axis] != 0) & (np.count_nonzero(region.factor, axis=1) == 1)):
        end, size = region.centre[i] + sign * region.factor[i, axis], abs(region.factor[i, axis])
        if min(abs(end - limits.low[i]), abs(end - limits.high[i])) < 2e-6 * size:
            return True
    return False


def reaching_beyond(draws: np.ndarray, region: Axes, faces: list[tuple[int, int]]) -> np.ndarray:
    """Add images of draws (n, p) beyond faces of a region: how far a posterior goes on there, its other side says.

    Draws that are most numerous at the face itself may be but the tail of a posterior beyond it: their image reaches at
    least half the region farther.
    """
    v = region.inner(draws)
    for axis, sign in faces:
        own = np.clip(sign * v[:, axis], -1.0, 1.0)
        peak, at_face = _peak(own)
        back = np.maximum(peak - own, 0.0)
        farther = max(1.0, 1 / max(float(np.quantile(back, _FARTHEST)), 1e-9)) if at_face else 1.0
        image = v.copy()
        image[:, axis] = sign * (peak + farther * back)
        v = np.concatenate([v, image])
    return region.outer(v)


def _peak(values: np.ndarray) -> tuple[float, bool]:
    """Return where values in [−1, 1] are most numerous, and whether that is at 1, which then is where."""
    counts, ends = np.histogram(values, _NUM_BINS, (-1.0, 1.0))
    place = int(np.argmax(counts))
    return (1.0, True) if place == _NUM_BINS - 1 else (float(ends[place : place + 2].mean()), False)


def _box(draws: np.ndarray, limits: Limits, wider: float) -> Axes:
    """Find a box in axes of the draws' own, or an upright one where too little of that would lie within the limits."""
    box = _sheared_box(draws, limits, wider)
    if np.mean(limits.hold(box.outer(_cube(_NUM_TRIED, draws.shape[1])))) >= _MIN_WITHIN:
        return box
    low, high = (np.clip(end, limits.low, limits.high) for end in _widened(draws, wider))
    return _boxed(np.eye(draws.shape[1]), low, high, limits)


def _sheared_box(draws: np.ndarray, limits: Limits, wider: float) -> Axes:
    low, high = _widened(draws, wider)
    held = (low <= limits.low) | (high >= limits.high)
    size = draws.std(axis=0) + 1e-12 * (limits.high - limits.low)
    z = (draws - draws.mean(axis=0)) / size
    p = draws.shape[1]
    turn = np.eye(p)
    free = np.flatnonzero(~held)
    if len(free):
        fixed = np.flatnonzero(held)
        slope = np.linalg.lstsq(z[:, fixed], z[:, free], rcond=None)[0] if len(fixed) else np.zeros((0, len(free)))
        rest = z[:, free] - z[:, fixed] @ slope
        _, vectors = np.linalg.eigh(np.cov(rest, rowvar=False).reshape(len(free), -1))
        # Signs of eigenvectors are a matter of taste of the library: the largest component is positive.
        vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(free))])
        turn[np.ix_(free, free)] = vectors
        turn[np.ix_(free, fixed)] = slope.T
    matrix = size[:, None] * turn / np.where(held, size, 1.0)[None, :]
    along = np.linalg.solve(matrix, draws.T).T
    low, high = _widened(along, wider)
    low[held], high[held] = np.maximum(low, limits.low)[held], np.minimum(high, limits.high)[held]
    return _boxed(matrix, low, high, limits)


def _boxed(matrix: np.ndarray, low: np.ndarray, high: np.ndarray, limits: Limits) -> Axes:
    """Return the box between two ends along the columns of a matrix, no thinner than double precision can bear."""
    least = 1e-9 * (limits.high - limits.low).min() / np.abs(matrix).max(axis=0)
    return Axes(matrix @ ((low + high) / 2), matrix * (np.maximum(high - low, least) / 2))


def _widened(rows: np.ndarray, wider: float) -> tuple[np.ndarray, np.ndarray]:
    """Return ends some way beyond the outermost quantiles."""
    low, high = np.quantile(rows, [_TAIL, 1 - _TAIL], axis=0)
    more = wider * (high - low) / 2
    return low - more, high + more


def _parted(draws: np.ndarray, limits: Limits, wider: float) -> list[np.ndarray]:
    """Part draws in clumps, in two again and again, as long as the boxes around them get much smaller."""
    waiting: list[np.ndarray] = [draws]
    done: list[np.ndarray] = []
    while waiting:
        clump = waiting.pop()
        halves: list[np.ndarray] = []
        if len(waiting) + len(done) + 2 <= _MOST_PARTS:
            halves = min(_halvings(clump), key=lambda h: _log_sum(h, limits, wider), default=[])
        if halves and _log_sum(halves, limits, wider) < _log_volume(clump, limits, wider) + np.log(_WORTH_PARTING):
            waiting += halves
        else:
            done.append(clump)
    return done


def _log_sum(clumps: list[np.ndarray], limits: Limits, wider: float) -> float:
    return float(np.logaddexp.reduce([_log_volume(clump, limits, wider) for clump in clumps]))


def _log_volume(draws: np.ndarray, limits: Limits, wider: float) -> float:
    return float(np.linalg.slogdet(_box(draws, limits, wider).factor)[1])


def _halvings(draws: np.ndarray) -> list[list[np.ndarray]]:
    """Part draws in two around two means, begun along every axis of the parameters and of the draws."""
    z = (draws - draws.mean(axis=0)) / (draws.std(axis=0) + 1e-300)
    _, vectors = np.linalg.eigh(np.cov(z, rowvar=False).reshape(z.shape[1], -1))
    found: dict[bytes, list[np.ndarray]] = {}
    for column in np.concatenate([z, z @ vectors], axis=1).T:
        first = _nearer_to_one(z, column > 0)
        halves = [draws[first], draws[~first]]
        if min(map(len, halves)) >= _MIN_DRAWS:
            found[np.packbits(first).tobytes()] = halves
    return list(found.values())


def _nearer_to_one(z: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Say which points are nearer to the first of two means than to the second, from a first guess on."""
    for _ in range(_NUM_STEPS):
        if begin.all() or not begin.any():
            break
        centres = z[begin].mean(axis=0), z[~begin].mean(axis=0)
        nearer = np.sum((z - centres[0]) ** 2, axis=1) < np.sum((z - centres[1]) ** 2, axis=1)
        if (nearer == begin).all():
            break
        begin = nearer
    return begin


def _cube(num: int, dimension: int) -> np.ndarray:
    """Return the same draws from [−1, 1]^p always."""
    return np.random.default_rng(0).uniform(-1, 1, (num, dimension))


def _mixed(words: np.ndarray, number: int) -> np.ndarray:
    """Make other random words of random words: the finalizer of SplitMix64 (Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        words = words + np.uint64(number * _GOLDEN % 2**64)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(_FIRST_MIX)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(_SECOND_MIX)
        return words ^ (words >> np.uint64(31))
