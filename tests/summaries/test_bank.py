"""Statistics of fields: shapes, symmetries, the map of pixels, and weights against missing pixels."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr

import fisherscore as fs
from fisherscore.summaries.bank import FieldStatistics
from fisherscore.summaries.field_shape import FieldShape
from fisherscore.summaries.modes import multiplicities, octaves, rings, telling
from fisherscore.summaries.pixel_map import fit_pixel_map
from fisherscore.summaries.weighting import typical_power, weighted

SHAPES = [(128,), (130, 3), (12, 12), (10, 15), (12, 12, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_fields_of_every_shape_give_finite_statistics_on_the_host_and_traced(shape):
    x = 1e6 + np.random.default_rng(1).normal(size=(30, *shape))
    bank = FieldStatistics.fit(x, FieldShape.of(shape), None)
    rows = bank.rows(x)
    assert rows.shape == (30, bank.num_summaries) and np.isfinite(rows).all()
    assert [b.start for b in bank.blocks[1:]] == [b.stop for b in bank.blocks[:-1]]
    shifted = FieldStatistics.fit(x - 1e6, FieldShape.of(shape), None)
    traced = eqx.filter_jit(shifted)(jnp.asarray(x[0] - 1e6, jnp.float32))
    np.testing.assert_allclose(traced, rows[0], rtol=2e-3, atol=2e-3)


def test_what_is_no_field_is_told_from_what_is():
    assert FieldShape.of((500, 2)).num_channels == 2 and FieldShape.of((500, 2)).places == (500,)
    assert FieldShape.of((16, 16)).places == (16, 16) and FieldShape.of((16, 16)).num_channels == 1
    assert FieldShape.of((16, 8, 5)).num_channels == 5
    assert (
        FieldShape.of((16, 16, 40)) is None and FieldShape.of((4, 4, 4, 4)) is None and FieldShape.of((2, 90)) is None
    )


@pytest.mark.parametrize("places", [(64,), (65,), (12, 12), (9, 9), (10, 15)])
def test_rings_hold_every_mode_but_the_mean_once(places):
    ring = rings(places, 48)
    assert ring.num_modes.sum() == pytest.approx(np.prod(places) - 1)
    assert multiplicities(places).sum() == np.prod(places)
    # White noise of unit variance has the power one in each.
    x = np.random.default_rng(2).normal(size=(4_000, *places))
    axes = tuple(range(1, x.ndim))
    power = (np.abs(np.fft.rfftn(x, axes=axes)) ** 2).reshape(len(x), -1) @ ring.weights / np.prod(places)
    np.testing.assert_allclose(power.mean(axis=0), 1.0, atol=5 * np.sqrt(2 / 4_000))
    np.testing.assert_allclose(power.var(axis=0) * ring.num_modes / 2, 1.0, atol=0.2)


def test_wavelets_leave_no_mode_out():
    covered = (octaves((16, 16)) ** 2).sum(axis=0)
    assert covered[0, 0] == 0
    assert covered.ravel()[1:].min() > 0.05


def test_statistics_do_not_change_when_a_periodic_map_is_shifted_but_for_those_of_places():
    x = np.random.default_rng(3).normal(size=(40, 16, 16)) ** 3
    bank = FieldStatistics.fit(x, FieldShape.of((16, 16)), None)
    here, there = bank.rows(x), bank.rows(np.roll(x, (3, 5), axis=(1, 2)))
    for block in bank.blocks:
        same = np.allclose(here[:, block.start : block.stop], there[:, block.start : block.stop], rtol=1e-2, atol=1e-2)
        assert same == block.name.startswith(("power", "wavelets", "moments"))


def test_the_map_of_pixels_undoes_an_exponential_whatever_the_parameters():
    problem = fs.problems.lognormal_field(32)
    x = problem.simulator.draw(problem.proposal.sample(300, seed=1_001), seed=1_002)
    knots, values = fit_pixel_map(x.reshape(300, -1))
    assert (np.diff(knots) > 0).all() and (np.diff(values) > 0).all()
    probed = np.exp(np.linspace(-2.0, 2.0, 41))

    def bent(images):
        slope, level = np.polyfit(np.log(probed), images, 1)
        return np.abs((images - level) / slope - np.log(probed)).max()

    found = bent(np.interp(probed, knots, values))
    assert found < 0.06
    # The control: normal scores of all pixels together, whose variance moves with the parameters.
    pooled = np.quantile(x, ndtr(np.linspace(-3, 3, 61)))
    assert bent(np.interp(probed, pooled, np.linspace(-3, 3, 61))) > 1.5 * found


def test_weighted_maps_are_those_of_the_inverse_covariance():
    side, rng = 8, np.random.default_rng(4)
    mask = np.ones((side, side))
    mask.ravel()[rng.permutation(side**2)[:16]] = 0.0
    each = np.fft.fftfreq(side, 1 / side)
    full = 1.0 / (1.0 + np.hypot(each[:, None], each)) ** 2 + 0.05
    places = np.argwhere(mask > 0)
    lag = tuple(((places[:, None] - places) % side).transpose(2, 0, 1))
    covariance = np.fft.ifft2(full).real[lag]
    x = rng.normal(size=(side, side))
    solved = np.asarray(weighted(jnp.asarray(x), jnp.asarray(full[:, : side // 2 + 1]), jnp.asarray(mask)))
    np.testing.assert_allclose(solved[mask > 0], np.linalg.solve(covariance, x[mask > 0]), rtol=1e-3, atol=1e-3)
    assert (solved[mask == 0] == 0).all()
    # Its power is found from fields with pixels missing.
    modes = np.fft.fft2(rng.normal(size=(3_000, side, side))) * np.sqrt(full)
    fields = np.fft.ifft2(modes).real
    found = typical_power(fields * mask, mask > 0)[0, 1:]
    wanted = full[0, 1 : side // 2 + 1]
    np.testing.assert_allclose(found / found[0], wanted / wanted[0], rtol=0.15)


@pytest.mark.parametrize("shape", [(64,), (12, 12), (10, 40)])
def test_no_statistic_is_the_same_for_every_field_but_for_rounding(shape):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(40, *shape)) * np.exp(rng.normal(size=(40,) + (1,) * len(shape)) / 2)
    rows = FieldStatistics.fit(x, FieldShape.of(shape), None).rows(x)
    assert rows.std(axis=0).min() > 1e-3


def test_only_statistics_of_the_largest_waves_are_left_out():
    told = telling((400,))
    assert (~told.shape).nonzero()[0].tolist() == [0] and (~told.skewness).nonzero()[0].tolist() == [0, 1]
    coarser = np.triu_indices(len(told.shape), 1)
    assert (~told.together[coarser]).sum() == 1 and told.leaning.T[coarser].all()
    told = telling((32, 32))
    assert told.shape.all() and (~told.skewness).nonzero()[0].tolist() == [0, 1]
    assert told.together[np.triu_indices(len(told.shape), 1)].all()
