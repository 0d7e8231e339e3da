"""Every example runs, small, and its result is right where the right one is known."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exact_decay_posterior(x):
    """Give mean and standard deviation of the posterior of the decaying source, from a grid."""
    amplitude, lifetime = np.meshgrid(np.linspace(20, 80, 200), np.linspace(0.5, 2, 200), indexing="ij")
    edges = np.arange(7) / 2
    means = amplitude[..., None] * -np.diff(np.exp(-edges / lifetime[..., None]), axis=-1)
    log_likelihood = np.sum(np.asarray(x) * np.log(means) - means, axis=-1)
    weights = np.exp(log_likelihood - log_likelihood.max())
    points = np.stack([amplitude, lifetime], axis=-1).reshape(-1, 2)
    mean = np.average(points, axis=0, weights=weights.ravel())
    return mean, np.sqrt(np.average((points - mean) ** 2, axis=0, weights=weights.ravel()))


@pytest.mark.slow
def test_an_external_program_from_preflight_to_posterior(tmp_path, capsys):
    posterior = load("external_program").main(str(tmp_path), num_simulations=800)
    assert "fit for a campaign" in capsys.readouterr().out
    mean, deviation = exact_decay_posterior([12, 10, 7, 5, 3, 2])
    assert (np.abs(posterior.samples.mean(axis=0) - mean) < 0.35 * deviation).all()
    np.testing.assert_allclose(posterior.samples.std(axis=0), deviation, rtol=0.3)
