"""Simulators, simulate() and the table it returns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs

BOX = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))


def python_noise(theta, rng):
    return theta + rng.normal(size=2)


def jax_noise(key, theta):
    return theta + jax.random.normal(key, (2,))


@pytest.fixture(params=["python", "jax"])
def simulator(request):
    return fs.from_python(python_noise) if request.param == "python" else fs.from_jax(jax_noise, batch_size=8)


@pytest.mark.parametrize("latent", [None, "additive"])
def test_records_do_not_depend_on_how_many_follow(simulator, latent):
    few, many = (fs.simulate(simulator, BOX, n, latent=latent, seed=5) for n in (37, 150))
    for name in ("theta", "x") if latent is None else ("theta", "latent", "x"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name)[:37])
    assert (fs.simulate(simulator, BOX, 37, seed=6).x != few.x).all()


def run_and_note(latent):
    """Simulate, and note where the simulator is called."""
    called_at = []

    def simulator(theta, rng):
        called_at.append(np.array(theta))
        return python_noise(theta, rng)

    sims = fs.simulate(fs.from_python(simulator), BOX, 2_000, latent=latent, seed=3)
    return np.array(called_at), sims


def test_x_is_drawn_at_theta_and_never_outside_the_range():
    called_at, sims = run_and_note(None)
    np.testing.assert_array_equal(called_at, sims.theta)
    assert BOX.inside(called_at).all()
    assert sims.latent is None and sims.latent_model is None
    np.testing.assert_array_equal(sims.drawn_at, sims.theta)


def test_the_papers_noise_is_added_to_theta_where_it_is_asked_for():
    """The control of the test above: here the simulator is called outside the range."""
    plain = fs.simulate(fs.from_python(python_noise), BOX, 2_000, seed=3)
    called_at, sims = run_and_note("additive")
    np.testing.assert_array_equal(called_at, sims.latent)
    assert not BOX.inside(called_at).all() and BOX.inside(sims.theta).all()
    np.testing.assert_array_equal(sims.theta, plain.theta)
    noise = sims.latent - sims.theta
    np.testing.assert_allclose(noise.std(axis=0), 1 / 200, rtol=0.05)
    np.testing.assert_allclose(sims.latent_score(), noise * 200**2, rtol=1e-3, atol=0.5)
    np.testing.assert_array_equal(sims.drawn_at, sims.latent)
    np.testing.assert_allclose(sims.x - sims.latent, plain.x - plain.theta, atol=1e-12)


def test_x_is_drawn_at_the_latent(simulator):
    sims = fs.simulate(simulator, BOX, 4000, latent=fs.GaussianLatent([9.0, 9.0]), seed=1)
    assert np.corrcoef((sims.x - sims.latent)[:, 0], sims.latent[:, 0])[0, 1] == pytest.approx(0.0, abs=0.06)
    np.testing.assert_allclose((sims.x - sims.latent).std(axis=0), 1.0, atol=0.05)
    np.testing.assert_allclose((sims.x - sims.theta).std(axis=0), np.sqrt(10), atol=0.15)


def test_draw_gives_one_or_many(simulator):
    one = simulator.draw([0.5, 2.5], seed=7)
    many = simulator.draw([[0.5, 2.5]] * 3, seed=7)
    assert one.shape == (2,) and many.shape == (3, 2)
    np.testing.assert_array_equal(one, many[0])
    assert len(np.unique(many)) == 6


def test_a_map_as_data_keeps_its_shape():
    sims = fs.simulate(fs.from_jax(lambda key, t: jnp.ones((3, 4)) * t[0]), BOX, 5)
    assert sims.x.shape == (5, 3, 4) and sims.x_shape == (3, 4)


def test_numbers_become_vectors():
    assert fs.simulate(fs.from_python(lambda t, rng: 3), BOX, 4).x.shape == (4, 1)


def test_table_is_immutable():
    sims = fs.simulate(fs.from_python(python_noise), BOX, 4)
    with pytest.raises(ValueError, match="read-only"):
        sims.x[0] = 0.0


def failing(theta, rng):
    if theta[0] > 0.9:
        raise RuntimeError("did not converge")
    return theta if theta[0] > 0.05 else theta * np.nan


def test_failures_are_kept_with_their_words_and_fit_refuses():
    sims = fs.simulate(fs.from_python(failing), BOX, 400, latent=fs.GaussianLatent([1e-6, 1e-6]))
    assert set(sims.status) == {"ok", "raised", "nonfinite"}
    raised = sims.status == "raised"
    assert (sims.latent[raised, 0] > 0.9).all() and np.isnan(sims.x[raised]).all()
    assert sims.messages[int(np.flatnonzero(raised)[0])].startswith(
        "RuntimeError: did not converge (test_campaign.py, line "
    )
    assert len(sims.ok()) == (sims.status == "ok").sum() and np.isfinite(sims.ok().x).all()
    with pytest.raises(fs.ArgumentError, match=r"simulations failed .*raised.*bias the score"):
        fs.fit(sims)


def test_few_failures_only_warn():
    sims = fs.simulate(fs.from_python(lambda t, rng: t + rng.normal() if t[0] > 0.004 else t * np.nan), BOX, 1000)
    assert 0 < sims.failure_rate < 0.01
    with pytest.warns(fs.FisherScoreWarning, match="simulations failed"):
        fs.fit(sims, recipe=fs.ClosedFormRecipe())


def test_nan_in_x_from_jax_is_a_recorded_failure():
    sims = fs.simulate(fs.from_jax(lambda key, t: jnp.log(t - 0.5)), BOX, 50)
    assert 0.3 < sims.failure_rate < 0.7
    with pytest.raises(fs.ArgumentError, match="nonfinite"):
        fs.fit(sims)


def changing(theta, rng):
    return np.zeros(rng.integers(1, 3))


def changing_between_blocks(theta, rng, calls=[0]):  # noqa: B006
    calls[0] += 1
    return np.zeros(1 if calls[0] <= 64 else 2)


def test_a_shape_that_changes_later_is_a_recorded_failure():
    """The first records fix the shape; a campaign of days must not end because one record has another."""
    sims = fs.simulate(fs.from_python(changing_between_blocks), BOX, 100)
    odd = sims.status == "bad_output"
    assert 0 < odd.sum() < 100 and "that of the first records is" in next(iter(sims.messages.values()))
    with pytest.raises(fs.ArgumentError, match=r"bad_output.*that of the first records"):
        fs.fit(sims)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (changing, "x of changing shape"),
        (lambda t, rng: None, "must return an array of real numbers"),
        (lambda t, rng: "text", "must return an array of real numbers"),
        (lambda t, rng: [object()], "must return an array of real numbers"),
        (lambda t, rng: [1j], "must return an array of real numbers"),
        (lambda t, rng: [], "must return an array of real numbers"),
        (lambda t, rng: 1 / 0, "failed on each of its first .*ZeroDivisionError"),
        (lambda t, rng: [np.inf], "failed on each of its first .*infinite"),
    ],
)
def test_useless_simulators_are_stopped(function, message):
    with pytest.raises(fs.SimulationError, match=message):
        fs.simulate(fs.from_python(function), BOX, 100)


def test_a_mock_observation_that_fails_says_where():
    with pytest.raises(fs.SimulationError, match=r"failed at theta = \[0.95, 2.5\].*did not converge"):
        fs.from_python(failing).draw([[0.5, 2.5], [0.95, 2.5]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fs.simulate(fs.from_python(python_noise), BOX, 0), "num_simulations: expected"),
        (lambda: fs.simulate(fs.from_python(python_noise), BOX, 2.5), "num_simulations: expected"),
        (lambda: fs.simulate(python_noise, BOX, 10), "simulator: expected a simulator.*from_python"),
        (lambda: fs.simulate(fs.from_python(python_noise), {"a": 1}, 10), "proposal: expected a proposal"),
        (lambda: fs.from_python(3), "function: expected"),
        (lambda: fs.from_jax(jax_noise, batch_size=0), "batch_size: expected"),
        (lambda: fs.from_jax(jax_noise).draw([np.nan, 1.0]), "theta: expected finite"),
        (lambda: fs.from_jax(jax_noise).draw(np.zeros((2, 2, 2))), "theta: expected shape"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(fs.ArgumentError, match=message):
        call()


def test_a_failure_names_the_line_and_a_wrong_signature_is_explained():
    with pytest.raises(fs.SimulationError, match=r"ZeroDivisionError: .* \(test_campaign\.py, line \d+\)"):
        fs.from_python(lambda theta, rng: 1 / 0).draw([0.0])
    with pytest.raises(fs.SimulationError, match="called with theta and a generator"):
        fs.from_python(lambda theta: theta).draw([0.0])
