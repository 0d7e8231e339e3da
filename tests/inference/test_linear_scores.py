"""Scores linear in data and products, against exact matrices, with what was learned of the same draws as control."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.inference import forecasting
from fisherscore.inference import linear_scores as module
from fisherscore.inference.linear_scores import _cross_fitted, _Sums, linear_scores

STEPS = 0.4 * np.eye(2)


def drawn(num, size, seed, slopes):
    """Draw Gaussian data with unit covariance at θ₀ and beside it, as the groups of a forecast."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(1, num, size))
    ends = [
        np.stack([noise - moved, noise + moved])
        for noise, moved in zip(rng.normal(size=(2, num, size)), 0.4 * slopes, strict=True)
    ]
    return [centre, *ends]


def information(scores):
    """Return D² / C of the first component along the first step."""
    slope = (scores[1][1, :, 0] - scores[1][0, :, 0]).mean() / (2 * STEPS[0, 0])
    return slope**2 / np.mean([np.var(point[:, 0]) for group in scores for point in group])


def test_no_draw_is_summarised_by_what_it_taught():
    """Pure noise, unpaired: what is learned of the same draws claims information, and nothing is there."""
    claimed, control = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        groups = [rng.normal(size=(1, 100, 20)), *rng.normal(size=(2, 2, 100, 20))]
        centre, weights = _Sums.of(groups).linear_score(STEPS)
        control.append(information([(group - centre) @ weights for group in groups]))
        claimed.append(information(_cross_fitted(groups, STEPS)))
    # The square of the noise of a slope, twice: what ``_Point.bound`` takes off.
    noise = 2 / (2 * STEPS[0, 0] ** 2 * 100)
    assert noise / 2 < np.mean(claimed) < 1.5 * noise and np.mean(control) > 5 * noise


def test_where_pairs_cancel_the_linear_score_is_the_best_there_is():
    slopes = np.random.default_rng(0).normal(size=(2, 6))
    exact = np.linalg.norm(slopes[0]) ** 2
    scores = _cross_fitted(drawn(2_000, 6, 1, slopes), STEPS)
    assert information(scores) == pytest.approx(exact, rel=0.05)
    wrong = [group[..., :1] for group in drawn(2_000, 6, 1, slopes)]  # the control: one datum alone
    assert information(wrong) < 0.7 * exact


def test_there_are_draws_enough_for_every_feature():
    def number(size, num):
        return len(linear_scores(drawn(num, size, 0, np.ones((2, size))), STEPS))

    assert [number(3, 100), number(10, 100), number(100, 100), number(0, 100)] == [2, 1, 0, 0]
    assert number(module._MOST_FEATURES + 1, 5_000) == 0


def test_what_never_varies_or_is_no_number_is_left_out():
    slopes = np.ones((2, 3))
    groups = drawn(200, 3, 0, slopes)
    more = [np.concatenate([group, np.full((*group.shape[:2], 1), 7.0)], axis=2) for group in groups]
    broken = [np.concatenate([group, np.full((*group.shape[:2], 1), np.nan)], axis=2) for group in more]
    for plain, other in zip(linear_scores(groups, STEPS), linear_scores(broken, STEPS), strict=True):
        for a, b in zip(plain, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_bound_sees_information_in_a_covariance_that_the_model_misses():
    """Data of laws N(0, e^{2a}) and N(0, e^{2b}) have F = 2; a score of noise alone shows none of it."""
    noise = fs.FunctionScore(
        fs.uniform(a=(-2.0, 2.0), b=(-2.0, 2.0)),
        (2,),
        score=lambda t, x: jnp.sin(1e3 * x + t) * jnp.ones(2, jnp.float32),
    )
    simulator = fs.from_jax(lambda key, theta: jnp.exp(theta) * jax.random.normal(key, (2,)))
    with pytest.warns(fs.FisherScoreWarning):
        forecast = fs.forecast(noise, [0.0, 0.0], simulator, num_simulations=20_000)
    np.testing.assert_array_less(np.abs(forecast.sigma_bound - np.sqrt(0.5)), 4 * forecast.bound.sigma_error)
    assert (np.abs(np.diagonal(forecast.fisher_slope)) < 0.5).all()  # the control: the model's own slope has nothing


def test_linear_scores_stay_out_where_their_noise_is_not_small(monkeypatch):
    """Six parameters, and noise that has nothing in common at both ends of a step."""
    p = 6
    box = fs.uniform({f"t{i}": (-5.0, 5.0) for i in range(p)})
    model = fs.FunctionScore(box, (p,), score=lambda t, x: (x - t) + 0.5 * (x - t) ** 3)

    def bound(paired, num):
        def draw(key, theta):
            own = key if paired else jax.random.fold_in(key, jnp.int32(1e4 * theta.sum()))
            return theta + jax.random.normal(own, (p,))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fs.FisherScoreWarning)
            return fs.forecast(model, np.zeros(p), fs.from_jax(draw), num_simulations=13 * num).fisher_bound

    used = [bound(True, 100), bound(False, 100)]
    monkeypatch.setattr(forecasting, "linear_scores", lambda groups, steps: [])
    alone = [bound(True, 100), bound(False, 100)]
    np.testing.assert_allclose(used[1], alone[1], rtol=1e-12)
    assert np.abs(used[0] - alone[0]).max() > 1e-4  # the control: where pairs cancel they take part


def test_a_bound_claims_no_noise_of_many_data():
    """Forty data that say nothing beside two that say all, without pairs: on average the bound is the exact matrix."""

    def draw(key, theta):
        own = jax.random.fold_in(key, jnp.int32(1e4 * theta.sum()))
        return jnp.concatenate([theta, jnp.zeros(40)]) + jax.random.normal(own, (42,))

    model = fs.FunctionScore(fs.uniform(a=(-5.0, 5.0), b=(-5.0, 5.0)), (42,), score=lambda t, x: x[:2] - t)
    simulator = fs.from_jax(draw)
    found = [fs.forecast(model, [0.0, 0.0], simulator, num_simulations=5_000, seed=s).fisher_bound for s in range(30)]
    claimed = np.trace(np.array(found), axis1=1, axis2=2) / 2
    assert claimed.mean() < 1 + 2 * claimed.std() / np.sqrt(30)
