"""What version 0.1.0 wrote still opens, and the default fit still learns the same scores.

The fixtures were written by 0.1.0 (``fixtures/make_v0_1.py``); none of them may ever be written again.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import fisherscore as fs

OLD = Path(__file__).parent / "fixtures" / "v0_1"
MODELS = sorted(path.name.removeprefix("model_") for path in OLD.glob("model_*") if path.is_dir())
GOLDEN = json.loads((OLD / "golden.json").read_text())
# Names of closed forms that have changed since.
NEW_NAMES = {"moments": "quasi_score"}


def arrays(name):
    with np.load(OLD / name) as file:
        return dict(file)


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_gives_the_same_scores(name):
    kept = arrays("model_scores.npz")
    model = fs.load(OLD / f"model_{name}")
    np.testing.assert_allclose(model.score(kept["theta"], kept["x"]), kept[name], rtol=1e-4, atol=1e-4)
    assert model.provenance["versions"]["fisherscore"] == "0.1.0"


def test_campaigns_and_exports_open_with_the_same_records():
    kept = arrays("campaign_arrays.npz")
    additive = fs.open_campaign(OLD / "campaign_additive")
    latent = fs.open_campaign(OLD / "campaign_latent")
    exported = fs.import_simulations(OLD / "exported.npz")
    for sims, kind in ((additive, "additive"), (latent, "latent"), (exported, "latent")):
        for name in ("theta", "latent", "x", "status"):
            np.testing.assert_array_equal(getattr(sims, name), kept[f"{kind}.{name}"])
    assert isinstance(additive.latent_model, fs.AdditiveLatent)
    assert additive.failure_rate > 0
    np.testing.assert_array_equal(additive.drawn_at, additive.latent)
    assert isinstance(latent.latent_model, fs.GaussianLatent) and not isinstance(latent.latent_model, fs.AdditiveLatent)
    np.testing.assert_array_equal(latent.drawn_at, latent.theta)
    assert latent.latent_score().shape == latent.theta.shape


def distance(scores, expected):
    """Compare scores as the score error does: mean squared difference in units of the information, by parameter."""
    information = expected.T @ expected / len(expected)
    difference = scores - expected
    return np.einsum("ni,ij,nj->n", difference, np.linalg.inv(information), difference).mean() / len(information)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sims. the score was badly learned")  # which is right, for few simulations
@pytest.mark.parametrize("case", GOLDEN)
def test_the_default_fit_learns_the_same_scores(case):
    """Later versions solve the same equations in another way (grouped noise, one prior of weighted rows, ...).

    What they learn differs by far less than what 0.1.0 itself said it did not know, and less than the fit to half of
    the simulations, the control.
    """
    problem, number = case.split(".")
    kept, old = arrays("golden.npz"), GOLDEN[case]
    theta, x = (kept[f"{problem}.train.{name}"][: int(number)] for name in ("theta", "x"))

    def fitted(rows):
        return fs.fit(fs.from_table(theta[rows], x[rows], getattr(fs.problems, problem)().proposal), seed=1)

    def far(model):
        scores = np.asarray(model.score(kept[f"{problem}.theta"], kept[f"{problem}.x"]))
        return distance(scores, kept[f"{problem}.{number}.scores"]) / old["estimated_error"]

    model = fitted(slice(None))
    assert far(model) < 0.1 < far(fitted(slice(0, None, 2)))
    assert model.estimated_error == pytest.approx(old["estimated_error"], rel=0.2)
    names = {NEW_NAMES.get(name, name) for name in old["weights"]}
    assert set(model.weights) == names
    largest = NEW_NAMES.get(max(old["weights"], key=old["weights"].get), max(old["weights"], key=old["weights"].get))
    assert max(model.weights, key=model.weights.get) == largest
