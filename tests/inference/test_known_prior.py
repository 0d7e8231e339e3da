"""A prior is known again by its density and by where it ends."""

import json

import numpy as np
import numpyro.distributions as dist
import pytest

import fisherscore as fs
from fisherscore.inference.aiming.known_prior import describe_prior, is_same_prior

BOX = fs.uniform(a=(-3.0, 3.0), b=(-3.0, 3.0))


def restricted(end, wide=1.0):
    return fs.restricted_prior({"a": dist.Normal(0.0, wide)}, f"a + b >= {end}")


PRIORS = {
    "none": lambda: None,
    "narrow": lambda: {"a": dist.Uniform(0.50, 0.51)},
    "as narrow, beside it": lambda: {"a": dist.Uniform(0.505, 0.515)},
    "normal": lambda: {"a": dist.Normal(0.0, 1.0)},
    "wider": lambda: {"a": dist.Normal(0.0, 1.01)},
    "ends here": lambda: restricted(0.02),
    "ends there": lambda: restricted(0.05),
    "ends here, wider": lambda: restricted(0.02, 1.01),
    "within a shape": lambda: fs.restricted_prior(None, lambda theta: theta[0] ** 2 + theta[1] ** 2 <= 1.0),
    "within a larger one": lambda: fs.restricted_prior(None, lambda theta: theta[0] ** 2 + theta[1] ** 2 <= 1.1),
}


def test_every_prior_is_the_same_as_itself_and_no_other():
    first, second = ([describe_prior(make(), BOX) for make in PRIORS.values()] for _ in range(2))
    kept = json.loads(json.dumps(first))
    same = [[is_same_prior(before, now) for now in second] for before in kept]
    assert np.array_equal(same, np.eye(len(PRIORS), dtype=bool))


@pytest.mark.parametrize("damaged", [None, "0123456789abcdef", {"draws": []}, {"log_density": 3, "draws": "x"}])
def test_what_is_no_description_is_another_prior(damaged):
    assert not is_same_prior(damaged, describe_prior(None, BOX))


def test_a_folder_knows_where_its_prior_ended(tmp_path):
    def never(theta, rng):
        raise KeyboardInterrupt

    def begin(end):
        fs.infer(fs.from_python(never), [0.0, 0.0], BOX, 300, prior=restricted(end), out=tmp_path, progress=False)

    with pytest.raises(KeyboardInterrupt):
        begin(0.02)
    with pytest.raises(KeyboardInterrupt):  # a control: the same one goes on
        begin(0.02)
    with pytest.raises(fs.CampaignError, match="another prior"):
        begin(0.05)
