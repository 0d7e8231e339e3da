"""Random numbers of numbered records, many records at once: those of record i depend on the seed and on i alone.

They come from NumPy's Philox, a generator that counts: record i has counts of its own. Its numbers are the same on all
machines and in all versions of NumPy.
"""

import numpy as np

# A count gives four words.
_WORDS_A_COUNT = 4
_RECORDS_AT_ONCE = 4_096


def words_of_records(seed: int, purpose: int, indices: np.ndarray, num: int) -> np.ndarray:
    """Draw ``num`` words of 64 random bits for each record, shape (n, num)."""
    key = np.random.SeedSequence(seed, spawn_key=(purpose,)).generate_state(2, np.uint64)
    counts = -(-num // _WORDS_A_COUNT)
    indices = np.asarray(indices, dtype=np.int64)
    words = np.empty((len(indices), num), dtype=np.uint64)
    groups, group_of = np.unique(indices // _RECORDS_AT_ONCE, return_inverse=True)
    for number, group in enumerate(groups):
        rows = np.flatnonzero(group_of == number)
        places = indices[rows] - group * _RECORDS_AT_ONCE
        first = int(group) * _RECORDS_AT_ONCE * counts
        generator = np.random.Philox(key=key, counter=first)
        last = int(places.max()) + 1
        drawn = generator.random_raw(last * counts * _WORDS_A_COUNT).reshape(last, -1)
        words[rows] = drawn[places, :num]
    return words


def uniforms(words: np.ndarray) -> np.ndarray:
    """Turn words into numbers strictly between 0 and 1, in double precision."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
