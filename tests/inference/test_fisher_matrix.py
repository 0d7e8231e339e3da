import numpy as np
import numpyro.distributions as dist
import pytest

import fisherscore as fs

NAMES = ("a", "b", "c")
COVARIANCE = np.array([[2.0, 0.5, 0.3], [0.5, 1.0, -0.2], [0.3, -0.2, 0.5]])
FISHER = fs.FisherMatrix(NAMES, np.linalg.inv(COVARIANCE))


def test_marginalising_drops_rows_of_the_covariance_and_fixing_rows_of_the_matrix():
    np.testing.assert_allclose(FISHER.marginalize("b").covariance, COVARIANCE[np.ix_([0, 2], [0, 2])])
    np.testing.assert_allclose(FISHER.fix(["b", "c"]).matrix, FISHER.matrix[:1, :1])
    assert FISHER.marginalize("b").names == ("a", "c")


def test_errors_and_correlations():
    np.testing.assert_allclose(FISHER.sigma, np.sqrt(np.diag(COVARIANCE)))
    assert (FISHER.conditional_sigma < FISHER.sigma).all()
    np.testing.assert_allclose(np.diag(FISHER.correlation), 1.0)
    assert FISHER.correlation[0, 1] == pytest.approx(0.5 / np.sqrt(2.0))
    assert FISHER.figure_of_merit(["a", "b"]) == pytest.approx(1 / np.sqrt(2.0 - 0.25))


def test_adding_matches_by_name():
    other = fs.FisherMatrix(("d", "b"), np.array([[2.0, 1.0], [1.0, 3.0]]))
    total = FISHER.add(other)
    assert total.names == ("a", "b", "c", "d")
    assert total.matrix[1, 1] == pytest.approx(FISHER.matrix[1, 1] + 3.0) and total.matrix[1, 3] == 1.0
    wide = FISHER.add({"a": 1e6})
    np.testing.assert_allclose(wide.sigma, FISHER.sigma)
    assert FISHER.add({"a": 0.1}).sigma[0] == pytest.approx(1 / np.sqrt(1 / 2.0 + 100))
    np.testing.assert_allclose(FISHER.times(4).sigma, FISHER.sigma / 2)


def test_errors_of_derived_quantities_follow_the_draws():
    rng = np.random.default_rng(0)
    draws = FISHER.matrix * (1 + 0.1 * rng.normal(size=(500, 1, 1)))
    noisy = fs.FisherMatrix(NAMES, FISHER.matrix, draws)
    np.testing.assert_allclose(noisy.error, 0.1 * np.abs(FISHER.matrix), rtol=0.1)
    np.testing.assert_allclose(noisy.sigma_error, 0.05 * FISHER.sigma, rtol=0.15)
    np.testing.assert_allclose(noisy.marginalize("b").sigma_error, noisy.sigma_error[[0, 2]])
    np.testing.assert_allclose(noisy.add(fs.FisherMatrix(("a",), np.eye(1))).error, noisy.error)


def test_units_far_apart_do_no_harm():
    scale = np.array([1e-9, 1.0, 1e9])
    extreme = fs.FisherMatrix(NAMES, FISHER.matrix / np.outer(scale, scale))
    np.testing.assert_allclose(extreme.sigma, FISHER.sigma * scale)
    assert extreme.degenerate_direction() is None


def test_a_degenerate_pair_is_named():
    pair = fs.FisherMatrix(("a", "b", "c"), np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]]))
    for use in (lambda: pair.sigma, lambda: pair.covariance, lambda: pair.marginalize(["a", "b"])):
        with pytest.raises(fs.ArgumentError, match=r"do not constrain the combination .*a.*b.*\.add"):
            use()
    assert pair.fix("b").sigma[0] == 1.0
    assert np.isfinite(pair.add({"b": 1.0}).sigma).all()
    nothing = fs.FisherMatrix(("a", "b"), np.diag([1.0, 0.0]))
    with pytest.raises(fs.ArgumentError, match="combination b"):
        nothing.sigma  # noqa: B018


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FISHER.marginalize("x"), "unknown parameter name 'x'"),
        (lambda: FISHER.marginalize(["a", "a"]), "named twice"),
        (lambda: FISHER.fix(["a", "b", "c"]), "some but not all"),
        (lambda: FISHER.add({"x": 1.0}), "other: unknown parameter name 'x'"),
        (lambda: FISHER.add({"a": -1.0}), "other: expected standard deviations above 0"),
        (lambda: FISHER.add(3.0), "other: expected a Fisher matrix"),
        (lambda: FISHER.times(0), "number: expected a number above 0, got 0"),
        (lambda: FISHER.times(-2.0), "number: expected a number above 0"),
        (lambda: FISHER.times(np.nan), "number: expected a number above 0"),
        (lambda: FISHER.times("3"), "number: expected a number above 0, got '3'"),
        (lambda: FISHER.times(True), "number: expected a number above 0"),
        (lambda: fs.FisherMatrix(("a", "a"), np.eye(2)), "names: a parameter is named twice"),
        (lambda: fs.FisherMatrix("ab", np.eye(2)), "names: expected 2 names"),
        (lambda: fs.FisherMatrix((), np.eye(0)), "names: expected 1 names"),
        (lambda: fs.FisherMatrix(("a", "b"), np.eye(2), np.ones((5, 3, 3))), "draws: expected replicates of shape"),
        (lambda: fs.FisherMatrix(("a", "b"), np.eye(2), np.eye(2)), r"draws: .*\(num, 2, 2\), got \(2, 2\)"),
        (lambda: fs.FisherMatrix(("a",), np.eye(2)), "matrix: expected a symmetric matrix"),
        (lambda: fs.FisherMatrix(("a", "b"), np.array([[1.0, 2.0], [0.0, 1.0]])), "matrix: expected a symmetric"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(fs.ArgumentError, match=message):
        call()


def test_a_prior_adds_what_it_is_worth():
    fisher = fs.FisherMatrix(("a", "b"), np.array([[4.0, 1.0], [1.0, 1.0]]))
    covariance = np.array([[0.5, 0.2], [0.2, 0.4]])
    joint = dist.MultivariateNormal(np.zeros(2), covariance)
    expected = fisher.matrix + np.linalg.inv(covariance)
    np.testing.assert_allclose(fisher.add(joint).matrix, expected, rtol=1e-5)
    swapped = {("b", "a"): dist.MultivariateNormal(np.zeros(2), covariance[::-1, ::-1])}
    np.testing.assert_allclose(fisher.add(swapped).matrix, expected, rtol=1e-5)
    draws = fs.prior_from_samples(np.random.default_rng(0).multivariate_normal([0, 0], covariance, 20_000), ["a", "b"])
    np.testing.assert_allclose(fisher.add(draws).matrix, expected, rtol=0.05, atol=0.05)
    np.testing.assert_allclose(fisher.add({"b": dist.Uniform(-1.0, 1.0)}).matrix[1, 1], 1 + 3.0, rtol=1e-5)
    np.testing.assert_allclose(fisher.add({"a": 0.5, "b": 1.0}).matrix, [[8, 1], [1, 2]])
    with pytest.raises(fs.ArgumentError, match="Cauchy law of 'a' has no finite variance"):
        fisher.add({"a": dist.Cauchy(0.0, 1.0)})
    with pytest.raises(fs.ArgumentError, match="leaves 'a' to the training region"):
        fisher.add(fs.restricted_prior(None, "a <= b"))


def test_regions_and_densities_are_worth_their_covariance():
    model = fs.FunctionScore(fs.uniform(a=(0, 1), b=(0, 1)), (1,), score=lambda t, x: t)
    triangle = fs.prior_information(model, fs.restricted_prior(None, "a <= b"))
    exact = np.linalg.inv(np.array([[2.0, 1.0], [1.0, 2.0]]) / 36)  # of the uniform law on the triangle
    np.testing.assert_allclose(triangle.matrix, exact, rtol=0.05)
    bell = fs.prior_from_density(lambda t: -0.5 * ((t[0] - 0.5) / 0.1) ** 2, "b")
    assert fs.prior_information(model, bell).names == ("b",)
    np.testing.assert_allclose(fs.prior_information(model, bell).matrix, [[100.0]], rtol=0.03)
