"""Numbers: narrow ranges far from zero, seeds that differ in their upper bits, tiny and huge data, any flag of JAX."""

import os
import subprocess
import sys
import warnings

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import fisherscore as fs

FAR, WIDTH = 2459000.0, 0.1
RNG = np.random.default_rng(0)
U = RNG.uniform(0.0, WIDTH, 400)
X = RNG.normal(20 * U[:, None] * np.ones(5), 1.0)
OBSERVED = np.array([1.2, 1.0, 1.1, 0.9, 0.8])
RECIPE = fs.ClosedFormRecipe("gaussian")


def fitted(offset, x=X):
    return fs.fit(fs.from_table(offset + U[:, None], x, fs.uniform(t=(offset, offset + WIDTH))), recipe=RECIPE)


def test_seeds_that_differ_by_2_to_the_32_are_two_seeds():
    noisy = fs.from_jax(lambda key, theta: theta + jax.random.normal(key, theta.shape))
    one, other = (fs.simulate(noisy, fs.uniform(a=(0.0, 1.0)), 20, seed=seed) for seed in (0, 2**32))
    assert not np.isin(one.theta, other.theta).any() and not np.isin(one.x, other.x).any()


def test_a_fit_in_a_narrow_range_far_from_zero_is_that_of_the_range_moved():
    near, far = fitted(0.0), fitted(FAR, X + 1e8)
    x = OBSERVED + 1e8
    at = np.linspace(0.01, 0.09, 5)[:, None]
    np.testing.assert_allclose(far.score(FAR + at, x), near.score(at, OBSERVED), rtol=1e-3)
    np.testing.assert_allclose(far.log_likelihood(FAR + at, x), near.log_likelihood(at, OBSERVED), rtol=1e-3, atol=1e-4)
    best, known = fs.maximum_likelihood(far, x), fs.maximum_likelihood(near, OBSERVED)
    assert best.converged and best.theta - FAR == pytest.approx(known.theta, abs=1e-4)
    assert best.sigma == pytest.approx(known.sigma, rel=1e-3)
    assert fs.compress(far, [FAR + 0.05])(x) - FAR == pytest.approx(fs.compress(near, [0.05])(OBSERVED), abs=1e-4)
    # The control: one step of single precision is larger than the range.
    assert np.spacing(np.float32(FAR)) > WIDTH


def test_a_posterior_in_a_narrow_range_far_from_zero_is_that_of_the_range_moved():
    near, far = fitted(0.0), fitted(FAR)
    short = {"num_samples": 250, "num_warmup": 200, "num_chains": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.FisherScoreWarning)  # few draws
        for prior in (None, {"t": dist.Normal(0.05, 0.01)}):
            moved = None if prior is None else {"t": dist.Normal(FAR + 0.05, 0.01)}
            one = fs.sample(near, OBSERVED, prior=prior, **short)
            other = fs.sample(far, OBSERVED, prior=moved, **short)
            assert other.mean - FAR == pytest.approx(one.mean, abs=0.3 * one.sigma[0])
            assert other.sigma == pytest.approx(one.sigma, rel=0.3)
            assert len(np.unique(other.samples)) > 300
    assert fs.sample(far, OBSERVED, **short).support[0] == pytest.approx((FAR, FAR + WIDTH), abs=1e-8)
    with pytest.raises(fs.ArgumentError, match=r"prior: expected one of Uniform.*got Gamma.*Measure t from a point"):
        fs.sample(far, OBSERVED, prior={"t": dist.Gamma(2.0, 1.0)})
    with pytest.raises(fs.ArgumentError, match="prior: no region other than a box"):
        fs.sample(far, OBSERVED, prior=fs.restricted_prior(None, "t <= 2459000.05"))


def test_scores_written_down_by_hand_refuse_what_they_cannot_bear():
    with pytest.raises(fs.ArgumentError, match="proposal: this score is computed in single precision"):
        fs.FunctionScore(fs.uniform(t=(FAR, FAR + WIDTH)), (1,), score=lambda theta, x: x - theta)


@pytest.mark.parametrize("size", [1e-42, 1e-30, 1e39, 1e100])
def test_tiny_and_huge_data_are_data(size):
    np.testing.assert_allclose(fitted(0.0, size * X).score([0.05], size * X), fitted(0.0).score([0.05], X), rtol=1e-3)
    best = fs.maximum_likelihood(fitted(0.0, size * X), size * OBSERVED)
    assert best.theta == pytest.approx(fs.maximum_likelihood(fitted(0.0), OBSERVED).theta, abs=1e-5)


@pytest.mark.parametrize("width", [1e-28, 1e28])
def test_tiny_and_huge_parameters_are_parameters(width):
    ratio = width / WIDTH
    sims = fs.from_table(ratio * U[:, None], X, fs.uniform(t=(0.0, width)))
    model, known = fs.fit(sims, recipe=RECIPE), fitted(0.0)
    np.testing.assert_allclose(
        np.asarray(model.score([width / 2], X), float) * ratio, known.score([WIDTH / 2], X), rtol=1e-3
    )
    best, expected = fs.maximum_likelihood(model, OBSERVED), fs.maximum_likelihood(known, OBSERVED)
    assert best.converged and best.theta / ratio == pytest.approx(expected.theta, abs=1e-5)


# What a script prints must not depend on how JAX is set; one process for each setting.
SCRIPT = """
import sys, warnings, jax
name, value = sys.argv[1:3]
if name != "none":
    jax.config.update(name, {"True": True, "False": False}.get(value, value))
import numpy as np, fisherscore as fs
warnings.simplefilter("ignore")
problem = fs.problems.poisson_counts()
sims = fs.simulate(problem.simulator, problem.proposal, 300, seed=1)
model = fs.fit(sims, recipe=fs.ClosedFormRecipe("gaussian"))
training = fs.Training(num_epochs=2)
network = fs.fit(sims, recipe=fs.NetworkRecipe(training=training, num_steps=None), seed=1)
model.save(sys.argv[3])
model = fs.load(sys.argv[3])
x = sims.x[0]
short = {"num_samples": 20, "num_warmup": 20, "num_chains": 2}
results = [
    sims.theta, sims.x, model.score(sims.theta[:5], x), network.score(sims.theta[:5], x),
    fs.maximum_likelihood(model, x).theta, fs.sample(model, x, **short).samples,
    fs.sample(model, x, method="smc", num_samples=20, num_chains=2).samples,
    fs.forecast(model, [1.0, 0.0], problem.simulator, num_simulations=500).slope.matrix,
    fs.compress(model, [1.0, 0.0])(sims.x[:4]), problem.exact_model().score(sims.theta[:5], x),
    [c.value for c in fs.diagnose(model, fs.simulate(problem.simulator, problem.proposal, 120, seed=2),
                                  num_posteriors=0).checks],
]
np.save(sys.argv[4], np.concatenate([np.ravel(np.asarray(r, float)) for r in results]))
"""
SETTINGS = [
    ("jax_enable_x64", "True"),
    ("jax_numpy_dtype_promotion", "strict"),
    ("jax_numpy_rank_promotion", "raise"),
    ("jax_default_matmul_precision", "bfloat16"),
    ("jax_debug_nans", "True"),
    ("jax_disable_jit", "True"),
    ("jax_default_prng_impl", "rbg"),
    ("jax_threefry_partitionable", "False"),
    ("jax_transfer_guard", "disallow"),
]


def run_with(name, value, folder):
    file = folder / f"{name}.npy"
    command = [sys.executable, "-c", SCRIPT, name, value, str(folder / f"model-{name}"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    return np.load(file)


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return run_with("none", "", tmp_path_factory.mktemp("usual"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), SETTINGS, ids=[name for name, _ in SETTINGS])
def test_results_do_not_depend_on_how_jax_is_set(name, value, usual, tmp_path):
    np.testing.assert_allclose(run_with(name, value, tmp_path), usual, rtol=1e-3, atol=1e-3)


def test_a_model_loads_and_fits_where_jax_is_set_to_double_precision(tmp_path):
    usual = fitted(0.0)
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        model = fitted(0.0)
        model.save(tmp_path / "model")
        loaded = fs.load(tmp_path / "model")
        scores = [np.asarray(m.score([0.05], X)) for m in (model, loaded, usual)]
        best = fs.maximum_likelihood(loaded, OBSERVED).theta
    for score in scores:
        np.testing.assert_allclose(score, usual.score([0.05], X), rtol=1e-4)
    assert best == pytest.approx(fs.maximum_likelihood(usual, OBSERVED).theta, abs=1e-5)


def test_a_simulator_that_sets_jax_to_double_precision_changes_no_parameters(tmp_path):
    usual = fs.simulate(fs.from_python(lambda theta, rng: rng.normal(theta)), fs.uniform(a=(0.0, 1.0)), 40)

    def sets(theta, rng):
        jax.config.update("jax_enable_x64", True)
        return rng.normal(theta)

    try:
        first = fs.simulate(fs.from_python(sets), fs.uniform(a=(0.0, 1.0)), 20, out=tmp_path / "c")
        longer = fs.simulate(fs.from_python(sets), fs.uniform(a=(0.0, 1.0)), 40, out=tmp_path / "c")
    finally:
        jax.config.update("jax_enable_x64", False)
    assert np.array_equal(first.theta, usual.theta[:20]) and np.array_equal(longer.theta, usual.theta)
