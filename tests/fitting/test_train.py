import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fisherscore as fs
from fisherscore.fitting.train import Monitor, Task, Training, latent_score_loss, train
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
    (tmp_path / "check" / "state.safetensors").write_bytes(b"short")
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
