import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.folders import arrays_of

import fisherscore as fs
from fisherscore.fitting.train import Monitor, Review, Task, Training, latent_score_loss, train, train_together
from fisherscore.potentials.networks import MLP

KEY = jax.random.key(4)


def rows(num=300):
    x = np.random.default_rng(0).normal(size=(num, 3))
    return x, np.sin(x[:, :1]) + 0.1 * np.random.default_rng(1).normal(size=(num, 1))


def loss(network, rows):
    x, y = rows
    return jnp.mean((jax.vmap(network)(x) - y) ** 2, axis=1)


def network(seed=0):
    return MLP((3, 16, 1), key=jax.random.key(seed))


def test_full_batch_equals_a_plain_loop_over_optax():
    """The scanned loop does what a reader of the paper would write by hand."""
    data = rows()
    settings = Training(num_epochs=25, batch_size=None, learning_rate=1e-2, decay="none", held_out=0.0, patience=None)
    trained, history = train(network(), Task(loss, data), settings, key=KEY)

    by_hand, optimiser = network(), optax.adam(1e-2)
    state = optimiser.init(eqx.filter(by_hand, eqx.is_array))
    batch = tuple(jnp.asarray(a, jnp.float32) for a in data)
    losses = []
    for _ in range(25):
        value, gradient = eqx.filter_value_and_grad(lambda f, rows: loss(f, rows).mean())(by_hand, batch)
        updates, state = optimiser.update(gradient, state)
        by_hand = eqx.apply_updates(by_hand, updates)
        losses.append(float(value))
    np.testing.assert_allclose(history.loss, losses, rtol=1e-4)
    for a, b in zip(jax.tree.leaves(trained), jax.tree.leaves(by_hand), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_minibatches_learn_and_keep_the_best_held_out_epoch():
    trained, history = train(
        network(), Task(loss, rows(2000)), Training(num_epochs=60, batch_size=32, learning_rate=1e-2), key=KEY
    )
    assert np.nanmin(history.held_out_loss) == history.held_out_loss[history.best_epoch - 1]
    assert history.held_out_loss[history.best_epoch - 1] < 0.02 < history.held_out_loss[0]
    x, y = rows(2000)
    assert np.mean((jax.vmap(trained)(jnp.asarray(x)) - y) ** 2) < 0.02


def test_early_stopping_stops_after_patience_whatever_the_chunk():
    def useless(network, rows):
        return loss(network, rows) * 0.0 + 1.0

    _, history = train(network(), Task(useless, rows()), Training(num_epochs=1000, patience=7, batch_size=64), key=KEY)
    assert history.stopped_early and history.num_epochs == 8 and history.best_epoch == 1


def test_as_many_compilations_for_a_long_fit_as_for_a_short_one():
    def num_traces(num_epochs):
        traces = []

        def counted(network, rows):
            traces.append(1)
            return loss(network, rows)

        _, history = train(network(), Task(counted, rows()), Training(num_epochs=num_epochs, patience=None), key=KEY)
        assert history.num_epochs == num_epochs
        return len(traces)

    assert num_traces(3) == num_traces(130) == num_traces(777)


def test_other_settings_and_about_as_many_rows_compile_nothing():
    traces = []

    def counted(network, rows):
        traces.append(1)
        return loss(network, rows)

    def run(num_rows, **settings):
        train(network(), Task(counted, rows(num_rows)), Training(batch_size=32, **settings), key=KEY)
        return len(traces)

    first = run(1000, num_epochs=3)
    assert run(1030, num_epochs=5, learning_rate=1e-2, weight_decay=0.1, decay="none", patience=2) == first
    assert run(3000, num_epochs=3) > first


def test_trainings_as_one_batch_give_what_each_gives_alone():
    """Also where they stop after different numbers of epochs."""
    settings = Training(num_epochs=30, batch_size=32, learning_rate=1e-2, patience=1)
    task, quiet = Task(loss, rows()), Monitor(progress=False)
    networks, keys = [network(0), network(1), network(2)], [jax.random.key(n) for n in range(3)]
    together = train_together(networks, task, settings, keys=keys, monitor=quiet)
    assert len({history.num_epochs for _, history in together}) > 1
    for one, key, (trained, history) in zip(networks, keys, together, strict=True):
        alone, expected = train(one, task, settings, key=key, monitor=quiet)
        np.testing.assert_allclose(history.held_out_loss, expected.held_out_loss, rtol=1e-4)
        assert history.best_epoch == expected.best_epoch
        for a, b in zip(jax.tree.leaves(trained), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_a_review_gives_up_and_does_so_again_when_resumed(tmp_path):
    """Noise cannot be learned: the best epoch is an early one, and is asked about once."""
    data = tuple(np.random.default_rng(n).normal(size=(300, 3 - 2 * n)) for n in range(2))
    settings = Training(num_epochs=80, batch_size=32, learning_rate=1e-2, patience=40)
    _, history = train(network(), Task(loss, data), settings, key=KEY)
    seen = []

    def run(answer, **options):
        def is_hopeless(functions):
            seen.append(functions)
            return answer

        review = Review(is_hopeless, share=0.1)
        return train(network(), Task(loss, data), settings, key=KEY, monitor=Monitor(review=review, **options))

    _, same = run(False)
    np.testing.assert_array_equal(same.loss, history.loss)
    assert 1 <= len(seen) <= history.best_epoch
    seen.clear()
    given_up, shorter = run(True, checkpoint=tmp_path / "check")
    assert len(seen) == 1 and shorter.num_epochs == shorter.best_epoch + 8 < history.num_epochs
    again, resumed = run(True, checkpoint=tmp_path / "check")
    assert len(seen) == 2 and resumed.num_epochs == shorter.num_epochs
    for a, b, c in zip(*map(jax.tree.leaves, (given_up, again, seen[0][0])), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


SHARED = """
import jax, numpy as np
from fisherscore.fitting.train import Monitor, Task, Training, latent_score_loss, train, train_together
from fisherscore.fitting.training_rows import shared_by
from fisherscore.potentials.base import build
assert len(jax.devices()) == 4 and shared_by(None, 64) is None
assert shared_by(jax.devices(), 64).size == 4 and shared_by(jax.devices(), 66) is None
rng = np.random.default_rng(0)
theta, x = rng.normal(size=(501, 2)), rng.normal(size=(501, 3))
task = Task(latent_score_loss, (theta, x, np.sin(theta + x[:, :2])))
networks = [build("vector_field", 2, 3, {"hidden": (16,)}, key=jax.random.key(n)) for n in range(2)]
for batch_size in (64, None):
    settings = Training(num_epochs=20, batch_size=batch_size, learning_rate=1e-2)
    results = []
    for devices in (jax.devices()[:1], jax.devices()):
        monitor = Monitor(progress=False, devices=devices)
        one = train(networks[0], task, settings, key=jax.random.key(1), monitor=monitor)
        many = train_together(networks, task, settings, keys=[jax.random.key(1), jax.random.key(2)], monitor=monitor)
        results.append([one, *many])
    for (alone, history), (shared, shared_history) in zip(*results):
        assert history.loss[-1] < 0.5 * history.loss[0]
        np.testing.assert_allclose(shared_history.loss, history.loss, rtol=1e-4)
        np.testing.assert_allclose(shared_history.held_out_loss, history.held_out_loss, rtol=1e-4)
        for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(shared)):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
print("shared")
"""


def test_four_devices_give_what_one_does():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", SHARED], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "shared", done.stderr


def test_a_loss_that_is_not_finite_stops_with_advice():
    def breaks(network, rows):
        return jnp.log(loss(network, rows).mean() - 0.2) + 0 * loss(network, rows)

    with pytest.raises(fs.TrainingError, match=r"loss became nan in epoch \d+.*learning rate"):
        train(network(), Task(breaks, rows()), Training(num_epochs=300, learning_rate=1e-2, patience=None), key=KEY)


class Interrupted(Exception):
    pass


def interrupted_after(num_chunks, monkeypatch):
    """Make the progress bar raise after some chunks, as Ctrl-C would."""
    from contextlib import contextmanager

    @contextmanager
    def bar(title, total, show):
        calls = [0]

        def advance(count, note=""):
            calls[0] += 1
            if calls[0] > num_chunks:
                raise Interrupted

        yield advance

    monkeypatch.setattr("fisherscore.fitting.train.progress_bar", bar)


def test_resume_gives_the_same_losses_and_weights(tmp_path, monkeypatch):
    settings = Training(num_epochs=40, batch_size=32, patience=None)
    whole, history = train(network(), Task(loss, rows()), settings, key=KEY)
    with monkeypatch.context() as patch:
        interrupted_after(12, patch)
        with pytest.raises(Interrupted):
            train(network(), Task(loss, rows()), settings, key=KEY, monitor=Monitor(checkpoint=tmp_path / "check"))
    resumed, history_2 = train(
        network(), Task(loss, rows()), settings, key=KEY, monitor=Monitor(checkpoint=tmp_path / "check")
    )
    np.testing.assert_array_equal(history.loss, history_2.loss)
    np.testing.assert_array_equal(history.held_out_loss, history_2.held_out_loss)
    assert history.best_epoch == history_2.best_epoch
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_resume_refuses_another_fit(tmp_path):
    settings = Training(num_epochs=3, batch_size=32)
    train(network(), Task(loss, rows()), settings, key=KEY, monitor=Monitor(checkpoint=tmp_path / "check"))
    other = Training(num_epochs=4, batch_size=32)
    with pytest.raises(fs.ModelFolderError, match="num_epochs was 3, is 4"):
        train(network(), Task(loss, rows()), other, key=KEY, monitor=Monitor(checkpoint=tmp_path / "check"))
    with pytest.raises(fs.ModelFolderError, match="the simulations differ"):
        train(network(), Task(loss, rows(301)), settings, key=KEY, monitor=Monitor(checkpoint=tmp_path / "check"))
    with pytest.raises(fs.ModelFolderError, match="the seed differs"):
        train(
            network(),
            Task(loss, rows()),
            settings,
            key=jax.random.key(5),
            monitor=Monitor(checkpoint=tmp_path / "check"),
        )
    arrays_of(tmp_path / "check").write_bytes(b"short")
    with pytest.raises(fs.ModelFolderError, match="not a safetensors file"):
        train(network(), Task(loss, rows()), settings, key=KEY, monitor=Monitor(checkpoint=tmp_path / "check"))


def test_the_papers_loss_is_the_mean_square():
    theta, x, target = jnp.ones((4, 2)), jnp.ones((4, 3)), jnp.zeros((4, 2))
    values = latent_score_loss(lambda t, x: jnp.array([1.0, 3.0]), (theta, x, target))
    np.testing.assert_array_equal(values, np.full(4, 5.0))


def test_progress_bar_shows_losses(capsys):
    train(network(), Task(loss, rows()), Training(num_epochs=5, batch_size=32), key=KEY, monitor=Monitor(progress=True))
    shown = capsys.readouterr().err
    assert "5/5" in shown and "loss" in shown and "held-out" in shown
