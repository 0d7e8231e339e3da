"""The paper's toy experiment: 100,000 triplets of the linear Gaussian model, its network, its figure 1."""

from pathlib import Path
from typing import Any

from .. import plot
from .._support.versions import print_table, write_json
from ..fitting.fit import fit
from ..problems import linear_gaussian
from ..simulation.campaign import simulate
from .common import Stopwatch, compare_with_exact, settings

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
    """Simulate, fit, compare with the exact score, and write figures and numbers to ``out``.

    ``quick`` changes nothing here: comparing takes less time than fitting.
    """
    out.mkdir(parents=True, exist_ok=True)
    stopwatch = Stopwatch()
    problem = linear_gaussian()
    with stopwatch.time("simulate"):
        sims = simulate(
            problem.simulator_from_latent,
            problem.proposal,
            num_simulations,
            latent=problem.latent,
            seed=seed,
            progress=progress,
        )
    with stopwatch.time("fit"):
        model = fit(sims, recipe=recipe, seed=seed, progress=progress)
        model.save(out / "model")
    with stopwatch.time("compare and draw"):
        x_obs = problem.simulator.draw(TRUTH, seed=seed + 1)
        errors = compare_with_exact(model, problem, x_obs, seed=seed + 2)
        axes = plot.score_field(model, x_obs, exact=problem.exact_model(), truth=TRUTH)
        plot.save_figure(axes, out / "score_field.png")
        if "loss" in model.provenance:
            plot.save_figure(plot.loss_curve(model.provenance), out / "loss_curve.png")
    result = settings("linear-gaussian", recipe=recipe, num_simulations=num_simulations, seed=seed) | {
        "seeds": {"simulations_and_fit": seed, "observation": seed + 1, "test_pairs": seed + 2},
        **errors,
        "x_obs": x_obs.tolist(),
        "seconds": stopwatch.seconds,
        "num_epochs": model.provenance.get("num_epochs"),
    }
    write_json(result, out / "results.json")
    print_table(f"linear Gaussian, recipe {recipe}, {num_simulations:,} simulations", _summary(result, out))
    return result


def _summary(result: dict[str, Any], out: Path) -> list[tuple[str, str]]:
    """Return what is printed at the end."""
    error, field, seconds = result["score_error"], result["field_error"], result["seconds"]
    return [
        ("score error", f"{error['mean']:.5f} ± {error['standard_error']:.5f}"),
        ("median field error", f"{field['median']:.2%}"),
        ("largest field error", f"{field['maximum']:.2%}"),
        ("seconds to simulate", f"{seconds['simulate']:.1f}"),
        ("seconds to fit", f"{seconds['fit']:.1f}"),
        ("written to", str(out)),
    ]
