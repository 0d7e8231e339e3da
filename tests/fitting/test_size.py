"""The size of a weighted sum: S / (S + N) where both are known, and what each of its two sources cannot see."""

import equinox as eqx
import numpy as np
import pytest

from fisherscore.fitting.cross_validation import CrossValidation
from fisherscore.fitting.data import Rows
from fisherscore.fitting.implicit_risk import ImplicitRisk, Terms, edge_weights
from fisherscore.fitting.size import _by_loss, _noise_and_signal, with_right_size

SIGMA, NUM_PARTS, NUM_NOISE = 0.3, 5, 50
SIGNAL = 1 / SIGMA**2
METRIC = np.array([[SIGMA**2]])


class Overfitted(eqx.Module):
    """The score of x₀ ~ N(u, σ²), and a sum of data that have nothing to do with u, times a factor."""

    slopes: np.ndarray
    factor: float

    def __call__(self, u, x):
        return self.factor * ((x[:1] - u) / SIGMA**2 + x[1:] @ self.slopes)


def validated(num, *, noise, factor=1.0, seed=0):
    """Give fits with one part left out in turn, and the best factor of the fit to all rows, of so much noise."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, (num, 1))
    rows = Rows(u, np.concatenate([u + SIGMA * rng.normal(size=u.shape), rng.normal(size=(num, NUM_NOISE))], axis=1))
    slopes = np.sqrt(NUM_PARTS * noise / NUM_NOISE) * rng.normal(size=(NUM_PARTS, NUM_NOISE))
    fits = [Overfitted(np.delete(slopes, k, axis=0).mean(axis=0).astype(np.float32), factor) for k in range(NUM_PARTS)]
    parts = np.array_split(rng.permutation(num), NUM_PARTS)
    points = rows.take(slice(2_000))
    validation = CrossValidation(
        parts=parts,
        points=points,
        fits={"member": fits},
        scores={"member": np.stack([points.scores(f) for f in fits])},
        terms={
            "member": Terms.concatenate([Terms.of(f, rows.take(p), METRIC) for f, p in zip(fits, parts, strict=True)])
        },
        risk=ImplicitRisk(edge_weights(u[np.concatenate(parts)]), METRIC),
    )
    return validation, SIGNAL / (SIGNAL + np.sum(slopes.mean(axis=0) ** 2)) / factor


def by_loss(validation):
    noise, signal = _noise_and_signal(np.ones(1), validation)
    return _by_loss(np.ones(1), validation, noise / signal)


def by_spread(validation):
    noise, signal = _noise_and_signal(np.ones(1), validation)
    return signal / (signal + noise)


def test_both_sources_find_the_best_size_of_the_fit_to_all_rows():
    validation, best = validated(40_000, noise=4.0)
    assert best < 0.8
    size, error = by_loss(validation)
    assert error < 0.01 and abs(size - best) < 3 * error
    assert by_spread(validation) == pytest.approx(best, abs=0.06)
    assert with_right_size(np.array([0.3]), validation)[0] == pytest.approx(best, abs=0.02)


def test_the_size_that_is_best_for_fits_to_fewer_rows_is_too_small():
    """The control: without noise to blame, the loss gives what is best for fits to four fifths of the rows."""
    validation, best = validated(40_000, noise=4.0)
    of_parts, error = _by_loss(np.ones(1), validation, 0.0)
    assert best - of_parts > 4 * error


def test_members_of_the_wrong_size_are_put_right_by_the_loss_which_their_spread_cannot_do():
    validation, best = validated(40_000, noise=4.0, factor=2.0)
    assert by_spread(validation) - best > 0.3
    assert with_right_size(np.ones(1), validation)[0] == pytest.approx(best, rel=0.05)


def test_with_few_rows_the_mean_of_both_is_nearer_than_the_loss_alone():
    found = []
    for seed in range(12):
        validation, best = validated(500, noise=1.0, seed=seed)
        found.append((by_loss(validation)[0] - best, with_right_size(np.ones(1), validation)[0] - best))
    alone, both = np.sqrt(np.mean(np.square(found), axis=0))
    assert both < 0.6 * alone


def test_no_weights_stay_none():
    validation, _ = validated(500, noise=1.0)
    assert not with_right_size(np.zeros(1), validation).any()
