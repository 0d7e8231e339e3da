"""Parameters of records: in double precision, of all bits of the seed, whatever JAX is set to; and as 0.1.0 drew."""

import contextlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import fisherscore as fs
from fisherscore._support.record_random import uniforms, words_of_records
from fisherscore.simulation.drawing import Scheme
from fisherscore.simulation.execution.ledger import Ledger
from fisherscore.simulation.plan import Plan
from fisherscore.simulation.quantiles import KNOWN, quantiles

OLD = Path(__file__).parents[1] / "fixtures" / "v0_1"
NOISE = fs.from_python(lambda theta, rng: rng.normal(theta))
LAWS = {
    "g": dist.Gamma(3.0, 2.0),
    "t": dist.TruncatedNormal(1.0, 2.0, low=0.0),
    "n": dist.Normal(2459000.0, 0.1),
}
SINGLE = fs.CustomLatent(
    lambda key, theta: jax.lax.fori_loop(0, 1, lambda i, z: z + theta.astype(jnp.float32) + i, jnp.zeros(3, "float32")),
    score=lambda theta, z: z,
)
LATENTS = {
    "none": None,
    "gaussian": fs.GaussianLatent([[0.5, 0.2, 0.0], [0.2, 0.3, 0.0], [0.0, 0.0, 1.0]]),
    "custom": fs.CustomLatent(
        lambda key, theta: theta + 1e-3 * jax.random.laplace(key, theta.shape), score=lambda theta, z: z
    ),
    "in single": SINGLE,
}


def draw(latent=None, seed=0, indices=range(50)):
    return Plan.of(NOISE, fs.Proposal.of(LAWS), latent, seed).parameters(np.array(indices))


@pytest.mark.parametrize("name", LATENTS)
def test_a_record_depends_on_its_number_alone(name):
    theta, z = draw(LATENTS[name])
    some = [49, 3, 17]
    for indices in (some, [7], range(4_090, 4_100)):
        other_theta, other_z = draw(LATENTS[name], indices=indices)
        if max(indices) < 50:
            assert np.array_equal(other_theta, theta[list(indices)])
            assert z is None or np.array_equal(other_z, z[list(indices)])
    assert len(np.unique(theta[:, 0])) == 50 and (z is None or len(np.unique(z[:, 0])) == 50)


SETTINGS = {
    "x64": lambda: jax.enable_x64(True),
    "strict": lambda: jax.numpy_dtype_promotion("strict"),
    "no jit": lambda: jax.disable_jit(True),
    "nans": lambda: jax.debug_nans(True),
    "generator": lambda: jax.default_prng_impl("rbg"),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_jax_make_no_difference(setting):
    expected = [draw(LATENTS[name]) for name in ("custom", "in single")]
    simulator = fs.from_jax(lambda key, theta: theta + jax.random.normal(key, theta.shape), precision="single")
    x = simulator.draw(np.ones((3, 2)))
    with SETTINGS[setting]():
        for (theta, z), name in zip(expected, ("custom", "in single"), strict=True):
            again = draw(LATENTS[name])
            assert np.array_equal(again[0], theta) and np.array_equal(again[1], z)
        np.testing.assert_allclose(simulator.draw(np.ones((3, 2))), x, rtol=1e-6)


def test_random_words_are_what_they_have_always_been():
    """Known answers: were they to change, campaigns could not be gone on with."""
    words = words_of_records(2**40 + 3, 101, np.array([5_000, 2]), num=5)
    assert words[:, [0, 4]].tolist() == GOLDEN_WORDS
    np.testing.assert_array_equal(uniforms(np.array([0, 2**64 - 1], np.uint64)), [2.0**-53, 1 - 2.0**-53])


GOLDEN_WORDS = [[15768564747820306638, 12309254152471059185], [5548047009439792258, 13158293374597796821]]


@pytest.mark.parametrize("seeds", [(0, 2**32), (5, 5 + 2**40), (0, 2**63 - 2**32)])
def test_all_bits_of_a_seed_count(seeds):
    simulator = fs.from_jax(lambda key, theta: theta + jax.random.normal(key, theta.shape))
    proposal = fs.uniform(a=(0.0, 1.0))
    one, other = (fs.simulate(simulator, proposal, 20, seed=seed) for seed in seeds)
    assert not np.isin(one.theta, other.theta).any() and not np.isin(one.x, other.x).any()
    assert not np.isin(proposal.sample(20, seed=seeds[0]), proposal.sample(20, seed=seeds[1])).any()
    # At the same parameters too: noise of its own.
    assert not np.isin(*(simulator.draw(np.zeros((20, 1)), seed=seed) for seed in seeds)).any()


@pytest.mark.parametrize("ends", [(2459000.0, 2459000.1), (1e3, 1e3 + 1e-6), (-1e-12, 1e-12), (1e20, 1e21)])
def test_narrow_ranges_far_from_zero_are_filled_evenly(ends):
    theta = fs.simulate(NOISE, fs.uniform(t=ends), 2_000).theta[:, 0]
    assert len(np.unique(theta)) == 2_000 and theta.min() >= ends[0] and theta.max() <= ends[1]
    assert stats.kstest((theta - ends[0]) / (ends[1] - ends[0]), "uniform").pvalue > 0.01
    single = theta.astype(np.float32).astype(float)
    if ends[0] > 1e-6 and ends[1] < 1e6:
        assert stats.kstest((single - ends[0]) / (ends[1] - ends[0]), "uniform").pvalue < 1e-10, "the control"


@pytest.mark.parametrize(
    ("law", "known"),
    [
        (dist.Uniform(-1.0, 2.0), stats.uniform(-1.0, 3.0)),
        (dist.Normal(3.0, 2.0), stats.norm(3.0, 2.0)),
        (dist.LogNormal(0.5, 0.3), stats.lognorm(0.3, scale=np.exp(0.5))),
        (dist.Gamma(3.0, 2.0), stats.gamma(3.0, scale=0.5)),
        (dist.Beta(2.0, 5.0), stats.beta(2.0, 5.0)),
        (dist.Exponential(2.0), stats.expon(scale=0.5)),
        (dist.HalfNormal(3.0), stats.halfnorm(scale=3.0)),
        (dist.Cauchy(1.0, 2.0), stats.cauchy(1.0, 2.0)),
        (dist.LogUniform(0.1, 10.0), stats.loguniform(0.1, 10.0)),
    ],
    ids=KNOWN,
)
def test_quantiles_are_those_of_the_distribution(law, known):
    assert type(law).__name__ in KNOWN
    u = np.array([1e-9, 1e-3, 0.2, 0.5, 0.9, 0.999])
    np.testing.assert_allclose(quantiles(law, u), known.ppf(u), rtol=1e-7)


def test_a_law_without_known_quantiles_is_drawn_in_double_precision():
    far = fs.Proposal.of({"t": dist.TruncatedNormal(2459000.0, 0.01, low=2459000.0)}).sample(1_000)[:, 0] - 2459000.0
    assert len(np.unique(far)) == 1_000 and far.min() >= 0
    assert stats.kstest(far / 0.01, stats.halfnorm.cdf).pvalue > 0.01


@pytest.mark.parametrize("name", ["campaign_additive", "campaign_latent"])
def test_campaigns_of_0_1_0_are_drawn_as_they_were(name):
    with Ledger.open(OLD / name) as ledger:
        stored = ledger.metadata()
    kept = np.load(OLD / "campaign_arrays.npz")
    problem, kind = fs.problems.linear_gaussian(), name.removeprefix("campaign_")
    given = {"additive": (fs.uniform(shift=(0.0, 1.0)), "additive", 4), "latent": (problem.proposal, problem.latent, 5)}
    with jax.enable_x64(True) if kind == "latent" else contextlib.nullcontext():
        plan = Plan.of(NOISE, *given[kind])
        begun = plan.as_begun(stored)
        theta, z = begun.parameters(np.arange(40))
    assert begun.scheme is Scheme.FIRST and begun.first_parameters() == stored["plan"]["first_parameters"]
    assert np.array_equal(theta, kept[f"{kind}.theta"]) and np.array_equal(z, kept[f"{kind}.latent"])
    assert not np.isin(plan.parameters(np.arange(40))[0], theta).any(), "the control: the scheme of today"


def test_what_0_1_0_drew_in_double_precision_is_gone_on_with():
    plan = Plan.of(NOISE, fs.uniform(a=(0.0, 1.0)), None, 3)
    for scheme in (Scheme.FIRST, Scheme.FIRST_IN_DOUBLE):
        old = Plan(NOISE, plan.proposal, None, 3, scheme=scheme)
        stored = old.metadata(10)
        assert "drawing" not in stored["plan"]
        assert plan.as_begun(stored).scheme is scheme
    assert plan.as_begun(plan.metadata(10)) is plan


def test_simulators_of_jax_compute_in_the_precision_asked_for():
    def offset(key, theta):
        return 1e6 * (theta - 2459000.0)

    narrow = fs.uniform(t=(2459000.0, 2459000.1))
    double = fs.simulate(fs.from_jax(offset, precision="double"), narrow, 20)
    np.testing.assert_allclose(double.x, 1e6 * (double.theta - 2459000.0), rtol=1e-9)
    for run in (fs.simulate, fs.check_simulator):
        with pytest.raises(fs.ArgumentError, match=r'cannot tell apart values of t.*precision="double"'):
            run(fs.from_jax(offset), narrow, num_simulations=20)
    with pytest.raises(fs.ArgumentError, match="cannot hold 1e\\+39"):
        fs.from_jax(offset).draw([1e39])
    with pytest.raises(fs.ArgumentError, match="precision: expected"):
        fs.from_jax(offset, precision="half")
    with jax.enable_x64(True), pytest.warns(fs.FisherScoreWarning, match="precision: JAX is set to double"):
        fs.from_jax(offset)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fs.uniform(a=(-1e308, 1e308)), "a: expected a range between 1e-30 and 1e\\+30 wide"),
        (lambda: fs.uniform(a=(0.0, 1e-40)), "a: expected a range between"),
        (lambda: fs.uniform(a=(1e15, 1e15 + 1)), "a: the range from .* is too narrow"),
        (lambda: fs.normal(a=(1e10, 1e-10)), "a: the range from .* is too narrow"),
    ],
)
def test_ranges_that_cannot_be_borne_are_refused(make, message):
    with pytest.raises(fs.ArgumentError, match=message):
        make()
