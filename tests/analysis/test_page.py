"""Pages: nothing on them can do harm, and the weak lensing experiment writes its own."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import fisherscore as fs
from fisherscore.analysis.page import Page
from fisherscore.problems import Problem
from fisherscore.problems.gaussian_noise import gaussian_noise


def test_everything_is_escaped_and_nothing_is_fetched(tmp_path):
    page = Page("<script>alert(1)</script>")
    page.verdict("a & b", good=False)
    page.section("<b>", "<i>")
    page.table(("<th>",), [("<td>",)])
    page.preformatted("<pre>")
    page.settings({"<k>": "<v>"})
    picture = tmp_path / "p.png"
    fs.plot.save_figure(fs.plot.score_field(fs.problems.linear_gaussian().exact_model(), [0.0, 0.0]), picture)
    page.figure(picture, 'a "quoted" <caption>')
    page.write(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    for evil in ("<script>", "<b>", "<i>", "<k>", "<v>", "<caption>", 'alt="a "'):
        assert evil not in text
    assert "http://" not in text and "https://" not in text and "data:image/png;base64," in text


def cheap_lensing():
    """Stand in for weak lensing: the same parameters and shapes, a mean that compiles at once."""
    slope = np.random.default_rng(0).normal(size=(15, 2))

    def mean(theta):
        return slope @ jnp.tanh(theta) * 20.0

    return Problem(
        name="weak-lensing",
        proposal=fs.uniform(omega_c=(0.2, 0.4), sigma8=(0.7, 0.9)),
        x_shape=(15,),
        **gaussian_noise(mean, np.eye(15)),
    )


@pytest.mark.slow
def test_weak_lensing_runs_from_simulation_to_page(tmp_path, monkeypatch, call_cli):
    # The real spectra take minutes to compile and have their own tests; CI runs the whole command once beside these.
    monkeypatch.setattr("fisherscore.experiments.weak_lensing.weak_lensing", cheap_lensing)
    out = tmp_path / "wl"
    result = call_cli("run", "weak-lensing", "--out", out, "--num-simulations", 300, "--quick")
    assert result.exit_code == 0, result.output
    for name in (
        "report.html",
        "results.json",
        "figure2_score_field.png",
        "figure3_posterior.png",
        "figure4_fisher.png",
    ):
        assert (out / name).stat().st_size > 1000
    assert "score error" in result.output and str(Path(out) / "report.html") in result.output
    fs.load(out / "model")


def test_without_jax_cosmo_the_command_says_how_to_get_it(tmp_path, monkeypatch, call_cli):
    monkeypatch.setitem(__import__("sys").modules, "jax_cosmo", None)
    result = call_cli("run", "weak-lensing", "--out", tmp_path)
    assert result.exit_code == 1 and 'pip install "fisherscore[cosmology]"' in result.output
