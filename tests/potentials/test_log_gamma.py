"""Gamma distributions of powers: the fit against the exact score, and what it does not do for other laws."""

import jax
import numpy as np
import pytest

from fisherscore.fitting.data import Rows
from fisherscore.potentials.base import Frame
from fisherscore.potentials.closed_forms import CLOSED_FORMS
from fisherscore.potentials.condensed import CondensedFitter, PartFitter, PowerFitter
from fisherscore.potentials.log_gamma import LogGamma

SHAPES = np.array([1.0, 1.0, 2.0, 3.0, 4.0, 6.0])
WAVES = np.linspace(-1.0, 1.0, len(SHAPES))


def drawn(num, seed):
    """Draw logarithms of gamma variables whose means move with two parameters; give rows and the exact score."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, (num, 2))
    level = u[:, :1] - u[:, 1:] * WAVES + 0.3 * u[:, :1] * u[:, 1:]
    z = level + np.log(rng.gamma(SHAPES, 1 / SHAPES, (num, len(SHAPES))))
    excess = SHAPES * (np.exp(z - level) - 1)
    slopes = np.stack([1 + 0.3 * u[:, 1:] + 0 * WAVES, -WAVES + 0.3 * u[:, :1]], axis=1)
    return Rows(u, z), np.einsum("nb,npb->np", excess, slopes)


def error(scores, exact):
    return np.mean((scores - exact) ** 2) / np.mean(exact**2)


def test_the_score_of_powers_is_met_and_a_gaussian_of_their_logarithms_does_not():
    rows, _ = drawn(2_000, 1)
    test, exact = drawn(4_000, 2)
    assert error(test.scores(LogGamma.fit(rows.points, rows.x)), exact) < 0.02
    assert error(test.scores(CLOSED_FORMS["location_scale"].fit(rows.points, rows.x)), exact) > 0.03
    assert error(test.scores(CLOSED_FORMS["gaussian"].fit(rows.points, rows.x)), exact) > 0.05


def test_the_numbers_of_modes_are_found():
    rows, _ = drawn(5_000, 3)
    fitted = np.asarray(LogGamma.fit(rows.points, rows.x).shape)
    np.testing.assert_allclose(fitted, SHAPES, rtol=0.12)


def test_powers_far_from_those_of_gaussian_fields_do_not_run_away():
    rng = np.random.default_rng(8)
    rows, exact = drawn(1_000, 9)
    wild = Rows(rows.u, rows.x + 2.0 * rng.standard_t(2.5, size=rows.x.shape))
    scores = wild.scores(LogGamma.fit(wild.points, wild.x))
    assert np.mean(scores**2) < 10 * np.mean(exact**2)
    # They count for less than those of a Gaussian field.
    assert (np.asarray(LogGamma.fit(wild.points, wild.x).shape) < 0.5 * SHAPES).all()


@pytest.mark.parametrize("kind", ["gamma", "condensed", "part"])
def test_numpy_and_jax_agree_with_automatic_differentiation(kind):
    rows, _ = drawn(400, 4)
    few = rows.take(slice(20))
    form = {
        "gamma": PowerFitter(1, 5, (1.0,) * 4),
        "condensed": CondensedFitter(CLOSED_FORMS["location_scale"], tuple(range(6))),
        "part": PartFitter(CLOSED_FORMS["gaussian"], 0, 3),
    }[kind].fit(rows.points, rows.x)
    given = few.evaluate(form, Frame(np.eye(2)))
    gradient = jax.jit(jax.vmap(jax.grad(form.potential)))(few.u, few.x)
    trace = jax.jit(jax.vmap(lambda u, x: jax.numpy.trace(jax.jacfwd(form)(u, x))))(few.u, few.x)
    np.testing.assert_allclose(given.scores, gradient, rtol=2e-3, atol=2e-3 * np.abs(given.scores).max())
    np.testing.assert_allclose(given.traces, trace, rtol=5e-3, atol=5e-3 * np.abs(given.traces).max())
    np.testing.assert_allclose(jax.jit(jax.vmap(form))(few.u, few.x), gradient, rtol=2e-3, atol=1e-3)


def test_condensing_finds_few_numbers_among_many_that_are_noise():
    rng = np.random.default_rng(5)
    rows, _ = drawn(3_000, 6)
    test, exact = drawn(3_000, 7)
    noise = [rng.normal(size=(len(r), 200)) for r in (rows, test)]
    many = Rows(rows.u, np.hstack([rows.x, noise[0]]))
    other = Rows(test.u, np.hstack([test.x, noise[1]]))
    form = CondensedFitter(CLOSED_FORMS["location_scale"], tuple(range(206))).fit(many.points, many.x)
    condensed = error(other.scores(form), exact)
    # The control: summaries by regressions that have seen the rows are trusted too much.
    assert condensed < 0.45
    assert error(other.scores(CLOSED_FORMS["gaussian"].fit(many.points, many.x)), exact) > 0.05
    assert form.matrix.shape == (206, 5)
