"""The sampler's own kernel against densities with known moments, and controls in which it is broken on purpose."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS
from scipy.stats import expon, norm
from scipy.stats import t as student_t

import fisherscore as fs
from fisherscore.inference import nuts, nuts_kernel
from fisherscore.inference.adaptation import schedule
from fisherscore.inference.calibration import uniformity
from fisherscore.inference.convergence import convergence
from fisherscore.inference.nuts import sample_lanes
from fisherscore.inference.target import Lanes, Target

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def lanes_of(log_density, p, rows, prior=None):
    """Lanes whose posterior has the given density: under a standard normal prior, whose own density is taken out."""
    region = fs.uniform({f"a{i}": (-50.0, 50.0) for i in range(p)})
    likelihood = log_density if prior else lambda t, x: log_density(t, x) + 0.5 * t @ t
    model = fs.FunctionScore(region, np.shape(rows)[1:], log_likelihood=likelihood)
    return Lanes.of(Target.of(model, prior or [dist.Normal(0.0, 1.0)] * p), np.asarray(rows))


def drawn(log_density, p, *, num_lanes=16, num_samples=500, num_warmup=500, seed=0, prior=None):
    lanes = lanes_of(log_density, p, np.zeros((num_lanes, 1)), prior)
    return sample_lanes(lanes, seed, num_warmup=num_warmup, num_samples=num_samples)


def off(values, expected_mean):
    """How many standard errors the mean of values (draw, lane) is off, by their effective number."""
    chains = np.swapaxes(values, 0, 1)[..., None]
    effective = convergence(chains)[1][0]
    return abs(values.mean() - expected_mean) / (values.std() / np.sqrt(effective))


def worst(theta, mean, covariance, quantile=norm.ppf):
    """The worst deviation, in standard errors, of means, variances, covariances and quantiles of whitened draws."""
    white = np.linalg.solve(np.linalg.cholesky(covariance), (theta - mean).reshape(-1, len(mean)).T).T
    white = white.reshape(theta.shape)
    deviations = [off(white[..., i], 0.0) for i in range(len(mean))]
    deviations += [off(white[..., i] ** 2, 1.0) for i in range(len(mean))]
    deviations += [off(white[..., i] * white[..., i - 1], 0.0) for i in range(1, len(mean))]
    deviations += [off((white[..., 0] < quantile(q)).astype(float), q) for q in LEVELS]
    return max(deviations)


def correlated(p, seed=1):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(p, p)) / np.sqrt(p) + 0.3 * np.eye(p)
    scale = 10 ** rng.uniform(-1.5, 0.5, p)
    return scale[:, None] * (root @ root.T + 0.05 * np.eye(p)) * scale


@pytest.mark.parametrize("p", [2, 10, 30])
def test_correlated_gaussians(p):
    covariance, mean = correlated(p), np.linspace(-1, 1, p)
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    draws = drawn(lambda t, x: -0.5 * (t - mean) @ precision @ (t - mean), p, num_samples=600)
    assert not draws.divergent.any()
    assert worst(draws.theta, mean, covariance) < 4.5
    chains = draws.theta.swapaxes(0, 1)
    assert convergence(chains)[0].max() < 1.02 and convergence(chains)[1].min() > 3000
    # The control: the same draws against a covariance that is off by a fifth.
    assert worst(draws.theta, mean, 1.2 * covariance) > 4.5


def test_a_banana():
    draws = drawn(lambda t, x: -0.5 * t[0] ** 2 - 2.0 * (t[1] - t[0] ** 2) ** 2, 2, num_samples=1000).theta
    assert off(draws[..., 0], 0.0) < 4 and off(draws[..., 0] ** 2, 1.0) < 4
    assert off(draws[..., 1], 1.0) < 4 and off((draws[..., 1] - 1.0) ** 2, 2.25) < 4


def test_a_funnel():
    def log_density(t, x):
        return -0.5 * t[0] ** 2 - 0.5 * t[1] ** 2 * jnp.exp(-t[0]) - 0.5 * t[0]

    draws = drawn(log_density, 2, num_samples=1000).theta
    assert off(draws[..., 0], 0.0) < 4 and off(draws[..., 0] ** 2, 1.0) < 4
    for q in LEVELS:
        assert off((draws[..., 1] * np.exp(-draws[..., 0] / 2) < norm.ppf(q)).astype(float), q) < 4


def test_heavy_tails():
    draws = drawn(lambda t, x: -3.0 * jnp.log1p(t**2 / 5).sum(), 2, num_samples=1000).theta
    for q in LEVELS:
        assert off((draws[..., 1] < student_t.ppf(q, 5)).astype(float), q) < 4


def test_a_posterior_at_the_hard_edge_of_its_prior():
    draws = drawn(lambda t, x: -5.0 * t.sum(), 2, prior=[dist.Uniform(0.0, 20.0)] * 2, num_samples=1000).theta
    assert draws.min() > 0
    for q in LEVELS:
        assert off((draws[..., 0] < expon.ppf(q, scale=0.2)).astype(float), q) < 4


def ranks_of_many(seed=0, num=512):
    """Ranks of the truth among draws from conjugate posteriors, one lane each: x ~ N(θ, 0.5²), θ ~ N(0, 1)."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(num, 2))
    x = theta + 0.5 * rng.normal(size=(num, 2))
    region = fs.uniform(a=(-9, 9), b=(-9, 9))
    model = fs.FunctionScore(region, (2,), log_likelihood=lambda t, x: -2.0 * ((x - t) ** 2).sum())
    lanes = Lanes.of(Target.of(model, [dist.Normal(0.0, 1.0)] * 2), x)
    draws = sample_lanes(lanes, seed, num_warmup=200, num_samples=240).theta[::4]
    return ((draws < theta).sum(axis=0) + 0.5) / (len(draws) + 1)


def test_ranks_over_many_lanes_are_uniform():
    ranks = ranks_of_many()
    assert min(uniformity(column) for column in ranks.T) > 1e-3


def skewed(t, x):
    return -2.0 * t @ t + t[0] ** 3 / (1 + t @ t)


@pytest.mark.parametrize("fault", ["newest leaf", "no weights"])
def test_a_kernel_with_a_fault_is_found_out(monkeypatch, fault):
    right = nuts_kernel._leaf

    def wrong(lane, here, edge, random):
        leaf, subtrees = right(lane, here, edge, random)
        if fault == "newest leaf":  # always the last point of a half
            return leaf._replace(taken=jnp.ones_like(leaf.taken)), subtrees
        # points of a half with no regard to their energies
        return leaf._replace(taken=random.uniform[0] * (lane.num_leaves + 1) < 1), subtrees

    monkeypatch.setattr(nuts_kernel, "_leaf", wrong)
    monkeypatch.setattr(nuts, "_MOST_STEPS", 512)  # another length is traced anew
    broken = drawn(skewed, 2, num_samples=1500).theta.reshape(-1, 2)
    monkeypatch.undo()
    one, two = (drawn(skewed, 2, num_samples=1500, seed=s).theta.reshape(-1, 2) for s in (5, 6))
    variance = one.var(axis=0)
    assert np.abs(two.var(axis=0) / variance - 1).max() < 0.03 < np.abs(broken.var(axis=0) / variance - 1).max()


def test_a_lane_does_not_depend_on_other_lanes():
    def log_density(t, x):
        return -0.5 * ((t - x) ** 2 * jnp.array([1.0, 30.0])).sum()

    rows = np.random.default_rng(0).normal(size=(4, 2))
    others = np.concatenate([rows[:1], 5 * rows[1:]])
    lanes = lanes_of(log_density, 2, rows)
    runs = [
        sample_lanes(Lanes(lanes.target, np.float32(x), lanes.anchors), 3, num_warmup=100, num_samples=100).theta
        for x in (rows, rows, others)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0][:, 0], runs[2][:, 0])
    assert (runs[0][:, 1] != runs[2][:, 1]).any()


def test_as_many_effective_draws_per_evaluation_as_numpyro():
    covariance = correlated(5)
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)

    def potential(t):
        return 0.5 * t @ precision @ t

    ours = drawn(lambda t, x: -potential(t), 5, num_lanes=4, num_samples=1000)
    sampler = MCMC(
        NUTS(potential_fn=potential, dense_mass=True),
        num_warmup=500,
        num_samples=1000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    steps = []
    for run in (sampler.warmup, sampler.run):
        options = {"collect_warmup": True} if run == sampler.warmup else {}
        run(jax.random.key(0), init_params=jnp.zeros((4, 5)), extra_fields=("num_steps",), **options)
        steps.append(np.sum(sampler.get_extra_fields()["num_steps"]) / 4)
    theirs = np.asarray(sampler.get_samples(group_by_chain=True))
    ratio = convergence(ours.theta.swapaxes(0, 1))[1].min() / convergence(theirs)[1].min()
    assert ratio * sum(steps) / ours.num_evaluations > 0.9


def test_warm_up_windows_double_and_the_last_takes_the_rest():
    ends = schedule(1000).ends
    assert ends[:7].tolist() == [25, 45, 85, 165, 325, 950, np.iinfo(np.int32).max]
    assert schedule(10).ends.min() > 10  # too short for a mass matrix
    assert schedule(60).ends[0] == 54


def test_lanes_are_rounded_up_to_few_sizes():
    sizes = [nuts._round_size(num) for num in (1, 2, 3, 4, 5, 6, 7, 40, 50, 1000, 4000)]
    assert sizes == [1, 2, 4, 4, 6, 6, 8, 48, 64, 1024, 4096]


def test_other_scales_make_no_difference():
    """Parameters in units a billion times smaller are sampled as well: scales come from the prior."""
    tiny = dist.Normal(0.0, 1e-9)
    draws = drawn(lambda t, x: -0.5 * (t[0] / 3e-10 - 1) ** 2, 1, prior=[tiny], num_lanes=4).theta
    variance = 1 / (1 / 1e-18 + 1 / 9e-20)
    assert off(draws[..., 0], variance * 1 / 3e-10) < 4
    np.testing.assert_allclose(draws.std(), np.sqrt(variance), rtol=0.1)
