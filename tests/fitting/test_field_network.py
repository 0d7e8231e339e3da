"""Our own network for series and maps: shapes, ends of fields, symmetries, and scores against exact ones."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore._support.layout import Layout
from fisherscore.fitting.learned_subject import module_subject, network_subject
from fisherscore.fitting.learned_summary import LearnedSummary
from fisherscore.summaries.bank import FieldStatistics
from fisherscore.summaries.base import build_embedding, check_embedding, describe_embedding
from fisherscore.summaries.field_network import FieldInputs, FieldNetwork, LearnedOfField
from fisherscore.summaries.field_shape import FieldShape
from fisherscore.summaries.symmetries import Symmetries, symmetries_seen

PROBLEM = fs.problems.gaussian_field(12)
QUICK = fs.AutoRecipe(closed_forms=("location_scale",), density=None, network=None, statistics=False)
SMALL = LearnedSummary(channels=4, num_networks=2, num_steps=60)


@pytest.mark.parametrize(
    ("shape", "is_masked"), [((130,), False), ((130, 3), True), ((10, 15), False), ((12, 12, 2), True)]
)
def test_networks_of_every_shape_give_finite_guesses(shape, is_masked):
    x = 1e6 + np.random.default_rng(1).normal(size=(30, *shape))
    mask = None
    if is_masked:
        mask = np.ones(shape, bool)
        mask[3] = False
    pixels = FieldStatistics.fit(x, FieldShape.of(shape), mask)
    about = FieldInputs(pixels, 4, True)
    network = about.network(2, jax.random.key(0))
    seen = about.of_rows(x)
    assert seen.shape[1] == 2 * pixels.field.num_channels + is_masked
    guess = eqx.filter_jit(network)(jnp.asarray(seen[0]))
    assert guess.shape == (5,) and np.isfinite(guess).all()
    if is_masked:
        there = about.of_rows(np.where(mask, x, 7e6))
        np.testing.assert_array_equal(seen, there)


@pytest.mark.parametrize("places", [(64,), (16, 16)])
def test_a_network_of_periodic_fields_takes_no_notice_of_shifts_and_another_one_does(places):
    field = FieldShape.of(places)
    x = jax.random.normal(jax.random.key(1), (1, *places))
    # A level halves the field, so shifts by as much as the coarsest pixel are those that all levels share.
    shifted = jnp.roll(x, 16 if len(places) == 1 else 8, axis=1)
    for periodic in (True, False):
        network = eqx.filter_jit(FieldNetwork.of(field, 1, 4, periodic=periodic, key=jax.random.key(0)))
        same = np.allclose(network(x), network(shifted), rtol=1e-4, atol=1e-5)
        assert same == periodic


def test_moving_keeps_to_the_symmetries():
    x = jnp.arange(25.0).reshape(1, 5, 5)
    keys = jax.random.split(jax.random.key(3), 400)

    def distinct(symmetries):
        moved = np.asarray(jax.vmap(lambda key: symmetries.moved(key, x))(keys))
        return {each.tobytes() for each in moved}

    assert len(distinct(Symmetries())) == 1
    assert len(distinct(Symmetries(periodic=True))) == 25
    assert len(distinct(Symmetries(flips=True))) == 4
    quarters = {np.rot90(x, k, axes=(1, 2)).tobytes() for k in range(4)}
    assert distinct(Symmetries(rotations=True)) == quarters
    assert len(distinct(Symmetries(rotations=True, flips=True))) == 8
    as_given = Symmetries(flips=True).moved_as_given(keys[0], x[0], FieldShape.of((5, 5)))
    np.testing.assert_array_equal(as_given, Symmetries(flips=True).moved(keys[0], x)[0])


def rows(num, seed):
    theta = PROBLEM.proposal.sample(num, seed=seed)
    return PROBLEM.simulator.draw(theta, seed=seed), theta - np.array([0.0, 2.0])


def test_symmetries_are_seen_where_nothing_speaks_against_them():
    x, u = rows(500, 3_001)
    field = FieldShape.of((12, 12))
    assert symmetries_seen(x, u, field) == Symmetries(True, True, True)
    # The controls: a window of a field, one stretched along an axis, one that leans, and one that grows.
    wide = np.repeat(x, 2, axis=1)[:, :12]
    assert symmetries_seen(x[:, :8, :8], u, FieldShape.of((8, 8))) == Symmetries(False, True, True)
    assert not symmetries_seen(wide, u, field).rotations
    leaning = x + np.roll(x, (1, 1), axis=(1, 2))
    assert symmetries_seen(leaning, u, field) == Symmetries(True, False, False)
    growing = x * np.linspace(1, 2, 12)
    assert not symmetries_seen(growing, u, field).flips
    # What changes its sign with a parameter has no mean, and is seen nevertheless.
    torn = x + u[:, :1, None] * np.linspace(-1, 1, 12)
    assert not symmetries_seen(torn, u, field).flips
    series = np.cumsum(np.random.default_rng(1).exponential(size=(500, 60)) - 1.0, axis=1)
    assert symmetries_seen(series, u, FieldShape.of((60,))) == Symmetries(False, False, False)


def test_what_is_declared_stands_in_place_of_what_is_seen():
    x, u = rows(300, 3_002)
    pixels = FieldStatistics.fit(x, FieldShape.of((12, 12)), None)
    subject = network_subject(LearnedSummary(periodic=False, flips=True), pixels, x, u)
    assert subject.symmetries == Symmetries(False, True, True) and not subject.about.periodic
    module = eqx.nn.MLP(30, 2, 4, 1, key=jax.random.key(0))
    assert module_subject(LearnedSummary(module), (30,), lambda x: x).symmetries == Symmetries()
    with pytest.raises(fs.ArgumentError, match="rotations: are for square maps, got data of shape \\(30,\\)"):
        module_subject(LearnedSummary(module, rotations=True), (30,), lambda x: x)
    with pytest.raises(fs.ArgumentError, match="flips: is for series and maps, got data of shape \\(4, 4, 4, 4\\)"):
        module_subject(LearnedSummary(module, flips=True), (4, 4, 4, 4), lambda x: x)


@pytest.mark.slow
def test_a_network_alone_learns_the_score_of_a_map_and_is_saved_without_code(tmp_path):
    sims = fs.simulate(PROBLEM.simulator, PROBLEM.proposal, 1_000, seed=3_003)
    model = fs.fit(sims, recipe=QUICK, embedding=LearnedSummary(channels=6, num_networks=2, num_steps=250))
    error = fs.accuracy.score_error(model, PROBLEM, num_pairs=1_000)
    assert error.mean < 0.25
    assert 0.5 < model.estimated_error / error.mean < 2.0
    model.save(tmp_path / "model")
    read = fs.load(tmp_path / "model")
    np.testing.assert_array_equal(read.score(sims.theta[:5], sims.x[:5]), model.score(sims.theta[:5], sims.x[:5]))
    traced = jax.jit(jax.vmap(model.score_one))(sims.theta[:3].astype(np.float32), sims.x[:3].astype(np.float32))
    np.testing.assert_allclose(traced, model.score(sims.theta[:3], sims.x[:3]), rtol=2e-3, atol=2e-2)


def test_a_damaged_description_is_refused_before_anything_is_made_of_it():
    pixels = FieldStatistics.fit(rows(50, 3_006)[0], FieldShape.of((12, 12)), None)
    about = FieldInputs(pixels, 4, True)
    layout = Layout.of(about.network(2, jax.random.key(0)))
    learned = LearnedOfField.of(np.zeros((3, layout.num_numbers), np.float32), layout, 2, about)
    description = describe_embedding(learned)
    read = build_embedding(description, (12, 12), {})
    assert read.vectors.shape == learned.vectors.shape and read.layout == layout
    for name in ("channels", "num_parameters", "num_numbers"):
        damaged = {**description, "settings": description["settings"] | {name: 1_000}}
        check_embedding(damaged)
        with pytest.raises(ValueError, match="do not have as many numbers as are saved"):
            build_embedding(damaged, (12, 12), {})
    many = {**description, "settings": description["settings"] | {"num_numbers": 20_000_000}}
    check_embedding(many)
    with pytest.raises(ValueError, match="damaged"):
        check_embedding({**many, "settings": many["settings"] | {"channels": 20_000_000}})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sims. the score was badly learned")  # so few maps need not give a good score
def test_a_network_leaves_out_missing_pixels():
    sims = fs.simulate(PROBLEM.simulator, PROBLEM.proposal, 400, seed=3_004)
    mask = np.ones((12, 12), bool)
    mask[2:5, 3:9] = False
    hidden = fs.from_table(sims.theta, np.where(mask, sims.x, 0.0), PROBLEM.proposal)
    model = fs.fit(hidden, mask=mask, recipe=QUICK, embedding=SMALL)
    scores = [model.score(sims.theta[:3], np.where(mask, sims.x[:3], fill)) for fill in (np.nan, 5.0)]
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"embedding": "network"}, "embedding: expected \"auto\", None, an Equinox module or .*got 'network'"),
        (
            {"embedding": SMALL},
            r"embedding: a network of our own is for series and maps, got data of shape \(4, 4, 4, 4\)",
        ),
    ],
)
def test_what_cannot_be_learned_is_refused(options, message):
    rng = np.random.default_rng(1)
    sims = fs.from_table(rng.uniform(-1, 1, (400, 1)), rng.normal(size=(400, 4, 4, 4, 4)), fs.uniform(a=(-1.0, 1.0)))
    with pytest.raises(fs.ArgumentError, match=message):
        fs.fit(sims, **options)


def test_a_mask_needs_something_that_can_leave_pixels_out():
    x, u = rows(400, 3_005)
    module = eqx.nn.Sequential([eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(144, 2, key=jax.random.key(0))])
    sims = fs.from_table(u + np.array([0.0, 2.0]), x, PROBLEM.proposal)
    with pytest.raises(fs.ArgumentError, match="mask: needs the statistics of a series or map, or a network"):
        fs.fit(sims, mask=np.ones((12, 12), bool), embedding=module, recipe=QUICK)


def test_on_a_processor_a_network_is_trained_only_if_asked_for(monkeypatch):
    from fisherscore.fitting import embed

    sims = fs.from_table(np.zeros((1_000, 1)), np.zeros((1_000, 12, 12)), fs.uniform(a=(-1.0, 1.0)))
    for backend, wanted in (("cpu", None), ("gpu", LearnedSummary())):
        monkeypatch.setattr(embed.jax, "default_backend", lambda backend=backend: backend)
        assert embed.learned_summary_for("auto", sims, automatic=True) == wanted
        assert embed.learned_summary_for("auto", sims, automatic=False) is None
        assert embed.learned_summary_for("auto", sims.take(slice(999)), automatic=True) is None
    assert embed.learned_summary_for(SMALL, sims, automatic=False) is SMALL
