"""The paper's toy experiment: 100,000 triplets of the linear Gaussian model, its network, its figure 1."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__, plot
from .._support.versions import print_table, versions, write_json
from ..accuracy import field_error, score_error
from ..fitting.fit import fit
from ..problems import linear_gaussian
from ..simulation.campaign import simulate

TRUTH = (0.5, -0.5)


def run(
    out: Path,
    *,
    num_simulations: int = 100_000,
    recipe: str = "paper",
    seed: int = 0,
    quick: bool = False,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Simulate, fit, compare with the exact score, and write figures and numbers to ``out``."""
    del quick  # there is nothing to spare here
    out.mkdir(parents=True, exist_ok=True)
    problem = linear_gaussian()
    assert problem.latent is not None

    started = time.perf_counter()
    sims = simulate(
        problem.simulator_from_latent,
        problem.proposal,
        num_simulations,
        latent=problem.latent,
        seed=seed,
        progress=progress,
    )
    simulated = time.perf_counter()
    model = fit(sims, recipe=recipe, seed=seed, progress=progress)
    fitted = time.perf_counter()

    x_obs = problem.simulator.draw(TRUTH, seed=seed + 1)
    error = score_error(model, problem, seed=seed + 2)
    field = field_error(model, problem, x_obs)
    model.save(out / "model")
    axes = plot.score_field(model, x_obs, exact=problem.exact_model(), truth=TRUTH)
    plot.save_figure(axes, out / "score_field.png")
    if "loss" in model.provenance:
        plot.save_figure(plot.loss_curve(model.provenance), out / "loss_curve.png")
    result = {
        "experiment": "linear-gaussian",
        "fisherscore": __version__,
        "recipe": recipe,
        "num_simulations": num_simulations,
        "seeds": {"simulations_and_fit": seed, "observation": seed + 1, "test_pairs": seed + 2},
        "score_error": asdict(error),
        "field_error": asdict(field),
        "x_obs": x_obs.tolist(),
        "seconds": {
            "simulate": simulated - started,
            "fit": fitted - simulated,
            "evaluate_and_draw": time.perf_counter() - fitted,
        },
        "num_epochs": model.provenance.get("num_epochs"),
        "versions": versions(),
    }
    write_json(result, out / "results.json")
    print_table(
        f"linear Gaussian, recipe {recipe}, {num_simulations:,} simulations",
        [
            ("score error", f"{error.mean:.5f} ± {error.standard_error:.5f}"),
            ("median field error", f"{field.median:.2%}"),
            ("largest field error", f"{field.maximum:.2%}"),
            ("seconds to simulate", f"{simulated - started:.1f}"),
            ("seconds to fit", f"{fitted - simulated:.1f}"),
            ("written to", str(out)),
        ],
    )
    return result
