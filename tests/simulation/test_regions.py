"""Regions with axes of their own: found around draws, drawn from, described, and where the proposal ends."""

import json

import numpy as np
import pytest

import fisherscore as fs
from fisherscore._support.axes import Axes
from fisherscore.simulation.descriptions import describe_proposal, rebuild_proposal, stored_proposal

COVARIANCE = np.array([[0.01, 0.0098, 0.0], [0.0098, 0.01, 0.0], [0.0, 0.0, 4.0]])
LIMITS = fs.uniform(a=(-3.0, 3.0), b=(-3.0, 3.0), c=(-30.0, 30.0))


def normal_draws(num=4_000, mean=(0.0, 0.0, 0.0)):
    return np.random.default_rng(1).multivariate_normal(np.asarray(mean), COVARIANCE, num)


def test_a_region_holds_its_draws_and_little_else():
    draws = normal_draws()
    region = LIMITS.around(draws)
    assert region.inside(draws).mean() > 0.995
    # 3.8 σ to either side, in each of three axes: an upright box is seven times larger.
    volume = np.prod(2 * np.sqrt(np.linalg.eigvalsh(COVARIANCE)) * 2.88 * 4 / 3)
    assert np.isclose(abs(np.linalg.det(2 * region.axes.factor)), volume, rtol=0.15)


def test_record_i_depends_on_the_seed_and_on_i_alone():
    region = LIMITS.around(normal_draws())
    many, few = region.sample(500, seed=3), region.sample(20, seed=3)
    assert np.array_equal(many[:20], few)
    assert region.inside(many).all()
    assert not np.array_equal(region.sample(20, seed=4), few)


def test_draws_are_uniform_in_the_region():
    region = LIMITS.around(normal_draws())
    v = region.axes.inner(region.sample(20_000))
    assert np.abs(v.mean(axis=0)).max() < 4 * np.sqrt(1 / 3 / 20_000)
    assert np.abs(np.cov(v.T) - np.eye(3) / 3).max() < 0.01


def test_the_end_of_the_proposal_is_a_face_of_the_region():
    draws = normal_draws(mean=(2.95, 0.0, 0.0))
    draws = draws[draws[:, 0] < 3.0]
    region = LIMITS.around(draws)
    points = region.sample(20_000)
    assert points[:, 0].max() <= 3.0
    # As many near the end as anywhere: it is neither avoided nor clipped to.
    strip = (3.0 - region.low[0]) / 20
    assert np.isclose(np.mean(points[:, 0] > 3.0 - strip), 1 / 20, atol=0.01)
    assert not np.any(points[:, 0] == 3.0)


def test_several_modes_get_a_box_each():
    draws = np.concatenate([normal_draws(mean=(-2.0, 0.0, 0.0)), normal_draws(mean=(2.0, 0.0, 0.0))])
    region = LIMITS.around(draws)
    assert len(region.parts.boxes) == 2
    points = region.sample(4_000)
    assert np.isclose(np.mean(points[:, 0] > 0), 0.5, atol=0.05)
    assert np.mean(np.abs(points[:, 0]) < 1.0) == 0.0
    assert region.inside([0.0, 0.0, 0.0])  # a score is learned across
    assert len(region.in_one_part().parts.boxes) == 1


def test_the_density_is_that_of_the_draws():
    draws = np.concatenate([normal_draws(mean=(-2.0, 0.0, 0.0)), normal_draws(400, mean=(2.0, 0.0, 0.0))])
    region = LIMITS.around(draws)
    upright = np.random.default_rng(2).uniform(region.low, region.high, (400_000, 3))
    integral = np.exp(region.log_prob(upright)).mean() * np.prod(region.high - region.low)
    assert np.isclose(integral, 1.0, atol=0.1)
    assert region.log_prob([0.0, 0.0, 0.0]) == -np.inf


def test_a_region_is_described_and_made_anew():
    region = LIMITS.around(np.concatenate([normal_draws(), normal_draws(mean=(2.0, 2.0, 0.0))]))
    description = json.loads(json.dumps(describe_proposal(region)))
    again = rebuild_proposal(description)
    assert np.array_equal(again.sample(50, seed=7), region.sample(50, seed=7))
    assert describe_proposal(again) == description
    with pytest.raises(fs.ArgumentError, match="the one the simulations were drawn from"):
        stored_proposal(description, LIMITS.around(normal_draws(mean=(0.1, 0.0, 0.0))))
    flat = [[0.0] * 3] * 3
    with pytest.raises(fs.ArgumentError, match="damaged"):
        rebuild_proposal(description | {"axes": {"centre": [0.0] * 3, "factor": flat}})


def test_a_campaign_in_a_region_is_gone_on_with(tmp_path):
    region = LIMITS.around(normal_draws())
    simulator = fs.from_python(lambda theta, rng: theta + rng.standard_normal(3))
    first = fs.simulate(simulator, region, 30, out=tmp_path)
    more = fs.simulate(simulator, region, 50, out=tmp_path)
    assert np.array_equal(more.theta[:30], first.theta)
    opened = fs.open_campaign(tmp_path)
    assert np.allclose(opened.proposal.axes.factor, region.axes.factor)
    with pytest.raises(fs.CampaignError):
        fs.simulate(simulator, LIMITS, 60, out=tmp_path)


def test_what_no_region_can_be_made_of_is_refused():
    with pytest.raises(fs.ArgumentError, match="posterior: expected at least"):
        LIMITS.around(normal_draws(5))
    with pytest.raises(fs.ArgumentError, match="wider"):
        LIMITS.around(normal_draws(), wider=-1.0)
    with pytest.raises(fs.ArgumentError, match="proposal: expected an upright range"):
        fs.infer(fs.from_python(lambda theta, rng: theta), [0.0] * 3, LIMITS.around(normal_draws()), 100)


def test_axes_lead_there_and_back():
    rng = np.random.default_rng(0)
    axes = Axes(np.array([2.459e6, 1e-20]), np.array([[1e-2, 5e-3], [0.0, 1e-24]]))
    v = rng.uniform(-1, 1, (50, 2))
    assert np.allclose(axes.inner(axes.outer(v)), v, atol=1e-3)
    assert np.allclose(axes.moved(axes.centre, np.array([1e-2, 1e-24])).centre, 0.0)
