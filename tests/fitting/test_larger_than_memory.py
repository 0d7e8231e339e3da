"""Training data that do not fit in memory: networks see random parts of a campaign in turn."""

import jax
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.simulation.stores import CampaignStore

NUM, SIZE = 4_000, 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("large")
    simulator = fs.from_jax(lambda key, z: z + jax.random.normal(key, (SIZE,)), name="wide")
    fs.simulate(simulator, fs.uniform(a=(-1.0, 1.0)), NUM, latent=fs.GaussianLatent([0.25]), out=path)
    return path


@pytest.mark.slow
def test_a_network_learns_from_parts_without_the_whole_being_read(folder, monkeypatch):
    monkeypatch.setattr(CampaignStore, "records", property(lambda self: pytest.fail("the whole was read")))
    reads = []
    windows = fs.Simulations.windows

    def counted(self, size, *, seed=0):
        for part in windows(self, size, seed=seed):
            reads.append(part.x)
            yield part

    monkeypatch.setattr(fs.Simulations, "windows", counted)
    recipe = fs.NetworkRecipe("vector_field", {"hidden": (16,)}, num_steps=600)
    sims = fs.open_campaign(folder)
    model = fs.fit(sims, recipe=recipe, memory=0.99 * sims.num_bytes / 2**30)
    assert len(reads) > 20 and len(reads[0]) < NUM / 15
    assert len({row.tobytes() for part in reads for row in part}) == NUM  # sooner or later, every record
    rng = np.random.default_rng(0)
    theta = rng.uniform(-1, 1, (500, 1))
    x = theta + 0.5 * rng.normal(size=theta.shape) + rng.normal(size=(500, SIZE))
    exact = SIZE * (x.mean(axis=1) - theta[:, 0]) / (1 + SIZE * 0.25)
    learned = np.asarray(model.score(theta, x))[:, 0]
    assert np.corrcoef(learned, exact)[0, 1] > 0.9


def test_the_default_says_that_it_saw_a_part(folder):
    sims = fs.open_campaign(folder)
    recipe = fs.AutoRecipe(closed_forms=("gaussian",), density=None, network=None)
    # Two hundred data and fewer simulations: what is learned of such a part is next to nothing, and it says so too.
    with (
        pytest.warns(fs.FisherScoreWarning, match="do not fit in memory"),
        pytest.warns(fs.FisherScoreWarning, match="badly learned"),
    ):
        model = fs.fit(sims, recipe=recipe, memory=0.9 * sims.num_bytes / 2**30)
    assert model.provenance["num_simulations"] < NUM / 10
    with pytest.raises(fs.ArgumentError, match=r"memory: .* hold fewer than"):
        fs.fit(sims, memory=1e-6)
