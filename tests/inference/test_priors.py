"""Priors of every form against densities written down by hand, and what is said where one will not do."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from scipy.stats import gaussian_kde, kstest, multivariate_normal

import fisherscore as fs
from fisherscore.inference.priors import regions
from fisherscore.inference.priors.blocks import Prior
from fisherscore.inference.priors.given import Parameters, prior_of
from fisherscore.inference.priors.inequalities import rows_of
from fisherscore.inference.priors.samples import _judge
from fisherscore.inference.priors.scipy_laws import from_scipy
from fisherscore.inference.target import Target

NAMES = ("a", "b", "c")
REGION = Parameters(NAMES, np.array([-3.0, -3.0, 0.0]), np.array([3.0, 3.0, 1.0]))
MEAN = np.array([0.2, -0.3])
COVARIANCE = np.array([[0.04, -0.03], [-0.03, 0.04]])
NORMAL = dist.MultivariateNormal(jnp.array(MEAN), jnp.array(COVARIANCE))
RNG = np.random.default_rng(5)
CHAIN = RNG.multivariate_normal(MEAN, COVARIANCE, 3000)


def prior(given) -> Prior:
    return prior_of(REGION, given)


def drawn(law, num=2000):
    words = jnp.asarray(np.random.default_rng(1).integers(2**32, size=(3, 2), dtype=np.uint32))
    return np.asarray(law.draw(words, num), np.float64)


def density(law, theta):
    """The density of θ, from that of u: whatever the coordinates, it must come out the same."""

    def one(theta):
        u = law.to_u(theta)
        back, log_jacobian = law.to_theta(u)
        return back, law.log_base(u) + law.log_rest(u) - log_jacobian if law.has_rest else law.log_base(
            u
        ) - log_jacobian

    back, value = jax.jit(jax.vmap(one))(jnp.asarray(theta, jnp.float32))
    np.testing.assert_allclose(back, theta, atol=2e-5)
    return np.asarray(value, np.float64)


def ring(t):
    return -20.0 * (jnp.sqrt(t[0] ** 2 + t[1] ** 2) - 1.5) ** 2


def exact_ring(t):
    return -20.0 * (np.hypot(t[:, 0], t[:, 1]) - 1.5) ** 2


def normal(t):
    return multivariate_normal(MEAN, COVARIANCE).logpdf(t[:, :2])


FORMS = {
    "none": (None, lambda t: 0 * t[:, 0]),
    "independent": ({"a": dist.Normal(0.1, 0.4)}, lambda t: scipy.stats.norm(0.1, 0.4).logpdf(t[:, 0])),
    "joint": ({("a", "b"): NORMAL}, normal),
    "joint in another order": ({("b", "a"): NORMAL}, lambda t: normal(t[:, ::-1][:, 1:])),
    "joint and independent": (
        {("a", "b"): NORMAL, "c": dist.Beta(2.0, 3.0)},
        lambda t: normal(t) + scipy.stats.beta(2, 3).logpdf(t[:, 2]),
    ),
    "one for all": (
        dist.MultivariateNormal(jnp.array([0.0, 0.1, 0.5]), scale_tril=jnp.array(np.diag([1.0, 2.0, 0.1]))),
        lambda t: -0.5 * (t[:, 0] ** 2 + (t[:, 1] - 0.1) ** 2 / 4 + (t[:, 2] - 0.5) ** 2 / 0.01),
    ),
    "made joint": (
        {("a", "c"): dist.Uniform(jnp.array([-1.0, 0.2]), jnp.array([1.0, 0.8])).to_event(1)},
        lambda t: 0 * t[:, 0],
    ),
    "heavy tails": (
        {("a", "b"): dist.MultivariateStudentT(4.0, jnp.array(MEAN), jnp.linalg.cholesky(jnp.array(COVARIANCE)))},
        lambda t: scipy.stats.multivariate_t(MEAN, COVARIANCE, 4.0).logpdf(t[:, :2]),
    ),
    "mixture": (
        {
            ("a", "b"): dist.MixtureSameFamily(
                dist.Categorical(jnp.array([0.3, 0.7])),
                dist.MultivariateNormal(jnp.array([[-1.0, 0.0], [1.0, 1.0]]), 0.1 * jnp.eye(2)),
            )
        },
        lambda t: np.logaddexp(
            np.log(0.3) + multivariate_normal([-1, 0], 0.1).logpdf(t[:, :2]),
            np.log(0.7) + multivariate_normal([1, 1], 0.1).logpdf(t[:, :2]),
        ),
    ),
    "draws": (fs.prior_from_samples(CHAIN, ["a", "b"]), normal),
    "density": (fs.prior_from_density(ring, ["a", "b"]), exact_ring),
    "triangle": (fs.restricted_prior(None, ["a <= b", "a >= -1", "b <= 2"]), lambda t: 0 * t[:, 0]),
    "open triangle": (
        fs.restricted_prior({("a", "b"): NORMAL, "c": dist.Normal(0.0, 1.0)}, "a + b + c <= 0.5"),
        lambda t: normal(t) - 0.5 * t[:, 2] ** 2,
    ),
    "density in a triangle": (fs.restricted_prior(fs.prior_from_density(ring, ["a", "b"]), "a <= b"), exact_ring),
    "draws in a triangle": (fs.restricted_prior(fs.prior_from_samples(CHAIN, ["a", "b"]), "a >= 0.1"), normal),
    "walls": (fs.restricted_prior(None, lambda t: t[0] ** 2 + t[1] ** 2 < 1, names=["a", "b"]), lambda t: 0 * t[:, 0]),
}
INSIDE = {
    "triangle": lambda t: (t[:, 0] <= t[:, 1]) & (t[:, 0] >= -1) & (t[:, 1] <= 2),
    "open triangle": lambda t: t.sum(axis=1) <= 0.5,
    "density in a triangle": lambda t: t[:, 0] <= t[:, 1],
    "draws in a triangle": lambda t: t[:, 0] >= 0.1,
    "walls": lambda t: t[:, 0] ** 2 + t[:, 1] ** 2 < 1,
}


@pytest.mark.parametrize("form", FORMS)
def test_density_and_draws_are_those_of_the_prior(form):
    """In whatever coordinates a sampler works, the density of θ is the prior's up to a constant."""
    given, expected = FORMS[form]
    law = prior(given)
    theta = drawn(law)
    assert theta.shape == (2000, 3) and np.isfinite(theta).all()
    assert INSIDE.get(form, lambda t: np.ones(len(t), bool))(theta).all()
    off = density(law, theta) - expected(theta)
    # A density made of draws is as noisy as they are.
    noise = 0.3 if "draws" in form else 2e-3
    assert (
        np.median(np.abs(off - np.median(off))) < noise / 3 and np.quantile(np.abs(off - np.median(off)), 0.95) < noise
    )


@pytest.mark.parametrize("form", ["independent", "joint", "draws", "triangle", "density in a triangle"])
def test_the_jacobian_is_that_of_the_map(form):
    law = prior(FORMS[form][0])
    u = jnp.asarray(np.random.default_rng(2).normal(size=(50, 3)), jnp.float32)
    matrices = jax.jit(jax.vmap(jax.jacfwd(lambda v: law.to_theta(v)[0])))(u)
    given = jax.jit(jax.vmap(lambda v: law.to_theta(v)[1]))(u)
    np.testing.assert_allclose(given, np.log(np.abs(np.linalg.det(np.asarray(matrices, np.float64)))), atol=2e-3)


def test_coordinates_of_a_region_fill_it_and_never_leave_it():
    law = prior(FORMS["triangle"][0])
    u = np.random.default_rng(3).normal(size=(20_000, 3)) * 10.0 ** np.random.default_rng(4).uniform(-2, 2, (20_000, 1))
    theta = np.asarray(jax.jit(jax.vmap(lambda v: law.to_theta(v)[0]))(jnp.asarray(u, jnp.float32)))
    assert (theta[:, 0] - theta[:, 1]).max() < 1e-6 and theta[:, 0].min() > -1 - 1e-6 and theta[:, 1].max() < 2 + 1e-6
    np.testing.assert_allclose([theta[:, 0].min(), theta[:, 1].max()], [-1, 2], atol=1e-3)
    assert law.ends() == ((-1.0, 2.0), (-1.0, 2.0), (0.0, 1.0))


def test_draws_within_a_triangle_are_uniform():
    theta = drawn(prior(FORMS["triangle"][0]), 6000)
    # In the triangle (−1, −1), (−1, 2), (2, 2) the first coordinate has the density 2 (2 − a) / 9.
    assert kstest(theta[:, 0], lambda a: 1 - (2 - a) ** 2 / 9).pvalue > 1e-3
    assert kstest(theta[:, 0], lambda a: (a + 1) / 3).pvalue < 1e-6  # the control


def test_beyond_walls_the_prior_is_far_below_everything():
    model = fs.FunctionScore(
        fs.uniform(a=(-3, 3), b=(-3, 3), c=(0, 1)), (1,), log_likelihood=lambda t, x: t.sum() * x[0]
    )
    target = Target.of(model, prior(FORMS["walls"][0]))
    inside, outside = (target.log_prior(target.unconstrain(jnp.array(t))) for t in ([0.5, 0.5, 0.5], [0.9, 0.9, 0.5]))
    assert inside > -20 and outside < -1e12


def test_ends_are_those_of_every_form():
    assert prior(None).ends() == ((-3.0, 3.0), (-3.0, 3.0), (0.0, 1.0))
    assert prior(FORMS["made joint"][0]).ends()[0] == (-1.0, 1.0)
    assert prior({("a", "b"): NORMAL}).ends() == ((None, None), (None, None), (0.0, 1.0))
    half = fs.prior_from_samples(RNG.gamma(2.0, 1.0, (1000, 1)), "c", ranges={"c": (0, None)})
    assert prior(half).ends()[2] == (0.0, None)


WRONG = {
    "a number": (0.5, "prior: expected a mapping"),
    "unknown name": ({"d": dist.Normal(0, 1)}, "unknown parameter name 'd'"),
    "unknown in a tuple": ({("a", "d"): NORMAL}, "unknown parameter name 'd'"),
    "twice": ({("a", "b"): NORMAL, "a": dist.Normal(0, 1)}, "'a' has more than one law"),
    "too few": ({("a", "b", "c"): NORMAL}, "over 3 parameters"),
    "discrete": ({"a": dist.Poisson(1.0)}, "proper scalar continuous"),
    "improper": ({"a": dist.ImproperUniform(dist.constraints.real, (), ())}, "proper scalar continuous"),
    "joint for one": ({"a": NORMAL}, "tuple of their names"),
    "a simplex": (dist.Dirichlet(jnp.ones(3)), "no region of 3 dimensions"),
    "not for all": (NORMAL, "over 3 parameters"),
    "draws under other names": ({("a", "c"): fs.prior_from_samples(CHAIN, ["a", "b"])}, "this law is for a, b"),
    "a text": ("normal", "expected a mapping"),
    "an empty region": (fs.restricted_prior(None, "a >= 4"), "0 lie in the region"),
    "not linear": (fs.restricted_prior(None, "a*b <= 1"), "sums of numbers times parameters"),
    "no inequality": (fs.restricted_prior(None, "a + b"), "no <= or >="),
    "unknown in an inequality": (fs.restricted_prior(None, "a <= z"), "'z' is no parameter"),
    "code": (fs.restricted_prior(None, "__import__('os') <= 1"), "expected linear inequalities"),
    "rows of another length": (fs.restricted_prior(None, ([[1.0, 1.0]], [1.0])), r"expected A of shape \(m, 3\)"),
    "a wall of numbers": (fs.restricted_prior(None, lambda t: t[0]), "one truth value"),
    "never finite": (
        fs.prior_from_density(lambda t: jnp.log(-(t[0] ** 2)), "a"),
        "log_density: expected a finite number",
    ),
    "unknown in SciPy": ({"a": scipy.stats.levy()}, "prior.'a'.: expected a NumPyro distribution, got SciPy's 'levy'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_will_not_do_is_said(case):
    given, message = WRONG[case]
    with pytest.raises(fs.ArgumentError, match=message):
        prior(given)


def test_inequalities_are_read():
    rows, bounds = rows_of(["0 <= a + 2*b < c/4 - 1", "my rate >= -(a - 3)"], ["a", "b", "c", "my rate"])
    np.testing.assert_allclose(rows, [[-1, -2, 0, 0], [1, 2, -0.25, 0], [-1, 0, 0, -1]])
    np.testing.assert_allclose(bounds, [0, -1, -3])
    rows, bounds = rows_of(([[1, 1]], [2]), ["a", "b"])
    assert rows.shape == (1, 2) and bounds.tolist() == [2]


SCIPY = [
    scipy.stats.norm(0.5, 2.0),
    scipy.stats.uniform(-1.0, 3.0),
    scipy.stats.lognorm(0.5, scale=2.0),
    scipy.stats.lognorm(0.5, loc=1.0, scale=2.0),
    scipy.stats.halfnorm(scale=2.0),
    scipy.stats.expon(1.0, 2.0),
    scipy.stats.gamma(3.0, scale=0.5),
    scipy.stats.invgamma(3.0, scale=0.5),
    scipy.stats.beta(2.0, 3.0, loc=-1.0, scale=4.0),
    scipy.stats.truncnorm(-1.0, 2.0, loc=0.5, scale=2.0),
    scipy.stats.truncnorm(-1.0, np.inf, loc=0.5, scale=2.0),
    scipy.stats.t(5.0, loc=0.5, scale=2.0),
    scipy.stats.cauchy(0.5, 2.0),
    scipy.stats.halfcauchy(scale=2.0),
    scipy.stats.laplace(0.5, 2.0),
    scipy.stats.logistic(0.5, 2.0),
    scipy.stats.gumbel_r(0.5, 2.0),
    scipy.stats.chi2(4.0),
]


@pytest.mark.parametrize("law", SCIPY, ids=lambda law: law.dist.name)
def test_laws_of_scipy_are_the_same_in_numpyro(law):
    points = law.ppf([0.1, 0.5, 0.9])
    np.testing.assert_allclose(from_scipy(law, "prior").log_prob(jnp.asarray(points)), law.logpdf(points), rtol=2e-4)
    prior({"a": law})


def test_joint_laws_of_scipy():
    points = np.array([[0.1, -0.2], [0.3, 0.0]])
    for law in (multivariate_normal(MEAN, COVARIANCE), scipy.stats.multivariate_t(MEAN, COVARIANCE, df=4)):
        np.testing.assert_allclose(
            from_scipy(law, "prior").log_prob(jnp.asarray(points)), law.logpdf(points), rtol=1e-4
        )
        prior({("a", "b"): law})


def test_a_proposal_is_a_prior():
    law = prior(fs.normal(a=(0.1, 0.4)))
    assert abs(drawn(law)[:, 0].mean() - 0.1) < 0.05
    assert law.ends()[0] == (None, None)


# ------------------------------------------------------------------ draws


def banana(num, seed=0):
    rng = np.random.default_rng(seed)
    first = rng.normal(size=num)
    return np.stack([first, first**2 + 0.4 * rng.normal(size=num)], axis=1)


def test_draws_of_a_curved_law_are_fitted_and_checked():
    made = fs.prior_from_samples(banana(6000), ["a", "b"])
    assert made.num_components > 2 and made.discrepancy - made.chance < 0.02
    fresh = banana(4000, seed=1)
    exact = -0.5 * fresh[:, 0] ** 2 - 0.5 * ((fresh[:, 1] - fresh[:, 0] ** 2) / 0.4) ** 2 - np.log(2 * np.pi * 0.4)
    # The divergence of the density from the law, and as a control that of one Gaussian.
    assert np.mean(exact - made.log_prob(fresh)) < 0.06
    assert np.mean(exact) - np.mean(multivariate_normal(fresh.mean(axis=0), np.cov(fresh.T)).logpdf(fresh)) > 0.3


def test_hard_ends_are_kept_and_matter():
    draws = np.random.default_rng(0).uniform(0.0, 1.0, (5000, 1))
    with_ends = fs.prior_from_samples(draws, "a", ranges={"a": (0, 1)})
    assert with_ends.num_components == 1 and with_ends.ranges == ((0.0, 1.0),)
    np.testing.assert_allclose(with_ends.log_prob([[0.02], [0.5], [0.98]]), 0.0, atol=0.12)
    assert with_ends.log_prob([[1.01]])[0] == -np.inf
    assert with_ends.sample(2000).min() > 0
    assert kstest(with_ends.sample(2000)[:, 0], "uniform").pvalue > 1e-3
    half = fs.prior_from_samples(np.abs(np.random.default_rng(0).normal(size=(5000, 1))), "a", ranges={"a": (0, None)})
    np.testing.assert_allclose(half.log_prob([[0.05], [1.0]]), scipy.stats.halfnorm.logpdf([0.05, 1.0]), atol=0.1)
    below = fs.prior_from_samples(-np.abs(draws), "a", ranges={"a": (None, 0)})
    assert below.sample(1000).max() < 0


def test_weights_count():
    rng = np.random.default_rng(0)
    flat = rng.uniform(-4, 4, (20_000, 1))
    made = fs.prior_from_samples(flat, "a", weights=np.exp(-0.5 * (flat[:, 0] - 1) ** 2))
    np.testing.assert_allclose([made.mean[0], made.covariance[0, 0]], [1.0, 1.0], atol=0.06)
    np.testing.assert_allclose(made.log_prob([[1.0]]), -0.92, atol=0.06)
    assert made.effective_draws < 10_000
    every_other = fs.prior_from_samples(flat, "a", weights=np.arange(20_000) % 2)
    assert every_other.effective_draws < 10_100


def test_a_chain_is_worth_less_than_its_length():
    rng = np.random.default_rng(0)
    chain = np.zeros(20_000)
    for i in range(1, len(chain)):
        chain[i] = 0.9 * chain[i - 1] + rng.normal()
    made = fs.prior_from_samples(chain[:, None], "a")
    assert 700 < made.effective_draws < 1500  # 20,000 (1 − 0.9) / (1 + 0.9) = 1,053


def test_poor_fits_are_warned_about_and_bad_ones_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(fs.ArgumentError, match="no smooth density fits them"):
        fs.prior_from_samples(rng.integers(0, 2, (5000, 1)) + 1e-9 * rng.normal(size=(5000, 1)), "a")
    made = fs.prior_from_samples(CHAIN, ["a", "b"])
    with pytest.warns(fs.FisherScoreWarning, match="fits them poorly: draws left out differ from it by 0.15 of a cum"):
        _judge(replace(made, discrepancy=0.15, chance=0.1))
    _judge(replace(made, discrepancy=0.11, chance=0.1))
    for draws, message in {
        "few": (CHAIN[:50], "worth .* independent draws"),
        "constant": (np.zeros((500, 2)), "all draws of 'a' are 0"),
        "function": (np.repeat(CHAIN[:, :1], 2, axis=1), "function of the others"),
        "not finite": (np.where(CHAIN > 0.9, np.nan, CHAIN) * np.nan, "expected finite"),
    }.values():
        with pytest.raises(fs.ArgumentError, match=message):
            fs.prior_from_samples(draws, ["a", "b"])
    with pytest.raises(fs.ArgumentError, match="ranges: draws of 'a' go from"):
        fs.prior_from_samples(CHAIN, ["a", "b"], ranges={"a": (0.2, 1.0)})
    with pytest.raises(fs.ArgumentError, match="names: expected 2 names"):
        fs.prior_from_samples(CHAIN)
    with pytest.raises(fs.ArgumentError, match="weights: expected 3000 numbers"):
        fs.prior_from_samples(CHAIN, ["a", "b"], weights=-np.ones(3000))
    with pytest.raises(fs.ArgumentError, match="no parameter 'z'"):
        fs.prior_from_samples({"a": CHAIN[:, 0]}, ["z"])


def test_draws_come_in_every_form():
    getdist = pytest.importorskip("getdist")
    by_name = {"a": CHAIN[:, 0], "b": CHAIN[:, 1]}
    expected = fs.prior_from_samples(CHAIN, ["a", "b"]).log_prob([[0.2, -0.3]])
    np.testing.assert_allclose(fs.prior_from_samples(by_name).log_prob([[0.2, -0.3]]), expected)
    chain = getdist.MCSamples(
        samples=np.column_stack([CHAIN, CHAIN.sum(axis=1)]),
        names=["a", "b", "sum"],
        weights=np.ones(3000),
        ranges={"a": (-2.0, None)},
        settings={"ignore_rows": 0},
    )
    chain.getParamNames().names[2].isDerived = True
    made = fs.prior_from_samples(chain)
    assert made.names == ("a", "b") and made.ranges == ((-2.0, None), (None, None))
    renamed = fs.prior_from_samples(chain, {"b": "x"})
    assert renamed.names == ("x",) and abs(renamed.mean[0] - CHAIN[:, 1].mean()) < 1e-9
    data = type("InferenceData", (), {"posterior": _Group(by_name)})()
    np.testing.assert_allclose(fs.prior_from_samples(data, ["a", "b"]).log_prob([[0.2, -0.3]]), expected)
    vector = type("InferenceData", (), {"posterior": _Group({"v": CHAIN})})()
    assert fs.prior_from_samples(vector).names == ("v[0]", "v[1]")


class _Group(dict):
    """What ArviZ's groups look like: variables with axes chain, draw and more."""

    @property
    def data_vars(self):
        return self

    def __getitem__(self, name):
        values = super().__getitem__(name)
        return type("Variable", (), {"values": values.reshape(3, 1000, *values.shape[1:])})


def test_printed_priors_say_what_they_are():
    made = fs.prior_from_samples(CHAIN, ["a", "b"])
    assert repr(made) == "SamplePrior(a, b; 3,000 draws, 1 Gaussian)"
    assert "independent draws" in str(made) and "chance alone" in str(made)
    assert made._repr_html_().startswith("<table>")
    assert "within walls" in repr(fs.restricted_prior(None, lambda t: t[0] > 0))


def test_a_region_of_many_dimensions():
    """Ordered parameters: one in 120 orders of five, found by rejection and filled by coordinates."""
    names = tuple("abcde")
    ordered = prior_of(Parameters(names, np.zeros(5), np.ones(5)), fs.restricted_prior(None, "a <= b <= c <= d <= e"))
    words = jnp.asarray(np.random.default_rng(1).integers(2**32, size=(5, 2), dtype=np.uint32))
    theta = np.asarray(ordered.draw(words, 4000))
    assert (np.diff(theta, axis=1) >= 0).all()
    np.testing.assert_allclose(theta.mean(axis=0), np.arange(1, 6) / 6, atol=0.02)
    assert isinstance(ordered.blocks[0], regions.Polytope)


def test_a_density_of_draws_agrees_with_a_kernel_estimate():
    """Two estimates of the same density from the same draws, made in different ways."""
    draws = banana(5000)
    made = fs.prior_from_samples(draws, ["a", "b"])
    other = gaussian_kde(draws.T, bw_method=0.15)
    fresh = banana(1000, seed=2)
    assert abs(np.mean(made.log_prob(fresh) - other.logpdf(fresh.T))) < 0.1
